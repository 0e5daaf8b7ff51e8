import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.fabric import Fabric, fat_tree  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def root():
    assert os.geteuid() == 0, "a simulated fabric needs namespaces, which takes root"


def _fabrics():
    made = []

    def make(net=None):
        made.append(Fabric(tempfile.mkdtemp(prefix="weft-fabric-"), net or fat_tree(2, 4, 2)).up())
        return made[-1]

    yield make
    for fabric in made:
        fabric.close()
        shutil.rmtree(fabric.folder)


@pytest.fixture(scope="module")
def module_fabric():
    """Makes fabrics that stay until the module's last test."""
    yield from _fabrics()


@pytest.fixture
def new_fabric():
    """Makes fabrics; they go with the test."""
    yield from _fabrics()
