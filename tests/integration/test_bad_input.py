"""Wrong input is refused before anything changes, with a message that names the value and the remedy.

Each case has a golden answer in tests/golden/http; the logical dump of the store is the same before and after."""

import contextlib
import json
import socket

import pytest
from harness import golden
from harness.weft import Weft, host, with_changes

GOOD = {"name": "cfd", "count": 2, "cores": 2, "memory": "1G", "image": "mpi"}
GROUP = {"name": "cpu", "count": 2, "cores": 2, "memory": "1G", "image": "mpi"}
CLUSTERS = "/v1/clusters?tenant=acme"
THERE = "/v1/clusters/there?tenant=acme"


def spec(**changes):
    return {key: value for key, value in (GOOD | changes).items() if value is not ...}


def groups(*wanted, **changes):
    return {"name": "cfd", "groups": list(wanted)} | changes


def nested(depth):
    return b'{"name":' + b"[" * depth + b"]" * depth + b"}"


# name: body of POST /v1/clusters
SPECS = {
    "spec-empty": {},
    "spec-array": [],
    "spec-text": "cfd",
    "spec-null": None,
    "spec-unknown-field": spec(coers=4),
    "spec-two-forms": groups(GROUP, cores=4),
    "name-missing": spec(name=...),
    "name-empty": spec(name=""),
    "name-number": spec(name=7),
    "name-upper-case": spec(name="CFD"),
    "name-begins-with-digit": spec(name="1cfd"),
    "name-begins-with-dash": spec(name="-cfd"),
    "name-ends-with-dash": spec(name="cfd-"),
    "name-double-dash": spec(name="c--d"),
    "name-blank": spec(name="c fd"),
    "name-slash": spec(name="../etc"),
    "name-unicode": spec(name="cfdé"),
    "name-control-character": spec(name="cfd\n"),
    "name-nul": b'{"name":"cf\\u0000d","count":1,"cores":1,"memory":"1G","image":"mpi"}',
    "name-too-long": spec(name="c" * 41),
    "name-exists": spec(name="there"),
    "count-missing": spec(count=...),
    "count-zero": spec(count=0),
    "count-negative": spec(count=-1),
    "count-too-large": spec(count=1025),
    "count-huge": b'{"name":"cfd","count":99999999999999999999,"cores":1,"memory":"1G","image":"mpi"}',
    "count-fraction": spec(count=1.5),
    "count-text": spec(count="2"),
    "count-bool": spec(count=True),
    "cores-zero": spec(cores=0),
    "cores-too-many": spec(cores=1025),
    "memory-zero": spec(memory=0),
    "memory-too-small": spec(memory="1M"),
    "memory-too-large": spec(memory="128T"),
    "memory-no-unit-known": spec(memory="8X"),
    "memory-decimal-unit": spec(memory="8GB"),
    "memory-negative": spec(memory="-8G"),
    "memory-blank": spec(memory="8 G"),
    "memory-fraction-of-byte": spec(memory="1.3"),
    "memory-two-points": spec(memory="1.2.3G"),
    "memory-overflow": spec(memory="99999999999999999999G"),
    "memory-empty": spec(memory=""),
    "memory-bool": spec(memory=False),
    "memory-not-whole-pages": spec(memory="100000001", pages="2M"),
    "pages-unknown": spec(pages="3M"),
    "image-empty": spec(image=""),
    "image-path": spec(image="../../etc/passwd"),
    "image-too-long": spec(image="i" * 300),
    "path-unknown": spec(path="warp"),
    "path-number": spec(path=1),
    "numa-unknown": spec(numa="strict"),
    "layout-number": spec(layout=1),
    "apart-itself": spec(apart=["cfd"]),
    "pattern-unknown": spec(pattern="torus"),
    "matrix-ragged": spec(count=2, matrix=[[0, 1], [1]]),
    "matrix-too-small": spec(count=3, matrix=[[0, 1], [1, 0]]),
    "matrix-beside-pattern": spec(count=1, pattern="ring", matrix=[[0]]),
    "priority-too-high": spec(priority=1001),
    "walltime-unit": spec(walltime="2w"),
    "walltime-zero": spec(walltime=0),
    "gpus-too-many": spec(gpus=17),
    "rails-too-many": spec(rails=9),
    "rails-with-bridge": spec(path="bridge", rails=1),
    "rails-zero-with-sriov": spec(path="sriov", rails=0),
    "fabric-unknown": spec(fabric="ib9"),
    "fabric-bad-name": spec(fabric="IB 0"),
    "labels-array": spec(labels=[]),
    "labels-number": spec(labels={"rack": 1}),
    "labels-too-many": spec(labels={f"l{i}": "x" for i in range(17)}),
    "labels-bad-key": spec(labels={"ra ck": "x"}),
    "groups-empty": groups(),
    "groups-object": {"name": "cfd", "groups": {}},
    "groups-too-many": groups(*[GROUP | {"name": f"g{i}"} for i in range(9)]),
    "groups-same-name": groups(GROUP, GROUP),
    "groups-bad-count": groups(GROUP, GROUP | {"name": "gpu", "count": "four"}),
    "groups-unknown-field": groups(GROUP | {"core": 1}),
    "groups-too-many-nodes": groups(GROUP | {"count": 1024}, GROUP | {"name": "gpu", "count": 1}),
    "groups-null": groups(None),
}

