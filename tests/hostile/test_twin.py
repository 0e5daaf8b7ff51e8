"""Two weftd for the same hosts: the second stays passive, and says so, until an operator has it take them."""

import shutil

import pytest
from harness.wait import until
from test_checkpoints import ask, create, paused
from test_wrong_store import settle, starts


def states(weft):
    return {host["name"]: host["state"] for host in weft.client.get("/v1/hosts")["items"]}


def all_are(weft, state):
    return set(states(weft).values()) == {state}


def twin_of(weft):
    """A copy of the stopped site's store, for the same hosts and the same fabric."""
    twin = weft.clone()
    twin.config["hypervisor"]["world"] = weft.config["hypervisor"]["world"]
    twin.fabric_world = weft.fabric_world
    return twin


def state_of(weft):
    return next(record["state"] for record in weft.dump().values("checkpoint").values())


def plugged(weft):
    return {name: weft.world.plugged(host, name) for host, names in weft.world.domains().items() for name in names}


def calls(weft):
    """The failpoints that weftd has passed."""
    return {line.split()[0] for line in (weft.root / "calls").read_text(encoding="utf-8").splitlines()}


def until_looked_again(weft):
    """Whatever it would do with what it was copied with it has done by then."""
    def looks():
        return (weft.root / "calls").read_text(encoding="utf-8").splitlines().count("list-after")

    enough = looks() + 4 * len(states(weft))
    until(lambda: looks() >= enough, lambda: f"{looks()} looks of {enough}")


def test_the_second_stays_passive(site, request):
    weft = site(hosts=2)
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    other = twin_of(weft)
    request.addfinalizer(other.remove)
    weft.start()
    weft.client.wait_phase("cfd", "ready")
    until(lambda: all_are(weft, "up"), "the first has its hosts")
    before, partitions = weft.world.domains(), weft.world.partitions()
    other.start()
    request.addfinalizer(other.stop)
    until(lambda: all_are(other, "held"), "the second has none")
    passive_is_told(other)
    other.client.create("mine", 1)
    other.client.delete("cfd")
    assert "belongs to another weftd" in other.cli("site", "take", "--dry-run", "n1").stdout
    refused = other.cli("site", "take", "n1", check=False)
    assert refused.returncode == 2 and "--yes" in refused.stderr, "nobody confirmed it"
    assert all_are(other, "held")
    assert weft.world.domains() == before and weft.world.partitions().keys() == partitions.keys()
    assert weft.client.cluster("cfd")["phase"] == "ready"
    other.take_hosts()
    until(lambda: all_are(other, "up"), "the second has them")
    assert {event["host"] for event in other.client.events() if event["type"] == "host-taken"} == {"n1", "n2"}
    other.client.wait_gone("cfd")
    weft.client.create("late", 1)
    until(lambda: "held" in states(weft).values(), "the first is passive with its next act")


def passive_is_told(weft):
    """Everywhere that an operator looks."""
    assert "weft site take n1" in weft.client.get("/v1/hosts/n1")["reason"]
    assert any(event["type"] == "host-held" and "belongs to another weftd" in event["message"] for event in weft.client.events())
    checks = {check["check"]: check for check in weft.client.get("/v1/hosts/n1/doctor")["checks"]}
    assert checks["held"]["state"] == "fail" and "weft site take" in checks["held"]["remedy"]
    assert "host n1 is left as it is: it belongs to another weftd" in weft.log.read_text(encoding="utf-8")


def test_taking_what_is_ours_leaves_no_wish(weft):
    """Otherwise a host would be taken from its next owner when this weftd starts again."""
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    weft.cli("site", "take", "--yes", "n1")
    until(lambda: any(event["type"] == "host-taken" for event in weft.client.events()), "it is taken")
    assert not [key for key in weft.dump().values("meta") if key.startswith("take/")]
    weft.client.wait_phase("cfd", "ready")


def test_another_sites_host_stops_no_other(site):
    """Only that host is held: clusters elsewhere go on."""
    weft = site(hosts=3)
    until(lambda: all_are(weft, "up"), "all are ours")
    weft.stop()
    (weft.root / "hosts" / "n3" / "owner").write_text("9othersite00 9instance000 7 9run00000000\n", encoding="utf-8")
    weft.start()
    until(lambda: states(weft) == {"n1": "up", "n2": "up", "n3": "held"}, lambda: f"{states(weft)}")
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    assert "n3" not in {node["host"] for node in weft.client.nodes("cfd")}


