"""What clients have weftd ask of hosts, and hang up on: it neither grows nor delays what weft asks by itself."""

import contextlib
import select
import time

import pytest
from harness.wait import until
from harness.weft import Client, UnixConnection
from harness.wire import raw, request_text, secure

TIMES = 200
WORKERS = 4  # of a host, unless told
LOAD = "/v1/clusters/cfd/load"
SESSION = "/v1/clusters/cfd/nodes/0/session"
CONSOLE = "/v1/clusters/cfd/nodes/0/console"


def counted(site, tmp_path, api=None, **control):
    """A site with a cluster on all its hosts, that tells what it asks of hosts; and looks at them by itself now and then only."""
    weft = site(changes={"control": {"scan_interval": "10m", "list_deadline": "1m"} | control, "api": api or {}})
    weft.client.create("cfd", 4, cores=4)
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    weft.start(failpoint_log=tmp_path / "steps")
    return weft


def begun(tmp_path, step):
    """How many calls of this kind to a host have begun."""
    return (tmp_path / "steps").read_text(encoding="utf-8").split().count(f"{step}-before")


def hang_up(weft, token, path, *headers, times=TIMES):
    """Asks, and hangs up when weftd has heard it, again and again."""
    for _ in range(times // 10):
        with contextlib.ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(contextlib.closing(raw(weft, request_text(path, token, *headers))))
            weft.client.get("/v1/version")
    weft.client.get("/v1/version")


def test_aborted_looks_are_one_look(site, tmp_path):
    """However often a viewer asks for the load of its cluster: one look at each of its hosts is under way for all of them."""
    weft = counted(site, tmp_path)
    until(lambda: begun(tmp_path, "list") >= 4, "weft has looked at its hosts")
    weft.world.fault("hang list")
    before = begun(tmp_path, "list")
    hang_up(weft, weft.token("acme-viewer"), LOAD)
    assert begun(tmp_path, "list") - before <= 4
    weft.world.fault()


def test_a_dead_host_is_noticed_during_aborted_looks(site):
    """Looks that clients ask for have workers of their own: those by which weft notices a lost host do not queue behind them."""
    weft = site(changes={"control": {"workers": 4, "workers_per_host": 2}})
    weft.client.create("cfd", 4, cores=4)
    weft.client.wait_phase("cfd", "ready")
    token = weft.token("acme-viewer")
    weft.world.fault("hang list", host="n1")
    hang_up(weft, token, LOAD)
    until(lambda: any(event["type"] == "host-lost" for event in weft.client.events()), "the lost host is noticed")
    hang_up(weft, token, LOAD)
    weft.world.bring_back("n1")
    until(lambda: any(event["type"] == "host-returned" for event in weft.client.events()), lambda: weft.client.events()[-4:])


def test_all_who_ask_get_the_answer_of_one_look(site, tmp_path):
    weft = counted(site, tmp_path)
    until(lambda: begun(tmp_path, "list") >= 4, "weft has looked at its hosts")
    before = begun(tmp_path, "list")
    weft.world.fault("slow list 500")
    token = weft.token("acme-viewer")
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(raw(weft, request_text(LOAD, token)))) for _ in range(8)]
        answers = [connection.recv(1 << 16).decode() for connection in asking]
    assert all(answer.startswith("HTTP/1.1 200") and answer.count('"cfd[') == 4 for answer in answers), answers
    assert begun(tmp_path, "list") - before <= 2 * 4  # those who came when the first had ended


