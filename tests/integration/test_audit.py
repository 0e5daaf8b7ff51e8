"""The audit trail: every route that changes something leads to one entry, and whoever changes the files is found out."""

import contextlib
import hashlib
import hmac
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import time

import pytest
from harness.wait import until
from harness.weft import Client, UnixConnection, build_folder
from test_checkpoints import take
from test_isolation import BODIES, ROLES, routes
from test_templates import SHAPE, add_image

# Routes of a method that changes something, and that change nothing all the same; those that only read, and have entries.
NEVER = {("POST", "/v1/placements")}
ALWAYS = {("GET", "/v1/clusters/:cluster/nodes/:rank/session"), ("GET", "/v1/clusters/:cluster/nodes/:rank/console"),
          ("GET", "/v1/checkpoints/:checkpoint/manifest"), ("GET", "/v1/checkpoints/:checkpoint/files/:digest")}
AUDITED = [route for route in routes() if route["audited"]]


def trail(weft):
    return weft.root / "audit.log"


def entries(weft, **wanted):
    text = trail(weft).read_text(encoding="utf-8")
    found = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]  # what is behind it is being written
    return [entry for entry in found if all(entry.get(name) == value for name, value in wanted.items())]


def entry_of(weft, answer):
    """The entry that the answer names; an answer may come before it is written."""
    identity = answer.headers["X-Request-Id"]
    until(lambda: entries(weft, request=identity), lambda: f"entry {identity} of {trail(weft).read_text(encoding='utf-8')}")
    (entry,) = entries(weft, request=identity)
    return entry


