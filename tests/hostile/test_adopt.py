"""What `weft site ls`, `adopt` and `remove` do with things that are held: they never take what the store itself has elsewhere, and an
older store gets back what it lost."""

import contextlib
import json
import sqlite3
from urllib.parse import quote, unquote

import pytest
from harness.wait import until
from harness.weft import Weft
from harness.weft import host as describe
from test_templates import add_image
from test_wrong_store import held, keep_store, put_store_back, return_store, running, settle, state


def nodes_held(weft):
    return [item for item in held(weft) if item["kind"] == "node"]


def ready(weft, name, count=1, **more):
    weft.client.create(name, count, **more)
    cluster = weft.client.wait_phase(name, "ready", tenant=more.get("tenant", "acme"))
    settle(weft)
    return cluster


def refused(weft, *words):
    result = weft.cli("site", *words, check=False)
    assert result.returncode, result.stdout
    return result.stderr


def looks_again(weft, host):
    """A look that began after this call has ended."""
    weft.world.add_network(host, 4999, "0zzzzzzzzzzz", site="9othersite00")
    until(lambda: any(item["host"] == host and item["name"] == "network 4999" for item in held(weft)), "it is seen")
    weft.world.remove_network(host, 4999)
    until(lambda: not any(item["host"] == host and item["name"] == "network 4999" for item in held(weft)), "and that it went")


def stays_as_it_is(weft, host, other, before):
    """What is on the host is recorded on the other one: it is told, and neither adopted nor removed."""
    until(lambda: state(weft, host) == "held", lambda: f"{host} is {state(weft, host)}")
    found = [item for item in nodes_held(weft) if item["host"] == host]
    assert found and all((item["verdict"], item["recorded_on"]) == ("elsewhere", other) for item in found)
    assert f"recorded on {other}" in weft.cli("site", "ls").stdout
    assert f"recorded on host {other}" in weft.client.get(f"/v1/hosts/{host}")["reason"]
    for words in (("adopt", host), ("remove", host, "--yes"), ("remove", found[0]["id"], "--yes")):
        assert f"recorded on host {other}" in refused(weft, *words)
    looks_again(weft, host)
    assert running(weft) == before and not [event for event in weft.client.events() if event["type"] == "garbage-removed"]


def test_second_name_of_a_machine(site):
    weft = site(hosts=2)
    ready(weft, "cfd")
    host = weft.client.nodes("cfd")[0]["host"]
    description = describe("m9", uri=f"fake://{host}/")
    description["hcas"][0]["port_guid"] = "0x0002c903000000aa"
    (weft.root / "hosts" / "m9").symlink_to(host)
    before = running(weft) | {"m9": running(weft)[host]}
    weft.client.expect(201, "POST", "/v1/hosts", description)
    stays_as_it_is(weft, "m9", host, before)
    assert weft.client.cluster("cfd")["phase"] == "ready"


def test_addresses_of_two_hosts_are_swapped(site):
    weft = site(hosts=2)
    ready(weft, "cfd", 2, layout="spread")
    weft.stop()
    hosts = weft.root / "hosts"
    for old, new in (("n1", "x"), ("n2", "n1"), ("x", "n2")):
        (hosts / old).rename(hosts / new)
    before = running(weft)
    weft.start()
    stays_as_it_is(weft, "n1", "n2", before)
    stays_as_it_is(weft, "n2", "n1", before)


def test_two_hosts_share_a_pool(request):
    weft = Weft(hosts=2)
    request.addfinalizer(weft.remove)
    for name in ("n1", "n2"):
        (weft.root / "hosts" / name).mkdir(parents=True)
    (weft.root / "hosts/n1/pool").mkdir()
    (weft.root / "hosts/n2/pool").symlink_to("../n1/pool")
    weft.start()
    add_image(weft, "own", form="raw")
    weft.client.create("cfd", 1, image="own", start="cold", path="bridge")
    weft.client.wait_phase("cfd", "ready")
    host, before = weft.client.nodes("cfd")[0]["host"], running(weft)
    files = {path.name for path in (weft.root / "hosts/n1/pool").glob("weft-*")}
    stays_as_it_is(weft, "n1" if host == "n2" else "n2", host, before)
    assert files == {path.name for path in (weft.root / "hosts/n1/pool").glob("weft-*")}


