"""The driver of opensm passes the suite that every fabric driver must pass, by each of its ways."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from harness.fabric import SM, STANDBY, fat_tree, states, text_of
from harness.wait import until
from harness.weft import build_folder

SUITE = "tests/contract/contract-fabric-opensm"
CASE_SECONDS = 300
LATE_SECONDS = 20  # for cases in which something never answers; all others have as long as they need


def forget_killed(fabric):
    """One of the cases kills what it starts, and ibsim has room for ten."""
    for pid in re.findall(r"Client \d+: pid (\d+) ", fabric.console("Attached")):
        if not Path(f"/proc/{fabric.room.pid}/root/proc/{pid}").exists():
            fabric.forget(int(pid))


def end_of(process, fabric):
    """Of a case. While it runs it may ask for the manager's end, which takes care that the standby does not wait for it forever."""
    wish = fabric.folder / "depose"
    end = time.monotonic() + CASE_SECONDS
    while True:
        try:
            output, errors = process.communicate(timeout=0.02)
            return subprocess.CompletedProcess(process.args, process.returncode, output, errors)
        except subprocess.TimeoutExpired:
            assert time.monotonic() < end, f"{process.args} did not end within {CASE_SECONDS} s"
        if wish.exists():
            fabric.manager(SM).kill()
            wish.unlink()


@pytest.mark.parametrize("way, lacking", [
    ("plugin", set()),
    ("file", {"tells-events", "another-manager"}),
    ("pool", {"tells-events", "another-manager", "index-0", "silent-port", "silent-port-leaves", "table-full"}),
], ids=["plugin", "file", "pool"])
def test_contract(new_fabric, way, lacking):
    plugin = way == "plugin"
    fabric = new_fabric(fat_tree(2, 8, 2, managers=(SM, STANDBY) if plugin else (SM,)))
    fabric.manager(SM, plugin=plugin, options={"sm_priority": 5}).start()
    if plugin:
        fabric.manager(STANDBY, plugin=True).start(wait=False).wait_standby()

    def run(*words):
        late = ["env", f"WEFT_CONTRACT_DEADLINE={LATE_SECONDS}"] if "silent" in words[-1] else []
        process = subprocess.Popen(fabric.command([*late, build_folder().resolve() / SUITE, way, *words]),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            return end_of(process, fabric)
        finally:
            process.kill()

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


def test_a_look_that_is_cancelled_while_it_attaches_leaves_the_fabric(fabric):
    """ibsim answers it when it is dead already."""
    def attaching():
        return text_of(f"/proc/{fabric.room.pid}/net/unix").count("@sim:in")

    before = attaching()
    with fabric.held():
        process = subprocess.Popen(fabric.command([build_folder().resolve() / "src/fabric/opensm/weft-discover", "", "0"]))
        pid = int(until(lambda: text_of(f"/proc/{process.pid}/task/{process.pid}/children").split(), "it is started")[0])
        until(lambda: attaching() > before and states(pid) == {"S"}, "it waits for ibsim")
        os.kill(pid, signal.SIGKILL)
        process.wait()
    forget_killed(fabric)
    assert fabric.tables(), "the fabric answers"
