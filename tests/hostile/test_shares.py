"""One tenant takes all that it can get: others, and operators, still get theirs."""

import contextlib
import hashlib
import itertools
import os
import re
import select
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.wait import PATIENCE, until
from harness.weft import Client, UnixConnection
from harness.wire import raw, request_text
from test_checkpoints import COLD, files
from test_images import upload

USERS = [{"name": f"acme-{n}", "tenant": "acme", "role": "member"} for n in range(4)]
UPGRADE = ("Connection: Upgrade", "Upgrade: weft-session/1")
OK, SWITCHED, BUSY = b"HTTP/1.1 200", b"HTTP/1.1 101", b"HTTP/1.1 429"


def crowded(site, **api):
    """A site where the tenant acme has four users more, with the tokens of all of them."""
    weft = site()
    weft.stop()
    weft.config["api"] |= api
    weft.config["principals"] += USERS
    weft.start()
    return weft, [weft.token(user["name"]) for user in USERS]


def client(weft, principal):
    return Client(lambda: UnixConnection(weft.socket), weft.token(principal))


@contextlib.contextmanager
def take(weft, text, times):
    """The statuses of as many connections, all of which stay open."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(contextlib.closing(raw(weft, text))) for _ in range(times)]
        yield [connection.recv(4096)[:12] for connection in connections]


@contextlib.contextmanager
def take_all(weft, tokens, text_of, times=16):
    with contextlib.ExitStack() as stack:
        yield [status for token in tokens for status in stack.enter_context(take(weft, text_of(token), times))]


def stream_text(token):
    return request_text("/v1/events", token, "Accept: text/event-stream")


def session_text(token, cluster="cfd"):
    return request_text(f"/v1/clusters/{cluster}/nodes/0/session", token, *UPGRADE)


def test_users_of_one_tenant_cannot_take_all_streams(site):
    weft, tokens = crowded(site, streams=16)
    with take_all(weft, tokens, stream_text) as statuses:
        assert statuses.count(OK) == 7 and statuses.count(BUSY) == 4 * 16 - 7
        with take(weft, stream_text(weft.token("umbrella-viewer")), 1) as mine:
            assert mine == [OK]


def test_users_of_one_tenant_cannot_take_all_sessions(site):
    weft, tokens = crowded(site, sessions=16)
    weft.client.create("cfd", 1)
    weft.client.create("md", 1, tenant="umbrella")
    weft.client.wait_phase("cfd", "ready")
    weft.client.wait_phase("md", "ready", tenant="umbrella")
    with take_all(weft, tokens, session_text) as statuses:
        assert statuses.count(SWITCHED) == 7 and statuses.count(BUSY) == 4 * 16 - 7
        with take(weft, session_text(weft.token("umbrella-member"), "md"), 1) as mine:
            assert mine == [SWITCHED]


def test_operators_get_in_when_tenants_have_taken_everything(site):
    weft, tokens = crowded(site, streams=16)
    with take_all(weft, [*tokens, weft.token("umbrella-viewer")], stream_text), take_all(weft, [weft.token("umbrella-member")], stream_text):
        with take(weft, stream_text(weft.token("olga")), 1) as mine, take(weft, stream_text(weft.token("ada")), 1) as ada:
            assert mine == [OK] and ada == [OK]


def test_what_ended_is_there_for_others(site):
    weft, tokens = crowded(site, streams=16)

    def one_more():
        with take(weft, stream_text(tokens[0]), 1) as statuses:
            return statuses == [OK]

    with take_all(weft, tokens[:1], stream_text) as statuses:
        assert statuses.count(OK) == 4 and not one_more()
    until(one_more, "weftd learns that clients hung up, though it has nothing to send")


DEAR = {"name": "cfd", "count": 362, "cores": 1, "memory": "256M", "image": "mpi", "matrix": [[1] * 362 for _ in range(362)]}


def ask_dear(user):
    return user.request("POST", "/v1/placements", DEAR)


def put_in_debt(spender, debtor):
    """One asks for what costs much until another is refused. Returns until when that is so for sure: it is told in whole seconds, rounded up."""
    def refused():
        ask_dear(spender)
        asked = time.monotonic()
        answer = debtor.request("GET", "/v1/version")
        left = int(answer.headers["Retry-After"]) - 1 if answer.status == 429 else 0
        return left and asked + left

    return until(refused, "it is in debt")


def while_in_debt(spender, debtor, act):
    """Puts one in debt and acts. Returns what that returned, of a time when it ended before the debt did."""
    for _ in range(10):
        ends = put_in_debt(spender, debtor)
        result = act()
        if time.monotonic() < ends:
            return result
    pytest.fail("it was never in debt for long enough to tell")


def test_processor_time_is_charged_to_the_tenant(site):
    """Requests that cost much are few: however many users send them, and however many of them are allowed."""
    weft, tokens = crowded(site, processor_per_tenant=1)
    users = [Client(lambda: UnixConnection(weft.socket), token) for token in tokens]
    answers = [ask_dear(user) for user in users for _ in range(4)]
    refused = [answer for answer in answers if answer.status == 429]
    assert len(refused) >= 8, [answer.status for answer in answers]
    assert all(int(answer.headers["Retry-After"]) >= 1 and "of weftd's time" in answer.json["detail"] for answer in refused)

    def ask_cheap():
        return [users[1].request("GET", "/v1/version").status, users[1].request("POST", "/v1/placements", {"name": "md"}).status,
                client(weft, "umbrella-viewer").request("GET", "/v1/version").status, client(weft, "olga").request("GET", "/v1/version").status]

    assert while_in_debt(users[0], users[1], ask_cheap) == [429, 429, 200, 200]


def test_streams_wait_while_their_tenant_is_in_debt(site):
    """What a stream reads is charged like requests are; it goes on when that is paid."""
    weft, tokens = crowded(site, processor_per_tenant=1)
    names = (f"md{number}" for number in itertools.count())
    with contextlib.closing(raw(weft, stream_text(tokens[1]))) as stream:
        assert stream.recv(4096).startswith(OK)
        stream.settimeout(PATIENCE * 2)

        def make_event():
            while select.select([stream], [], [], 0)[0]:
                assert stream.recv(65536), "what it heard before"
            name = next(names)
            weft.client.create(name, 1)
            until(lambda: weft.client.cluster(name), "there is an event")
            return select.select([stream], [], [], 0)[0]

        spender, debtor = (Client(lambda: UnixConnection(weft.socket), token) for token in tokens[:2])
        heard = while_in_debt(spender, debtor, make_event)
        assert not heard, "it heard something while it was in debt"
        assert b"md" in stream.recv(65536)


def test_requests_are_counted_for_the_tenant(site):
    weft, tokens = crowded(site)
    others = [weft.token("umbrella-viewer"), weft.token("olga")]
    weft.stop()
    weft.config["api"] |= {"requests_per_second": 1, "requests_burst": 10}
    weft.start()
    answers = [Client(lambda: UnixConnection(weft.socket), token).request("GET", "/v1/version").status for token in tokens for _ in range(10)]
    assert answers.count(429) >= 10
    for token in others:
        assert Client(lambda token=token: UnixConnection(weft.socket), token).request("GET", "/v1/version").status == 200


def test_the_command_line_waits_as_long_as_it_is_asked_to(site):
    weft, tokens = crowded(site)
    weft.stop()
    weft.config["api"] |= {"requests_per_second": 1, "requests_burst": 1}
    weft.start()
    with ThreadPoolExecutor(2) as pool:
        ask = lambda _: weft.cli("ls", env={"WEFT_TOKEN": tokens[0]}).stderr  # noqa: E731
        told = until(lambda: "".join(pool.map(ask, range(2))), "one comes too soon after another")
    assert re.fullmatch(r"weft: more requests a second than .* \(trying again in [1-9] s, 1 of 5\)", told.splitlines()[0])


def test_strangers_use_up_nothing_but_their_own(site):
    weft, tokens = crowded(site)
    weft.stop()
    weft.config["api"] |= {"requests_per_second": 1, "requests_burst": 40}
    weft.start()
    stranger = Client(lambda: UnixConnection(weft.socket), "weft_0_0")
    answers = [stranger.request("GET", "/v1/version") for _ in range(40)]
    assert {answer.status for answer in answers} == {401, 429}
    assert sum(answer.status == 401 for answer in answers) <= 20
    assert Client(lambda: UnixConnection(weft.socket), tokens[0]).request("GET", "/v1/version").status == 200


def test_refusals_are_not_given_at_full_speed(site):
    """Whoever asks on and on while in debt gets its answers later, all of them; others do not wait for that."""
    weft, tokens = crowded(site)
    weft.stop()
    weft.config["api"] |= {"requests_per_second": 1, "requests_burst": 1}
    weft.start()
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(raw(weft, request_text("/v1/version", tokens[0])))) for _ in range(200)]
        assert weft.client.get("/v1/version")["api"] == "v1"
        assert len(select.select(asking, [], [], 0)[0]) < 200
        for connection in asking:
            connection.settimeout(60)
        statuses = [connection.recv(4096)[:12] for connection in asking]
        assert set(statuses) <= {OK, BUSY} and statuses.count(BUSY) > 100


def test_a_page_ends_by_its_bytes(site):
    """However large what somebody has in the store is, an answer takes a bounded time to make; the next page goes on where it ended."""
    weft = site()
    for number in range(70):
        weft.client.create(f"c{number}", 1, user_data="#cloud-config\n" + "#" * 65000)
    page = weft.client.get("/v1/clusters", limit=1000)
    assert page["next"] and len(page["items"]) < 70
    assert len({item["name"] for item in weft.client.items("/v1/clusters", limit=1000)}) == 70


BOMBS = ["n[0-65535]" + "[0-65535]" * 25, "n[0-255][0-255]", "n[1-"]


def test_lists_of_hosts_are_refused_before_they_are_read(site):
    """Who may not name hosts is told so, whatever the list says."""
    weft = site()
    member = client(weft, "acme-member")
    for path in ("/v1/clusters", "/v1/placements"):
        for bomb in BOMBS:
            answer = member.request("POST", path, {"name": "cfd", "count": 1, "cores": 1, "memory": "256M", "image": "mpi", "hosts": bomb})
            assert answer.status == 403 and "only operators may name hosts" in answer.json["detail"], (path, bomb, answer)
    answer = client(weft, "acme-viewer").request("POST", "/v1/reservations", {"hosts": BOMBS[0]})
    assert answer.status == 403


def test_long_bodies_share_places(site):
    """Bodies that have begun and do not end hold memory: one principal has a part of all, and short ones always get through."""
    weft, tokens = crowded(site, uploads=8)
    begun = (request_text("/v1/clusters", tokens[0], "Content-Type: application/json", "Content-Length: 900000", method="POST") + b" " * 100000)
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(raw(weft, begun))) for _ in range(4)]
        answer = Client(lambda: UnixConnection(weft.socket), tokens[0]).request("POST", "/v1/clusters", b"{" + b" " * 200000 + b"}")
        assert answer.status == 429 and "long uploads" in answer.json["detail"]
        assert Client(lambda: UnixConnection(weft.socket), tokens[0]).request("POST", "/v1/clusters", b"{}").status == 400
        assert client(weft, "umbrella-member").request("POST", "/v1/clusters", b"{" + b" " * 200000 + b"}").status == 400
        assert len(held) == 4


def make_slow_image(weft):
    """An image whose file is a pipe: who reads its beginning waits until somebody writes. Returns the pipe's path."""
    data = bytes(4096)
    digest = hashlib.sha256(data).hexdigest()
    weft.client.expect(200, "PATCH", f"/v1/blobs/{digest}?offset=0&size={len(data)}", data, {"Content-Type": "application/octet-stream"})
    weft.client.expect(201, "POST", "/v1/images", {"name": "slow", "disk": {"digest": digest, "size": len(data), "format": "raw"}})
    path = weft.root / "images" / digest
    path.unlink()
    os.mkfifo(path)
    return path


