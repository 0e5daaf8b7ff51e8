"""What goes wrong at the worst moment: the store refuses a write, a host goes and comes at once, the manager hangs."""

import contextlib
import fcntl
import json
import socket
import sqlite3
import threading
import time

from harness.invariants import ledger
from harness.wait import PATIENCE, until
from harness.weft import host
from harness.wire import finish_together, request_text

REFUSE = """CREATE TRIGGER refuse_{when} BEFORE {when} ON record WHEN NEW.kind = '{kind}' AND {condition}
            BEGIN SELECT RAISE(ABORT, 'refused'); END"""


@contextlib.contextmanager
def refusing(weft, kind, condition="TRUE"):
    """The store refuses records of this kind for a while, as a full disk would; condition is SQL about NEW."""

    def run(*statements):
        with contextlib.closing(sqlite3.connect(weft.config["store"]["path"], timeout=30, isolation_level=None)) as db:
            for statement in statements:
                db.execute(statement)

    whens = ("INSERT", "UPDATE")
    run(*(REFUSE.format(when=when, kind=kind, condition=condition) for when in whens))
    try:
        yield
    finally:
        run(*(f"DROP TRIGGER refuse_{when}" for when in whens))


def log_has(weft, text, times=1):
    return weft.log.read_text(encoding="utf-8").count(text) >= times


def wait_for_room(weft, name, timeout=PATIENCE):
    until(lambda: "no room" in (weft.client.cluster(name)["reason"] or ""), "it waits for room", timeout)


def test_progress_that_could_not_be_written(weft, settle):
    """A store that refuses is asked again from time to time, and so are hosts and fabric."""
    with refusing(weft, "cluster-status", "json_extract(NEW.value, '$.phase') = 'starting'"):
        begin = time.monotonic()
        weft.client.create("cfd", 2)
        until(lambda: log_has(weft, "cannot be written", 3), "the store refused thrice")
        assert time.monotonic() - begin > 1, "over and over"
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


def test_placement_that_could_not_be_written(site, settle):
    """What was reserved for it is free again."""
    weft = site(hosts=1)
    with refusing(weft, "node"):
        weft.client.create("cfd", 2, cores=3)
        until(lambda: log_has(weft, "cannot be written"), "the store refused")
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


def test_rewiring_that_could_not_be_written(weft, settle):
    """What the fabric is told is recorded first: a later change of the members is never mistaken for it."""
    weft.client.create("cfd", 2)
    ready = weft.client.wait_phase("cfd", "ready")
    settle(weft)
    weft.world.fabric_fault("slow apply 1500")
    with refusing(weft, "cluster-status", "json_extract(NEW.value, '$.generation') > json_extract(NEW.value, '$.wired')"):
        next(weft.world.fabric.glob(f"**/partitions/{ready['partition']}")).unlink()
        until(lambda: log_has(weft, "cannot be written"), "the store refused")
    settle(weft)
    weft.world.fabric_fault()
    weft.client.scale("cfd", 3)
    weft.client.wait_phase("cfd", "ready", ready=3)
    settle(weft)


def test_renumbering_that_could_not_be_written(weft, settle):
    weft.client.create("cfd", 1)
    ready = weft.client.wait_phase("cfd", "ready")
    settle(weft)
    with refusing(weft, "cluster-status"):
        weft.world.add_foreign_partition(int(ready["partition"], 16))
        until(lambda: log_has(weft, "cannot be written"), "the store refused")
    weft.client.scale("cfd", 2)
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


def test_state_of_a_host_that_could_not_be_written(weft):
    with refusing(weft, "host-status"):
        weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
        until(lambda: log_has(weft, "cannot be written"), "the store refused")
    until(lambda: weft.client.get("/v1/hosts/n9")["state"] == "up", "it is told to be up")


def test_host_removed_and_added_at_once(weft, settle):
    """… while it is being looked at: the new one is looked at anew, and by its own address."""
    weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
    until(lambda: weft.client.get("/v1/hosts/n9")["state"] == "up", "it is up")
    weft.world.fault("slow list 500", host="n9")
    for _ in range(8):
        weft.client.expect(204, "DELETE", "/v1/hosts/n9")
        weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
        until(lambda: weft.client.get("/v1/hosts/n9")["state"] == "up", "the new one is up")
    settle(weft)