def verify(weft, *files, status=0):
    done = weft.cli("audit", "verify", *(files or [trail(weft)]), check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def digest(weft, body):
    return hmac.new(next(weft.root.glob("**/*secret*")).read_bytes(), b"weft audit body\n" + body, hashlib.sha256).hexdigest()


def filled(route):
    return re.sub(":[a-z]+", lambda match: "0" if match[0] == ":rank" else "x" * 12, route["path"])


class Caller:
    """A principal of its own for each route and role: what is refused is bounded for each."""

    def __init__(self, weft):
        self.weft = weft
        self.count = 0

    def __call__(self, role):
        if role is None:
            return Client(lambda: UnixConnection(self.weft.socket), "weft_0nobodyhas00_00"), None, None
        self.count += 1
        name, tenant = f"p{self.count}", "acme" if role in ("viewer", "member") else None
        body = {"name": name, "role": role} | ({"tenant": tenant} if tenant else {})
        self.weft.client.expect(201, "POST", "/v1/principals", body)
        return Client(lambda: UnixConnection(self.weft.socket), self.weft.token(name)), name, tenant


@pytest.fixture(scope="module")
def caller(request):
    from harness.weft import Weft

    weft = Weft()
    request.addfinalizer(weft.remove)
    weft.start()
    return Caller(weft)


def test_what_is_audited():
    """A new route that changes something is in the trail unless somebody says here that it is not."""
    changing = {(route["method"], route["path"]) for route in routes() if route["method"] != "GET"}
    assert {(route["method"], route["path"]) for route in AUDITED} == changing - NEVER | ALWAYS


@pytest.mark.parametrize("role", [None, *ROLES])
@pytest.mark.parametrize("route", AUDITED, ids=lambda r: f"{r['method']} {r['path']}")
def test_each_request_is_one_entry(caller, route, role):
    client, name, tenant = caller(role)
    body = BODIES.get((route["method"], route["path"]))
    answer = client.request(route["method"], filled(route), body)
    entry = entry_of(caller.weft, answer)
    assert (entry["principal"], entry["tenant"], entry["role"]) == (name, tenant, role)
    assert (entry["kind"], entry["method"], entry["route"], entry["target"]) == ("request", route["method"], route["path"], filled(route))
    assert entry["status"] == answer.status
    word = "denied" if answer.status in (401, 403) else "done" if answer.status < 400 else "refused" if answer.status < 500 else "failed"
    assert entry["result"] == word
    if role is None or ROLES.index(role) < ROLES.index(route["role"]):
        assert answer.status == (401 if role is None else 403) and "body" not in entry
    assert entry["from"] == f"uid {os.getuid()}" and entry["pid"] == os.getpid() and ("token" in entry) == (role is not None)


def test_the_trail_of_all_that_is_in_order(caller):
    """After the requests above: nothing of what they said is in it, and nobody but who asked is."""
    text = verify(caller.weft)
    assert "unchanged and in order" in text
    text = trail(caller.weft).read_text(encoding="utf-8")
    assert "a guess" not in text and "passphrase" not in text, "bodies are not in it"
    numbers = [entry["sequence"] for entry in entries(caller.weft)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_what_is_read_is_not_in_it(weft):
    before = len(entries(weft))
    for path in ("/v1/clusters", "/v1/hosts", "/v1/events", "/v1/nothing", "/v1/audit"):
        assert "X-Request-Id" not in weft.client.request("GET", path).headers
    weft.client.expect(200, "POST", "/v1/placements?tenant=acme", BODIES["POST", "/v1/placements"])
    weft.stop()
    assert [entry["kind"] for entry in entries(weft)[before:]] == ["stop"]


def saved(weft):
    """A checkpoint of one node, and the paths of its manifest and its files."""
    add_image(weft)
    weft.client.create("saved", 1, **SHAPE)
    weft.client.wait_phase("saved", "ready")
    checkpoint = f"/v1/checkpoints/{take(weft, 'saved')['name']}"
    node = weft.client.get(f"{checkpoint}/manifest", tenant="acme")["checkpoint"]["nodes"][0]
    digests = re.findall(r'"digest": "([0-9a-f]{64})"', json.dumps(node))
    assert digests, node
    return f"{checkpoint}/manifest", [f"{checkpoint}/files/{digest}" for digest in digests]


def test_a_download_is_one_entry(weft):
    """Whichever piece comes first: all but the first byte of a node's memory is as good as all of it."""
    manifest, files = saved(weft)
    member = Client(lambda: UnixConnection(weft.socket), weft.token("acme-member"))
    entry = entry_of(weft, member.request("GET", f"{files[0]}?offset=1"))
    assert (entry["principal"], entry["target"], entry["status"], entry["result"]) == ("acme-member", f"{files[0]}?offset=1", 200, "done")
    for again in ("", "?offset=0", "?offset=1", "?offset=2", "?tenant=acme&offset=3"):
        answer = member.request("GET", re.sub("(?<=checkpoints/)[a-z]", lambda letter: f"%{ord(letter[0]):x}", files[0]) + again)
        assert answer.status == 200 and "X-Request-Id" not in answer.headers
    assert entry_of(weft, member.request("GET", manifest))["status"] == 200
    assert "X-Request-Id" not in member.request("GET", manifest).headers
    other = Client(lambda: UnixConnection(weft.socket), weft.token("acme-member"))
    stolen = entry_of(weft, other.request("GET", f"{files[0]}?offset=4"))
    assert stolen["token"] != entry["token"], "another token has an entry of its own"
    operators = entry_of(weft, weft.client.request("GET", f"{files[0]}?offset=5&tenant=acme"))
    assert operators["for"] == "acme"


def test_reads_that_are_refused_are_in_it(weft):
    piece = "/v1/checkpoints/none/files/none?tenant=acme"
    for offset in ("", "&offset=0", "&offset=x", "&offset=1048576"):
        entry = entry_of(weft, weft.client.request("GET", piece + offset))
        assert (entry["target"], entry["for"], entry["status"]) == (piece + offset, "acme", 404)


def test_who_what_and_with_what_result(weft):
    """A cluster's life, with all that an entry has."""
    body = json.dumps({"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi", "user_data": "#!/bin/sh\n# hunter2"}).encode()
    made = weft.client.request("POST", "/v1/clusters?tenant=acme", body)
    assert made.status == 201
    entry = entry_of(weft, made)
    assert entry["target"] == "/v1/clusters?tenant=acme" and entry["user"] == entry["principal"] and entry["tenant"] is None
    assert (entry["status"], entry["result"], entry["body"]) == (201, "done", digest(weft, body))
    again = weft.client.request("POST", "/v1/clusters?tenant=acme", body)
    assert (entry_of(weft, again)["status"], entry_of(weft, again)["result"]) == (409, "refused")
    weft.client.wait_phase("cfd", "ready")
    weft.client.scale("cfd", 2)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    until(lambda: len(entries(weft, kind="request")) == 4, "they are written")
    done = [(entry["method"], entry["status"]) for entry in entries(weft, kind="request")]
    assert done == [("POST", 201), ("POST", 409), ("PATCH", 200), ("DELETE", 202)]
    assert "hunter2" not in trail(weft).read_text(encoding="utf-8")
    assert trail(weft).stat().st_mode & 0o7777 == 0o600


def test_over_tls_the_address_is_told(site, certificate):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member"})
    client = weft.tls_client(made["token"], certificate["certificate"])
    entry = entry_of(weft, client.request("DELETE", "/v1/clusters/none"))
    assert (entry["principal"], entry["tenant"], entry["token"]) == ("acme-member", "acme", made["id"])
    assert re.fullmatch(r"127\.0\.0\.1:\d+", entry["from"]) and "user" not in entry and "pid" not in entry
    assert made["token"].split("_")[2] not in trail(weft).read_text(encoding="utf-8")


def test_a_repetition_is_told_as_one(weft):
    headers = {"Idempotency-Key": "once"}
    body = {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
    first, second = (weft.client.request("POST", "/v1/clusters?tenant=acme", body, headers) for _ in range(2))
    assert (first.status, second.status) == (201, 201)
    assert "replayed" not in entry_of(weft, first) and entry_of(weft, second)["replayed"] is True


def test_a_client_that_hangs_up_has_its_entry(weft):
    """What was done for somebody who did not wait for the answer is in the trail, with where it came from."""
    def hang_up(name):
        """It goes while its change waits for the store, unless weftd is too slow to have come so far."""
        body = json.dumps({"name": name, "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}).encode()
        with contextlib.closing(sqlite3.connect(weft.root / "weft.db", timeout=60, isolation_level=None)) as store:
            store.execute("BEGIN IMMEDIATE")
            with contextlib.closing(socket.socket(socket.AF_UNIX)) as link:
                link.connect(str(weft.socket))
                link.sendall(b"POST /v1/clusters?tenant=acme HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                             b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
                for _ in range(20):
                    weft.client.get("/v1/hosts")
            weft.client.get("/v1/hosts")  # it has seen that the client is gone
            store.execute("ROLLBACK")
        weft.client.create(f"{name}-after", 1)
        return digest(weft, body) if weft.client.cluster(name) else None

    made = until(lambda: hang_up(f"gone{time.monotonic_ns()}"), "one was made all the same")
    weft.stop()
    (entry,) = entries(weft, body=made)
    assert (entry["status"], entry["result"], entry["from"]) == (201, "done", f"uid {os.getuid()}")


def test_weftd_and_what_is_done_with_it(weft):
    weft.stop()
    weft.start()
    until(lambda: len(entries(weft, kind="start")) == 2, "it is written, which nobody waits for")
    weft.kill()
    weft.start()
    weft.stop()
    kinds = [entry["kind"] for entry in entries(weft)]
    assert kinds == ["start", "config", "stop", "start", "start", "stop"], "who was killed has not said stop; the file changed nothing later"
    start = entries(weft, kind="start")[0]
    assert start["config"] == str(weft.root / "weft.yaml") and start["uid"] == os.getuid() and start["site"] == weft.site()
    assert start["config_digest"] == hashlib.sha256((weft.root / "weft.yaml").read_bytes()).hexdigest()
    verify(weft)


def test_what_the_configuration_changed(weft):
    """A grant that was written into the file is told like one that was given through the API."""
    def changes():
        return [(change["kind"], change["name"], change["change"]) for entry in entries(weft, kind="config") for change in entry["changes"]]

    described = changes()
    assert ("tenant", "acme", "written") in described and ("host", "n1", "written") in described
    weft.stop()
    weft.config["tenants"].append({"name": "late", "devices": ["gpu"]})
    weft.start()
    assert changes() == [*described, ("tenant", "late", "written")]
    weft.stop()
    weft.config["tenants"].pop()
    weft.start()
    assert changes()[len(described) + 1:] == [("tenant", "late", "removed")]
    assert "tenant late removed" in weft.cli("audit", "ls").stdout
    verify(weft)


def test_a_backup_and_its_restore(weft):
    """The trail is not part of the backup: what was done since stays in it, and the restore is said in it."""
    passphrase = weft.root / "passphrase"
    passphrase.write_text("correct horse battery\n", encoding="utf-8")
    weft.cli("backup", "--passphrase-file", passphrase, weft.root / "site.tar")
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "later"})
    weft.stop()
    done = subprocess.run([build_folder() / "src/daemon/weftd", "--config", weft.root / "weft.yaml", "--restore", weft.root / "site.tar",
                           "--passphrase-file", passphrase, "--force"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    weft.start()
    weft.stop()
    told = [entry.get("route", entry["kind"]) for entry in entries(weft)]
    assert told == ["start", "config", "/v1/backup", "/v1/tenants", "stop", "restore", "start", "stop"]
    (restored,) = entries(weft, kind="restore")
    assert restored["backup"] == str(weft.root / "site.tar") and restored["result"] == "done" and restored["uid"] == os.getuid()
    assert "correct horse" not in trail(weft).read_text(encoding="utf-8")
    verify(weft)


# --- who changes it is found out ---


@pytest.fixture
def written(weft):
    """A trail of some entries, and the lines of its file."""
    for i in range(5):
        weft.client.expect(201, "POST", "/v1/tenants", {"name": f"t{i}"})
    weft.stop()
    lines = trail(weft).read_bytes().splitlines(keepends=True)
    assert len(lines) == 8
    return weft, lines


@pytest.mark.parametrize("change,line", [
    (lambda lines: [*lines[:3], lines[3].replace(b'"status":201', b'"status":409'), *lines[4:]], 4),
    (lambda lines: [*lines[:3], *lines[4:]], 4),
    (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], 4),
    (lambda lines: [*lines[:4], lines[3], *lines[4:]], 5),
    (lambda lines: [*lines[:-1], lines[-1][:40]], 8),
    (lambda lines: [*lines[:2], b"\n", *lines[2:]], 3),
    (lambda lines: [lines[0].replace(b'"kind":"start"', b'"kind":"Start"'), *lines[1:]], 1),
], ids=["changed", "removed", "reordered", "repeated", "cut", "added", "first"])
def test_a_change_is_found(written, change, line):
    weft, lines = written
    trail(weft).write_bytes(b"".join(change(lines)))
    assert f"audit.log: line {line}: " in verify(weft, status=5)


def head(weft):
    return weft.root / "audit.log-head"


def test_a_torn_line_is_closed(written):
    """It had not been synced: the head names an older one."""
    weft, lines = written
    trail(weft).write_bytes(b"".join([*lines[:-1], lines[-1][:40]]))
    head(weft).write_text(json.dumps({"sequence": 7, "hash": json.loads(lines[-2])["hash"]}), encoding="utf-8")
    weft.start()
    weft.stop()
    assert [entry["bytes"] for entry in map(json.loads, trail(weft).read_bytes().splitlines()[8:]) if entry["kind"] == "torn"] == [40]
    assert "1 lines were not written whole" in verify(weft)


def test_an_end_that_was_cut_off_is_found(written):
    weft, lines = written
    trail(weft).write_bytes(b"".join(lines[:5]))
    verify(weft)  # it can not be seen in the file alone
    weft.start()
    weft.stop()
    assert "audit.log: line 6: entry 9 comes after entry 5: " in verify(weft, status=5)
    assert [entry["found"] for entry in entries(weft, kind="resume")] == [5]


def test_others_may_rename_it_while_weftd_is_away(written):
    weft, lines = written
    former = weft.root / "audit.log.1"
    trail(weft).rename(former)
    weft.start()
    weft.stop()
    assert [(entry["sequence"], entry["kind"]) for entry in entries(weft)] == [(9, "resume"), (10, "start"), (11, "stop")]
    verify(weft, former, trail(weft))
    assert head(weft).stat().st_mode & 0o7777 == 0o600


def test_files_that_are_full_go_on(site):
    weft = site(changes={"audit": {"size": "4K"}})
    for i in range(30):
        weft.client.expect(201, "POST", "/v1/tenants", {"name": f"t{i}"})
    weft.stop()
    files = sorted(weft.root.glob("audit.log.*"))
    assert len(files) >= 3 and all(file.stat().st_mode & 0o7777 == 0o600 for file in files)
    verify(weft, *files, trail(weft))
    verify(weft, *files[1:], trail(weft))  # the oldest was archived
    assert "line 1: entry" in verify(weft, files[0], *files[2:], trail(weft), status=5)
    assert "line 1: entry" in verify(weft, files[1], files[0], status=5)


def test_others_may_rename_it(weft):
    """As logrotate does, with SIGHUP afterwards."""
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "before"})
    weft.client.request("DELETE", "/v1/tenants/none")
    until(lambda: len(entries(weft, kind="request")) == 2, "both are written")
    former = weft.root / "audit.log.1"
    trail(weft).rename(former)
    weft.process.send_signal(signal.SIGHUP)
    until(trail(weft).exists, "there is another file")
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "after"})
    weft.stop()
    assert [entry["kind"] for entry in entries(weft)] == ["reopen", "request", "stop"]
    verify(weft, former, trail(weft))


# --- nobody is pushed out, and nobody fills a disk ---


def test_a_flood_pushes_nothing_out(weft):
    """Of what a member is refused, and what changes nothing, only some has entries of its own; all of it is counted, and what others
    did stays."""
    manifest, _ = saved(weft)
    weft.client.create("going", 1, **SHAPE)
    weft.client.wait_phase("going", "ready")
    weft.world.fault("hang stop 9999")
    weft.client.delete("going")
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "kept"})
    member = Client(lambda: UnixConnection(weft.socket), weft.token("acme-member"))
    stranger = Client(lambda: UnixConnection(weft.socket), "weft_0nobodyhas00_00")
    begin = time.monotonic()
    for _ in range(100):
        assert member.request("DELETE", "/v1/clusters/none").status == 404
        assert member.request("PATCH", "/v1/clusters/saved", {"count": 1}).status == 200
        assert member.request("DELETE", "/v1/clusters/going").status == 202
        assert member.request("GET", manifest).status == 200
    for _ in range(300):
        assert stranger.request("POST", "/v1/tenants", {"name": "mine"}).status == 401
    seconds = time.monotonic() - begin
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "after"})
    weft.stop()
    own = [entry for entry in entries(weft, kind="request", principal="acme-member") if "manifest" not in entry["target"]]
    strangers = entries(weft, kind="request", principal=None)
    assert 20 <= len(own) <= 21 + seconds / 3 and 100 <= len(strangers) <= 101 + seconds
    counted = {account: sum(sum_["count"] for sum_ in entries(weft, kind="refusals", account=account)) for account in ("acme/acme-member", None)}
    assert counted == {"acme/acme-member": 300 - len(own), None: 300 - len(strangers)}
    assert len([entry for entry in entries(weft, route="/v1/tenants") if entry["status"] == 201]) == 2
    assert len(entries(weft, target=manifest, principal="acme-member")) == 1, "one stands for all of an hour"
    verify(weft)


