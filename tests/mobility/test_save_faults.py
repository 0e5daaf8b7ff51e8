"""What breaks while a cluster is put aside: it goes on as if nobody had asked, the reason is told, and nothing is left behind."""

import pytest

from harness.cloud import BOOT, CONTROL, POOL, Cloud
from harness.lab import SWITCH
from harness.verbs import PATIENCE, ask_checkpoint, checkpoint, needs_checkpoints, wait_checkpoint
from harness.wait import until

NAME = "cfd"
ROOM = "16m"  # less than any saved node
COUNT = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; usleep 100000; done"

pytestmark = needs_checkpoints


@pytest.fixture(scope="module")
def cloud(module_lab):
    lab = module_lab(Cloud, hosts=3, changes={"control": CONTROL | {"host_grace": "6s"}}).up()
    lab.spread(NAME, lab.hosts[:2], memory="256M", path="bridge", start="cold")
    lab.ready(NAME, ready=2)
    for rank in range(2):
        lab.run(f"{NAME}[{rank}]", "sh", "-c", f"setsid sh -c '{COUNT}' > /dev/null 2>&1 < /dev/null &")
    return lab


@pytest.fixture(autouse=True)
def goes_on(cloud, watched):
    """Whatever the test did, both nodes are those of before, count on, and can be put aside afterwards."""
    ids = [node["id"] for node in cloud.nodes(NAME)]
    yield
    cloud.ready(NAME, timeout=PATIENCE, ready=2)
    assert [node["id"] for node in cloud.nodes(NAME)] == ids
    before = [count(cloud, rank) for rank in range(2)]
    until(lambda: all(count(cloud, rank) > before[rank] for rank in range(2)), "both count on")
    assert not [left for left in cloud.leftovers() if ".saved" in left]
    ask_checkpoint(cloud, NAME, "afterwards")
    wait_checkpoint(cloud, "afterwards")
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/afterwards?tenant=acme")
    cloud.ready(NAME, timeout=PATIENCE, ready=2)
    cloud.check()


def count(cloud, rank):
    told = cloud.run(f"{NAME}[{rank}]", "cat", "/tmp/count", check=False).stdout.split()
    return int(told[0]) if told else 0


def fails(cloud, name):
    """What is told of it."""
    ask_checkpoint(cloud, NAME, name)
    made = wait_checkpoint(cloud, name, "failed")
    cloud.client.expect(204, "DELETE", f"/v1/checkpoints/{name}?tenant=acme")
    return f"{made['reason']} {made.get('detail')}"


def test_disk_of_host_is_full(cloud):
    cloud.shell("h2", f"mount -t tmpfs -o size={ROOM} full {POOL}")
    try:
        told = fails(cloud, "full")
    finally:
        cloud.shell("h2", f"umount -l {POOL}; virsh -q pool-refresh weft")
    assert "space" in told.lower(), told


def test_disk_of_weftd_is_full(cloud):
    folder = cloud.site / "images"
    cloud.shell(SWITCH, f"mount -t tmpfs -o size={ROOM} full {folder}")
    try:
        told = fails(cloud, "full")
    finally:
        cloud.shell(SWITCH, f"umount -l {folder}")
    assert "space" in told.lower(), told


@pytest.mark.parametrize("moment", ("asked", "being saved", "being fetched"))
def test_weftd_dies(cloud, moment):
    """It is made after all, or said to have failed; the nodes do not stand still for ever."""
    ask_checkpoint(cloud, NAME, "late")
    seen = {"asked": lambda: True,
            "being saved": lambda: any(".saved" in left for left in cloud.leftovers()) or checkpoint(cloud, "late")["state"] != "wanted",
            "being fetched": lambda: any((cloud.site / "images").glob("*.saved*")) or checkpoint(cloud, "late")["state"] == "complete"}
    until(seen[moment], moment, BOOT)
    cloud.stop_weftd()
    cloud.start_weftd()
    until(lambda: checkpoint(cloud, "late")["state"] in ("complete", "failed"), lambda: f"{checkpoint(cloud, 'late')}", PATIENCE)
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/late?tenant=acme")


def test_host_is_cut_for_a_moment(cloud):
    ask_checkpoint(cloud, NAME, "late")
    until(lambda: any(".saved" in left for left in cloud.leftovers()) or checkpoint(cloud, "late")["state"] != "wanted", "it is saved", BOOT)
    cloud.cut("h2")
    cloud.heal("h2")
    until(lambda: checkpoint(cloud, "late")["state"] in ("complete", "failed"), lambda: f"{checkpoint(cloud, 'late')}", PATIENCE)
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/late?tenant=acme")
