"""What systemd-analyze says of the units and drop-ins that are shipped."""

import json
import shutil
import subprocess

import pytest
from machine import install

from harness.weft import SOURCE

EXAMPLES = SOURCE / "dist/examples"
LIMITS = {"weftd": 1.3, "weft-prepare": 5.0}


def analyze(*arguments):
    return subprocess.run(["systemd-analyze", "--no-pager", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture
def units(tmp_path):
    """The units in a folder, with programs that are there."""
    for name in ("weftd", "weft-hook"):
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return {name: install(name, tmp_path, tmp_path) for name in LIMITS}


def add_drop_in(unit):
    shutil.copytree(EXAMPLES / f"{unit.name}.d", unit.parent / f"{unit.name}.d")


def rows(unit):
    answer = analyze("security", "--offline=true", "--json=short", unit)
    return {row["json_field"]: row for row in json.loads(answer.stdout)}


@pytest.mark.parametrize("name", LIMITS)
def test_the_figure(units, name):
    answer = analyze("security", "--offline=true", f"--threshold={round(LIMITS[name] * 10)}", units[name])
    assert answer.returncode == 0, answer.stdout


def test_callers_stay_known(units):
    """PrivateUsers= would hide who they are, ProcSubset=pid the boot."""
    found = rows(units["weftd"])
    assert not found["PrivateUsers"]["set"] and not found["ProcSubset"]["set"]


def test_the_drop_in_opens_what_it_says_and_nothing_else(units):
    before = rows(units["weftd"])
    add_drop_in(units["weftd"])
    after = rows(units["weftd"])
    assert {field for field in after if after[field]["set"] != before[field]["set"]} == {
        "PrivateDevices", "ProtectProc", "AmbientCapabilities", "CapabilityBoundingSet_CAP_KILL"}


@pytest.mark.parametrize(("name", "dropped"), [("weftd", False), ("weftd", True), ("weft-prepare", False)])
def test_systemd_understands_them(units, name, dropped):
    if dropped:
        add_drop_in(units[name])
    answer = analyze("verify", "--man=no", "--recursive-errors=no", units[name])
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