# --- who may read it ---


def test_operators_read_it_and_tenants_do_not(weft):
    for name in ("acme-viewer", "acme-member"):
        client = Client(lambda: UnixConnection(weft.socket), weft.token(name))
        assert client.request("GET", "/v1/audit").status == 403
    operator = Client(lambda: UnixConnection(weft.socket), weft.token("olga"))
    operator.create("cfd", 1)
    operator.request("DELETE", "/v1/clusters/none?tenant=acme")
    until(lambda: entries(weft, principal="olga", status=404), "it is written")
    pages = operator.items("/v1/audit", limit=2)
    assert [entry["sequence"] for entry in pages] == [entry["sequence"] for entry in reversed(entries(weft))]
    assert [entry["status"] for entry in operator.items("/v1/audit", principal="olga")] == [404, 201]
    assert operator.items("/v1/audit", tenant="umbrella") == []
    assert [entry["status"] for entry in operator.items("/v1/audit", tenant="acme")] == [404, 201], "what was done for it"
    assert operator.request("GET", "/v1/audit?after=x").status == 400
    rows = weft.cli("audit", "ls", "--principal", "olga").stdout.splitlines()
    assert len(rows) == 3 and "/v1/clusters?tenant=acme" in rows[1] and "404" in rows[2]
    assert [entry["status"] for entry in json.loads(weft.cli("audit", "ls", "-n", "1", "--json").stdout)] == [404]


