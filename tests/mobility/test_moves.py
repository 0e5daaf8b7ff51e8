"""A node with a real guest is plugged and moved by the driver alone; what breaks on the way, and where the node is then."""

import re

import pytest
from harness.mover import MIB, Mover, gaps, rate
from harness.wait import until

WRITES = 20  # MiB a second
SLOW = 8 * MIB
DEVICE = """<interface type='bridge'><mac address='02:00:00:00:0a:01'/><source bridge='{bridge}'/><target dev='wef020000000a01'/>
<model type='virtio'/><mtu size='1450'/><alias name='ua-extra'/><rom enabled='no'/></interface>"""
RUNS, NOWHERE = "running", None


@pytest.fixture(scope="module")
def mover(module_lab):
    lab = module_lab(kind=Mover).up()
    lab.beat(64, WRITES)
    lab.leave()
    return lab


@pytest.fixture(autouse=True)
def mended(mover):
    """Whatever a test left: cables are in, and the node runs in one place, and has not begun anew."""
    before = until(lambda: mover.hear(1), "the node beats")[-1]
    yield
    for host in mover.hosts:
        mover.lab("heal", host, check=False)
    after = until(lambda: mover.hear(1), "the node still beats")
    assert after[0].sent > before.sent, "it has begun anew"
    assert sorted(state is NOWHERE for state in mover.states().values()) == [False, True], mover.states()


def wait_copying(mover):
    until(lambda: mover.state(mover.other()) == ("running", "post-copy"), lambda: f"post-copy: {mover.states()}", 60)


def test_measure(mover):
    def is_right():
        found.append(mover.drive("measure", mover.host, mover.domain))
        assert found[-1]["ok"], found
        return WRITES / 3 * MIB < found[-1]["rate"] < WRITES * 3 * MIB

    found = []  # a busy machine does not let the node write as it would, now and then
    until(is_right, lambda: f"it is measured as it writes, {found}", 60)


def test_plug(mover):
    """With the host kept out of its port; once more is the same."""
    bridge = re.search(r"source bridge='(\w+)'", mover.virsh(mover.host, "dumpxml", mover.domain)).group(1)
    device = DEVICE.format(bridge=bridge)
    plugged = mover.drive("plug", mover.host, mover.domain, text=device)
    assert plugged["ok"], plugged
    again = mover.drive("plug", mover.host, mover.domain, text=device)
    assert again["ok"], again
    ports = mover.shell(mover.host, "for p in /sys/class/net/wef0*; do cat $p/brport/group_fwd_mask; done").split()
    assert ports == ["0xfffd"] * 2, ports
    assert mover.virsh(mover.host, "dumpxml", mover.domain).count("ua-extra") == 1
    unplugged = mover.drive("unplug", mover.host, mover.domain, text=device)
    assert unplugged["ok"], unplugged
    assert "ua-extra" not in mover.virsh(mover.host, "dumpxml", mover.domain)
    print(f"plugged in {plugged['seconds']:.3f} s, unplugged in {unplugged['seconds']:.3f} s")


@pytest.mark.parametrize("method", ["pre-copy", "post-copy", "hybrid"])
def test_move(mover, method):
    """It has lost nothing of what it wrote, and its clock is as much behind as it stood still."""
    listeners = mover.listen()
    moved = mover.move(method)
    assert moved["ok"] and moved["sent"] > 0, moved
    beats = mover.heard(listeners)
    assert beats[-1].wrong == 0, beats[-1]
    assert mover.states()[mover.host] == (RUNS, "migrated")
    assert re.search(r"\b2$", mover.virsh(mover.host, "vcpupin", mover.domain).strip()), "it has the other core"
    assert not mover.leftovers([mover.other()]) or mover.network(mover.other())
    print(f"{method}: took {moved['took']:.1f} s, stood still {moved['stall']:.3f} s; not heard for {gaps(beats)[0]:.3f} s; "
          f"wrote {rate(beats):.0f} MiB/s")


def test_cancelled(mover):
    """A pre-copy that nobody waits for any more ends, and the node runs on where it was."""
    host = mover.host
    mover.cut(mover.other())
    moved = mover.move("pre-copy", bandwidth=SLOW, patience=3)
    assert moved["ok"] is False, moved
    assert mover.state(host)[0] == RUNS
    mover.heal(mover.other())
    until(lambda: mover.state(mover.other()) is NOWHERE, lambda: f"nothing is left there: {mover.states()}", 60)


def test_driver_dies_in_pre_copy(mover):
    process = mover.move_begin("pre-copy", bandwidth=SLOW)
    until(lambda: mover.state(mover.other()), "it is on its way", 30)
    mover.drive_kill(process)
    until(lambda: mover.state(mover.other()) is NOWHERE, lambda: f"it has not gone: {mover.states()}", 60)
    assert mover.state(mover.host)[0] == RUNS
    assert mover.move("post-copy")["ok"]


def test_driver_dies_in_post_copy(mover):
    """The copy goes on without it; the same call again finds it done."""
    process = mover.move_begin("post-copy", bandwidth=SLOW)
    wait_copying(mover)
    mover.drive_kill(process)
    assert mover.move("post-copy")["ok"]
    assert mover.states()[mover.host] == (RUNS, "migrated")


def test_cut_in_post_copy(mover):
    """The node stands still, the caller is told CONFLICT or to try again, and the same call resumes it."""
    process = mover.move_begin("post-copy", bandwidth=SLOW, patience=4)
    wait_copying(mover)
    mover.cut(mover.other())
    broken = mover.move_end(process)
    assert broken["ok"] is False and broken["error"] in ("timeout", "conflict", "unavailable"), broken
    assert mover.state(mover.host)[0] == "paused"
    mover.heal(mover.other())

    def resumed():
        return mover.move("post-copy", patience=20)["ok"]

    until(resumed, lambda: f"resumed: {mover.states()}", 120)
    assert mover.states()[mover.host][0] == RUNS
