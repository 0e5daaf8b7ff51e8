"""The sites that are attacked are those of the integration tests."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "integration")]

from integration import conftest as sites  # noqa: E402

certificate, settle, site, weft = sites.certificate, sites.settle, sites.site, sites.weft
