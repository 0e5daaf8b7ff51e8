import sys
from pathlib import Path

import pytest

from guest import Guest, Machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))


@pytest.fixture
def guests(tmp_path):
    """Makes guest programs, each with a root of its own, and ends them."""
    made = []

    def make(name="node", node=None, **options):
        root = tmp_path / name
        (root / "run/weft").mkdir(parents=True)
        if node:
            (root / "run/weft/node").write_text(node)
        made.append(Guest(root, **options))
        return made[-1]

    yield make
    for guest in made:
        guest.stop()


@pytest.fixture
def guest(guests):
    return guests().sync()


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path / "root")
    yield machine
    machine.close()