# name: bytes of a body that is no JSON object of ours
TEXTS = {
    "json-empty": b"",
    "json-cut-off": b'{"name": "cfd"',
    "json-trailing": b"{} {}",
    "json-duplicate-key": b'{"name": "cfd", "name": "cfd"}',
    "json-comment": b'{"name": "cfd" /* no */}',
    "json-single-quotes": b"{'name': 'cfd'}",
    "json-nan": b'{"count": NaN}',
    "json-too-deep": nested(17),
    "json-much-too-deep": nested(5000),
    "json-nul": b'{"name": "cfd"}\x00',
    "json-bad-utf8": b'{"name": "\xff\xfe"}',
    "json-overlong-utf8": b'{"name": "\xc0\xaf"}',
    "json-surrogate": b'{"name": "\\ud800"}',
    "json-bom": b"\xef\xbb\xbf{}",
}

# name: (method, path, body, headers)
REQUESTS = {
    "path-no-such": ("GET", "/v1/nothing", None, {}),
    "path-root": ("GET", "/", None, {}),
    "path-other-version": ("GET", "/v2/clusters", None, {}),
    "path-trailing-slash": ("GET", "/v1/clusters/", None, {}),
    "path-double-slash": ("GET", "/v1//clusters", None, {}),
    "path-dots": ("GET", "/v1/clusters/../hosts", None, {}),
    "path-encoded-slash": ("GET", "/v1/clusters/a%2fb?tenant=acme", None, {}),
    "path-encoded-nul": ("GET", "/v1/clusters/a%00b?tenant=acme", None, {}),
    "path-bad-encoding": ("GET", "/v1/clusters/a%zz?tenant=acme", None, {}),
    "path-too-long": ("GET", "/v1/clusters/" + "a" * 2000, None, {}),
    "path-bad-cluster-name": ("GET", "/v1/clusters/NOT_A_NAME?tenant=acme", None, {}),
    "method-wrong": ("PUT", "/v1/clusters", None, {}),
    "method-delete-list": ("DELETE", "/v1/hosts", None, {}),
    "method-unknown": ("BREW", "/v1/clusters", None, {}),
    "cluster-absent": ("GET", "/v1/clusters/absent?tenant=acme", None, {}),
    "cluster-absent-id": ("GET", "/v1/clusters/0aaaaaaaaaaa", None, {}),
    "cluster-without-tenant": ("GET", "/v1/clusters/there", None, {}),
    "create-without-tenant": ("POST", "/v1/clusters", GOOD, {}),
    "create-unknown-tenant": ("POST", "/v1/clusters?tenant=nobody", GOOD, {}),
    "query-unknown": ("GET", "/v1/clusters?colour=red", None, {}),
    "query-twice": ("GET", "/v1/clusters?limit=1&limit=2", None, {}),
    "query-limit-zero": ("GET", "/v1/clusters?limit=0", None, {}),
    "query-limit-too-large": ("GET", "/v1/clusters?limit=1001", None, {}),
    "query-limit-text": ("GET", "/v1/clusters?limit=ten", None, {}),
    "query-limit-negative": ("GET", "/v1/clusters?limit=-1", None, {}),
    "query-too-long": ("GET", "/v1/clusters?name=" + "a" * 257, None, {}),
    "query-after-bad": ("GET", "/v1/clusters?after=%0a", None, {}),
    "query-tenant-bad": ("GET", "/v1/clusters?tenant=A%20B", None, {}),
    "query-from-bad": ("GET", "/v1/usage?from=yesterday", None, {}),
    "query-from-after-to": ("GET", "/v1/usage?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z", None, {}),
    "header-content-type": ("POST", CLUSTERS, b"name: cfd", {"Content-Type": "text/yaml"}),
    "header-no-content-type": ("POST", CLUSTERS, json.dumps(GOOD).encode(), {"Content-Type": ""}),
    "header-key-empty": ("POST", CLUSTERS, GOOD, {"Idempotency-Key": ""}),
    "header-key-too-long": ("POST", CLUSTERS, GOOD, {"Idempotency-Key": "k" * 65}),
    "header-key-characters": ("POST", CLUSTERS, GOOD, {"Idempotency-Key": "a b"}),
    "header-if-match-stale": ("DELETE", THERE, None, {"If-Match": '"999999"'}),
    "header-if-match-bad": ("DELETE", THERE, None, {"If-Match": "nonsense"}),
    "header-last-event-id-bad": ("GET", "/v1/events", None, {"Accept": "text/event-stream", "Last-Event-ID": "nonsense"}),
    "header-too-large": ("GET", "/v1/clusters", None, {"X-Filler": "x" * 40000}),
    "body-on-get": ("GET", "/v1/clusters", {"name": "cfd"}, {}),
    "body-too-large": ("POST", CLUSTERS, b'{"name": "' + b"x" * (1 << 20) + b'"}', {}),
    "scale-zero": ("PATCH", THERE, {"count": 0}, {}),
    "scale-nothing": ("PATCH", THERE, {}, {}),
    "scale-unknown-group": ("PATCH", THERE, {"group": "gpu", "count": 2}, {}),
    "scale-too-large": ("PATCH", THERE, {"count": 1025}, {}),
    "scale-unknown-field": ("PATCH", THERE, {"count": 2, "cores": 3}, {}),
    "scale-absent": ("PATCH", "/v1/clusters/absent?tenant=acme", {"count": 2}, {}),
    "delete-absent": ("DELETE", "/v1/clusters/absent?tenant=acme", None, {}),
    "host-empty": ("POST", "/v1/hosts", {}, {}),
    "host-bad-name": ("POST", "/v1/hosts", host("n9") | {"name": "no_underscores"}, {}),
    "host-exists": ("POST", "/v1/hosts", host("n1"), {}),
    "host-hostlist": ("POST", "/v1/hosts", host("n9") | {"name": "n[1-3]"}, {}),
    "host-no-numa": ("POST", "/v1/hosts", host("n9", numa=[]), {}),
    "host-no-cores": ("POST", "/v1/hosts", host("n9", numa=[{"cores": 0, "pages": {"2M": 1}}]), {}),
    "host-bad-pages": ("POST", "/v1/hosts", host("n9", numa=[{"cores": 4, "pages": {"3M": 1}}]), {}),
    "host-all-housekeeping": ("POST", "/v1/hosts", host("n9", housekeeping=4), {}),
    "host-unknown-fabric": ("POST", "/v1/hosts", host("n9", fabric="ib9"), {}),
    "host-unknown-field": ("POST", "/v1/hosts", host("n9", colour="red"), {}),
    "host-hca-on-no-numa": ("POST", "/v1/hosts", host("n9", hcas=[with_changes(host("n9")["hcas"][0], numa=7)]), {}),
    "host-same-hca": ("POST", "/v1/hosts", host("n9", hcas=host("n9")["hcas"] * 2), {}),
    "host-guid-zero": ("POST", "/v1/hosts", host("n9", hcas=[with_changes(host("n9")["hcas"][0], port_guid="0x0")]), {}),
    "host-guid-bad": ("POST", "/v1/hosts", host("n9", hcas=[with_changes(host("n9")["hcas"][0], port_guid="mellanox")]), {}),
    "host-guid-used": ("POST", "/v1/hosts", host("n9", hcas=host("n1")["hcas"]), {}),
    "host-too-many-vfs": ("POST", "/v1/hosts", host("n9", hcas=[with_changes(host("n9")["hcas"][0], vfs=128)]), {}),
    "host-same-gpu": ("POST", "/v1/hosts", host("n9", gpus=host("n9")["gpus"][:1] * 2), {}),
    "host-absent": ("GET", "/v1/hosts/n9", None, {}),
    "host-remove-absent": ("DELETE", "/v1/hosts/n9", None, {}),
    "host-remove-configured": ("DELETE", "/v1/hosts/n4", None, {}),
    "host-remove-busy": ("DELETE", "/v1/hosts/n8", None, {}),
    "drain-absent": ("POST", "/v1/hosts/n9/drain", {}, {}),
    "drain-bad-field": ("POST", "/v1/hosts/n1/drain", {"evict": "yes"}, {}),
    "tenant-bad-name": ("POST", "/v1/tenants", {"name": "Acme Inc."}, {}),
    "tenant-exists": ("POST", "/v1/tenants", {"name": "acme"}, {}),
    "tenant-bad-quota": ("POST", "/v1/tenants", {"name": "initech", "quota": {"nodes": -1}}, {}),
    "tenant-unknown-quota": ("POST", "/v1/tenants", {"name": "initech", "quota": {"coffee": 1}}, {}),
    "tenant-remove-busy": ("DELETE", "/v1/tenants/hooli", None, {}),
    "tenant-remove-configured": ("DELETE", "/v1/tenants/umbrella", None, {}),
    "tenant-remove-absent": ("DELETE", "/v1/tenants/nobody", None, {}),
    "tenant-patch-absent": ("PATCH", "/v1/tenants/nobody", {"quota": {"nodes": 1}}, {}),
    "principal-bad-role": ("POST", "/v1/principals", {"name": "eve", "tenant": "acme", "role": "king"}, {}),
    "principal-no-tenant": ("POST", "/v1/principals", {"name": "eve", "role": "member"}, {}),
    "principal-admin-with-tenant": ("POST", "/v1/principals", {"name": "eve", "tenant": "acme", "role": "admin"}, {}),
    "principal-unknown-tenant": ("POST", "/v1/principals", {"name": "eve", "tenant": "nobody", "role": "member"}, {}),
    "principal-exists": ("POST", "/v1/principals", {"name": "ada", "role": "admin"}, {}),
    "principal-remove-absent": ("DELETE", "/v1/principals/nobody", None, {}),
    "token-unknown-principal": ("POST", "/v1/tokens", {"principal": "nobody"}, {}),
    "token-bad-expiry": ("POST", "/v1/tokens", {"principal": "ada", "expires_in": "soon"}, {}),
    "token-zero-expiry": ("POST", "/v1/tokens", {"principal": "ada", "expires_in": "0s"}, {}),
    "token-negative-expiry": ("POST", "/v1/tokens", {"principal": "ada", "expires_in": "-1d"}, {}),
    "token-long-note": ("POST", "/v1/tokens", {"principal": "ada", "note": "n" * 300}, {}),
    "token-escape-note": ("POST", "/v1/tokens", {"principal": "ada", "note": "\x1b]0;mine\x07 \x9b2J \u202e"}, {}),
    "token-remove-absent": ("DELETE", "/v1/tokens/0aaaaaaaaaaa", None, {}),
}