@pytest.mark.parametrize(("path", "protocol"), [(SESSION, "weft-session/1"), (CONSOLE, "weft-console/1")])
def test_aborted_sessions_leave_nothing_in_the_queue(site, tmp_path, path, protocol):
    """A session to a node whose host hangs is opened once, for whoever is there then; a console that nobody waits for is not opened."""
    deadline = 2
    weft = counted(site, tmp_path, link_idle="10ms", list_deadline=f"{deadline}s")
    weft.world.fault("hang open")
    since = time.monotonic()
    before = begun(tmp_path, "open")
    token = weft.token("acme-member")
    headers = ("Connection: Upgrade", f"Upgrade: {protocol}")
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(contextlib.closing(raw(weft, request_text(path, token, *headers)))) for _ in range(2)]
        until(lambda: begun(tmp_path, "open") > before, "the host is asked")
        hang_up(weft, token, path, *headers)
        # Those that wait, what weft asks of each node by itself, and what had begun before who asked hung up, which is no more than a
        # host has workers: again whenever the deadline has passed.
        assert begun(tmp_path, "open") - before <= (2 + 4 + WORKERS) * (1 + (time.monotonic() - since) // deadline)
        assert len(held) == 2
    weft.world.fault()

    def opens():
        with contextlib.closing(raw(weft, request_text(path, token, *headers))) as connection:
            return connection.recv(12) == b"HTTP/1.1 101"

    until(opens, "it is opened for who waits")


def test_aborted_dry_runs_end_quietly(weft):
    """A worker that computes one comes back when its client has gone: to nobody."""
    token = weft.token("acme-member")
    spec = {"name": "md", "count": 90, "cores": 1, "memory": "256M", "image": "mpi", "matrix": [[1] * 90 for _ in range(90)]}
    for _ in range(10):
        with contextlib.closing(raw(weft, request_text("/v1/placements", token, method="POST", body=spec))):
            weft.client.get("/v1/version")
    tried = Client(lambda: UnixConnection(weft.socket), token)
    until(lambda: tried.request("POST", "/v1/placements", spec).status == 200, "the next one is answered")


@pytest.mark.parametrize("connect", [raw, secure])
def test_hanging_up_is_noticed(site, tmp_path, certificate, connect):
    """A question that hangs, and whose client has gone, leaves its place to the next one: on every way to weftd."""
    weft = counted(site, tmp_path, api={"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]})
    until(lambda: begun(tmp_path, "list") >= 4, "weft has looked at its hosts")
    weft.world.fault("hang list")
    token = weft.token("acme-viewer")

    def is_taken():
        with contextlib.closing(raw(weft, request_text(LOAD, token))) as next_one:
            return not select.select([next_one], [], [], 2)[0]

    with contextlib.closing(raw(weft, request_text(LOAD + "?tenant=acme", weft.token("olga")))) as older:
        with contextlib.ExitStack() as stack:
            asking = [stack.enter_context(contextlib.closing(connect(weft, request_text(LOAD, token)))) for _ in range(16)]
            until(lambda: len(select.select(asking, [], [], 0)[0]) == 8, "those that are too many are refused")
        until(is_taken, "the places of those who hung up are free")
        assert not select.select([older], [], [], 0)[0], "one that was asked before them would have been given up, too"
    weft.world.fault()


def test_questions_are_few(site, tmp_path):
    """Of those who wait, each has a part; operators ask on."""
    weft = counted(site, tmp_path)
    weft.world.fault("hang list", "hang inspect")
    with contextlib.ExitStack() as stack:
        asking = [stack.enter_context(contextlib.closing(raw(weft, request_text(LOAD, weft.token("acme-viewer"))))) for _ in range(20)]
        until(lambda: len(select.select(asking, [], [], 0)[0]) == 12, "those that are too many are refused")
        assert {connection.recv(12) for connection in select.select(asking, [], [], 0)[0]} == {b"HTTP/1.1 429"}
        weft.world.fault()
        assert Client(lambda: UnixConnection(weft.socket), weft.token("olga")).get("/v1/hosts/n1/doctor")["host"] == "n1"


def test_an_admin_gives_orders_and_hangs_up(weft):
    """What cannot be called off ends without whoever asked for it."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    other = next(name for name in ("n1", "n2") if name != node["host"])
    for number in range(20):
        weft.world.add_stray(other, f"weft-0zzzzzzzz{number:03}-7", like=f"weft-{node['id']}")
        (item,) = until(lambda: weft.client.items("/v1/site"), "it is held")
        order = {"host": other, "keys": [item["key"]]}
        raw(weft, request_text("/v1/site/remove", None, method="POST", body=order)).close()
        # Where weftd heard nothing of the order it is given again.
        until(lambda: weft.client.request("POST", "/v1/site/remove", order).status in (204, 409)
              and not weft.world.where(f"weft-0zzzzzzzz{number:03}-7"), "it is removed")
        until(lambda: not weft.client.items("/v1/site"), "nothing is held")
    weft.stop()


def domains(weft):
    return {host: names for host, names in weft.world.domains().items() if names}


def reason(weft, host):
    return weft.client.get(f"/v1/hosts/{host}").get("reason") or ""


def cut_off(site, hosts, how="lost"):
    """A site whose hosts all fall silent at once: not one of them is given up."""
    weft = site(hosts=hosts, changes={"control": {"host_grace": "300ms"}})
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    names = [f"n{i + 1}" for i in range(hosts)]
    before = domains(weft)
    weft.world.fault(how)
    until(lambda: all("weftd may be cut off" in reason(weft, name) for name in names), lambda: {name: reason(weft, name) for name in names})
    return weft, names, before


def test_a_weftd_that_is_cut_off_gives_nobody_up(site):
    weft, names, before = cut_off(site, 3)
    weft.stop()
    weft.start()
    until(lambda: all("weftd may be cut off" in reason(weft, name) for name in names), "nor after a restart")
    weft.world.fault()  # all at once: who is silent for longer than others is lost
    until(lambda: all(weft.client.get(f"/v1/hosts/{name}")["state"] == "up" and not reason(weft, name) for name in names), "they are back")
    weft.client.wait_phase("cfd", "ready")
    assert domains(weft) == before, "its nodes were not started again"
    assert not [event for event in weft.client.events() if event["type"] in ("host-lost", "garbage-removed", "node-lost")]


def test_a_look_that_hung_through_the_cut_tells_nothing(site):
    """It fails when others answer again, but it began before they did."""
    weft, names, before = cut_off(site, 3, "hang list")
    weft.world.lose("n1")
    weft.world.fault("hang list")
    until(lambda: weft.client.get("/v1/hosts/n1")["reason"], "it refuses, and the others hang")
    weft.world.bring_back("n1")
    weft.world.fault()
    until(lambda: all(weft.client.get(f"/v1/hosts/{name}")["state"] == "up" and not reason(weft, name) for name in names), "they are back")
    assert domains(weft) == before, "its nodes were not started again"
    assert not [event for event in weft.client.events() if event["type"] in ("host-lost", "node-lost")]


def test_who_is_lost_is_given_up_once_others_answer(site):
    weft, names, _before = cut_off(site, 2)
    weft.world.lose(names[1])
    weft.world.fault()
    until(lambda: weft.client.get(f"/v1/hosts/{names[1]}")["state"] == "lost", "the other one is lost")
    # The cluster learns of it a moment later, and is what it was until then.
    until(lambda: {node["host"] for node in weft.client.nodes("cfd")} == {names[0]}, lambda: f"its nodes went: {weft.client.nodes('cfd')}")
    weft.client.wait_phase("cfd", "ready")


def test_an_operator_gives_a_silent_host_up(site):
    weft, names, _before = cut_off(site, 2)
    weft.client.expect(200, "POST", f"/v1/hosts/{names[0]}/drain", {"evict": True})
    until(lambda: weft.client.get(f"/v1/hosts/{names[0]}")["state"] == "lost", lambda: f"it is given up: {reason(weft, names[0])}")
    assert weft.client.get(f"/v1/hosts/{names[1]}")["state"] != "lost"


def test_guests_that_break_their_links_are_not_looked_at_for_ever(site, tmp_path):
    """A link that breaks has its host looked at, and its guests asked again, which break it again: but for the first time, that waits
    for the next look that is due anyway. One that breaks once is looked at at once."""
    weft = counted(site, tmp_path, backoff_base="5m", backoff_max="5m")
    until(lambda: begun(tmp_path, "open") >= 4, "all guests were asked once")
    weft.stop()
    weft.world.fault("fail greeted")
    weft.start(failpoint_log=tmp_path / "again")
    asked = lambda step: (tmp_path / "again").read_text(encoding="utf-8").split().count(f"{step}-before")  # noqa: E731
    until(lambda: asked("open") >= 8, "the first break of each had its host looked at at once")
    for _ in range(300):
        weft.client.get("/v1/version")
    assert asked("open") == 8 and asked("list") <= 4 * 4
    weft.world.fault()
    weft.client.create("md", 4, cores=1)
    weft.client.wait_phase("md", "ready")
    weft.client.wait_phase("cfd", "ready")