def test_slow_reads_of_one_tenant_hold_nobody_up(site):
    """All that acme may have of weftd's readers hangs in the file of an image: others and operators are answered, and then acme, too."""
    weft, tokens = crowded(site)
    pipe = make_slow_image(weft)
    with contextlib.ExitStack() as stack:
        waiting = []
        for n in range(3 * len(tokens)):
            body = {"name": f"slow{n}", "count": 1, "cores": 1, "memory": "256M", "image": "slow"}
            text = request_text("/v1/clusters", tokens[n % len(tokens)], method="POST", body=body)
            waiting.append(stack.enter_context(contextlib.closing(raw(weft, text))))
        assert client(weft, "umbrella-viewer").get("/v1/clusters")["items"] == []
        assert weft.client.get("/v1/hosts")["items"]
        weft.client.create("cfd", 2)
        writer = os.open(pipe, os.O_WRONLY)
        answers = [connection.recv(4096) for connection in waiting]
        os.close(writer)
    assert all(answer.startswith(b"HTTP/1.1 500") for answer in answers), answers


def take_checkpoint(weft, tenant):
    """A checkpoint "saved" of a tenant's own. Returns the path of a file of it."""
    before = files(weft)
    weft.client.create("cfd", 1, tenant=tenant, **COLD)
    weft.client.wait_phase("cfd", "ready", tenant=tenant)
    weft.client.expect(201, "POST", f"/v1/clusters/cfd/checkpoints?tenant={tenant}", {"name": "saved"})
    until(lambda: weft.client.get("/v1/checkpoints/saved", tenant=tenant)["state"] == "complete", "it is made")
    return weft.root / "images" / min(files(weft) - before)


