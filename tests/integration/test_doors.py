"""Small doors: what somebody who is let in a little could use to get further."""

import contextlib
import datetime
import grp
import json
import os
import re
import shutil
import signal
import sqlite3
import ssl
import stat
import struct
import subprocess
import uuid
from pathlib import Path

import pytest
from harness.certificates import make_certificate
from harness.wait import PATIENCE, until
from harness.weft import SOURCE, Weft, host


@pytest.fixture
def stopped():
    weft = Weft()
    yield weft
    weft.remove()


# --- the socket's group ---


def test_own_group_is_refused_for_the_socket(stopped):
    """Files that only weftd may read are readable by its group."""
    own = grp.getgrgid(os.getegid()).gr_name
    stopped.config["api"]["group"] = own
    said = stopped.run_refused()
    assert f'api.group: "{own}" is weftd\'s own group' in said and "name a group that is for clients only" in said
    assert not stopped.socket.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to a group that it is not in")
@pytest.mark.parametrize("where", ["pkipath", "keyfile", "tls_key"])
def test_groups_with_keys_are_refused_for_the_socket(stopped, certificate, where):
    """Whoever may open the socket could else be any host's administrator, or weftd for its callers."""
    stopped.config["api"]["group"] = "nogroup"
    key = stopped.root / "clientkey.pem"
    shutil.copy(certificate["key"], key)
    os.chown(key, 0, grp.getgrnam("nogroup").gr_gid)
    key.chmod(0o640)
    if where == "tls_key":
        stopped.config["api"].update(tcp="127.0.0.1:0", tls_certificate=str(certificate["certificate"]), tls_key=str(key))
    else:
        uri = {"pkipath": f"qemu+tls://n1/system?pkipath={stopped.root}", "keyfile": f"qemu+ssh://n1/system?keyfile={key}"}[where]
        stopped.config["hosts"][0]["uri"] = uri
    said = stopped.run_refused()
    assert f'api.group: "nogroup" may read {key}, which is a key of weftd\'s; name a group that is for clients only' in said
    assert not stopped.socket.exists()
    key.chmod(0o600)
    stopped.config["hosts"][0]["uri"] = "fake://n1/"
    stopped.start()
    stopped.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to a group that it is not in")
def test_a_host_is_not_added_with_a_key_that_clients_may_read(stopped, certificate):
    """The next start would refuse its own socket."""
    stopped.config["api"]["group"] = "nogroup"
    stopped.start()
    key = stopped.root / "clientkey.pem"
    shutil.copy(certificate["key"], key)
    os.chown(key, 0, grp.getgrnam("nogroup").gr_gid)
    key.chmod(0o640)
    new = host("n9") | {"uri": f"qemu+tls://n9/system?pkipath={stopped.root}"}
    refused = stopped.client.expect(400, "POST", "/v1/hosts", new)
    assert f'"nogroup" may read {key}, which is a key of weftd\'s' in refused["detail"]
    key.chmod(0o600)
    stopped.client.expect(201, "POST", "/v1/hosts", new)


def test_the_group_of_keys_is_refused_for_the_socket(stopped):
    stopped.config["api"]["group"] = "weft-keys"
    assert 'api.group: "weft-keys" is for keys that weftd alone may read' in stopped.run_refused()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to a group that it is not in")
def test_socket_belongs_to_the_group(site):
    weft = site(changes={"api": {"group": "nogroup"}})
    access = os.getxattr(weft.socket, "system.posix_acl_access")
    entries = {(tag, number): rights for tag, rights, number in struct.iter_unpack("<HHI", access[4:])}
    group, others = entries[8, grp.getgrnam("nogroup").gr_gid], entries[32, 2**32 - 1]
    assert (group, others) == (6, 0) and not stat.S_IMODE(weft.socket.stat().st_mode) & 0o007
    assert weft.client.get("/v1/whoami")["role"] == "admin"


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="without systemd")
def test_keys_have_a_group_that_the_socket_has_not(tmp_path):
    """As it is installed, and as docs/hosts.md tells to give the key away."""
    (tmp_path / "etc").mkdir()
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "-"], input=(SOURCE / "dist/weft.sysusers").read_text(encoding="utf-8"),
                   text=True, check=True, capture_output=True)
    users = [line.split(":") for line in (tmp_path / "etc/passwd").read_text(encoding="utf-8").splitlines()]
    groups = {line.split(":")[0]: line.split(":") for line in (tmp_path / "etc/group").read_text(encoding="utf-8").splitlines()}
    own = next(user for user in users if user[0] == "weft")[3]
    assert groups["weft"][2] == own and not groups["weft"][3]
    assert groups["weft-keys"][3] == "weft" and groups["weft-users"][3] == "weft"
    hosts = (SOURCE / "docs/hosts.md").read_text(encoding="utf-8")
    assert re.findall(r"-g (\S+) .*(?:weftd\.key|libvirt/private)", hosts) == ["weft-keys", "weft-keys"]


