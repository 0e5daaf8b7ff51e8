"""A short random walk in each run of the tests; `make robustness SEED=… STEPS=…` takes longer ones."""

import random_walk


def test_random_walk():
    print(random_walk.walk(seed=1, steps=300, patience=80))
