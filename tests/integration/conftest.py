import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from harness.certificates import make_certificate  # noqa: E402
from harness.invariants import UsageBook, converged, ledger  # noqa: E402
from harness.wait import until  # noqa: E402
from harness.weft import Weft  # noqa: E402


@pytest.fixture
def site():
    """Makes sites; what still runs at the end is stopped cleanly, and the ledger must be right."""
    made = []

    def make(**options):
        weft = Weft(**options)
        made.append(weft)
        weft.start()
        return weft

    yield make
    try:
        for weft in made:
            if weft.process:
                assert ledger(weft.dump()) == []
                weft.stop()
    finally:
        for weft in made:
            weft.remove()


@pytest.fixture
def weft(site):
    return site()


@pytest.fixture
def settle():
    """Waits until the world is as wished, and checks the usage of every node seen so far."""
    book = UsageBook()

    def wait(weft, lost=()):
        last = []

        def check():
            last[:] = converged(weft, lost)
            return not last

        until(check, lambda: f"converged, but {last}\n{weft.log_tail()}")
        assert book.look(weft.dump()) == []

    return wait


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """A key and a self-signed certificate for localhost, made now."""
    return make_certificate(tmp_path_factory.mktemp("tls"))