def test_confirmation_ends_with_what_it_was_for(weft):
    """The same network comes back: somebody is asked again, before a restart of weftd and after."""
    def network_is(there):
        until(lambda: (("n1", 4711) in weft.world.networks()) == there and (state(weft, "n1") == "held") == there, f"there: {there}")

    for restart in (False, True):
        weft.world.add_network("n1", 4711, "0zzzzzzzzzzz", site="9othersite00")
        network_is(True)
        weft.cli("site", "remove", "n1", "--yes")
        network_is(False)
        if restart:
            weft.stop()
            weft.start()
        until(lambda: not [key for key in weft.dump().values("ended") if key.startswith("n1/")], "the confirmation is gone")


def test_confirmation_is_taken_back(site):
    weft = site(hosts=2)
    ready(weft, "first")
    keep_store(weft)
    for name in ("second", "third"):
        ready(weft, name, hosts="n2")
    second, before = weft.client.nodes("second")[0]["id"], running(weft)
    return_store(weft)
    until(lambda: len(nodes_held(weft)) == 2, "both are held")
    weft.cli("site", "remove", second, "--yes")
    until(lambda: [item["id"] for item in nodes_held(weft) if item["verdict"] == "confirmed"] == [second], "it is to be removed")
    assert "confirmed" in weft.cli("site", "ls").stdout and running(weft) == before
    weft.cli("site", "adopt", second)
    assert weft.client.cluster("second") and running(weft) == before
    weft.cli("site", "adopt", "n2")
    for name in ("second", "third"):
        weft.client.wait_phase(name, "ready")
    until(lambda: not held(weft), lambda: f"nothing is held: {held(weft)}")
    settle(weft)
    assert running(weft) == before


def confirm_while_another_holds(weft):
    """A cluster's node and network that an older store does not know are to be removed, and wait, as something else holds their host."""
    ready(weft, "first", hosts="n1", path="sriov")
    keep_store(weft)
    second = ready(weft, "second", hosts="n2", path="sriov")
    node = weft.client.nodes("second")[0]["id"]
    weft.world.add_network("n2", 4711, "0zzzzzzzzzzz", site="9othersite00")
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.cli("site", "remove", node, second["id"], "--yes")
    until(lambda: {item["verdict"] for item in nodes_held(weft)} == {"confirmed"}, "it is to be removed")
    return node


def is_unproved_again(weft, before):
    """What was confirmed to another run of weftd is neither carried out nor kept, and is listed as what it is."""
    until(lambda: {item["verdict"] for item in nodes_held(weft)} == {"unproved"}, lambda: f"it is held: {held(weft)}")
    until(lambda: not [key for key in weft.dump().values("ended") if key.startswith("n2/")], "the confirmation is gone")
    looks_again(weft, "n2")
    assert running(weft) == before and state(weft, "n2") == "held"


def test_confirmation_that_was_taken_back_is_in_a_backup(site):
    """The backup was made in the last run of weftd, so the hosts are its own without a word."""
    weft = site(hosts=2)
    node = confirm_while_another_holds(weft)
    before = running(weft)
    with contextlib.closing(sqlite3.connect(weft.root / "weft.db")) as store, contextlib.closing(sqlite3.connect(weft.root / "later")) as copy:
        store.backup(copy)
    weft.cli("site", "adopt", node)
    weft.world.remove_network("n2", 4711)
    weft.client.wait_phase("second", "ready")
    settle(weft)
    assert running(weft) == before
    weft.stop()
    put_store_back(weft, "later")
    weft.start()
    is_unproved_again(weft, before)
    weft.cli("site", "adopt", node)
    weft.client.wait_phase("second", "ready")
    settle(weft)
    assert running(weft) == before


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_confirmation_is_typed_again_after_a_restart(site, end):
    """Nobody can tell whether the store is the one that weftd had when it ended, or a copy from before it was taken back."""
    weft = site(hosts=2)
    node = confirm_while_another_holds(weft)
    before = running(weft)
    getattr(weft, end)()
    weft.world.remove_network("n2", 4711)
    weft.start()
    is_unproved_again(weft, before)
    weft.cli("site", "remove", "n2", "--yes")
    until(lambda: state(weft, "n2") == "up" and not weft.world.where(f"weft-{node}"), lambda: f"it is gone: {held(weft)}")


