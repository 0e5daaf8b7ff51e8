import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.fabric import Fabric, fat_tree  # noqa: E402
from harness.plugin import Plugin  # noqa: E402


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
        shutil.rmtree(fabric.folder, ignore_errors=True)  # what a weftd that has ended had started may still write there


@pytest.fixture(scope="module")
def module_fabric():
    """Makes fabrics that stay until the module's last test."""
    yield from _fabrics()


@pytest.fixture
def new_fabric():
    """Makes fabrics; they go with the test."""
    yield from _fabrics()


def _rule(fabric):
    fabric.manager(plugin=True).start()
    return fabric


@pytest.fixture(scope="module")
def ruled_fabric(module_fabric):
    """Makes fabrics that stay until the module's last test, each with an opensm that has the plugin."""
    return lambda net=None: _rule(module_fabric(net))


@pytest.fixture
def fabric(new_fabric):
    """One of the test's own, with an opensm that has the plugin; a module whose tests share one says so."""
    return _rule(new_fabric())


@pytest.fixture
def manager(fabric):
    return fabric.manager()


@pytest.fixture
def plugin(manager):
    """What it was told goes with the test."""
    with Plugin(manager.socket) as connection:
        yield connection
        connection.apply([], whole=True)
