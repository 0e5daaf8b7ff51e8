"""The driver of opensm passes the suite that every fabric driver must pass, by each of its ways."""

import re
import subprocess
from pathlib import Path

import pytest
from harness.fabric import SM, STANDBY, fat_tree
from harness.weft import build_folder

SUITE = "tests/contract/contract-fabric-opensm"
CASE_SECONDS = 120
LATE_SECONDS = 5  # for cases in which something never answers; all others have as long as they need


def forget_killed(fabric):
    """One of the cases kills what it starts, and ibsim has room for ten."""
    for pid in re.findall(r"Client \d+: pid (\d+) ", fabric.console("Attached")):
        if not Path(f"/proc/{fabric.room.pid}/root/proc/{pid}").exists():
            fabric.forget(int(pid))


@pytest.mark.parametrize("way, lacking", [
    ("plugin", set()),
    ("file", {"tells-events", "another-manager"}),
    ("pool", {"tells-events", "another-manager", "index-0", "silent-port", "silent-port-leaves", "table-full"}),
])
def test_contract(new_fabric, way, lacking):
    plugin = way == "plugin"
    fabric = new_fabric(fat_tree(2, 8, 2, managers=(SM, STANDBY) if plugin else (SM,)))
    fabric.manager(SM, plugin=plugin, options={"sm_priority": 5}).start()
    if plugin:
        fabric.manager(STANDBY, plugin=True).start(wait=False).wait_standby()

    def run(*words):
        late = ["env", f"WEFT_CONTRACT_DEADLINE={LATE_SECONDS}"] if "silent" in words[-1] else []
        return subprocess.run(fabric.command([*late, build_folder().resolve() / SUITE, way, *words]), capture_output=True, text=True,
                              timeout=CASE_SECONDS, check=False)

    skipped = set()
    cases = [line for line in run("-l").stdout.splitlines() if line.startswith("/")]
    assert len(cases) > 20
    # Each in a process of its own: umad2sim forgets the ports that a process has closed only when it ends.
    for case in cases:
        done = run("-p", case)
        assert done.returncode == 0, f"{case}: {done.stdout + done.stderr}"
        forget_killed(fabric)
        if "# SKIP" in done.stdout:
            skipped.add(case.split("/")[-1])
    assert skipped == lacking