FORGERIES = {
    "group": lambda record: record["node"].update(group="nosuch"),
    "id": lambda record: record["node"].update(id="0forgednodex"),
    "serial": lambda record: record["node"].update(id="0forgedclust-99999999999"),
    "cores": lambda record: record["node"].update(cores=record["node"]["cores"] * 3),
    "fabric": lambda record: record.update(fabric="nosuch"),
    "pkey": lambda record: record.update(pkey=0x7FFE),
    "tenant": lambda record: record["node"].update(tenant="umbrella"),
    "deleted": lambda record: record["cluster"].update(deleted=True),
}


@pytest.mark.parametrize("how", FORGERIES)
def test_forged_mark_is_refused(site, how):
    """Whoever is root on a host writes a mark as it likes, and an operator adopts it."""
    weft = site(hosts=2)
    ready(weft, "cfd")
    node = weft.client.nodes("cfd")[0]
    host = "n1" if node["host"] == "n2" else "n2"
    text = weft.world.definition(f"weft-{node['id']}")
    word = text.removeprefix("<!--fake ").split(" ")[3]
    record = json.loads(unquote(word))
    record["node"] |= {"host": host, "placement": "0forged00000", "id": "0forgedclust-0", "cluster": "0forgedclust",
                       "cluster_name": "forged", "mac": "02:00:00:00:00:77"}
    record["cluster"] |= {"id": "0forgedclust", "name": "forged"}
    record["pkey"] = record["pkey"] % 0x3FFF + 1
    FORGERIES[how](record)
    name = record["node"]["id"]
    forged = f"<!--fake {name} {weft.site()} 0forged00000 {quote(json.dumps(record), safe='')}" + text.split(word, 1)[1].replace(node["id"], name)
    weft.world._put(weft.world.hosts / host / "domains" / f"weft-{name}.xml", forged)
    until(lambda: nodes_held(weft), "it is held")
    assert refused(weft, "adopt", host)
    assert weft.client.cluster("forged") is None and weft.process.poll() is None


def test_place_of_one_that_was_deleted_since(site):
    weft = site(hosts=1)
    ready(weft, "one", cores=6)
    keep_store(weft)
    weft.client.delete("one")
    weft.client.wait_gone("one")
    ready(weft, "two", cores=6)
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    looks_again(weft, "n1")
    weft.client.delete("one")
    weft.cli("site", "adopt", "n1")
    weft.client.wait_phase("two", "ready")
    weft.client.wait_gone("one")
    assert running(weft) == before


def test_restarted_in_place_since(site):
    weft = site(hosts=1)
    ready(weft, "cfd")
    keep_store(weft)
    looks_again(weft, "n1")  # only a weftd that a host has called its owner gives up what is there

    def stay():
        return {mark[4] for mark in weft.world.marks() if mark[1] == "node"}

    before_loss = stay()
    weft.world.lose("n1")
    until(lambda: state(weft, "n1") == "lost", "it is lost")
    weft.world.bring_back("n1")
    until(lambda: stay() and stay().isdisjoint(before_loss), "it was started again")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.cli("site", "adopt", "n1")
    weft.client.wait_phase("cfd", "ready")
    until(lambda: not held(weft), lambda: f"nothing is held: {held(weft)}")
    assert running(weft) == before


