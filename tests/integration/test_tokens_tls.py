"""TCP with TLS and bearer tokens: shown once, stored hashed, revocable."""

import contextlib
import os
import socket
import ssl
import subprocess

import pytest


@pytest.fixture
def secure(site, certificate):
    return site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})


def client(weft, certificate, principal, **spec):
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": principal} | spec)
    return made, weft.tls_client(made["token"], certificate["certificate"])


def test_token_is_its_principal(secure, certificate):
    _, member = client(secure, certificate, "acme-member")
    assert member.get("/v1/whoami") == {"name": "acme-member", "tenant": "acme", "role": "member"}
    made = member.expect(201, "POST", "/v1/clusters", {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"})
    assert (made["tenant"], made["creator"]) == ("acme", "acme-member")
    secure.client.wait_phase("cfd", "ready")
    node = member.items("/v1/clusters/cfd/nodes")[0]
    assert "host" not in node and "core_ids" not in node


def test_token_is_shown_once_and_stored_hashed(secure, certificate):
    made, member = client(secure, certificate, "acme-member", note="laptop")
    secret = made["token"].rsplit("_", 1)[1]
    assert made["token"] not in str(secure.client.items("/v1/tokens"))
    assert secret not in str(secure.dump().document)
    stored = b"".join(path.read_bytes() for path in secure.root.glob("weft.db*"))
    assert secret.encode() not in stored
    assert secret not in secure.log.read_text(encoding="utf-8")
    assert [token["note"] for token in member.items("/v1/tokens")] == ["laptop"]


def test_revoked_token_is_nobody(secure, certificate):
    made, member = client(secure, certificate, "acme-member")
    member.get("/v1/whoami")
    member.expect(204, "DELETE", f"/v1/tokens/{made['id']}")
    assert member.request("GET", "/v1/whoami").status == 401


def test_tokens_go_with_their_principal(secure, certificate):
    secure.client.expect(201, "POST", "/v1/principals", {"name": "temp", "tenant": "acme", "role": "viewer"})
    _, viewer = client(secure, certificate, "temp")
    viewer.get("/v1/whoami")
    secure.client.expect(204, "DELETE", "/v1/principals/temp")
    assert viewer.request("GET", "/v1/whoami").status == 401
    assert secure.client.items("/v1/tokens") == []


def test_expired_token_is_nobody(secure, certificate):
    from harness.wait import until

    _, viewer = client(secure, certificate, "acme-viewer", expires_in="300ms")
    until(lambda: viewer.request("GET", "/v1/whoami").status == 401, "the token has expired")


def test_member_makes_tokens_for_itself_only(secure, certificate):
    _, member = client(secure, certificate, "acme-member")
    own = member.expect(201, "POST", "/v1/tokens", {"note": "second"})
    assert own["principal"] == "acme-member"
    assert member.request("POST", "/v1/tokens", {"principal": "ada"}).status in (403, 404)
    foreign = secure.client.expect(201, "POST", "/v1/tokens", {"principal": "umbrella-member"})
    assert member.request("DELETE", f"/v1/tokens/{foreign['id']}").status == 404


def test_plain_http_is_not_spoken_on_tls(secure):
    with contextlib.closing(socket.create_connection(("127.0.0.1", secure.tcp_port()), timeout=20)) as connection:
        connection.sendall(b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with contextlib.suppress(ConnectionResetError):
            assert b"weft" not in connection.recv(4096)
    assert secure.client.get("/v1/version")["api"] == "v1"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_tls_is_refused(secure, certificate):
    context = ssl.create_default_context(cafile=certificate["certificate"])
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", secure.tcp_port()), timeout=20) as connection:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            context.wrap_socket(connection, server_hostname="127.0.0.1")


def test_silent_connections_do_not_block_others(secure, certificate):
    _, member = client(secure, certificate, "acme-member")
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", secure.tcp_port()), timeout=20)))
        assert member.get("/v1/whoami")["name"] == "acme-member"


def test_rate_limit(site, certificate):
    weft = site(changes={"api": {"requests_per_second": 1, "requests_burst": 5, "tcp": "127.0.0.1:0",
                                 "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    _, viewer = client(weft, certificate, "acme-viewer")
    answers = [viewer.request("GET", "/v1/whoami") for _ in range(20)]
    refused = [answer for answer in answers if answer.status == 429]
    assert refused and all(int(answer.headers["Retry-After"]) >= 1 and answer.json["code"] == "busy" for answer in refused)
    _, other = client(weft, certificate, "umbrella-viewer")
    assert other.request("GET", "/v1/whoami").status == 200, "one principal's hurry is not another's"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_unix_socket_knows_who_calls(site):
    weft = site(changes={"principals": [{"name": "nemo", "tenant": "acme", "role": "viewer", "unix_user": "nobody"}]})
    weft.root.chmod(0o755)

    def whoami(user):
        program = ("import http.client, socket, sys; c = http.client.HTTPConnection('localhost'); "
                   "c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1]); c.request('GET', '/v1/whoami'); "
                   "r = c.getresponse(); print(r.status, r.read().decode())")
        return subprocess.run(["/usr/bin/python3", "-c", program, str(weft.socket)], user=user, group="nogroup", extra_groups=[],
                              capture_output=True, text=True, check=True).stdout

    assert '"nemo"' in whoami("nobody")
    assert whoami("daemon").startswith("401 ")
