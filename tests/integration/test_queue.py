"""Clusters that wait: in which order they get room, why they wait and until when, and what they have to give back."""

import re
import time
from datetime import datetime, timedelta, timezone

import pytest
from harness.wait import until
from harness.weft import Weft

WHOLE = 6  # cores that a host has for nodes
SHARES = {"queue": {"share": 1000000}}
NO_SHARES = {"queue": {"share": 0}}


def moment(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def rfc3339(when):
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def items(weft, **query):
    return weft.client.get("/v1/queue", **query)["items"]


def names(weft):
    return [item["name"] for item in items(weft)]


def waits(weft, name, why, tenant="acme"):
    """Until it waits for that reason; what the queue says of it."""
    def find():
        found = [item for item in items(weft, tenant=tenant) if item["name"] == name]
        return found[0] if found and found[0]["why"] == why else None

    return until(find, lambda: f"{name} waits ({why}): {items(weft)}")


def fill(weft, name="big", count=1, tenant="acme", **spec):
    weft.client.create(name, count, tenant=tenant, cores=WHOLE, **spec)
    return weft.client.wait_phase(name, "ready", tenant=tenant)


def placed(weft, name):
    """Once it has its places: from then on its walltime counts, which may be over before it is ready."""
    return until(lambda: (seen := weft.client.cluster(name)) and seen["ends"] and seen, f"{name} is placed")


def hosts_of(weft, name, tenant="acme"):
    return {node["host"] for node in weft.client.nodes(name, tenant)}


def remove(weft, name, tenant="acme"):
    weft.client.delete(name, tenant)
    weft.client.wait_gone(name, tenant)


def reserve(weft, name, hosts, duration="1h", **more):
    return weft.client.expect(201, "POST", "/v1/reservations", {"name": name, "hosts": hosts, "duration": duration} | more)


# --- the order ---


def test_priority_before_age(site, settle):
    weft = site(hosts=1, changes=NO_SHARES)
    fill(weft)
    for name, priority in (("old", 0), ("young", 0), ("high", 10), ("low", -10)):
        weft.client.create(name, 1, cores=WHOLE, priority=priority)
        waits(weft, name, "room")
    assert names(weft) == ["high", "old", "young", "low"]
    assert [item["place"] for item in items(weft)] == [1, 2, 3, 4]
    points = [item["points"] for item in items(weft)]
    assert points == sorted(points, reverse=True)
    remove(weft, "big")
    weft.client.wait_phase("high", "ready")
    settle(weft)
    assert names(weft) == ["old", "young", "low"]


def test_who_has_used_less_goes_first(site, settle):
    weft = site(hosts=1, changes=SHARES)
    fill(weft)
    weft.client.create("more", 1, cores=WHOLE)
    waits(weft, "more", "room")
    weft.client.create("first", 1, tenant="umbrella", cores=WHOLE)
    waits(weft, "first", "room", "umbrella")
    assert names(weft) == ["first", "more"]
    assert items(weft)[0]["share"] > 0 > items(weft)[1]["share"]
    remove(weft, "big")
    weft.client.wait_phase("first", "ready", tenant="umbrella")
    # What acme has used counts also after a restart, when it runs nothing.
    weft.stop()
    weft.start()
    waits(weft, "more", "room")
    weft.client.create("second", 1, tenant="umbrella", cores=WHOLE)
    waits(weft, "second", "room", "umbrella")
    assert {item["name"]: item["share"] > 0 for item in items(weft)}.keys() == {"more", "second"}
    settle(weft)


def test_a_larger_share_is_filled_later(site):
    weft = site(hosts=1, changes=SHARES | {"tenants": [{"name": "acme", "share": 8}, {"name": "umbrella"}, {"name": "hooli"}]})
    weft.client.create("a", 1, cores=3)
    weft.client.create("u", 1, tenant="umbrella", cores=3)
    weft.client.wait_phase("a", "ready")
    weft.client.wait_phase("u", "ready", tenant="umbrella")
    for name, tenant in (("u2", "umbrella"), ("a2", "acme")):
        weft.client.create(name, 1, tenant=tenant, cores=WHOLE)
        waits(weft, name, "room", tenant)
    # Shares are found out anew now and then, and at the start.
    weft.stop()
    weft.start()
    waits(weft, "a2", "room")
    assert names(weft) == ["a2", "u2"], "half of the usage is less than acme's part, and more than umbrella's"


def test_a_restart_keeps_the_order(site, settle):
    weft = site(hosts=1, changes=NO_SHARES)
    fill(weft, walltime="2h")
    for name, priority in (("old", 0), ("high", 10), ("young", 0)):
        weft.client.create(name, 1, cores=WHOLE, priority=priority, walltime="1h")
        waits(weft, name, "room")

    def order():
        return [[item[field] for field in ("name", "place", "since", "when")] for item in items(weft)]

    before = order()
    weft.kill()
    weft.start()
    until(lambda: order() == before, lambda: f"all is as before, when the hosts have answered: {order()}, not {before}")
    weft.stop()
    weft.start()
    weft.client.delete("big")
    weft.client.wait_phase("high", "ready")
    settle(weft)
    assert names(weft) == ["old", "young"]


def test_scaling_up_waits_its_turn(site, settle):
    weft = site(hosts=1, changes=NO_SHARES)
    weft.client.create("a", 1, cores=3)
    weft.client.wait_phase("a", "ready")
    weft.client.create("b", 2, cores=3)
    waits(weft, "b", "room")
    weft.client.scale("a", 2)
    found = waits(weft, "a", "turn")
    assert (found["nodes"], found["cores"], found["place"]) == (1, 3, 2)
    assert "its turn comes after 1 other" in found["reason"]
    assert moment(found["since"]) > moment(weft.client.cluster("a")["created"])
    assert weft.client.cluster("a")["ready"] == 1
    remove(weft, "b")
    weft.client.wait_phase("a", "ready", ready=2)
    settle(weft)


# --- gaps and promises ---


def test_who_delays_nobody_fills_the_gap(site, settle):
    weft = site(hosts=2, changes=NO_SHARES)
    fill(weft, walltime="1h")
    weft.client.create("wide", 2, cores=WHOLE, walltime="1h")
    promise = waits(weft, "wide", "room")["when"]
    assert promise == weft.client.cluster("big")["ends"]
    weft.client.create("long", 1, cores=WHOLE, walltime="2h")
    assert "promised" in waits(weft, "long", "turn")["reason"]
    weft.client.create("short", 1, cores=WHOLE, walltime="30m")
    weft.client.wait_phase("short", "ready")
    assert weft.client.cluster("long")["phase"] == "queued"
    assert waits(weft, "wide", "room")["when"] == promise, "nobody who comes later delays it"
    settle(weft)


def test_what_is_promised_comes(site, settle):
    weft = site(hosts=1, changes=NO_SHARES)
    weft.client.create("big", 1, cores=WHOLE, walltime="5s")
    ends = placed(weft, "big")["ends"]  # it need not be ready for that
    weft.client.create("next", 1, cores=WHOLE, walltime="1h")
    promise = waits(weft, "next", "room")["when"]
    assert promise == ends
    placed_at = weft.client.wait_phase("next", "ready")["placed"]
    assert moment(placed_at) >= moment(promise)
    assert weft.client.cluster("big") is None
    settle(weft)


def test_without_an_end_nothing_is_promised(site):
    weft = site(hosts=1)
    fill(weft)
    weft.client.create("next", 1, cores=WHOLE)
    assert waits(weft, "next", "room")["when"] is None


def test_what_never_fits_is_told_apart(site):
    weft = site(hosts=1)
    weft.client.create("huge", 900)
    found = waits(weft, "huge", "never")
    assert found["reason"].startswith("it can never be placed as the site is") and found["when"] is None
    until(lambda: weft.client.cluster("huge")["reason"] == found["reason"], "its status tells that, too")
    # Nobody waits for it.
    weft.client.create("small", 1)
    weft.client.wait_phase("small", "ready")


# --- walltimes ---


def test_over_means_removed(site, settle):
    weft = site(changes={"control": {"expiry_warning": "2s"}})
    made = weft.client.create("cfd", 2, walltime="5s")
    assert made["ends"] is None
    seen = placed(weft, "cfd")
    assert moment(seen["ends"]) - moment(seen["placed"]) == timedelta(seconds=5)
    weft.client.wait_gone("cfd")
    told = {event["type"]: event["message"] for event in weft.client.events()}
    assert told["cluster-expired"] == "its walltime of 5 s is over; it is removed"
    assert seen["ends"] in told["cluster-expiring"]
    settle(weft)


def test_over_while_nobody_looked(site, settle):
    weft = site()
    weft.client.create("cfd", 1, walltime="2s")
    ends = moment(placed(weft, "cfd")["ends"])
    weft.kill()
    until(lambda: datetime.now(timezone.utc) > ends, "its walltime passes")
    weft.start()
    weft.client.wait_gone("cfd")
    assert "cluster-expired" in {event["type"] for event in weft.client.events()}
    settle(weft)


def test_waiting_does_not_count(site):
    weft = site(hosts=1)
    fill(weft)
    weft.client.create("cfd", 1, cores=WHOLE, walltime="1s")
    waits(weft, "cfd", "room")
    time.sleep(1.5)  # longer than its walltime
    assert weft.client.cluster("cfd")["ends"] is None
    weft.client.delete("big")
    until(lambda: (weft.client.cluster("cfd") or {"ends": "gone"})["ends"], "it was placed")
    weft.client.wait_gone("cfd")


# --- preemption ---


def test_giving_way_and_coming_back(site, settle):
    weft = site(hosts=2)
    fill(weft, "cheap", 2, preemptible=True)
    before = weft.client.nodes("cheap")
    weft.client.create("urgent", 1, tenant="umbrella", cores=WHOLE, priority=5)
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")
    found = waits(weft, "cheap", "room")
    preempted = weft.client.wait_phase("cheap", "preempted", nodes=0)
    assert found["since"] == preempted["created"] and preempted["placed"] is None
    assert not weft.client.nodes("cheap")
    told = [event for event in weft.client.events(tenant="acme") if event["type"] == "cluster-preempted"]
    assert len(told) == 1 and "gave way" in told[0]["message"]
    assert not re.search("urgent|umbrella", str(weft.client.events(tenant="acme")) + str(preempted))
    settle(weft)

    remove(weft, "urgent", "umbrella")
    weft.client.wait_phase("cheap", "ready", ready=2)
    assert not {node["id"] for node in before} & {node["id"] for node in weft.client.nodes("cheap")}
    settle(weft)


def test_only_as_many_give_way_as_must(site, settle):
    weft = site(hosts=2)
    for name, priority in (("a", 0), ("b", 3)):
        fill(weft, name, preemptible=True, priority=priority)
    fill_before = hosts_of(weft, "b")
    weft.client.create("urgent", 1, tenant="umbrella", cores=WHOLE, priority=5)
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")
    weft.client.wait_phase("a", "preempted")
    assert weft.client.cluster("b")["phase"] == "ready" and hosts_of(weft, "b") == fill_before
    # Nobody gives way to one of lower priority, nor to one that would give way itself.
    weft.client.create("meek", 1, tenant="umbrella", cores=WHOLE, priority=2)
    weft.client.create("alike", 1, tenant="umbrella", cores=WHOLE, priority=5, preemptible=True)
    waits(weft, "meek", "room", "umbrella")
    waits(weft, "alike", "room", "umbrella")
    settle(weft)
    assert weft.client.cluster("b")["phase"] == "ready"


def test_one_that_gave_way_can_be_removed(site, settle):
    weft = site(hosts=1)
    fill(weft, "cheap", preemptible=True)
    weft.client.create("urgent", 1, tenant="umbrella", cores=WHOLE)
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")
    weft.client.wait_phase("cheap", "preempted", nodes=0)
    remove(weft, "cheap")
    settle(weft)


# --- reservations ---


def test_hosts_are_kept(site, settle):
    weft = site(hosts=2)
    weft.client.wait_open(2)
    reserve(weft, "course", "n1", tenant="umbrella")
    weft.client.create("ours", 2, cores=WHOLE)
    waits(weft, "ours", "room")
    weft.client.create("small", 1, walltime="30m")
    weft.client.wait_phase("small", "ready")
    assert hosts_of(weft, "small") == {"n2"}
    fill(weft, "theirs", tenant="umbrella", walltime="30m")
    assert hosts_of(weft, "theirs", "umbrella") == {"n1"}
    remove(weft, "small")
    remove(weft, "theirs", "umbrella")
    weft.client.expect(204, "DELETE", "/v1/reservations/course")
    weft.client.wait_phase("ours", "ready")
    settle(weft)


def test_until_it_begins_short_ones_may_use_them(site, settle):
    weft = site(hosts=1)
    weft.client.wait_open(1)
    start = datetime.now(timezone.utc) + timedelta(hours=1)
    made = reserve(weft, "firmware", "n1", start=rfc3339(start))
    assert (made["active"], made["tenant"], made["hosts"]) == (False, None, "n1")
    weft.client.create("long", 1, walltime="2h")
    found = waits(weft, "long", "room")
    assert found["when"] == made["end"]
    weft.client.create("short", 1, walltime="30m")
    weft.client.wait_phase("short", "ready")
    settle(weft)


def test_who_is_in_the_way_when_it_begins(site, settle):
    weft = site(hosts=2, changes={"control": {"pkey_rest": "200ms"}})
    fill(weft, "cheap", preemptible=True)
    fill(weft, "firm")
    reserve(weft, "firmware", "n[1-2]", duration="2s")
    until(lambda: any(event["type"] == "cluster-preempted" for event in weft.client.events()), "one gives way, perhaps not for long")
    told = until(lambda: [event for event in weft.client.events() if event["type"] == "reservation-begun"], "it has begun")
    assert "1 cluster of others still on its hosts: acme/firm" in told[0]["message"] and told[0]["tenant"] is None
    # It is over by itself, and who gave way comes back.
    until(lambda: not weft.client.items("/v1/reservations"), "it is over")
    weft.client.wait_phase("cheap", "ready")
    assert weft.client.cluster("firm")["phase"] == "ready"
    assert len([event for event in weft.client.events() if event["type"] == "reservation-begun"]) == 1
    settle(weft)


def test_lost_nodes_are_not_replaced_on_kept_hosts(site, settle):
    weft = site(hosts=2)
    weft.client.wait_open(2)
    reserve(weft, "firmware", "n2")
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert hosts_of(weft, "cfd") == {"n1"}
    weft.client.expect(200, "POST", "/v1/hosts/n1/drain", {"evict": True})
    until(lambda: "no host can take nodes" in (weft.client.cluster("cfd")["reason"] or ""), "it finds no other host")
    weft.client.expect(204, "DELETE", "/v1/reservations/firmware")
    until(lambda: hosts_of(weft, "cfd") == {"n2"}, "it moves when the hosts are kept no more")
    settle(weft)


@pytest.mark.parametrize("body, says", [
    ({"hosts": "n[1-9]"}, 'there is no host "n5"'),
    ({"hosts": "n2", "tenant": "nobody"}, 'there is no tenant "nobody"'),
    ({"hosts": "n[2-3]", "duration": "soon"}, "duration"),
    ({"hosts": "n1"}, "hosts: n1 is kept by reservation course then"),
    ({"hosts": "n2", "name": "course"}, "reservation course exists already"),
])
def test_wrong_reservations_change_nothing(site, body, says):
    weft = site()
    reserve(weft, "course", "n1")
    until(lambda: weft.dump().values("reservation")["course"].get("begun"), "it has begun")
    before = weft.dump().values("reservation")
    answer = weft.client.request("POST", "/v1/reservations", {"name": "other", "duration": "1h"} | body)
    assert answer.status in (400, 409) and says in answer.json["detail"], answer.text
    assert weft.dump().values("reservation") == before


# --- neighbours ---


@pytest.mark.parametrize("who", ["first", "second"])
def test_apart(site, settle, who):
    """Whichever of the two asks for it."""
    weft = site(hosts=2)
    weft.client.wait_open(2)
    weft.client.create("first", 1, apart=["second"] if who == "first" else [])
    weft.client.wait_phase("first", "ready")
    weft.client.create("second", 2, layout="spread", apart=["first"] if who == "second" else [])
    weft.client.wait_phase("second", "ready")
    assert hosts_of(weft, "second").isdisjoint(hosts_of(weft, "first"))
    # There is no third host, and it learns when the first has gone, over a restart too.
    remove(weft, "second")
    weft.client.create("second", 2, cores=4, layout="spread", apart=["first"] if who == "second" else [])
    found = items(weft)
    until(lambda: [item["name"] for item in items(weft) if item["why"] != "new"] == ["second"], lambda: f"second waits: {found}")
    weft.stop()
    weft.start()
    until(lambda: [item["name"] for item in items(weft) if item["why"] != "new"] == ["second"], "second waits still")
    settle(weft)
    weft.client.delete("first")
    weft.client.wait_phase("second", "ready")
    settle(weft)


def test_apart_where_both_wait(site, settle):
    weft = site(hosts=2, changes=NO_SHARES)
    fill(weft, count=2)
    weft.client.create("a", 1)
    weft.client.create("b", 1, apart=["a"])
    waits(weft, "b", "room")
    weft.client.delete("big")
    weft.client.wait_phase("a", "ready")
    weft.client.wait_phase("b", "ready")
    assert hosts_of(weft, "a").isdisjoint(hosts_of(weft, "b"))
    settle(weft)


def test_apart_when_a_host_is_lost(site, settle):
    weft = site(hosts=3)
    weft.client.wait_open(3)
    for name, other in (("a", "b"), ("b", "a")):
        weft.client.create(name, 1, apart=[other])
        weft.client.wait_phase(name, "ready")
    (lost,) = hosts_of(weft, "a")
    weft.world.lose(lost)
    until(lambda: lost not in hosts_of(weft, "a"), "its node is elsewhere")
    weft.client.wait_phase("a", "ready")
    assert hosts_of(weft, "a").isdisjoint(hosts_of(weft, "b"))
    weft.world.bring_back(lost)
    settle(weft)


def test_exclusive(site, settle):
    weft = site(hosts=2)
    weft.client.wait_open(2)
    weft.client.create("solo", 2, exclusive=True)
    weft.client.wait_phase("solo", "ready")
    (own,) = hosts_of(weft, "solo")
    weft.client.create("others", 3)
    weft.client.wait_phase("others", "ready")
    assert own not in hosts_of(weft, "others")
    weft.client.create("too", 1, exclusive=True)
    assert "no room" in waits(weft, "too", "room")["reason"]
    remove(weft, "solo")
    weft.client.wait_phase("too", "ready")
    settle(weft)


# --- who sees what ---


@pytest.fixture
def two_tenants(request, certificate):
    weft = Weft(hosts=1, changes=NO_SHARES | {
        "api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    request.addfinalizer(weft.remove)
    weft.start()
    fill(weft)
    for name, tenant in (("secret-plan", "acme"), ("ours", "umbrella")):
        weft.client.create(name, 1, tenant=tenant, cores=WHOLE)
        waits(weft, name, "room", tenant)
    return weft, weft.tls_client(weft.token("umbrella-viewer"), certificate["certificate"])


def test_others_are_not_shown_but_count(two_tenants):
    weft, viewer = two_tenants
    answer = viewer.request("GET", "/v1/queue")
    assert [(item["name"], item["place"]) for item in answer.json["items"]] == [("ours", 2)]
    assert answer.json["waiting"] == 2 and "statistics" not in answer.json
    assert not re.search("acme|secret|big", answer.text)
    foreign, absent = (viewer.request("GET", f"/v1/queue?tenant={name}") for name in ("acme", "nobody"))
    assert (foreign.status, foreign.text.replace("acme", "nobody")) == (absent.status, absent.text) and absent.status == 404
    assert len(items(weft, tenant="acme")) == 1 and len(items(weft)) == 2


def test_statistics(site):
    weft = site(hosts=1)
    before = weft.client.get("/v1/queue")["statistics"]
    fill(weft)
    after = weft.client.get("/v1/queue")["statistics"]
    assert after["started"] == before["started"] + 1 and after["runs"] > before["runs"]
    assert after["microseconds"] > before["microseconds"] and after["preempted"] == 0


# --- weft ---


def test_weft_queue(site):
    weft = site(hosts=1, changes=NO_SHARES)
    fill(weft, walltime="2h")
    weft.client.create("next", 1, cores=WHOLE, walltime="1h", priority=3)
    waits(weft, "next", "room")
    weft.client.create("later", 1, tenant="umbrella", cores=WHOLE)
    waits(weft, "later", "room", "umbrella")
    lines = weft.cli("queue").stdout.splitlines()
    assert lines[0].split() == ["PLACE", "TENANT", "NAME", "NODES", "CORES", "PRIORITY", "WAITS", "STARTS", "REASON"]
    assert lines[1].split()[:6] == ["1", "acme", "next", "1", "6", "3"] and "in 1 h 59 m" in lines[1] and "no room" in lines[1]
    assert lines[2].split()[:3] == ["2", "umbrella", "later"]
    assert len(weft.cli("queue", "--tenant", "acme").stdout.splitlines()) == 2
    assert '"place": 1' in weft.cli("queue", "--json").stdout
    shown = weft.cli("show", "next", "--tenant", "acme").stdout
    assert re.search(r"^  queue +place 1 of 2, starts in 1 h 59 m$", shown, re.M), shown
    assert "queue  " not in weft.cli("show", "big", "--tenant", "acme").stdout


def test_weft_reservation(site):
    weft = site(hosts=2)
    made = weft.cli("reservation", "add", "course", "--hosts", "n[1-2]", "--start", "2h", "--for", "30m", "--tenant", "acme")
    assert re.fullmatch(r"reservation course: n\[1-2\] for acme from \S+ to \S+\n", made.stdout)
    lines = weft.cli("reservation", "ls").stdout.splitlines()
    assert lines[0].split() == ["NAME", "TENANT", "START", "END", "STATE", "HOSTS"]
    assert lines[1].split()[::4] == ["course", "planned"] and lines[1].endswith("n[1-2]")
    weft.cli("reservation", "add", "now", "--hosts", "n1", "--for", "1h")
    assert any("active" in line and line.startswith("now") for line in weft.cli("reservation", "ls").stdout.splitlines())
    refused = weft.cli("reservation", "add", "other", "--hosts", "n1", "--for", "3h", check=False)
    assert refused.returncode == 5 and "kept by reservation" in refused.stderr
    assert weft.cli("reservation", "rm", "course", "now").stdout == "reservation course is removed\nreservation now is removed\n"
    assert weft.cli("reservation", "rm", "course", check=False).returncode != 0
    usage = weft.cli("reservation", "add", "x", "--hosts", "n1", check=False)
    assert usage.returncode == 2 and "--for" in usage.stderr