# --- tokens ---


def life_of(token):
    made, end = (datetime.datetime.fromisoformat(token[name]) for name in ("created", "expires"))
    return end - made


def test_token_ends_by_itself(weft):
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member"})
    assert made["expires"] and life_of(made) == datetime.timedelta(days=90)
    assert weft.client.items("/v1/tokens")[0]["expires"] == made["expires"]


def test_site_says_how_long_tokens_last(site, certificate):
    weft = site(changes={"api": {"token_lifetime": "2d", "token_lifetime_max": "10d", "tcp": "127.0.0.1:0",
                                 "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    assert life_of(weft.client.expect(201, "POST", "/v1/tokens", {"principal": "ada"})) == datetime.timedelta(days=2)
    longest = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member", "expires_in": "10d"})
    assert life_of(longest) == datetime.timedelta(days=10)
    member = weft.tls_client(longest["token"], certificate["certificate"])
    for who in (weft.client, member):
        refused = who.expect(400, "POST", "/v1/tokens", {"principal": "acme-member", "expires_in": "11d"})
        assert refused["detail"].startswith("expires_in: 11d must be") and "at most 10 d" in refused["detail"], refused


def test_only_operators_say_never(site, certificate):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})

    def own(principal):
        return weft.tls_client(weft.token(principal), certificate["certificate"])

    refused = own("acme-member").expect(400, "POST", "/v1/tokens", {"expires_in": "never"})
    words = 'expires_in: "never" is for tokens of operators and admins, and acme-member is a member; name a duration of at most 365 d'
    assert refused["detail"] == words
    refused = own("ada").expect(400, "POST", "/v1/tokens", {"principal": "acme-member", "expires_in": "never"})
    assert refused["detail"] == words, "an admin gives no more than the principal could have"
    for principal in ("olga", "ada"):
        assert own(principal).expect(201, "POST", "/v1/tokens", {"expires_in": "never"})["expires"] is None


def test_weft_tells_when_a_token_ends(weft):
    made = weft.cli("token", "create", "--user", "acme-member", "--expires", "3d")
    end = weft.client.items("/v1/tokens")[0]["expires"]
    assert end in made.stderr and made.stdout.startswith("weft_") and len(made.stdout.split()) == 1
    assert "expires: never" in weft.cli("token", "create", "--user", "olga", "--expires", "never").stderr
    rows = weft.cli("token", "ls").stdout.splitlines()[1:]
    assert sorted(row.split()[4] for row in rows) == sorted([end, "never"])


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660])
def test_token_file_that_others_may_read_is_not_used(weft, tmp_path, mode):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(weft.token("acme-member"), encoding="utf-8")
    assert weft.cli("--token-file", path, "whoami").stdout == "acme-member: member of tenant acme\n"
    path.chmod(mode)
    refused = weft.cli("--token-file", path, "whoami", check=False)
    assert refused.returncode == 2 and f"{path}: others may read it (mode {mode:04o}): chmod go= '{path}'" in refused.stderr
    assert weft.cli("whoami", check=False, env={"WEFT_TOKEN_FILE": str(path)}).returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_token_file_of_another_may_be_for_a_group(weft, tmp_path):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(weft.token("acme-member"), encoding="utf-8")
    path.chmod(0o640)
    os.chown(path, 1, 0)
    assert weft.cli("--token-file", path, "whoami").stdout == "acme-member: member of tenant acme\n"
    path.chmod(0o644)
    assert weft.cli("--token-file", path, "whoami", check=False).returncode == 2


def test_token_may_come_through_a_pipe(weft):
    reader, writer = os.pipe()
    os.write(writer, weft.token("acme-member").encode())
    os.close(writer)
    assert weft.cli("--token-file", f"/proc/{os.getpid()}/fd/{reader}", "whoami").stdout.startswith("acme-member")
    os.close(reader)


# --- certificates ---


class Secure:
    """A site with a certificate that can be changed."""

    def __init__(self, site, folder, place):
        self.pairs, self.place = {}, place
        for name in ("first", "second"):
            (folder / name).mkdir()
            self.pairs[name] = make_certificate(folder / name)
        place.mkdir()
        self.put("first")
        self.weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": str(place / "tls.crt"), "tls_key": str(place / "tls.key"),
                                          "idle_timeout": "10m"}})
        self.token = self.weft.token("acme-member")

    def put(self, certificate, key=None):
        """As a program for renewals does it: whole files, one after the other."""
        for name, source in (("tls.key", self.pairs[key or certificate]["key"]), ("tls.crt", self.pairs[certificate]["certificate"])):
            shutil.copyfile(source, self.place / "new")
            (self.place / "new").rename(self.place / name)

    def shown(self):
        """Which of the certificates a client is shown that connects now."""
        text = ssl.get_server_certificate(("127.0.0.1", self.weft.tcp_port()), timeout=20)
        return next(name for name, pair in self.pairs.items() if text.split() == Path(pair["certificate"]).read_text(encoding="utf-8").split())

    def client(self, name):
        return self.weft.tls_client(self.token, self.pairs[name]["certificate"])

    def refusals(self):
        return self.weft.log.read_text(encoding="utf-8").count("are not taken, and those that were read before stay in use")


