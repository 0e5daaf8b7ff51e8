"""What guests answer when they are asked whether they reach each other: as much as they may, of what says nothing or is not true."""

import re

import pytest
from harness.wait import until
from harness.weft import SLICE_MAX, host

NODES = 64
ANSWER_MAX = 60000  # bytes; a node may answer 64 KiB
# Each answer is read, and what all of them say is compared, where links are read.
BUSY = re.compile(r"the main loop was kept busy for (\d+) ms .*links to nodes")

ANSWERS = {
    "repeats": "unreached" + " 0 1" * (ANSWER_MAX // 4) + "\nwhy\n",
    "everybody": "unreached" + "".join(f" {rank}" * 200 for rank in range(NODES)) + "\nwhy\n",
    "nobody": "unreached" + " 4294967296 99999" * (ANSWER_MAX // 17) + "\nwhy\n",
    "lines": "\n" * ANSWER_MAX + "why\n",
    "ports": "port 0 missing\n" * (ANSWER_MAX // 15) + "why\n",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_guests_answer_keeps_nobody_waiting(site, answer):
    weft = site(changes={"hosts": [host(f"n{i + 1}") for i in range(NODES)],
                         "control": {"backoff_base": "10ms", "backoff_max": "20ms", "starts_max": 2}})
    weft.world.answer(ANSWERS[answer])
    weft.client.create("cfd", NODES, cores=1, layout="spread")
    until(lambda: any("(try 4)" in event["message"] for event in weft.client.events()), "nodes were moved for what was said", timeout=60)
    weft.world.answer(None)
    weft.client.wait_phase("cfd", "ready", nodes=NODES, timeout=60)
    busy = BUSY.findall(weft.log.read_text(encoding="utf-8", errors="replace"))
    assert not [found for found in busy if int(found) * 1000 > SLICE_MAX]