def test_removed_host_takes_no_node_while_it_is_looked_at(site, settle):
    weft = site(hosts=1, changes={"control": {"list_deadline": "20s"}})
    weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
    until(lambda: weft.client.get("/v1/hosts/n9")["state"] == "up", "it is up")
    weft.world.fault("hang list 1", host="n9")
    until(lambda: not (weft.world.hosts / "n9/faults").read_text(encoding="utf-8"), "it is being looked at")
    weft.client.expect(204, "DELETE", "/v1/hosts/n9")
    weft.client.create("wide", 4, cores=3)
    wait_for_room(weft, "wide", timeout=15)  # less than the look takes
    weft.client.delete("wide")
    weft.client.wait_gone("wide")
    settle(weft)


def ended_partition(weft):
    """Number and name of a partition whose cluster has ended, as the store knows."""
    weft.client.create("past", 1)
    number = int(weft.client.wait_phase("past", "ready")["partition"], 16)
    name = weft.world.partitions()[number].name
    weft.client.delete("past")
    weft.client.wait_gone("past")
    return number, name


def test_survey_that_hangs_once(weft, settle):
    number, name = ended_partition(weft)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.world.fabric_fault("hang list 1")
    faults = next(weft.world.fabric.glob("**/faults"))
    until(lambda: "hang" not in faults.read_text(encoding="utf-8"), "the manager was asked")
    weft.world.add_foreign_partition(number, name)
    until(lambda: number not in weft.world.partitions(), "what has ended is removed")
    settle(weft)


def test_smaller_wish_is_tried_at_once(site, settle):
    weft = site(hosts=1, changes={"control": {"backoff_base": "5m", "backoff_max": "5m"}})
    weft.client.create("cfd", 4, cores=3)
    wait_for_room(weft, "cfd")
    weft.client.scale("cfd", 2)
    weft.client.wait_phase("cfd", "ready", ready=2)
    settle(weft)


GROUPS = [{"name": name, "count": 1, "cores": 1, "memory": "128M", "image": "mpi"} for name in ("one", "two")]


def test_queued_again_before_it_was_ever_ready(weft, settle):
    """All its nodes go while there is no room for the one that it wants instead; then it goes, and its partition with it."""

    def scale(group, count):
        weft.client.expect(200, "PATCH", "/v1/clusters/mix?tenant=acme", {"group": group, "count": count})

    weft.world.fault("hang start")
    weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", {"name": "mix", "groups": GROUPS})
    partition = weft.client.wait_phase("mix", "starting")["partition"]
    scale("two", 0)
    until(lambda: len(weft.client.nodes("mix")) == 1, "one node is left")
    for name in ("n1", "n2", "n3", "n4"):
        weft.client.expect(200, "POST", f"/v1/hosts/{name}/drain", {})
    scale("two", 1)
    scale("one", 0)
    weft.client.wait_phase("mix", "queued", nodes=0)
    weft.world.fault()
    weft.client.delete("mix")
    weft.client.wait_gone("mix")
    assert int(partition, 16) not in weft.world.partitions()
    settle(weft)
    assert not [event for event in weft.client.events() if event["type"] == "garbage-removed"]


def test_guests_that_never_answer_hold_up_nobody(site, settle):
    weft = site(hosts=1, changes={"control": {"workers": 2, "workers_per_host": 2, "await_deadline": "5m"}})
    weft.client.create("good", 1)
    weft.client.wait_phase("good", "ready")
    weft.world.fault("hang sync")
    weft.client.create("bad", 3)
    until(lambda: len(weft.world.domains()["n1"]) == 4, "all run")
    weft.client.delete("good")
    weft.client.wait_gone("good")
    weft.client.delete("bad")
    weft.client.wait_gone("bad")
    settle(weft)


