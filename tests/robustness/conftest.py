import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tally import TALLY  # noqa: E402


def pytest_terminal_summary(terminalreporter):
    if TALLY.kills:
        terminalreporter.write_line(str(TALLY))
