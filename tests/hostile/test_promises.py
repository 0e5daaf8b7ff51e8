"""One tenant has large clusters wait whose ranks talk in a pattern, and asks again and again: the queue's only worker, on which others
wait, maps no ranks for that."""

from harness.wait import until
from harness.weft import host

HOSTS = 64
NODES = 500
TIMES = 6
DEARER = 8  # … than without a pattern, at most, in processor time; mapping the ranks of each promise made it 25 times


def spec(name, pattern):
    return {"name": name, "count": NODES, "cores": 5, "memory": "64M", "image": "mpi", "path": "bridge", "walltime": 3600, "start": "cold"} | pattern


def has_promise(weft, name):
    return any(item["name"] == name and item["when"] for item in weft.client.get("/v1/queue")["items"])


def cost(weft, name, **pattern):
    """Microseconds of the queue while a cluster asks, is promised a time, and goes, some times."""
    before = weft.client.get("/v1/queue")["statistics"]["microseconds"]
    for _ in range(TIMES):
        weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", spec(name, pattern))
        until(lambda: has_promise(weft, name), "it is promised a time")
        weft.client.delete(name)
        weft.client.wait_gone(name)
    return weft.client.get("/v1/queue")["statistics"]["microseconds"] - before


def test_ranks_of_those_that_wait_are_not_mapped(site):
    large = [host(f"n{i + 1}", numa=[{"cores": 24, "threads": 2, "pages": {"2M": 65536}}] * 2) for i in range(HOSTS)]
    weft = site(changes={"hosts": large})
    weft.client.create("full", HOSTS, tenant="umbrella", cores=10, memory="64M", path="bridge", start="cold", walltime=3600, layout="spread")
    weft.client.wait_phase("full", "ready", tenant="umbrella", timeout=60)
    plain = cost(weft, "plain")
    talking = cost(weft, "talking", pattern="stencil3d")
    assert talking < DEARER * plain