def test_moved_since_and_its_old_host_is_lost(site):
    """It runs: it is not replaced, and is adopted once its old host is given up."""
    weft = site(hosts=3)
    ready(weft, "cfd")
    keep_store(weft)
    weft.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] != node["host"], "it has moved")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    there, before = weft.client.nodes("cfd")[0]["host"], running(weft)
    weft.stop()
    put_store_back(weft)
    weft.world.lose(node["host"])
    weft.start()
    weft.take_hosts()
    until(lambda: nodes_held(weft), "it is held")
    until(lambda: state(weft, node["host"]) == "lost", "its old host is lost")
    assert [found["id"] for found in weft.client.nodes("cfd")] == [node["id"]] and running(weft) == before
    weft.cli("site", "adopt", there)
    weft.client.wait_phase("cfd", "ready")
    assert [(found["id"], found["host"]) for found in weft.client.nodes("cfd")] == [(node["id"], there)] and running(weft) == before


def adopt_soon(weft, host):
    """What is recorded and is not there is known after two looks."""
    result = None

    def is_adopted():
        nonlocal result
        result = weft.cli("site", "adopt", host, check=False)
        return result.returncode == 0

    until(is_adopted, lambda: result.stderr)


def replaced_elsewhere(weft, old):
    """Its host is lost, and comes back empty."""
    weft.world.lose(old["host"])
    until(lambda: [node["id"] for node in weft.client.nodes("cfd")] not in ([old["id"]], []), "it is replaced")
    weft.client.wait_phase("cfd", "ready")
    weft.world.bring_back(old["host"])
    until(lambda: state(weft, old["host"]) == "up", "its host is back")
    settle(weft)
    new, = weft.client.nodes("cfd")
    assert new["id"] != old["id"] and new["host"] != old["host"]
    return new


def adopted_in_its_place(weft, new, before):
    adopt_soon(weft, new["host"])
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert [(node["id"], node["host"]) for node in weft.client.nodes("cfd")] == [(new["id"], new["host"])] and running(weft) == before


def test_replaced_since(site):
    """The node of its rank that the backup has is not started again, and makes room."""
    weft = site(hosts=2)
    ready(weft, "cfd")
    keep_store(weft)
    weft.client.wait_phase("cfd", "ready")
    new = replaced_elsewhere(weft, weft.client.nodes("cfd")[0])
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    adopted_in_its_place(weft, new, before)


def test_one_of_several_was_replaced_since(site, monkeypatch):
    """The other nodes of its cluster stay, whichever of them it is."""
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=60000")  # whoever reads a record that was freed reads no address there
    weft = site(hosts=3)
    ready(weft, "cfd", 2, layout="spread")
    keep_store(weft)
    weft.client.wait_phase("cfd", "ready")
    first, second = sorted(weft.client.nodes("cfd"), key=lambda node: node["rank"])
    weft.world.lose(second["host"])
    until(lambda: second["id"] not in {node["id"] for node in weft.client.nodes("cfd")}, "it is replaced")
    weft.client.wait_phase("cfd", "ready")
    weft.world.bring_back(second["host"])
    until(lambda: state(weft, second["host"]) == "up", "its host is back")
    settle(weft)
    nodes, before = {node["id"]: node["host"] for node in weft.client.nodes("cfd")}, running(weft)
    new, = set(nodes) - {first["id"]}
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    adopt_soon(weft, nodes[new])
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert {node["id"]: node["host"] for node in weft.client.nodes("cfd")} == nodes and running(weft) == before


