"""A short random walk in each run of the tests; `make robustness SEED=… STEPS=…` takes longer ones."""

import os

import pytest
import random_walk


@pytest.mark.skipif(bool(os.environ.get("WEFT_NO_KILLS")), reason="no kills wanted")
def test_random_walk():
    print(random_walk.walk(seed=1, steps=300, patience=80))
