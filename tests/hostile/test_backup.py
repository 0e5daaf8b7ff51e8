"""Backups: what is made while weftd runs can be checked by anybody and brought back by whoever has the passphrase; whatever is wrong
with one, nothing is changed."""

import hashlib
import io
import json
import os
import re
import sqlite3
import subprocess
import tarfile
from contextlib import closing

import pytest

from harness.wait import PATIENCE, until
from harness.weft import build_folder

PASSPHRASE = "correct horse battery"


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "passphrase"
    path.write_text(PASSPHRASE + "\n", encoding="utf-8")
    return str(path)


def back_up(weft, path, words):
    return weft.cli("backup", str(path), "--passphrase-file", words).stdout


def verify(weft, path, words):
    return weft.cli("backup", "--verify", str(path), "--passphrase-file", words, check=False)


def restore(weft, path, words, *more):
    weft.write_config()
    return subprocess.run([build_folder() / "src/daemon/weftd", "--config", weft.root / "weft.yaml", "--restore", str(path),
                           "--passphrase-file", words, *more], capture_output=True, text=True, timeout=PATIENCE * 2, check=False)


def state(weft):
    """What a refused restore must not change."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in weft.root.glob("*") if path.is_file() and path.suffix not in (".lock", ".log", ".log-head", ".yaml")}


def refused(weft, path, words, *expected, more=()):
    before = state(weft)
    done = restore(weft, path, words, *more)
    assert done.returncode > 0 and all(word in done.stderr for word in expected), done.stderr
    assert state(weft) == before
    return done.stderr


@pytest.fixture
def saved(site, tmp_path, words):
    """A stopped site, with a backup of when it had one cluster less than now."""
    weft = site()
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    weft.token("acme-member")
    path = tmp_path / "site.tar"
    assert back_up(weft, path, words).startswith(f"{path}: site {weft.site()} as of ")
    until(lambda: "backup-made" in {event["type"] for event in weft.client.events()}, "that is told")
    weft.client.create("later", 1)
    weft.client.wait_phase("later", "ready")
    weft.stop()
    return weft, path


def members(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}


def write(path, parts):
    with tarfile.open(path, "w") as archive:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def with_sums(parts):
    """What somebody who changes a backup does last."""
    sums = "".join(f"{hashlib.sha256(parts[name]).hexdigest()}  {name}\n" for name in ("manifest.json", "secret.json", "weft.db"))
    return parts | {"SHA256SUMS": sums.encode()}


def test_what_is_in_it(saved, words, tmp_path):
    weft, path = saved
    parts = members(path)
    assert list(parts) == ["manifest.json", "secret.json", "weft.db", "SHA256SUMS"]
    assert (weft.root / "secret").read_bytes() not in path.read_bytes()
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path / "parts")
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "parts", check=True, capture_output=True)
    manifest = json.loads(parts["manifest.json"])
    assert manifest["format"] == 1 and manifest["schema"] >= 1 and manifest["site"]
    assert path.stat().st_mode & 0o777 == 0o600
    done = verify(weft, path, words)
    assert done.returncode == 0 and manifest["site"] in done.stdout, done.stderr


def test_it_comes_back(saved, words):
    weft, path = saved
    secret = (weft.root / "secret").read_bytes()
    for name in ("weft.db", "weft.db-wal", "weft.db-shm", "secret"):
        (weft.root / name).unlink(missing_ok=True)
    done = restore(weft, path, words)
    assert done.returncode == 0 and "restored site" in done.stdout, done.stderr
    assert (weft.root / "secret").read_bytes() == secret
    clusters = {key for key in weft.dump().values("cluster")}
    assert clusters == {"acme/cfd"}
    assert len(weft.dump().values("token")) == 1
    assert not [path.name for path in weft.root.glob("*restoring*")]


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to somebody else")
def test_what_root_brings_back_is_the_folders_owners(saved, words):
    """Under systemd weftd is a user of its own: on another machine nothing of it is there yet."""
    weft, path = saved
    for name in ("weft.db", "weft.db-wal", "weft.db-shm", "weft.db.lock", "secret", "audit.log", "audit.log-head"):
        (weft.root / name).unlink(missing_ok=True)
    os.chown(weft.root, 65534, 65534)
    done = restore(weft, path, words)
    assert done.returncode == 0, done.stderr
    made = {file.name: (file.stat().st_uid, file.stat().st_gid) for file in weft.root.glob("*") if re.match("weft.db|secret|audit", file.name)}
    assert made.keys() >= {"weft.db", "secret", "audit.log", "audit.log-head"} and set(made.values()) == {(65534, 65534)}
    os.chown(weft.root, 0, 0)


def test_what_is_there_is_never_overwritten(saved, words):
    weft, path = saved
    before = (weft.root / "weft.db").read_bytes()
    assert "--force" in refused(weft, path, words, "is there already")
    done = restore(weft, path, words, "--force")
    assert done.returncode == 0, done.stderr
    aside = list(weft.root.glob("weft.db.before-restore-*"))
    assert len(aside) == 1 and aside[0].read_bytes() == before
    # The same secret stays where it is.
    assert not list(weft.root.glob("secret.before-restore-*"))


def test_another_secret_is_moved_aside_with_the_store(saved, words):
    weft, path = saved
    (weft.root / "weft.db").unlink()
    right = (weft.root / "secret").read_bytes()
    (weft.root / "secret").write_bytes(b"x" * len(right))
    refused(weft, path, words, "secret is there already")
    assert restore(weft, path, words, "--force").returncode == 0
    assert (weft.root / "secret").read_bytes() == right
    assert next(weft.root.glob("secret.before-restore-*")).read_bytes() == b"x" * len(right)


@pytest.fixture
def killed(site, tmp_path, words):
    """A site whose weftd was killed, so that the log of its store lies there, with much in it that its backup does not have."""
    weft = site()
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    path = tmp_path / "site.tar"
    back_up(weft, path, words)
    for i in range(6):
        weft.client.create(f"later{i}", 1)
        weft.client.wait_phase(f"later{i}", "ready")
    weft.kill()
    assert (weft.root / "weft.db-wal").stat().st_size > 0
    return weft, path


def is_as_it_was(weft):
    """The store is the backup's, whole, and nothing of the former one's log got into it."""
    with closing(sqlite3.connect(weft.root / "weft.db")) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return set(weft.dump().values("cluster")) == {"acme/cfd"}


@pytest.mark.parametrize("left", [("-wal", "-shm"), ("-wal",), ("-shm",)])
def test_the_log_of_a_store_that_is_gone_stays_aside(killed, words, left):
    """A restore with --force was killed after its first step, or somebody moved weft.db by hand, and then it is restored."""
    weft, path = killed
    (weft.root / "weft.db").rename(weft.root / "weft.db.before-restore-1")
    for end in {"-wal", "-shm"} - set(left):
        (weft.root / f"weft.db{end}").unlink()
    logs = {end: (weft.root / f"weft.db{end}").read_bytes() for end in left}
    refused(weft, path, words, f"weft.db{left[0]} is there already")
    done = restore(weft, path, words, "--force")
    assert done.returncode == 0, done.stderr
    assert not [end for end in left if (weft.root / f"weft.db{end}").exists()]
    for end, content in logs.items():
        assert next(weft.root.glob(f"weft.db{end}.before-restore-*")).read_bytes() == content
    assert is_as_it_was(weft)
    weft.start()
    weft.client.wait_phase("cfd", "ready")


def hot_journal(path):
    """What a store leaves behind that is written to without a log when its machine loses power: half of it is overwritten."""
    with closing(sqlite3.connect(path, isolation_level=None)) as store:
        store.execute("PRAGMA cache_size = 5")
        store.execute("CREATE TABLE t (x)")
        store.executemany("INSERT INTO t VALUES (?)", [("old" * 300,)] * 500)
        store.execute("BEGIN")
        store.execute("UPDATE t SET x = ?", ("new" * 300,))
        return path.with_name(f"{path.name}-journal").read_bytes()


def test_a_journal_stays_aside(saved, words, tmp_path):
    """SQLite plays it back into whatever store it lies beside, as it does with a log."""
    weft, path = saved
    for end in ("", "-wal", "-shm"):
        (weft.root / f"weft.db{end}").unlink(missing_ok=True)
    (weft.root / "weft.db-journal").write_bytes(hot_journal(tmp_path / "other.db"))
    refused(weft, path, words, "weft.db-journal is there already")
    done = restore(weft, path, words, "--force")
    assert done.returncode == 0, done.stderr
    assert is_as_it_was(weft)


def test_the_log_goes_with_its_store(killed, words):
    weft, path = killed
    assert restore(weft, path, words, "--force").returncode == 0
    assert is_as_it_was(weft)


def test_not_while_weftd_runs(saved, words):
    weft, path = saved
    weft.start()
    done = restore(weft, path, words, "--force")
    assert done.returncode > 0 and "has it open: stop that one first" in done.stderr
    assert weft.client.cluster("later")["phase"] == "ready"


def test_another_passphrase(saved, words, tmp_path):
    weft, path = saved
    other = tmp_path / "other"
    other.write_text("incorrect horse battery\n", encoding="utf-8")
    refused(weft, path, str(other), "the passphrase is not the one", more=("--force",))
    done = verify(weft, path, str(other))
    assert done.returncode > 0 and "the passphrase is not the one" in done.stderr


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_truncated(saved, words, share):
    weft, path = saved
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    refused(weft, path, words, "truncated, damaged or no backup", more=("--force",))
    assert verify(weft, path, words).returncode > 0


@pytest.mark.parametrize("part", ["manifest.json", "secret.json", "weft.db", "SHA256SUMS"])
def test_a_bit_that_flipped(saved, words, part):
    weft, path = saved
    parts = members(path)
    content = bytearray(parts[part])
    content[len(content) // 2] ^= 1
    write(path, parts | {part: bytes(content)})
    refused(weft, path, words, "truncated, damaged or no backup", more=("--force",))
    assert verify(weft, path, words).returncode > 0


def test_somebody_who_makes_new_sums(saved, words):
    """The passphrase authenticates the manifest, and the manifest the store."""
    weft, path = saved
    parts = members(path)
    manifest = json.loads(parts["manifest.json"])
    store = bytearray(parts["weft.db"])
    store[-1] ^= 1
    write(path, with_sums(parts | {"weft.db": bytes(store)}))
    refused(weft, path, words, "its sums do not match", more=("--force",))
    manifest["store"]["sha256"] = hashlib.sha256(store).hexdigest()
    write(path, with_sums(parts | {"weft.db": bytes(store), "manifest.json": json.dumps(manifest).encode()}))
    refused(weft, path, words, "somebody changed its manifest", more=("--force",))


def test_of_a_newer_weft(saved, words):
    weft, path = saved
    parts = members(path)
    manifest = json.loads(parts["manifest.json"]) | {"format": 2, "weft": "9.9"}
    write(path, with_sums(parts | {"manifest.json": json.dumps(manifest).encode()}))
    refused(weft, path, words, "made by a newer weft (9.9, format 2", more=("--force",))


def test_what_else_is_no_backup(saved, words, tmp_path):
    weft, path = saved
    for name, content in (("empty", b""), ("text", b"hello\n" * 1000), ("store", (weft.root / "weft.db").read_bytes())):
        other = tmp_path / name
        other.write_bytes(content)
        refused(weft, other, words, f"backup {other}: ", more=("--force",))
    refused(weft, tmp_path / "none", words, "none", more=("--force",))
    write(path, {"../evil": b"x"} | members(path))
    refused(weft, path, words, "manifest.json is not where it should be", more=("--force",))


def test_only_admins(site, words):
    weft = site()
    for principal in ("acme-member", "olga"):
        headers = {"Authorization": f"Bearer {weft.token(principal)}"}
        assert weft.client.request("POST", "/v1/backup", {"passphrase": PASSPHRASE}, headers).status == 403
    short = weft.client.request("POST", "/v1/backup", {"passphrase": "short"})
    assert short.status == 400 and "from 8 to 1024" in short.text


def test_it_overwrites_no_file_and_leaves_none_half_written(site, words, tmp_path):
    weft = site()
    path = tmp_path / "site.tar"
    path.write_text("mine", encoding="utf-8")
    done = weft.cli("backup", str(path), "--passphrase-file", words, check=False)
    assert done.returncode > 0 and "it exists" in done.stderr and path.read_text(encoding="utf-8") == "mine"
    assert not list(tmp_path.glob("*.part"))
    assert not list(weft.root.glob("*.snapshot*")) and not list(weft.root.glob("*.backup-*"))


# --- what is newer than the backup ---


def held(weft):
    return [item for item in weft.client.items("/v1/site") if item["kind"] == "node"]


def brought_back(weft, path, words):
    """The site runs with the older store; what ran before runs still, and the hosts of what is newer are held."""
    before = weft.world.domains()
    assert restore(weft, path, words, "--force").returncode == 0
    weft.start()
    until(lambda: held(weft), "what is newer is held")
    weft.client.wait_phase("cfd", "ready")
    assert weft.client.cluster("later") is None and weft.world.domains() == before
    return sorted({item["host"] for item in held(weft)})


def test_what_is_newer_is_adopted(saved, words):
    weft, path = saved
    hosts = brought_back(weft, path, words)
    before = weft.world.domains()
    weft.cli("site", "adopt", *hosts)
    weft.client.wait_phase("later", "ready")
    until(lambda: not held(weft), lambda: f"nothing is held: {held(weft)}")
    assert weft.world.domains() == before


def test_what_was_adopted_is_not_started_again(saved, words):
    """Whatever keeps it from being ready: it may have been ready for days."""
    weft, path = saved
    hosts = brought_back(weft, path, words)
    before = weft.world.domains()
    weft.world.answer("this node knows a newer roster than generation 1\n")
    weft.cli("site", "adopt", *hosts)
    tried = lambda: re.search(r"try (\d+)", weft.client.cluster("later")["reason"] or "")  # noqa: E731
    until(lambda: tried() and int(tried()[1]) >= 15, lambda: f"it is asked again and again: {weft.client.cluster('later')}")
    assert weft.world.domains() == before
    weft.world.answer(None)
    weft.client.wait_phase("later", "ready")
    assert weft.world.domains() == before


def test_what_is_newer_is_removed_when_confirmed(saved, words):
    weft, path = saved
    hosts = brought_back(weft, path, words)
    names = {item["name"] for item in held(weft)}
    weft.cli("site", "remove", *hosts, "--yes")
    until(lambda: not held(weft), lambda: f"nothing is held: {held(weft)}")
    until(lambda: not any(weft.world.where(name) for name in names), "its domains are gone")
    assert weft.client.wait_phase("cfd", "ready")["ready"] == 2