def test_replaced_since_and_its_host_does_not_answer(site):
    """The one that the backup has could be there: nobody is adopted in its place until that host answers, or is lost."""
    weft = site(hosts=2, changes={"control": {"host_grace": "6s"}})
    ready(weft, "cfd")
    keep_store(weft)
    weft.client.wait_phase("cfd", "ready")
    old = weft.client.nodes("cfd")[0]
    new = replaced_elsewhere(weft, old)
    before = running(weft)
    weft.stop()
    put_store_back(weft)
    weft.world.lose(old["host"])
    weft.start()
    weft.take_hosts()
    until(lambda: nodes_held(weft), "it is held")
    result = weft.cli("site", "adopt", new["host"], check=False)
    assert state(weft, old["host"]) == "lost" or (result.returncode and f"may be on host {old['host']}" in result.stderr), result.stderr
    until(lambda: state(weft, old["host"]) == "lost", "it is lost")
    adopted_in_its_place(weft, new, before)


def placed_since(weft, **more):
    """A store in which the cluster waits for room; by now it runs."""
    ready(weft, "big", 2, cores=6, layout="spread")
    weft.client.create("cfd", 1, cores=6, **more)
    until(lambda: weft.client.cluster("cfd")["phase"] == "queued", "it waits")
    keep_store(weft)
    weft.client.delete("big")
    weft.client.wait_gone("big")
    cluster = weft.client.wait_phase("cfd", "ready")
    settle(weft)
    return cluster, weft.client.nodes("cfd")[0]


def test_queued_then_and_placed_since(site):
    """It gets its partition and its end as they are, and no other node."""
    weft = site(hosts=2)
    cluster, node = placed_since(weft, walltime="2h")
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    adopt_soon(weft, node["host"])
    now = weft.client.wait_phase("cfd", "ready")
    assert (now["partition"], now["ends"]) == (cluster["partition"], cluster["ends"])
    assert [found["id"] for found in weft.client.nodes("cfd")] == [node["id"]]
    assert running(weft)[node["host"]] == before[node["host"]]


def test_had_given_way_then_and_runs_since(site):
    """What it adopts is not taken for what is to make room."""
    weft = site(hosts=1)
    ready(weft, "low", cores=6, preemptible=True, priority=-10)
    weft.client.create("high", 1, cores=6)
    weft.client.wait_phase("high", "ready")
    until(lambda: weft.client.cluster("low")["phase"] == "preempted" and not weft.client.nodes("low"), "it has given way")
    keep_store(weft)
    weft.client.delete("high")
    weft.client.wait_gone("high")
    weft.client.wait_phase("low", "ready")
    settle(weft)
    node, before = weft.client.nodes("low")[0], running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.client.delete("high")
    adopt_soon(weft, "n1")
    weft.client.wait_gone("high")
    weft.client.wait_phase("low", "ready")
    settle(weft)
    assert [found["id"] for found in weft.client.nodes("low")] == [node["id"]] and running(weft) == before


def test_nothing_is_placed_while_a_node_of_it_is_held(site):
    """… although there is room; once that node is removed, it is."""
    weft = site(hosts=2)
    node = placed_since(weft)[1]
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.client.delete("big")
    weft.client.wait_gone("big")
    until(lambda: "adopt or remove" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"it is told: {weft.client.cluster('cfd')}")
    looks_again(weft, node["host"])
    assert weft.client.nodes("cfd") == []
    weft.cli("site", "remove", node["host"], "--yes")
    weft.client.wait_phase("cfd", "ready")
    until(lambda: not held(weft) and sum(len(names) for names in running(weft).values()) == 1,
          lambda: f"what was confirmed is gone, and one runs: {held(weft)} {running(weft)}")


@pytest.mark.parametrize("path", ["bridge", "sriov"])
def test_made_again_with_the_same_name_on_the_same_host(site, path):
    """docs/recovery.md: the former is deleted, then the other one is adopted. That it has nodes on a host that is held must not be in the way."""
    weft = site(hosts=1)
    ready(weft, "cfd", path=path)
    keep_store(weft)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    node = ready(weft, "cfd", path=path) and weft.client.nodes("cfd")[0]
    before, partitions = running(weft), {number: partition.members for number, partition in weft.world.partitions().items()}
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    assert "another cluster has the name acme/cfd" in refused(weft, "adopt", "n1")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    assert running(weft) == before
    assert {number: partition.members for number, partition in weft.world.partitions().items()} == partitions
    adopt_soon(weft, "n1")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert [found["id"] for found in weft.client.nodes("cfd")] == [node["id"]] and running(weft) == before