@pytest.fixture
def secure(site, tmp_path):
    return Secure(site, tmp_path, tmp_path / "place")


def whoami(secure, name):
    environment = {"WEFT_URL": f"https://127.0.0.1:{secure.weft.tcp_port()}", "WEFT_CA": secure.pairs[name]["certificate"],
                   "WEFT_TOKEN": secure.token}
    return secure.weft.cli("whoami", check=False, env=environment)


def test_new_certificate_is_shown_to_new_connections(secure):
    kept = secure.client("first").connect()

    def ask():
        kept.request("GET", "/v1/whoami", headers={"Authorization": f"Bearer {secure.token}"})
        answer = kept.getresponse()
        return answer.status, json.loads(answer.read())["name"], kept.sock

    before = ask()
    assert secure.shown() == "first" and whoami(secure, "second").returncode == 8
    secure.put("second")
    until(lambda: secure.shown() == "second", lambda: f"it is shown: {secure.weft.log_tail()}")
    assert whoami(secure, "second").stdout.startswith("acme-member") and whoami(secure, "first").returncode == 8
    assert ask() == before == (200, "acme-member", kept.sock), "who is connected goes on"
    kept.close()


@pytest.mark.parametrize("how", ["mixed", "no PEM", "empty", "gone"])
def test_bad_pair_is_refused_and_the_old_one_kept(secure, how):
    before = secure.refusals()
    if how == "mixed":
        secure.put("second", "first")
    elif how == "gone":
        (secure.place / "tls.key").unlink()
    else:
        (secure.place / "tls.crt").write_text("" if how == "empty" else "certificate", encoding="utf-8")
    if how == "gone":  # nothing is there to be read: only who asks for it hears of it
        secure.weft.process.send_signal(signal.SIGHUP)
    until(lambda: secure.refusals() > before, lambda: f"it is refused: {secure.weft.log_tail()}")
    assert secure.shown() == "first" and whoami(secure, "first").returncode == 0
    secure.put("second")
    until(lambda: secure.shown() == "second", lambda: f"a good one is taken again: {secure.weft.log_tail()}")


def test_certificates_behind_links_are_read_again_when_asked(site, tmp_path):
    secure = Secure(site, tmp_path, tmp_path / "real")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(secure.place / name)
    secure.weft.stop()
    secure.weft.config["api"] |= {"tls_certificate": str(tmp_path / "tls.crt"), "tls_key": str(tmp_path / "tls.key")}
    secure.weft.start()
    secure.put("second")
    secure.weft.process.send_signal(signal.SIGHUP)
    until(lambda: secure.shown() == "second", lambda: f"it is shown: {secure.weft.log_tail()}")


def test_hangup_without_tls_changes_nothing(weft):
    weft.process.send_signal(signal.SIGHUP)
    assert weft.client.get("/v1/whoami")["role"] == "admin" and weft.process.poll() is None


# --- what failed, in two texts ---


@contextlib.contextmanager
def without_table(weft, name):
    """The store cannot be read or written where it needs that."""
    def rename(old, new):
        with contextlib.closing(sqlite3.connect(weft.config["store"]["path"], PATIENCE, isolation_level=None)) as store:
            store.execute(f"ALTER TABLE {old} RENAME TO {new}")

    rename(name, "hidden")
    try:
        yield
    finally:
        rename("hidden", name)


def refused(client, method, path, body=None):
    answer = client.request(method, path, body, {"Idempotency-Key": uuid.uuid4().hex} if body else {})
    assert answer.status == 503 and answer.json["code"] == "unavailable", answer
    return answer.text


SPEC = {"name": "cfd", "count": 1, "cores": 1, "memory": "256M"}


@pytest.mark.parametrize("table,method,path,body", [("meter", "POST", "/v1/clusters?tenant=acme", SPEC),
                                                    ("record", "GET", "/v1/clusters?tenant=acme", None)])
def test_only_operators_read_where_the_store_is(site, certificate, table, method, path, body):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    member = weft.tls_client(weft.token("acme-member"), certificate["certificate"])
    store = weft.config["store"]["path"]
    with without_table(weft, table):
        told = refused(member, method, path, body)
        assert str(weft.root) not in told and "SQLite" not in told and "no such table" not in told, told
        assert "try again later" in told
        assert f"store {store}: " in refused(weft.client, method, path, body)
    lines = weft.log.read_text(encoding="utf-8").splitlines()
    assert any(f"{method} /v1/clusters of " in line and f"store {store}: " in line for line in lines), weft.log_tail()
