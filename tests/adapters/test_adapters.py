"""A short walk on simulated adapters in each run of the tests; `make test-adapters SEED=… STEPS=…` takes longer ones."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import walk  # noqa: E402

SEED, STEPS = int(os.environ.get("SEED", 1)), int(os.environ.get("STEPS", 40))


@pytest.mark.parametrize("kind", walk.KINDS)
def test_functions_can_do_what_the_store_says(kind):
    assert os.geteuid() == 0, "hosts of their own need namespaces, which takes root"
    print(walk.walk(kind, SEED, STEPS))
