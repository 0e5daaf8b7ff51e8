import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.lab import labs  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def root():
    assert os.geteuid() == 0, "the lab makes namespaces, which takes root"


@pytest.fixture(scope="module")
def module_lab():
    """Makes labs that stay until the module's last test."""
    yield from labs()


@pytest.fixture
def new_lab():
    """Makes labs that are not up yet; they go with the test."""
    yield from labs()


@pytest.fixture(scope="module")
def hosts(module_lab):
    """Two hosts without weftd."""
    return module_lab(hosts=2, threads=2).up()


@pytest.fixture(scope="module")
def cloud(module_lab):
    """Two hosts with weftd, which does not wait long for lost ones."""
    return module_lab(hosts=2, changes={"control": {"host_grace": "1s", "scan_interval": "1s"}}).up(weftd=True)


@pytest.fixture
def clean(cloud):
    """Nothing of the test's clusters is left anywhere, and what one test leaves broken fails no other."""
    yield
    cloud.heal_all()
    cloud.remove_all()