def put_store(weft, path):
    """weftd starts with this store, where its own was."""
    for file in weft.root.glob("weft.db*"):
        file.unlink()
    shutil.copy(path, weft.root / "weft.db")
    weft.start()


def runs(weft):
    """The run of weftd that each host has seen."""
    return {path.parent.name: path.read_text(encoding="utf-8").split()[3] for path in weft.world.hosts.glob("*/owner")}


def test_a_copy_in_the_same_place_does_not_win_by_starting_more_often(site):
    """A clone of the whole machine: its store lies where the original lies, and counts its own starts."""
    weft = site(hosts=2)
    weft.client.create("cfd", 2, layout="spread", path="sriov")
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    clone, original, seen = weft.root / "clone", weft.root / "original", runs(weft)
    shutil.copy(weft.root / "weft.db", clone)
    weft.start()
    until(lambda: not runs(weft).items() & seen.items(), "the original has its hosts, which know its run")
    weft.client.wait_phase("cfd", "ready")
    before, partitions = weft.world.domains(), weft.world.partitions()
    weft.stop()
    shutil.copy(weft.root / "weft.db", original)
    put_store(weft, clone)
    for _ in range(3):
        until(lambda: all_are(weft, "held"), lambda: f"the clone has none: {states(weft)}")
        assert "does not know" in weft.client.get("/v1/hosts/n1")["reason"]
        weft.stop()
        weft.start()
    until(lambda: all_are(weft, "held"), lambda: f"the clone has none: {states(weft)}")
    weft.client.delete("cfd")
    weft.stop()
    put_store(weft, original)
    until(lambda: all_are(weft, "up"), lambda: f"the original has them without a word: {states(weft)}")
    weft.client.wait_phase("cfd", "ready")
    assert weft.world.domains() == before and weft.world.partitions() == partitions


def test_a_wish_to_take_is_not_copied(site, request):
    """The host was silent when an operator had it taken, and a copy of the store was made meanwhile."""
    weft = site(hosts=2)
    until(lambda: all_are(weft, "up"), "both are ours")
    weft.world.lose("n2")
    until(lambda: states(weft)["n2"] == "lost", "it does not answer")
    weft.cli("site", "take", "--yes", "n2")
    weft.stop()
    other = twin_of(weft)
    request.addfinalizer(other.remove)
    weft.world.bring_back("n2")
    weft.start()
    until(lambda: all_are(weft, "up"), lambda: f"{states(weft)}")
    other.start()
    request.addfinalizer(other.stop)
    until(lambda: all_are(other, "held"), lambda: f"{states(other)}")
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    assert all_are(weft, "up") and all_are(other, "held")


def given_to_a_rival(weft, name):
    """The host says that it is another weftd's of this site."""
    weft.world.lose(name)
    until(lambda: states(weft)[name] == "lost", "it does not answer")
    owner = weft.root / "hosts" / name / "owner"
    site_id, _, epoch, _ = owner.read_text(encoding="utf-8").split()
    owner.write_text(f"{site_id} 9instance000 {epoch} 9run00000000\n", encoding="utf-8")
    weft.world.bring_back(name)
    until(lambda: states(weft)[name] == "held", "it is another's of this site")


