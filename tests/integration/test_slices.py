"""What is large is not done on the main loop, where everybody else would wait for it."""

import re

from harness.wait import until
from harness.weft import SLICE_MAX, Weft, host

NODES = 300
SLICE = re.compile(r"main loop: (\d+) us of (the queue|a decision of the queue|a review of those that wait|words for those that wait)")


def large(name):
    """A host with room for 16 small nodes."""
    return host(name, numa=[{"cores": 18, "threads": 1, "pages": {"2M": 4096}}] * 2,
                hcas=[{"name": "mlx5_0", "driver": "mlx5", "numa": 0, "rail": 0,
                       "port_guid": f"0x{0x0002C90300000000 + int(name[1:]):016x}", "vfs": 16}])


def matrix(n):
    """Every pair talks, and no order suits all."""
    return [[0 if a == b else 1 + (min(a, b) * 7919 + max(a, b) * 104729) % 9 for b in range(n)] for a in range(n)]


def slices(weft):
    """Those of the queue, in microseconds of the thread's processor time: a busy machine makes them no longer."""
    return [int(us) for us, _ in SLICE.findall(weft.log.read_text(encoding="utf-8", errors="replace"))]


def test_ranks_are_mapped_elsewhere():
    weft = Weft(changes={"hosts": [large(f"n{i + 1}") for i in range(24)]})
    weft.messages = "all"
    weft.start()
    try:
        weft.client.create("big", NODES, cores=2, memory="64M", matrix=matrix(NODES))
        weft.client.create("small", 1, cores=2, memory="64M")
        for name in ("big", "small"):
            until(lambda: weft.client.cluster(name)["placed"], f"nodes of {name} have their places")
        assert not [us for us in slices(weft) if us > SLICE_MAX]
        # Whoever waits for room may be mapped, too, where its functions would not do.
        weft.client.create("next", NODES, cores=2, memory="64M", matrix=matrix(NODES), walltime="1h")
        until(lambda: any(item["name"] == "next" and item["why"] == "room" for item in weft.client.get("/v1/queue")["items"]),
              "the next one waits for room")
        assert not [us for us in slices(weft) if us > SLICE_MAX]
        weft.stop()
    finally:
        weft.remove()


def test_a_large_cluster_is_read_in_parts():
    """More nodes than a step reads, and more host keys than it derives: all are there again after a restart."""
    # On a busy machine 300 nodes need longer to meet than the two seconds of other tests, and all would begin again.
    weft = Weft(changes={"hosts": [large(f"n{i + 1}") for i in range(24)], "control": {"meet_deadline": "60s"}})
    weft.start()
    try:
        weft.client.create("big", NODES, cores=2, memory="64M")
        weft.client.wait_phase("big", "ready", timeout=120, nodes=NODES)
        weft.kill()
        weft.start()
        kept = NODES - 44  # a multiple of what a step reads
        weft.client.scale("big", kept)
        weft.client.wait_phase("big", "ready", timeout=120, nodes=kept)
        assert sorted(node["rank"] for node in weft.client.nodes("big")) == list(range(kept))
        weft.kill()
        weft.start()
        weft.client.delete("big")
        weft.client.wait_gone("big")
        weft.stop()
    finally:
        weft.remove()
