"""Whoever makes much wait for little: what many clusters are to be apart from moves, and the main loop is kept from nobody for it."""

import re

from harness.weft import SLICE_MAX, Weft

MANY = 700
OTHERS = 15  # beside the hub; no more can be named
SLICE = re.compile(r"main loop: (\d+) us of (a step of cluster|a review of those that wait|the queue|a decision of the queue|words for those that wait)")


def name(number):
    return "a" * 34 + f"{number % MANY:03}"


def create_all(weft):
    """They never fit, and each is to be apart from the hub and from the next ones."""
    weft.client.create("hub", 1)
    weft.client.wait_phase("hub", "ready")
    for n in range(MANY):
        apart = ["hub"] + [name(n + k) for k in range(1, OTHERS + 1)]
        weft.client.create(name(n), 1, cores=100, apart=apart, user_data="#cloud-config\n" + "#" * 60000)


def test_a_cluster_that_many_must_be_apart_from():
    weft = Weft(hosts=4)
    weft.messages = "all"
    weft.start()
    try:
        create_all(weft)
        for count in (3, 1, 3, 1):
            weft.client.scale("hub", count)
            weft.client.wait_phase("hub", "ready", nodes=count)
        log = weft.log.read_text(encoding="utf-8", errors="replace")
        assert not [found for found in SLICE.findall(log) if int(found[0]) > SLICE_MAX]
        weft.stop()
    finally:
        weft.remove()
