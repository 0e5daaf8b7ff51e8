"""Clocks that jump: nothing ends early or is lost by it, and what is due ends once the time is known."""

import datetime
import json
import time

import pytest

from harness.wait import until

HOUR, DAY = 3600, 24 * 3600
YEARS = 3650 * DAY
JUMPS = [HOUR, -HOUR, DAY, -DAY, YEARS, -YEARS]
HOSTS = ["n1", "n2", "n3", "n4"]


def state(weft):
    return weft.client.get("/v1/clock")["state"]


def wait_state(weft, wanted):
    until(lambda: state(weft) == wanted, lambda: f"the clock is {wanted}: {weft.client.get('/v1/clock')}")


def all_agree(weft, seconds):
    for host in HOSTS:
        weft.world.set_clock(host, seconds)


def nobody_agrees(weft):
    """No host's clock is near any time that is tried here."""
    all_agree(weft, 7777 * DAY)


def events(weft):
    return {event["type"] for event in weft.client.events()}


def furnish(weft):
    """A cluster with some time left, a token with some, and an answer under an idempotency key."""
    weft.client.create("cfd", 2, walltime="30m", key="once")
    weft.client.wait_phase("cfd", "ready")
    token = weft.token("acme-member", expires_in="20m")
    ended = weft.token("acme-viewer", expires_in="1ms")
    return token, ended


def off_for_a_day(site):
    """A site whose machine has booted since, so that only hosts could tell what time it is, and none does."""
    weft = site()
    furnish(weft)
    nobody_agrees(weft)
    weft.stop()
    weft.set_clock(DAY, "another")
    weft.start()
    return weft


def accepted(weft, token):
    return weft.client.request("GET", "/v1/whoami", headers={"Authorization": f"Bearer {token}"}).status == 200


def nothing_is_lost(weft, token, ended, before):
    # What is due is looked at whenever something is created.
    weft.client.create("later", 1, walltime="20m")
    weft.client.wait_phase("later", "ready")
    assert weft.client.cluster("cfd")["phase"] == "ready"
    assert accepted(weft, token) and not accepted(weft, ended)
    assert before <= {event["id"] for event in weft.client.events()}
    assert weft.client.create("cfd", 2, walltime="30m", key="once")["name"] == "cfd", "the answer is known still"
    assert "cluster-expired" not in events(weft)


@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_while_it_runs_ends_nothing(site, jump):
    weft = site()
    token, ended = furnish(weft)
    before = {event["id"] for event in weft.client.events()}
    weft.set_clock(jump)
    wait_state(weft, "jumped")
    nothing_is_lost(weft, token, ended, before)
    until(lambda: "clock-jumped" in events(weft), "operators are told")
    found = next(check for item in weft.client.get("/v1/doctor")["items"] for check in item["checks"] if check["check"] == "clock")
    assert found["state"] == "fail" and "weft clock accept" in found["remedy"]
    weft.set_clock(0)
    wait_state(weft, "trusted")


@pytest.mark.parametrize("boot", [None, "another"])
@pytest.mark.parametrize("jump", JUMPS)
def test_a_jump_at_the_start_ends_nothing(site, jump, boot):
    weft = site()
    token, ended = furnish(weft)
    before = {event["id"] for event in weft.client.events()}
    nobody_agrees(weft)
    weft.stop()
    weft.set_clock(jump, boot)
    weft.start()
    wait_state(weft, "held" if boot else "jumped")
    nothing_is_lost(weft, token, ended, before)


def test_walltimes_go_on_after_a_jump(site):
    weft = site()
    weft.client.wait_open()
    weft.set_clock(-DAY)
    wait_state(weft, "jumped")
    weft.client.create("cfd", 1, walltime="1s")
    weft.client.wait_gone("cfd")
    assert "cluster-expired" in events(weft)


def test_what_is_held_ends_when_hosts_agree(site):
    """The machine was off for a day, and its clock is right: a walltime is over."""
    weft = off_for_a_day(site)
    wait_state(weft, "held")
    weft.client.create("later", 1, walltime="20m")
    weft.client.wait_phase("later", "ready")
    for host in HOSTS[:3]:
        weft.world.set_clock(host, DAY)
        weft.world.devices_changed(host)
    wait_state(weft, "trusted")
    weft.client.wait_gone("cfd")
    # It was placed while nobody knew the time: what is left of its walltime stays.
    assert weft.client.cluster("later")["phase"] == "ready"
    assert {"clock-held", "clock-accepted", "cluster-expired"} <= events(weft)