def test_a_cluster_that_waits_for_another_weftd_says_so(site):
    weft = site(hosts=2)
    until(lambda: all_are(weft, "up"), "both are ours")
    given_to_a_rival(weft, "n2")
    weft.client.create("cfd", 1, hosts="n1", path="sriov")
    until(lambda: "weft site take n2" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
    assert "weft site take n2" in weft.cli("doctor", check=False).stdout
    weft.cli("site", "take", "--yes", "n2")
    weft.client.wait_phase("cfd", "ready")


@pytest.mark.parametrize("asked", ["before", "after"])
def test_a_rival_that_died_stops_nobody_once_it_was_taken(site, asked):
    """It cannot say any more that it is ours. Until an operator has said so, the weftd that had it may know partitions better."""
    weft = site(hosts=3, changes={"control": {"host_grace": "3s"}} if asked == "before" else {})
    until(lambda: all_are(weft, "up"), "all are ours")
    given_to_a_rival(weft, "n2")
    weft.world.lose("n2")
    if asked == "before":
        weft.cli("site", "take", "--yes", "n2")
    until(lambda: states(weft)["n2"] == "lost", "it is lost")
    weft.client.create("cfd", 1, hosts="n1", path="sriov")
    if asked == "after":
        until(lambda: "weft site take n2" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
        weft.cli("site", "take", "--yes", "n2")
    weft.client.wait_phase("cfd", "ready")
    weft.world.bring_back("n2")
    until(lambda: all_are(weft, "up"), lambda: f"it is taken when it comes back: {states(weft)}")


def test_a_host_that_missed_starts_is_ours(site, request):
    """… of a store that was moved as well, once an operator has said that it is the right one."""
    weft = site(hosts=2)
    until(lambda: all_are(weft, "up"), "both are ours")
    weft.world.lose("n2")
    for _ in range(2):
        weft.stop()
        weft.start()
    until(lambda: states(weft) == {"n1": "up", "n2": "lost"}, lambda: f"{states(weft)}")
    weft.stop()
    moved = twin_of(weft)
    request.addfinalizer(moved.remove)
    moved.start()
    until(lambda: states(moved) == {"n1": "held", "n2": "lost"}, lambda: f"{states(moved)}")
    moved.cli("site", "take", "--yes", "n1")
    until(lambda: states(moved)["n1"] == "up", lambda: f"{states(moved)}")
    moved.stop()
    weft.world.bring_back("n2")
    moved.start()
    request.addfinalizer(moved.stop)
    until(lambda: all_are(moved, "up"), lambda: f"{states(moved)}")


def test_a_node_of_a_host_that_was_taken_keeps_its_devices(site, request):
    """The first does not know yet that its hosts are the other's, and is to move a node of theirs."""
    weft = site(hosts=2)
    weft.client.create("cfd", 2, path="bridge", gpus=1, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    other = twin_of(weft)
    request.addfinalizer(other.remove)
    weft.start()
    until(lambda: all_are(weft, "up"), "the first has its hosts")
    weft.client.wait_phase("cfd", "ready")
    other.start()
    request.addfinalizer(other.stop)
    until(lambda: all_are(other, "held"), "the second has none")
    other.take_hosts()
    until(lambda: all_are(other, "up"), "the second has them")
    other.client.wait_phase("cfd", "ready")
    node = weft.client.nodes("cfd")[0]
    weft.client.expect(202, "POST", f"/v1/clusters/cfd/nodes/{node['rank']}/move?tenant=acme", {})
    until(lambda: "held" in states(weft).values(), "the first finds out")
    until(lambda: "cannot be reached" in (weft.client.cluster("cfd")["reason"] or ""), lambda: f"{weft.client.cluster('cfd')}")
    assert not any(line.startswith("-") for line in weft.world.plugged(node["host"], f"weft-{node['id']}"))
    assert "does not go on after it could not be brought to rest" not in weft.log.read_text(encoding="utf-8")


def test_the_second_gives_nothing_up_on_a_host_that_it_does_not_reach(site, request):
    """The store was moved, and the new machine cannot reach one of the hosts at first: nothing there has ever stopped."""
    weft = site(hosts=3)
    weft.client.create("cfd", 3, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    settle(weft)
    weft.stop()
    before = starts(weft)
    moved = twin_of(weft)
    request.addfinalizer(moved.remove)
    weft.world.lose("n2")
    moved.start()
    request.addfinalizer(moved.stop)
    until(lambda: states(moved) == {"n1": "held", "n2": "lost", "n3": "held"}, lambda: f"{states(moved)}")
    kept = "its nodes are kept until it is known which weftd owns the hosts"
    assert any(event["type"] == "host-lost" and kept in event["message"] for event in moved.client.events())
    weft.world.bring_back("n2")
    until(lambda: all_are(moved, "held"), lambda: f"{states(moved)}")
    assert not moved.dump().values("ended") and starts(weft) == before
    moved.cli("site", "take", "--yes", "n1", "n2", "n3")
    until(lambda: all_are(moved, "up"), lambda: f"{states(moved)}")
    moved.client.wait_phase("cfd", "ready")
    settle(moved)
    assert starts(weft) == before


def test_a_host_that_stays_away_is_given_up_once_the_others_are_taken(site, request):
    """An operator has said that the moved store is the right one: its nodes are healed."""
    weft = site(hosts=3)
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    weft.stop()
    moved = twin_of(weft)
    request.addfinalizer(moved.remove)
    away = weft.dump().values("node").popitem()[1]["host"]
    others = sorted({"n1", "n2", "n3"} - {away})
    weft.world.lose(away)
    moved.start()
    request.addfinalizer(moved.stop)
    until(lambda: states(moved) == {away: "lost"} | dict.fromkeys(others, "held"), lambda: f"{states(moved)}")
    moved.cli("site", "take", "--yes", *others)
    until(lambda: {node["host"] for node in moved.client.nodes("cfd")} == set(others), lambda: f"{moved.client.nodes('cfd')}")
    moved.client.wait_phase("cfd", "ready")


@pytest.mark.parametrize("state", ["wanted", "saved"])
def test_a_twin_lets_no_checkpoint_of_the_first_go_on(site, request, state):
    """The nodes stand still for a checkpoint of the first, which is saving them, or is about to let them go on. Its copy has the
    hosts taken in the end, and only then ends what it was copied with."""
    weft = site(hosts=2)
    create(weft, count=2, path="sriov", layout="spread")
    weft.world.fault("slow save 4000" if state == "saved" else "hang save")
    ask(weft, name="cut", disrupt=True)
    until(lambda: len(paused(weft)) == 2, lambda: f"{paused(weft)}")
    if state == "saved":
        weft.world.fault("hang resume")
    until(lambda: state_of(weft) == state, lambda: f"{weft.dump().values('checkpoint')}")
    assert len(paused(weft)) == 2
    weft.kill()
    other = twin_of(weft)
    request.addfinalizer(other.remove)
    weft.world.fault()
    before = plugged(weft)
    other.start(failpoint_log=other.root / "calls")
    request.addfinalizer(other.stop)
    until(lambda: all_are(other, "held"), "the second has none")
    until(lambda: "belongs to another weftd" in (other.client.cluster("cfd")["reason"] or ""), lambda: f"{other.client.cluster('cfd')}")
    until_looked_again(other)
    assert len(paused(weft)) == 2 and state_of(other) == state
    assert not {"resume-before", "plug-before", "discard-before"} & calls(other) and plugged(weft) == before
    other.take_hosts()
    until(lambda: state_of(other) == "complete", lambda: f"{other.log_tail()}")
    other.client.wait_phase("cfd", "ready")
    assert not paused(weft) and {"resume-before", "plug-before"} <= calls(other)


def test_nodes_go_on_where_the_host_is_ours_and_held(site):
    """What is found there keeps the host from being changed, and not its nodes from running."""
    weft = site(hosts=2)
    create(weft, count=2, path="sriov", layout="spread")
    weft.world.fault("slow save 4000")
    ask(weft, name="cut", disrupt=True)
    until(lambda: len(paused(weft)) == 2, lambda: f"{paused(weft)}")
    weft.world.fault("hang resume")
    until(lambda: state_of(weft) == "saved", lambda: f"{weft.dump().values('checkpoint')}")
    weft.kill()
    for node in weft.dump().values("node").values():
        weft.world.add_stray(node["host"], "weft-2b-1", like=f"weft-{node['id']}")
    weft.world.fault()
    weft.start()
    until(lambda: all_are(weft, "held") and not paused(weft), lambda: f"{states(weft)} {paused(weft)}")
    until(lambda: not any(line.startswith("-") for lines in plugged(weft).values() for line in lines), lambda: f"{plugged(weft)}")


def test_a_twin_lets_no_node_go_on_that_it_was_to_move(site, request):
    """Somebody had called the move off when the store was copied; since then the first has stopped the node for a checkpoint."""
    weft = site(hosts=3)
    weft.client.create("cfd", 2, layout="spread", path="bridge")
    weft.client.wait_phase("cfd", "ready")
    weft.world.fault("hang move", "hang resume")
    weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
    until(lambda: weft.client.nodes("cfd")[0]["moving_to"], "it leaves")
    weft.client.expect(202, "DELETE", "/v1/clusters/cfd/nodes/0/move?tenant=acme")
    node = weft.client.nodes("cfd")[0]
    weft.kill()
    other = twin_of(weft)
    request.addfinalizer(other.remove)
    weft.world.fault()
    (weft.world.hosts / node["host"] / "domains" / f"weft-{node['id']}.paused").touch()
    other.start(failpoint_log=other.root / "calls")
    request.addfinalizer(other.stop)
    until(lambda: all_are(other, "held"), "the second has none")
    until_looked_again(other)
    assert len(paused(weft)) == 1 and "resume-before" not in calls(other)
    other.take_hosts()
    until(lambda: any(event["type"] == "node-move-failed" for event in other.client.events()), lambda: f"{other.log_tail()}")
    other.client.wait_phase("cfd", "ready")
    assert not paused(weft) and other.client.nodes("cfd")[0]["host"] == node["host"]


def claims(weft):
    return (weft.root / "calls").read_text(encoding="utf-8").splitlines().count("claim-before")


@pytest.fixture
def ours(site):
    """Two hosts that have granted themselves, and what weftd does from then on in "calls"."""
    weft = site(hosts=2)
    until(lambda: all_are(weft, "up"), "both are ours")
    seen = runs(weft)
    weft.stop()
    weft.start(failpoint_log=weft.root / "calls")
    until(lambda: all_are(weft, "up") and not runs(weft).items() & seen.items(), "both are ours, and know this run")
    return weft


def test_what_is_made_is_not_claimed_for(ours):
    """The host compares the run that its definition names."""
    before = claims(ours)
    ours.client.create("cfd", 2, layout="spread")
    ours.client.wait_phase("cfd", "ready")
    assert claims(ours) == before and {"start-after", "connect-after"} <= calls(ours)


@pytest.mark.parametrize("act", ["start", "connect"])
def test_a_host_that_was_taken_while_a_call_is_on_its_way_starts_nothing(ours, act):
    """Another weftd has it between the last claim and the act."""
    ours.world.fault(f"slow {act} 1500")
    ours.client.create("cfd", 1)
    until(lambda: f"{act}-before" in calls(ours), lambda: f"{calls(ours)}")
    before = ours.world.domains()
    for owner in ours.world.hosts.glob("*/owner"):
        site_id, _, epoch, _ = owner.read_text(encoding="utf-8").split()
        owner.write_text(f"{site_id} 9instance000 {epoch} 9run00000000\n", encoding="utf-8")
    ours.world.fault()
    until(lambda: "held" in states(ours).values(), lambda: f"{states(ours)}")
    assert ours.world.domains() == before and not any(before.values())
    assert not list(ours.world.hosts.glob("*/networks/1*")) or act == "start"
    until(lambda: "not this weftd's" in (ours.client.cluster("cfd")["detail"] or ""), lambda: f"{ours.client.cluster('cfd')}")
    held = next(name for name, state in states(ours).items() if state == "held")
    assert "weft site take" in ours.client.get(f"/v1/hosts/{held}")["reason"]
    assert ours.client.cluster("cfd")["phase"] != "ready"
    ours.take_hosts()
    ours.client.wait_phase("cfd", "ready")


def test_a_run_before_is_claimed_for_once(site):
    """The host has seen an earlier start of this weftd: its store knows that run."""
    weft = site(hosts=1)
    until(lambda: all_are(weft, "up"), "it is ours")
    seen = runs(weft)
    owner = weft.world.hosts / "n1" / "owner"
    record = owner.read_text(encoding="utf-8")
    weft.stop()
    weft.start(failpoint_log=weft.root / "calls")
    until(lambda: all_are(weft, "up") and runs(weft) != seen, "it is ours again")
    now, before = runs(weft), claims(weft)
    owner.write_text(record, encoding="utf-8")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert runs(weft) == now and claims(weft) == before + 1


@pytest.mark.parametrize("how", ["restored", "moved", "healed"])
def test_a_node_of_an_earlier_run_goes_on(site, how):
    """What was saved, and what runs, was made by a weftd that has ended since: this one lets it go on. The fake writes no run into
    definitions, and so its hosts cannot meet an old one there: for that see the contract's move-by-another-run and
    goes-on-by-another-run, on real hosts."""
    weft = site(hosts=3)
    create(weft, count=2, path="bridge", layout="spread")
    if how == "restored":
        ask(weft, name="cut", disrupt=True)
        until(lambda: state_of(weft) == "complete", lambda: f"{weft.log_tail()}")
        weft.client.wait_phase("cfd", "ready")
    weft.stop()
    seen = runs(weft)
    weft.start()
    until(lambda: all_are(weft, "up") and not runs(weft).items() & seen.items(), "the hosts know the new run")
    if how == "moved":
        weft.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {})
        until(lambda: any(event["type"] == "node-moved" for event in weft.client.events()), lambda: f"{weft.log_tail()}")
    elif how == "healed":
        node = weft.client.nodes("cfd")[0]
        weft.world.end_domain(node["host"], f"weft-{node['id']}")
        until(lambda: sum(map(len, weft.world.domains().values())) == 2, lambda: f"{weft.world.domains()}")
    else:
        weft.client.delete("cfd")
        weft.client.wait_gone("cfd")
        weft.client.expect(201, "POST", "/v1/checkpoints/cut/restore?tenant=acme", {})
    weft.client.wait_phase("cfd", "ready")
