import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.lab import labs  # noqa: E402
from harness.metal import Metal  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def root():
    assert os.geteuid() == 0, "the lab makes namespaces, which takes root"


@pytest.fixture(scope="module")
def module_lab():
    """Makes labs that stay until the module's last test."""
    yield from labs()


@pytest.fixture(scope="session")
def session_lab():
    yield from labs()


@pytest.fixture(scope="session")
def metal(session_lab):
    """Two hosts for all tests: they take long to boot."""
    return session_lab(Metal).up()


@pytest.fixture
def clean(metal):
    yield
    metal.heal_all()
    metal.remove_all()
