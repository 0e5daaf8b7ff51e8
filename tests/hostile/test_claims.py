"""A host that claims to have hundreds of things: no verdict differs from that on one with a few."""

from harness.wait import until

MANY = 300  # more than the main thread asks the store about by itself


def state(weft, host):
    return weft.client.get(f"/v1/hosts/{host}")["state"]


def test_foreign_domains_are_told_by_name_while_they_are_few(weft):
    weft.stop()
    for i in range(MANY):
        weft.world.add_foreign("n2", f"vm{i}")
    weft.start()
    told = []

    def are_told():
        told[:] = [event["message"] for event in weft.client.events() if event["type"] == "foreign-domain"]
        return sum(int(message.split()[2]) if " more domains are " in message else 1 for message in told) >= MANY

    until(are_told, lambda: f"all are told of: {told[-3:]}")
    assert any(" more domains are not weft's" in message for message in told), "not each by an event of its own"
    until(lambda: state(weft, "n2") == "up", "it is used all the same")
    assert len(weft.world.domains()["n2"]) == MANY


def test_a_host_that_claims_much_is_held(site):
    """Not lost, and nothing is removed: neither there nor on others. What is confirmed, or has ended, goes once nothing else is there."""
    weft = site(changes={"control": {"list_deadline": "1m"}})  # to look at so much takes long on a busy machine
    weft.client.create("old", 1)
    weft.client.wait_phase("old", "ready")
    ended = f"weft-{weft.client.nodes('old')[0]['id']}"
    text = weft.world.definition(ended)
    weft.client.delete("old")
    until(lambda: weft.client.cluster("old") is None, "it has ended")
    weft.client.create("cfd", 2, layout="spread")
    weft.client.wait_phase("cfd", "ready")
    before = weft.client.nodes("cfd")
    host, here, there = before[0]["host"], f"weft-{before[0]['id']}", f"weft-{before[1]['id']}"
    strays = {f"weft-0zzzzzzzz{i:03}-7" for i in range(MANY)}
    for name in strays:
        weft.world.add_stray(host, name, like=here)
    long = min(strays)
    weft.world.add_domain(host, long, weft.world.definition(long).replace(weft.world.stay(long), "z" * 200))
    weft.world.add_domain(host, ended, text)
    reason = ""

    def is_told():
        nonlocal reason
        reason = weft.client.get(f"/v1/hosts/{host}").get("reason") or ""
        return f"and {MANY - 3} more" in reason

    until(is_told, lambda: f"{host}: {reason}")
    assert state(weft, host) == "held"
    weft.stop()
    weft.start()
    until(lambda: state(weft, host) == "held" and len(weft.client.items("/v1/site")) == MANY, "also after a restart")
    items = weft.client.items("/v1/site")
    assert {item["verdict"] for item in items} == {"unproved"} and {item["name"] for item in items} == strays
    assert weft.client.items("/v1/site", limit=7) == items, "in pages, also behind one with a long mark"
    assert weft.world.domains()[host] >= strays | {ended, here} and weft.world.where(there) == [before[1]["host"]]
    assert not [event for event in weft.client.events() if event["type"] in ("host-lost", "node-lost", "garbage-removed")]

    weft.world.add_domain(host, there, weft.world.definition(there))
    until(lambda: "is recorded on host" in (weft.client.get(f"/v1/hosts/{host}").get("reason") or ""), "one that is elsewhere is found")
    weft.world.remove_domain(host, there)
    until(lambda: len(weft.client.items("/v1/site")) == MANY, "it is gone")

    weft.cli("site", "remove", host, "--yes")
    until(lambda: state(weft, host) == "up", lambda: f"{host} is {state(weft, host)}")
    until(lambda: not weft.world.domains()[host] & (strays | {ended}), "they are gone")
    assert not weft.client.items("/v1/site")
    weft.client.wait_phase("cfd", "ready")
    assert [(node["id"], node["host"]) for node in weft.client.nodes("cfd")] == [(node["id"], node["host"]) for node in before]
    assert weft.world.where(here) == [host]
