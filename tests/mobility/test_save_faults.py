"""What breaks while a cluster is put aside: it goes on as if nobody had asked, the reason is told, and nothing is left behind."""

import time

import pytest

from harness.cloud import BOOT, CONTROL, POOL, Cloud
from harness.lab import SWITCH
from harness.verbs import PATIENCE, ask_checkpoint, checkpoint, wait_checkpoint
from harness.wait import until

NAME = "cfd"
GRACE = "6s"
SHORT = 2.0  # seconds, within the grace
ROOM = "16m"  # less than any saved node
COUNT = "n=0; while :; do n=$((n+1)); echo $n > /tmp/count; usleep 100000; done"


@pytest.fixture(scope="module")
def cloud(module_lab):
    lab = module_lab(Cloud, hosts=3, changes={"control": CONTROL | {"host_grace": GRACE, "checkpoint_skew": "60s"}}).up()
    lab.spread(NAME, lab.hosts[:2], memory="256M", path="bridge", start="cold")
    lab.ready(NAME, ready=2)
    for rank in range(2):
        lab.run(f"{NAME}[{rank}]", "sh", "-c", f"setsid sh -c '{COUNT}' > /dev/null 2>&1 < /dev/null &")
    return lab


@pytest.fixture(autouse=True)
def lost(cloud, watched):
    """Ranks that the test takes the host of; whatever it did, the other nodes are those of before, count on, and the cluster can be put
    aside afterwards."""
    ids, ranks = [node["id"] for node in cloud.nodes(NAME)], set()
    yield ranks
    cloud.ready(NAME, timeout=PATIENCE, ready=2)
    assert {node["rank"] for node in cloud.nodes(NAME) if node["id"] != ids[node["rank"]]} == ranks
    before = {rank: count(cloud, rank) for rank in {0, 1} - ranks}
    until(lambda: all(count(cloud, rank) > before[rank] for rank in before), "they count on")
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
    assert "make room" in told and str(folder) in told, told


def saved_files(cloud):
    """Of nodes, on their hosts."""
    return list((cloud.folder / "hosts").glob(f"*{POOL}/*.saved"))


MOMENTS = {"asked": lambda cloud: True,
           "being saved": saved_files,
           "being fetched": lambda cloud: list((cloud.site / "images").glob("*.saved*"))}


def begin(cloud, moment):
    """Returns at that moment."""
    ask_checkpoint(cloud, NAME, "late")
    until(lambda: MOMENTS[moment](cloud), lambda: f"{moment}: {checkpoint(cloud, 'late')}", BOOT)


def ends(cloud):
    until(lambda: checkpoint(cloud, "late")["state"] in ("complete", "failed"), lambda: f"{checkpoint(cloud, 'late')}", PATIENCE)
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/late?tenant=acme")


@pytest.mark.parametrize("moment", MOMENTS)
def test_weftd_dies(cloud, moment):
    """It is made after all, or said to have failed; the nodes do not stand still for ever."""
    begin(cloud, moment)
    cloud.stop_weftd()
    cloud.start_weftd()
    ends(cloud)


def test_host_is_cut_for_a_moment(cloud):
    begin(cloud, "being saved")
    cloud.cut("h2")
    time.sleep(SHORT)
    cloud.heal("h2")
    ends(cloud)


def test_host_dies(cloud, lost):
    """What was on it is created anew, and the others do not wait for it."""
    begin(cloud, "being saved")
    lost.add(1)
    cloud.kill("h2")
    ends(cloud)
    cloud.ready_without("h2", NAME, timeout=PATIENCE, ready=2)
    cloud.heal_all()