HEAD = b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/clusters?tenant=acme HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
# name: bytes on the wire; the connection then ends from our side. The answer may be none: then weftd closes without a word.
RAW = {
    "raw-nothing": b"",
    "raw-noise": bytes(range(256)) * 4,
    "raw-tls-hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "raw-no-version": b"GET /v1/version\r\n\r\n",
    "raw-bad-version": b"GET /v1/version HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "raw-no-host": b"GET /v1/version HTTP/1.1\r\n\r\n",
    "raw-header-without-colon": HEAD + b"nonsense\r\n\r\n",
    "raw-space-before-colon": HEAD + b"Content-Length : 0\r\n\r\n",
    "raw-folded-header": HEAD + b"X-A: b\r\n c\r\n\r\n",
    "raw-nul-in-header": HEAD + b"X-A: b\x00c\r\n\r\n",
    "raw-long-request-line": b"GET /v1/" + b"a" * 70000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw-many-headers": HEAD + b"".join(b"X-%d: y\r\n" % i for i in range(2000)) + b"\r\n",
    "raw-length-negative": POST + b"Content-Length: -1\r\n\r\n{}",
    "raw-length-text": POST + b"Content-Length: ten\r\n\r\n{}",
    "raw-length-huge": POST + b"Content-Length: 18446744073709551617\r\n\r\n{}",
    "raw-length-too-large": POST + b"Content-Length: 1073741824\r\n\r\n{}",
    "raw-length-twice": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "raw-length-and-chunked": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "raw-chunk-size-bad": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    "raw-chunk-too-large": POST + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}\r\n",
    "raw-encoding-unknown": POST + b"Transfer-Encoding: gzip\r\n\r\n{}",
    "raw-body-cut-off": POST + b"Content-Length: 100\r\n\r\n{}",
    "raw-absolute-uri": b"GET http://elsewhere/v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "raw-connect": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
}

