"""The disk of these tests itself: what was synced survives every power cut, what was not need not, and a disk that lies is found out."""

import sqlite3
import subprocess
import sys

import pytest
from disk import Disk

# Says which rows are committed, until it is killed or has written all.
WRITER = """
import sqlite3, sys
store = sqlite3.connect(sys.argv[1], isolation_level=None)
store.execute("PRAGMA journal_mode = WAL")
store.execute("PRAGMA synchronous = FULL")
store.execute("CREATE TABLE IF NOT EXISTS row (number INTEGER PRIMARY KEY, text TEXT)")
for number in range(20):
    store.execute("INSERT INTO row VALUES (?, ?)", (number, "x" * 3000))
    print(number, flush=True)
"""


@pytest.fixture(name="disk")
def make_disk(tmp_path):
    (tmp_path / "store").mkdir()
    disk = Disk(tmp_path / "store")
    yield disk
    disk.remove()


def write(disk):
    """The rows that were acknowledged."""
    done = subprocess.run([sys.executable, "-c", WRITER, disk.path / "rows.db"], capture_output=True, text=True, timeout=60, check=False)
    return [int(line) for line in done.stdout.split()]


def rows(disk):
    store = sqlite3.connect(disk.path / "rows.db", isolation_level=None)
    try:
        assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return [number for number, in store.execute("SELECT number FROM row ORDER BY number")]
    finally:
        store.close()


@pytest.mark.parametrize("keep", (0.0, 0.5, 1.0))
@pytest.mark.parametrize("cut", (17, 30, 45, 60))
def test_what_was_synced_survives(disk, cut, keep):
    disk.rule(f"cut {cut}")
    acknowledged = write(disk)
    assert disk.was_cut() and len(acknowledged) < 20
    disk.lose_power(keep, seed=cut)
    found = rows(disk) if acknowledged else []
    assert found[:len(acknowledged)] == acknowledged


def test_a_disk_that_lies_loses_rows(disk):
    disk.rule("lie", "cut 60")
    acknowledged = write(disk)
    disk.lose_power(keep=0.0, seed=1)
    assert acknowledged and not (disk.path / "rows.db").exists()


def test_a_full_disk_refuses_and_comes_back(disk):
    disk.rule("full")
    assert write(disk) == []
    disk.rule()
    assert len(write(disk)) == 20
