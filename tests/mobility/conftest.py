import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.lab import labs  # noqa: E402
from harness.watcher import Watcher  # noqa: E402


@pytest.fixture(scope="module")
def module_lab():
    """Makes labs that stay until the module's last test."""
    assert os.geteuid() == 0, "the lab makes namespaces, which takes root"
    yield from labs()


@pytest.fixture
def new_lab():
    """Makes labs that are not up yet; they go with the test."""
    yield from labs()


@pytest.fixture
def watched(cloud):
    """No node runs twice while the test runs."""
    with Watcher(cloud) as watcher:
        yield watcher