def test_half_of_the_hosts_is_no_majority(site):
    weft = off_for_a_day(site)
    for host in HOSTS[:2]:
        weft.world.set_clock(host, DAY)
        weft.world.devices_changed(host)
    until(lambda: weft.client.get("/v1/clock")["hosts"] == {"wall": 2, "time": 0, "neither": 2}, lambda: f"{weft.client.get('/v1/clock')}")
    assert state(weft) == "held" and weft.client.cluster("cfd")["phase"] == "ready"


def test_what_is_held_ends_when_an_admin_says_so(site):
    weft = off_for_a_day(site)
    wait_state(weft, "held")
    shown = json.loads(weft.cli("clock", "show", "--json").stdout)
    weft.set_clock(2 * DAY, "another")
    stale = weft.client.request("POST", "/v1/clock/accept", {"wall": shown["wall"]})
    assert stale.status == 409 and "was set in the meantime" in stale.text
    assert state(weft) == "held" and weft.client.cluster("cfd")
    assert "trusted" in weft.cli("clock", "accept").stdout
    weft.client.wait_gone("cfd")
    assert "cluster-expired" in events(weft)


def test_a_jump_that_is_accepted_ends_nothing_early(site):
    """The clock was wrong from the first start on, and is corrected: what is left of walltimes was counted right."""
    weft = site()
    token, _ = furnish(weft)
    nobody_agrees(weft)
    weft.set_clock(-DAY)
    wait_state(weft, "jumped")
    weft.cli("clock", "accept")
    wait_state(weft, "trusted")
    assert weft.client.cluster("cfd")["phase"] == "ready" and accepted(weft, token)
    weft.set_clock(DAY)
    wait_state(weft, "jumped")
    weft.cli("clock", "accept")
    wait_state(weft, "trusted")
    weft.client.create("later", 1)
    weft.client.wait_phase("later", "ready")
    assert weft.client.cluster("cfd")["phase"] == "ready"
    weft.kill()
    weft.start()
    wait_state(weft, "trusted")
    assert weft.client.cluster("cfd")["phase"] == "ready" and "cluster-expired" not in events(weft)


def test_small_steps_are_no_way_around(site):
    """Each is below the bound, and together they are not: the walltime has its length."""
    weft = site()
    weft.client.create("cfd", 1, walltime="1h")
    weft.client.wait_phase("cfd", "ready")
    for step in range(1, 9):
        weft.set_clock(step * 599)
        assert abs(time_of(weft) - time.time()) < 700, "one step is followed, and no more"
    wait_state(weft, "jumped")
    # A restart does not forget what was followed already.
    weft.stop()
    weft.set_clock(2 * 599)
    weft.start()
    wait_state(weft, "jumped")
    weft.client.create("later", 1)
    weft.client.wait_phase("later", "ready")
    assert weft.client.cluster("cfd")["phase"] == "ready" and "cluster-expired" not in events(weft)
    weft.set_clock(0)
    wait_state(weft, "trusted")


def time_of(weft):
    """What weft goes by, in seconds."""
    return datetime.datetime.fromisoformat(weft.client.get("/v1/clock")["time"]).timestamp()


