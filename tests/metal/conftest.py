import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness import wait  # noqa: E402
from harness.lab import labs  # noqa: E402
from harness.metal import Metal  # noqa: E402

wait.INTERVAL = 0.5  # whoever asks all the time takes processors from the hosts


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


def pytest_terminal_summary(terminalreporter):
    """What weft told of costs stands below the results."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "told":
                terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {text}")
