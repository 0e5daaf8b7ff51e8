"""Who gives way keeps its memory, or does not give way."""

from harness.wait import until
from test_templates import add_image
from test_wrong_store import running, state

NUMBER = 4711


def hold(weft, host):
    weft.world.add_network(host, NUMBER, "0zzzzzzzzzzz", site="9othersite00")
    until(lambda: state(weft, host) == "held", f"{host} is held")


def types(weft):
    return {event["type"] for event in weft.client.events()}


def test_not_while_one_of_its_hosts_is_held(site):
    """It could not be saved there: it is stopped once it can be."""
    weft = site(hosts=2)
    add_image(weft)
    weft.client.create("low", 2, layout="spread", cores=3, numa="required", preemptible=True, path="bridge", priority=-10, start="cold")
    weft.client.wait_phase("low", "ready")
    hold(weft, "n2")
    before = running(weft)
    weft.client.create("high", 1, cores=6, path="bridge", hosts="n1")
    until(lambda: weft.client.cluster("high")["reason"], "it is told why it waits")
    runs = lambda: weft.client.get("/v1/queue")["statistics"]["runs"]  # noqa: E731
    seen = runs()
    # Whatever wakes the queue makes it look for somebody who gives way.
    weft.client.create("third", 1, cores=6, path="bridge", hosts="n1")
    until(lambda: runs() > seen, "the queue was gone through again")
    assert running(weft) == before and weft.client.cluster("low")["phase"] == "ready", weft.log_tail()
    assert not {"cluster-preempted", "checkpoint-failed"} & types(weft)
    weft.world.remove_network("n2", NUMBER)
    weft.client.wait_phase("high", "ready")
    assert "checkpoint-completed" in types(weft) and "checkpoint-failed" not in types(weft)


def test_not_for_a_reservation_either(site):
    weft = site(hosts=2)
    add_image(weft)
    weft.client.create("low", 2, layout="spread", preemptible=True, path="bridge", start="cold")
    weft.client.wait_phase("low", "ready")
    hold(weft, "n2")
    before = running(weft)
    weft.client.expect(201, "POST", "/v1/reservations", {"name": "work", "hosts": "n1", "duration": "2h"})
    until(lambda: "reservation-begun" in types(weft), "it has begun")
    told = next(event["message"] for event in weft.client.events() if event["type"] == "reservation-begun")
    assert "acme/low" in told
    assert running(weft) == before and weft.client.cluster("low")["phase"] == "ready"
    weft.world.remove_network("n2", NUMBER)
    until(lambda: "cluster-preempted" in types(weft), "it gives way once it can be saved")
    assert "checkpoint-failed" not in types(weft)