def test_what_operators_did_for_a_tenant(weft):
    """Whichever way the target names it; a member's own entries need no word more."""
    member = Client(lambda: UnixConnection(weft.socket), weft.token("acme-member"))
    assert member.request("DELETE", "/v1/clusters/none?tenant=acme").status == 404
    weft.client.create("cfd", 1)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "other"})
    assert weft.client.request("DELETE", "/v1/clusters/none?tenant=other").status == 404
    assert weft.client.request("PATCH", "/v1/tenants/acme", {"quota": {"nodes": 5}}).status == 409
    assert weft.client.request("DELETE", "/v1/tenants/acme").status == 409
    until(lambda: len(entries(weft, status=409)) == 2, "they are written")
    found = [(entry["method"], entry["tenant"], entry.get("for")) for entry in weft.client.items("/v1/audit", tenant="acme")]
    assert found == [("DELETE", None, "acme"), ("PATCH", None, "acme"), ("POST", None, "acme"), ("DELETE", "acme", None)]
    rows = weft.cli("--tenant", "acme", "audit", "ls").stdout.splitlines()
    assert len(rows) == 5 and all(row.split()[3] == "acme" for row in rows[1:])


def test_the_systems_log_has_it_too(site, tmp_path):
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as log:
        log.bind(str(tmp_path / "log"))
        log.settimeout(60)
        weft = site(changes={"audit": {"syslog": str(tmp_path / "log")}})
        weft.client.expect(201, "POST", "/v1/tenants", {"name": "told"})
        lines = [log.recv(1 << 16).decode().split(": ", 1)[1] for _ in range(3)]
        # The file's disk may be slower than the system's log.
        until(lambda: lines == trail(weft).read_text(encoding="utf-8").splitlines(), "the file has the same")