TOKENS = {
    "auth-none": None,
    "auth-empty": "",
    "auth-basic": "Basic YWRhOmFkYQ==",
    "auth-no-token": "Bearer",
    "auth-nonsense": "Bearer nonsense",
    "auth-unknown-id": "Bearer weft_0aaaaaaaaaaa_" + "A" * 43,
    "auth-wrong-secret": "Bearer weft_{id}_" + "A" * 43,
    "auth-cut-secret": "Bearer {cut}",
    "auth-longer-secret": "Bearer {token}x",
    "auth-upper-case": "Bearer {upper}",
    "auth-two-tokens": "Bearer {token}, Bearer {token}",
    "auth-long": "Bearer weft_" + "a" * 5000,
    "auth-revoked": "Bearer {revoked}",
}


def shape(answer):
    """What the golden file keeps of an answer."""
    kept = {"status": answer.status}
    for header in ("Allow", "Content-Type", "WWW-Authenticate"):
        if header in answer.headers:
            kept[header] = answer.headers[header]
    kept["body"] = json.loads(answer.text) if answer.text else None
    return kept


@pytest.fixture(scope="module")
def quiet(request, certificate):
    """A site with a cluster that is ready, where nothing moves by itself."""
    weft = Weft(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]},
                         "control": {"scan_interval": "1h"}})
    # What ends in the middle of a request is given up after this time.
    weft.config["api"]["idle_timeout"] = "1s"
    request.addfinalizer(weft.remove)
    weft.start()
    weft.client.create("there", 1)
    weft.client.wait_phase("there", "ready")
    weft.client.expect(201, "POST", "/v1/hosts", host("n8", labels={"room": "8"}))
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "hooli"})
    weft.client.create("busy", 1, tenant="hooli", labels={"room": "8"})
    weft.client.wait_phase("busy", "ready", tenant="hooli")
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "ada"})
    revoked = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "ada"})
    weft.client.expect(204, "DELETE", f"/v1/tokens/{revoked['id']}")
    token = made["token"]
    weft.words = {"id": made["id"], "token": token, "cut": token[:-1], "upper": token.upper(), "revoked": revoked["token"]}
    weft.before = weft.dump().document
    yield weft
    weft.stop()


