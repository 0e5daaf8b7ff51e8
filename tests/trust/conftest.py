import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import wait  # noqa: E402
from harness.lab import labs  # noqa: E402
from harness.metal import Confined  # noqa: E402

wait.INTERVAL = 0.5  # whoever asks all the time takes processors from the hosts


@pytest.fixture(scope="session", autouse=True)
def root():
    assert os.geteuid() == 0, "the lab makes namespaces, which takes root"


@pytest.fixture(scope="session")
def session_lab():
    yield from labs()


@pytest.fixture(scope="session")
def site(session_lab):
    """Two hosts like a site's for all tests: they take long to boot."""
    return session_lab(Confined).up()