@pytest.mark.parametrize("jump", [YEARS, -YEARS])
def test_hosts_do_not_overrule_ticks(site, jump):
    """Everybody follows the same wrong time server while the machine runs: an admin decides, and nobody else."""
    weft = site()
    token, ended = furnish(weft)
    before = {event["id"] for event in weft.client.events()}
    all_agree(weft, jump)
    weft.set_clock(jump)
    for host in HOSTS:
        weft.world.devices_changed(host)
    until(lambda: weft.client.get("/v1/clock")["hosts"]["wall"] == len(HOSTS), lambda: f"all are heard: {weft.client.get('/v1/clock')}")
    # It is looked at each second: this one is gone after several looks.
    weft.client.create("short", 1, walltime="3s")
    weft.client.wait_gone("short")
    assert state(weft) == "jumped" and "clock-accepted" not in events(weft)
    assert before <= {event["id"] for event in weft.client.events()}
    assert weft.client.cluster("cfd")["phase"] == "ready" and accepted(weft, token) and not accepted(weft, ended)
    all_agree(weft, 0)
    weft.set_clock(0)
    wait_state(weft, "trusted")


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_boot_after_a_jump_ends_nothing(site, end):
    """The clock was a day behind from the first start on and was set right; before an admin said so, the machine booted."""
    weft = site()
    token, ended = furnish(weft)
    all_agree(weft, DAY)
    weft.set_clock(DAY)
    wait_state(weft, "jumped")
    until(lambda: "clock-jumped" in events(weft), "it was noticed")
    weft.client.create("between", 1, walltime="20m")
    weft.client.wait_phase("between", "ready")
    getattr(weft, end)()
    weft.set_clock(DAY, "another")
    weft.start()
    until(lambda: weft.client.get("/v1/clock")["hosts"]["wall"] == len(HOSTS), lambda: f"all are heard: {weft.client.get('/v1/clock')}")
    weft.client.create("later", 1, walltime="20m")
    weft.client.wait_phase("later", "ready")
    time.sleep(2)  # it is looked at each second what they say
    assert state(weft) == "held" and "clock-accepted" not in events(weft)
    checks = [check for item in weft.client.get("/v1/doctor")["items"] for check in item["checks"] if check["check"] == "clock"]
    assert "until an admin accepts it" in checks[0]["found"]
    weft.cli("clock", "accept")
    wait_state(weft, "trusted")
    weft.client.create("last", 1)
    weft.client.wait_phase("last", "ready")
    assert all(weft.client.cluster(name)["phase"] == "ready" for name in ("cfd", "between", "later"))
    assert accepted(weft, token) and not accepted(weft, ended) and "cluster-expired" not in events(weft)
    # That jump is over: after the next boot hosts decide again, and the time that it was off counts.
    weft.stop()
    all_agree(weft, 2 * DAY)
    weft.set_clock(2 * DAY, "third")
    weft.start()
    wait_state(weft, "trusted")
    weft.client.wait_gone("cfd")


def ends_of(weft):
    """Of what began and has a length, what is left of it in seconds by what weft goes by."""
    now = time_of(weft)
    found = {f"token {item['id']}": item["expires"] for item in weft.client.get("/v1/tokens")["items"]}
    found |= {f"reservation {item['name']}": item["end"] for item in weft.client.get("/v1/reservations")["items"]}
    found["cluster cfd"] = weft.client.cluster("cfd")["ends"]
    return {what: datetime.datetime.fromisoformat(end).timestamp() - now for what, end in found.items() if end}


@pytest.mark.parametrize("jump", [2 * DAY, -YEARS])
def test_what_is_left_stays_when_a_jump_is_accepted(site, jump):
    weft = site()
    token, ended = furnish(weft)
    weft.client.expect(201, "POST", "/v1/reservations", {"name": "now", "hosts": "n4", "duration": "2h"})
    until(lambda: "reservation-begun" in events(weft), "it has begun")
    start = datetime.datetime.fromtimestamp(int(time.time()) + 30 * DAY, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    day = weft.client.expect(201, "POST", "/v1/reservations", {"name": "day", "hosts": "n3", "start": start, "duration": "2h"})
    nobody_agrees(weft)
    before = ends_of(weft)
    weft.set_clock(jump)
    wait_state(weft, "jumped")
    weft.cli("clock", "accept")
    wait_state(weft, "trusted")
    after = ends_of(weft)
    assert before.keys() == after.keys()
    for what in before.keys() - {"reservation day"}:
        assert abs(after[what] - before[what]) < HOUR / 2, (what, before, after)
    assert accepted(weft, token) and not accepted(weft, ended)
    named = next(item for item in weft.client.get("/v1/reservations")["items"] if item["name"] == "day")
    assert named["start"] == day["start"], "it names a day of the calendar"


def test_only_admins_accept(site):
    weft = site()
    shown = weft.client.get("/v1/clock")
    for principal, seen in (("acme-member", 403), ("olga", 200)):
        headers = {"Authorization": f"Bearer {weft.token(principal)}"}
        assert weft.client.request("GET", "/v1/clock", headers=headers).status == seen
        assert weft.client.request("POST", "/v1/clock/accept", {"wall": shown["wall"]}, headers).status == 403