def called_off(weft, **more):
    """The backup is of a move, which was called off."""
    ready(weft, "cfd", **more)
    node = weft.client.nodes("cfd")[0]
    weft.world.fault("hang move")
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.dump().values("node")[node["id"]].get("target"), "it is on its way")
    keep_store(weft)
    weft.cli("move", "cfd[0]", "--cancel", "--tenant", "acme")
    weft.world.fault()
    until(lambda: not weft.dump().values("node")[node["id"]].get("target"), "it is called off")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    return node


def moved_again(weft):
    """The backup is of a move that was called off; a later one to the same host succeeded. Returns the node as it was, and where it is."""
    node = called_off(weft)
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] != node["host"], "it has moved")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    return node, weft.client.nodes("cfd")[0]["host"]


@pytest.mark.parametrize("first", ["adopt", "cancel"])
def test_moved_again_since(site, first):
    weft = site(hosts=2)
    node, there = moved_again(weft)
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    if first == "cancel":
        weft.client.request("DELETE", "/v1/clusters/cfd/nodes/0/move?tenant=acme")
        looks_again(weft, there)
    adopt_soon(weft, there)
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    assert [(found["id"], found["host"]) for found in weft.client.nodes("cfd")] == [(node["id"], there)] and running(weft) == before
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["host"] == node["host"], "it moves as others do")
    weft.client.wait_phase("cfd", "ready")


def test_a_move_ends_nowhere_while_one_of_its_hosts_does_not_answer(site):
    weft = site(hosts=2, changes={"control": {"host_grace": "6s"}})
    node, there = moved_again(weft)
    before = running(weft)
    weft.stop()
    put_store_back(weft)
    weft.world.lose(node["host"])
    weft.start()
    weft.take_hosts()
    until(lambda: nodes_held(weft), "it is held")
    result = weft.cli("site", "adopt", there, check=False)
    assert state(weft, node["host"]) == "lost" or (result.returncode and "does not answer" in result.stderr), result.stderr
    until(lambda: state(weft, node["host"]) == "lost", "it is lost")
    adopt_soon(weft, there)
    weft.client.wait_phase("cfd", "ready")
    assert [(found["id"], found["host"]) for found in weft.client.nodes("cfd")] == [(node["id"], there)] and running(weft) == before


def test_place_that_one_on_its_way_had(site):
    """It was deleted since, and another cluster has what it was to have: it is deleted once more, then that one is adopted."""
    weft = site(hosts=2)
    node = called_off(weft, cores=6)
    there, = {"n1", "n2"} - {node["host"]}
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    ready(weft, "two", cores=6, hosts=there)
    before = running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    assert running(weft) == before
    adopt_soon(weft, there)
    weft.client.wait_phase("two", "ready")
    settle(weft)
    assert running(weft) == before


def test_numbers_of_what_is_held_are_given_to_nobody(site):
    """… also where the subnet manager has forgotten the partition, and of three numbers one alone is left."""
    weft = site(hosts=4, changes={"fabrics": [{"name": "ib0", "guid_prefix": "0x02c9010000000000", "pkey_first": "0x0001", "pkey_last": "0x0003"}]})
    ready(weft, "first", path="bridge")
    keep_store(weft)
    second = ready(weft, "second", path="bridge", tenant="umbrella", hosts="n4")
    weft.stop()
    put_store_back(weft)
    weft.world.remove_partition(int(second["partition"], 16))
    weft.start()
    weft.take_hosts()
    until(lambda: {item["kind"] for item in held(weft)} == {"node", "network"}, "both are held")
    weft.client.create("third", 1, path="bridge", hosts="n[1-3]")
    third = weft.client.wait_phase("third", "ready")
    assert third["partition"] != second["partition"]
    weft.cli("site", "adopt", "n4")
    assert weft.client.wait_phase("second", "ready", tenant="umbrella")["partition"] == second["partition"]