@contextlib.contextmanager
def unanswering(path):
    """Whoever opens the file in this scope waits until its end; then the file is as it was."""
    aside = path.with_name("aside")
    path.rename(aside)
    os.mkfifo(path)
    try:
        yield
    finally:
        writer = os.open(path, os.O_RDWR)
        aside.rename(path)
    os.close(writer)


def piece_path(path):
    return f"/v1/checkpoints/saved/files/{path.name}"


def test_files_that_do_not_answer_hold_up_who_reads_them(site):
    """All that acme may read of checkpoints at the same time hangs, and nobody waits for it any more: others read theirs, operators write,
    and acme gets no more threads than it has until these come back."""
    weft, tokens = crowded(site)
    mine, theirs = (take_checkpoint(weft, tenant) for tenant in ("acme", "umbrella"))
    member = Client(lambda: UnixConnection(weft.socket), tokens[0])
    with unanswering(mine), contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(raw(weft, request_text(piece_path(mine), token)))) for token in tokens for _ in range(5)]
        refused = until(lambda: len(told := select.select(asking, [], [], 0)[0]) == len(asking) - 7 and told,
                        "acme has seven of sixteen, the others are refused")
        assert {connection.recv(4096)[:12] for connection in refused} == {BUSY}
        stack.close()
        answer = member.request("GET", piece_path(mine))
        assert answer.status == 429 and "pieces of files that are being read" in answer.json["detail"]
        assert client(weft, "umbrella-member").request("GET", piece_path(theirs)).status == 200
        assert client(weft, "olga").request("GET", piece_path(theirs) + "?tenant=umbrella").status == 200
        upload(weft.client, b"of an operator")
    until(lambda: member.request("GET", piece_path(mine)).status == 200, "acme reads what it may again")
