"""The driver of opensm passes the suite that every fabric driver must pass, by each of its ways."""

import subprocess

import pytest
from harness.fabric import SM, STANDBY, fat_tree
from harness.weft import build_folder

SUITE = "tests/contract/contract-fabric-opensm"
SUITE_SECONDS = 300


@pytest.mark.parametrize("way, skipped", [
    ("plugin", set()),
    ("file", {"tells-events", "another-manager"}),
    ("pool", {"tells-events", "another-manager", "index-0", "silent-port", "table-full"}),
])
def test_contract(new_fabric, way, skipped):
    plugin = way == "plugin"
    fabric = new_fabric(fat_tree(2, 8, 2, managers=(SM, STANDBY) if plugin else (SM,)))
    fabric.manager(SM, plugin=plugin, options={"sm_priority": 5}).start()
    if plugin:
        fabric.manager(STANDBY, plugin=True).start(wait=False).wait_standby()
    done = subprocess.run(fabric.command([build_folder().resolve() / SUITE, way]), capture_output=True, text=True,
                          timeout=SUITE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {line.split("/")[-1].split(" #")[0] for line in done.stdout.splitlines() if "# SKIP" in line}
    assert found == skipped