def test_stray_that_cannot_be_removed(weft):
    """It is tried at each look, not over and over, and its host takes no nodes until it is gone."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    elsewhere = next(h for h in ("n1", "n2") if h != node["host"])
    weft.world.fault("fail stop 0 it is stuck", host=elsewhere)
    begin = time.monotonic()
    weft.add_ended(elsewhere, "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
    until(lambda: log_has(weft, "it is stuck", 10), "it was tried")
    assert time.monotonic() - begin > 0.5, "over and over"
    weft.client.create("more", 6)
    weft.client.wait_phase("more", "ready")
    assert elsewhere not in [n["host"] for n in weft.client.nodes("more")]
    weft.world.fault(host=elsewhere)
    until(lambda: not weft.world.where("weft-0zzzzzzzzzzz-7"), "it is removed")
    weft.client.create("again", 9)
    weft.client.wait_phase("again", "ready")


def test_answers_and_events_have_ages_of_their_own(site):
    weft = site(changes={"control": {"request_age": "100ms"}})
    weft.client.create("cfd", 1, key="once")
    until(lambda: not weft.dump().values("request"), "the answer is forgotten")
    assert "cluster-created" in [event["type"] for event in weft.client.events()]


def test_many_old_answers_are_dropped_soon(weft):
    weft.stop()
    with contextlib.closing(sqlite3.connect(weft.config["store"]["path"])) as db, db:
        db.executemany("INSERT INTO record (kind, key, scope, place, revision, value) VALUES ('request', ?, '', '', 1, ?)",
                       ((f"old/{i}", json.dumps({"created": 1})) for i in range(1600)))
    weft.start()
    until(lambda: not weft.dump().values("request"), "all are gone")


def test_replacements_get_room_as_soon_as_it_is_made(site, settle):
    weft = site(hosts=2, changes={"control": {"backoff_base": "5m", "backoff_max": "5m"}})
    weft.client.create("one", 2, cores=3)
    weft.client.wait_phase("one", "ready")
    weft.client.create("two", 2, cores=3)
    weft.client.wait_phase("two", "ready")
    moved = weft.client.nodes("one")[0]["host"]
    weft.client.expect(200, "POST", f"/v1/hosts/{moved}/drain", {"evict": True})
    weft.client.delete("two")
    weft.client.wait_gone("two")
    until(lambda: moved not in [node["host"] for node in weft.client.nodes("one")], "its nodes are elsewhere")
    weft.client.wait_phase("one", "ready", ready=2)
    settle(weft)


def test_members_leave_with_their_nodes(weft, settle):
    """At once, not only when a look at the fabric finds them."""
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    weft.world.fabric_fault("fail list 0 not now")
    weft.client.scale("cfd", 1)
    weft.client.wait_phase("cfd", "ready", nodes=1)
    settle(weft)


def test_members_leave_with_their_host(site):
    """Also while there is no room for those that replace them."""
    weft = site(hosts=2)
    weft.client.create("cfd", 4, cores=3)
    partition = int(weft.client.wait_phase("cfd", "ready")["partition"], 16)
    weft.world.lose("n1")
    until(lambda: len(weft.world.partitions()[partition].members) == 2, "those on n1 are out")


def test_host_goes_while_it_gets_a_node(site):
    """No node may be left on a host that is not there."""
    weft = site(hosts=1)
    weft.client.expect(200, "POST", "/v1/hosts/n1/drain", {})
    token = weft.token("ada")
    for n in range(8):
        weft.client.expect(201, "POST", "/v1/hosts", host("n9"))
        until(lambda: weft.client.get("/v1/hosts/n9")["state"] == "up", "it is up")
        body = {"name": f"cfd{n}", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
        made, gone = finish_together(weft, [request_text("/v1/clusters?tenant=acme", token, method="POST", body=body),
                                            request_text("/v1/hosts/n9", token, method="DELETE")])
        assert made[9:12] == "201" and gone[9:12] in ("204", "409"), (made, gone)
        until(lambda name=body["name"]: weft.client.cluster(name)["reason"] or weft.client.cluster(name)["ready"], "it waits or runs")
        assert ledger(weft.dump()) == []
        weft.client.delete(body["name"])
        weft.client.wait_gone(body["name"])
        weft.client.request("DELETE", "/v1/hosts/n9")


def test_members_changed_behind_its_back(weft, settle):
    """As when a manager with older partitions takes over: a port too many, one too few, also after a restart."""
    weft.client.create("cfd", 2)
    partition = weft.client.wait_phase("cfd", "ready")["partition"]
    path = next(weft.world.fabric.glob(f"**/partitions/{partition}"))
    settle(weft)
    _name, *right = path.read_text(encoding="utf-8").splitlines()
    weft.world.change_partition(int(partition, 16), *right, "0x0002c90300000009 0x02c9010000000009 full -1")
    settle(weft)
    weft.stop()
    weft.world.change_partition(int(partition, 16), *right[:-1])
    weft.start()
    settle(weft)
    assert weft.client.cluster("cfd")["partition"] == partition


def test_evict_without_room_tells_why(site, settle):
    weft = site(hosts=1, changes={"control": {"backoff_base": "5m", "backoff_max": "5m"}})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    weft.client.expect(200, "POST", "/v1/hosts/n1/drain", {"evict": True})
    until(lambda: "no host can take nodes" in (weft.client.cluster("cfd")["reason"] or ""), "a reason why it stays")
    weft.client.expect(200, "POST", "/v1/hosts/n1/undrain", {})
    weft.client.wait_phase("cfd", "ready", reason=None)
    settle(weft)


# --- what was looked at may have changed since the look began: only a second look is acted on ---


def restarted(weft, settle):
    """Restarts weftd, waits until all is well, and returns what it did, in order. Looks take their time: who acts without the
    second one does so before it has ended."""
    log = weft.root / "failpoints.log"
    weft.world.fault("slow list 50")
    weft.world.fabric_fault("slow list 50")
    weft.start(failpoint_log=log)
    settle(weft)
    weft.stop()
    return log.read_text(encoding="utf-8").split()


def looks_before(steps, look, act):
    return steps[:steps.index(act)].count(look)


def test_stray_domain_is_looked_at_twice(site, settle):
    weft = site(hosts=1)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    settle(weft)
    weft.stop()
    weft.add_ended("n1", "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
    assert looks_before(restarted(weft, settle), "list-after", "stop-before") >= 2


def test_missing_domain_is_looked_for_twice(site, settle):
    weft = site(hosts=1)
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    settle(weft)
    weft.stop()
    weft.world.remove_domain("n1", f"weft-{node['id']}")
    assert looks_before(restarted(weft, settle), "list-after", "nodes-marked") >= 2


def test_stray_partition_is_looked_at_twice(site, settle):
    weft = site(hosts=1)
    number, name = ended_partition(weft)
    weft.stop()
    weft.world.add_foreign_partition(number, name)
    assert looks_before(restarted(weft, settle), "survey-after", "apply-before") >= 2


def test_altered_partition_is_looked_at_twice(site, settle):
    weft = site(hosts=1)
    weft.client.create("cfd", 1)
    partition = weft.client.wait_phase("cfd", "ready")["partition"]
    settle(weft)
    weft.stop()
    next(weft.world.fabric.glob(f"**/partitions/{partition}")).unlink()
    assert looks_before(restarted(weft, settle), "survey-after", "apply-before") >= 2


@contextlib.contextmanager
def children_of_a_killed(weft):
    """They have its lock of the trail, its socket and its port, until they have become other programs."""
    port = weft.tcp_port()
    weft.kill()
    with contextlib.ExitStack() as had:
        fcntl.flock(had.enter_context((weft.root / "audit.log").open("ab")), fcntl.LOCK_EX)
        for family, address in ((socket.AF_UNIX, str(weft.socket)), (socket.AF_INET, ("127.0.0.1", port))):
            listener = had.enter_context(socket.socket(family, socket.SOCK_STREAM))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_UNIX:
                weft.socket.unlink()
            listener.bind(address)
            listener.listen()
        weft.config["api"]["tcp"] = f"127.0.0.1:{port}"
        yield had


def test_started_again_before_its_children_have_let_go(site, certificate):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    with children_of_a_killed(weft) as had:
        threading.Timer(0.3, had.pop_all().close).start()
        weft.start()
    weft.client.get("/v1/version")


def test_what_stays_taken_is_another_weftds(site, certificate):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    with children_of_a_killed(weft):
        assert f"another weftd writes the audit trail {weft.root}/audit.log; stop it first" in weft.run_refused()
    weft.start()