def test_nodes_of_one_cluster_on_all_hosts(site):
    """Adopted host by host, while weftd works on the cluster already."""
    weft = site(hosts=4)
    keep_store(weft)
    ready(weft, "cfd", 8, layout="spread")
    before = running(weft)
    assert len(before) == 4
    return_store(weft)
    until(lambda: len(nodes_held(weft)) == 8, "all are held")
    weft.cli("site", "adopt", *before)
    weft.client.wait_phase("cfd", "ready", nodes=8)
    assert running(weft) == before


def test_image_of_another_content(site):
    weft = site(hosts=2)
    keep_store(weft)
    add_image(weft, "own", form="raw")
    ready(weft, "cfd", image="own", start="cold", path="bridge")
    host, before = weft.client.nodes("cfd")[0]["host"], running(weft)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    assert "add that image as it was" in refused(weft, "adopt", host)
    add_image(weft, "own", form="raw", seed=7)
    assert "add that image as it was" in refused(weft, "adopt", host)
    weft.cli("image", "rm", "own")
    add_image(weft, "own", form="raw")
    weft.cli("site", "adopt", host)
    weft.client.wait_phase("cfd", "ready")
    assert running(weft) == before


def test_adopted_cluster_has_its_end(site):
    weft = site(hosts=2)
    keep_store(weft)
    ends = ready(weft, "cfd", walltime="2h")["ends"]
    host = weft.client.nodes("cfd")[0]["host"]
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    weft.client.create("cfd", 1)
    assert "another cluster has the name acme/cfd" in refused(weft, "adopt", host)
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.cli("site", "adopt", host)
    assert ends and weft.client.wait_phase("cfd", "ready")["ends"] == ends


def came_back(site):
    """A site whose store was copied before its cluster was preempted: that has come back since, with its whole walltime, and ends five
    minutes later than the copy says."""
    weft = site(hosts=1)
    weft.client.create("low", 1, cores=6, walltime="8m", priority=-10, preemptible=True, start="cold")
    weft.client.wait_phase("low", "ready")
    keep_store(weft)
    weft.client.wait_phase("low", "ready")
    weft.client.create("high", 1, cores=6, priority=100)
    weft.client.wait_phase("high", "ready")
    weft.set_clock(300)  # below the bound: five minutes pass
    weft.client.delete("high")
    weft.client.wait_gone("high")
    cluster = weft.client.wait_phase("low", "ready")
    settle(weft)
    return weft, cluster, running(weft)


@pytest.mark.parametrize("over", [False, True])
def test_cluster_that_came_back_has_its_end(site, over):
    """Restored before its former end, or between that and the one that it has by now."""
    weft, cluster, before = came_back(site)
    if over:
        weft.set_clock(500)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    looks_again(weft, "n1")
    restored = weft.client.cluster("low")
    assert restored["ends"] < cluster["ends"] and not restored["deleting"]
    weft.cli("site", "adopt", "n1")
    adopted = weft.client.wait_phase("low", "ready")
    assert adopted["ends"] == cluster["ends"] and running(weft) == before
    assert "cluster-expired" not in {event["type"] for event in weft.client.events()}


def test_old_end_counts_once_nothing_is_held(site):
    """What was held is removed instead of adopted: its record has ended in the meantime, and nobody forgets it."""
    weft, _, before = came_back(site)
    weft.set_clock(500)
    return_store(weft)
    until(lambda: nodes_held(weft), "it is held")
    looks_again(weft, "n1")
    assert running(weft) == before and not weft.client.cluster("low")["deleting"]
    weft.cli("site", "remove", "n1", "--yes")
    weft.client.wait_gone("low")
    assert "cluster-expired" in {event["type"] for event in weft.client.events()}
