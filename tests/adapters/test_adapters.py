"""A short walk on simulated adapters in each run of the tests; `make test-adapters SEED=… STEPS=…` takes longer ones."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import walk  # noqa: E402
from sites import site  # noqa: E402

SEED, STEPS = int(os.environ.get("SEED", 1)), int(os.environ.get("STEPS", 30))


@pytest.mark.parametrize("kind", walk.KINDS)
def test_functions_can_do_what_the_store_says(kind):
    assert os.geteuid() == 0, "hosts of their own need namespaces, which takes root"
    print(walk.walk(kind, SEED, STEPS))


@pytest.mark.parametrize("kind", walk.KINDS)
def test_what_a_killed_hook_left_is_given_back(kind):
    """At once: nobody else may come to that host for a long time, and weftd goes on."""
    with site(kind, hosts=4) as made:
        one = walk.Walk(made, SEED)
        made.start()
        for operation, point in walk.HOOK_POINTS:
            for how in (f"at {point}", "after 0.001"):
                made.trees.strike(f"{operation} {how}")
                one.create(most=1)
                one.look(strikes=True)
                one.delete()
                one.look(strikes=True)
                assert made.trees.is_struck(), "nobody was killed"
        made.stop()