def refused(weft, name, answer):
    if answer.status < 400:
        weft.before = weft.dump().document  # the other cases go on from here
        raise AssertionError(f"{name} was accepted: {answer.text}")
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json
    assert problem["status"] == answer.status and problem["detail"]
    golden.check("http", name, shape(answer))
    assert weft.dump().document == weft.before


@pytest.mark.parametrize("name", SPECS)
def test_specification(quiet, name):
    body = SPECS[name]
    refused(quiet, name, quiet.client.request("POST", CLUSTERS, body if body is not None else b"null"))


@pytest.mark.parametrize("name", TEXTS)
def test_json(quiet, name):
    refused(quiet, name, quiet.client.request("POST", CLUSTERS, TEXTS[name]))


@pytest.mark.parametrize("name", REQUESTS)
def test_request(quiet, name):
    method, path, body, headers = REQUESTS[name]
    refused(quiet, name, quiet.client.request(method, path, body, headers))


def on_the_wire(weft, data):
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
        connection.settimeout(20)
        connection.connect(str(weft.socket))
        answer = b""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            while chunk := connection.recv(65536):
                answer += chunk
        return answer.split(b"\r\n", 1)[0].decode(errors="replace")


@pytest.mark.parametrize("name", RAW)
def test_raw(quiet, name):
    """libmicrohttpd answers what is no HTTP; we keep its status line, and that weftd goes on as if nothing had been."""
    golden.check("http", name, {"status_line": on_the_wire(quiet, RAW[name])})
    assert quiet.client.get("/v1/version")["name"] == "weft"
    assert quiet.dump().document == quiet.before


@pytest.mark.parametrize("name", TOKENS)
def test_token(quiet, certificate, name):
    client = quiet.tls_client(None, certificate["certificate"])
    text = TOKENS[name]
    headers = {} if text is None else {"Authorization": text.format(**quiet.words)}
    answer = client.request("GET", "/v1/clusters", headers=headers)
    assert answer.status in (401, 431), answer.text
    refused(quiet, name, answer)


def test_no_golden_is_forgotten():
    cases = [*SPECS, *TEXTS, *REQUESTS, *RAW, *TOKENS]
    assert len(cases) == len(set(cases))
    assert golden.names("http") == set(cases)
