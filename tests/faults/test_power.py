"""The power goes at any write: what was acknowledged is there afterwards, and everything goes on."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from faulty import FaultyWeft, Patient, chosen, run
from operations import OPERATIONS, have_files_of_checkpoint
from survivor import prepare

CUTS = int(os.environ.get("WEFT_FAULTS_CUTS", "0"))  # for each operation; 0: at every call that changes something
# Nothing but what was synced; everything; any half of the rest.
LEFT = ((0.0, 0), (1.0, 0), (0.5, 1), (0.5, 2))
WORKERS = 4


def places(count):
    wanted = CUTS or count
    return sorted({1 + i * count // wanted for i in range(wanted)})


@pytest.mark.parametrize("operation", chosen(), ids=lambda operation: operation.name)
def test_power_goes(operation):
    base = prepare(operation, FaultyWeft(changes=operation.changes))
    try:
        changes = [word for word in run(operation, base) if word != "file"]
        cuts = [(place, LEFT[number % len(LEFT)]) for number, place in enumerate(places(len(changes)))]
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda cut: run(operation, base, (f"cut {cut[0]}",), cut[1]), cuts))
    finally:
        base.remove()


def test_a_checkpoint_keeps_its_files():
    """Whoever was told that it is complete has its files, though nothing but what was synced is left of the disk."""
    operation = next(operation for operation in OPERATIONS if operation.name == "checkpoint")
    base = prepare(operation, FaultyWeft(changes=operation.changes))
    weft = base.clone()
    try:
        weft.attach()
        site = Patient(weft)
        site.start()
        operation.act(site)
        site.settle(operation.check)
        weft.kill()
        weft.disk.lose_power(keep=0.0, seed=0)
        have_files_of_checkpoint(site, "acme/before")
    finally:
        weft.remove()
        base.remove()
