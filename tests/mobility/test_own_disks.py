"""Nodes that write to disks of their own: these are put aside with the memory, as of the same moment, and come back with it."""

import pytest
from harness.cloud import BOOT, PATIENT, POOL, Cloud
from harness.lab import SWITCH
from harness.ownimage import MOUNT, add_own, fsck
from harness.verbs import PATIENCE, ask_checkpoint, checkpoint, clone, restore, wait_checkpoint
from harness.wait import until

SPEC = {"path": "bridge", "memory": "256M", "image": "own", "start": "cold"}
BULK = 24  # MiB that lie on the disk already
RESERVE = 64 << 20  # bytes that weftd leaves free where nothing else is configured


@pytest.fixture(scope="module")
def cloud(module_lab, tmp_path_factory):
    lab = module_lab(Cloud, hosts=2, cores=4, memory="2G", changes={"control": PATIENT}).up()
    add_own(lab, tmp_path_factory.mktemp("own"))
    lab.only("h1")
    lab.client.create("cfd", 1, **SPEC)
    lab.ready("cfd", ready=1)
    lab.only("h1", "h2")
    sh(lab, f"{MOUNT} && echo early > /mnt/synced && dd if=/dev/urandom of=/mnt/bulk bs=1M count={BULK} 2>/dev/null && sync")
    return lab


def sh(cloud, script, node="cfd[0]"):
    return cloud.run(node, "sh", "-c", script).stdout.strip()


def layers(cloud):
    return [left for host in cloud.hosts for left in cloud.shell(host, f"ls {POOL}").split() if left.endswith((".layer", ".saved"))]


def sums(cloud, node="cfd[0]"):
    return sh(cloud, "cat /mnt/synced /mnt/cached; sha256sum < /mnt/bulk", node)


def test_comes_back_as_it_was(cloud, tmp_path):
    """Of what was written some lies on the disk, and some in the guest's cache alone: both are as they were."""
    sh(cloud, "echo cached > /mnt/cached")
    before = sums(cloud)
    ask_checkpoint(cloud, "cfd", "before")
    made = wait_checkpoint(cloud, "before")
    print(f"paused {made['paused_ms']} ms with {BULK} MiB on the disk, {made['size']} bytes")
    cloud.ready("cfd", ready=1)
    until(lambda: not layers(cloud), "its disk is one again")
    assert sums(cloud) == before
    sh(cloud, "echo late > /mnt/synced; echo later > /mnt/cached; sync; echo 3 > /proc/sys/vm/drop_caches")
    assert sh(cloud, "cat /mnt/synced /mnt/cached") == "late\nlater"
    cloud.client.delete("cfd")
    cloud.client.wait_gone("cfd", timeout=BOOT)

    cloud.only("h2")
    restore(cloud, "before")
    cloud.ready("cfd", timeout=2 * BOOT, ready=1)
    assert [node["host"] for node in cloud.nodes("cfd")] == ["h2"]
    assert sums(cloud) == before
    assert sh(cloud, "sync; echo 3 > /proc/sys/vm/drop_caches; cat /mnt/synced /mnt/cached; sha256sum < /mnt/bulk") == before
    sh(cloud, "echo more > /mnt/more; umount /mnt")
    assert fsck(cloud, "h2", cloud.nodes("cfd")[0]["id"], tmp_path) == ""
    sh(cloud, MOUNT)
    cloud.only("h1", "h2")
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/before?tenant=acme")
    cloud.check()


def test_no_room_for_the_disk(cloud):
    """weftd has room for the memory, which is fetched first, and none for the disk."""
    before, folder = sh(cloud, "sha256sum < /mnt/bulk"), cloud.site / "images"
    ask_checkpoint(cloud, "cfd", "measure")
    memory = wait_checkpoint(cloud, "measure")["size"] - (BULK >> 1 << 20)
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/measure?tenant=acme")
    cloud.ready("cfd", ready=1)
    cloud.shell(SWITCH, f"mount -t tmpfs -o size={memory + RESERVE} full {folder}")
    try:
        ask_checkpoint(cloud, "cfd", "full")
        until(lambda: checkpoint(cloud, "full")["state"] == "failed", lambda: f"it fails: {checkpoint(cloud, 'full')}", PATIENCE)
        until(lambda: cloud.shell(SWITCH, f"ls {folder}") == "", "nothing of it stays")
    finally:
        cloud.shell(SWITCH, f"umount -l {folder}")
    told = checkpoint(cloud, "full")
    assert "make room" in told["detail"] and ".disk" in told["detail"], told
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/full?tenant=acme")
    cloud.ready("cfd", ready=1)
    until(lambda: not layers(cloud), "its disk is one again")
    assert sh(cloud, "echo goes > /mnt/on; sync; sha256sum < /mnt/bulk") == before
    cloud.check()


def test_clone_has_a_disk_of_its_own(cloud):
    before = sh(cloud, "echo shared > /mnt/cached; cat /mnt/cached; sha256sum < /mnt/bulk")
    clone(cloud, "cfd", "sweep", 2)
    ready = cloud.ready("sweep", timeout=2 * BOOT, ready=2)
    print(f"paused {ready['clone']['paused']} s")
    for rank in range(2):
        assert sh(cloud, "cat /mnt/cached; sha256sum < /mnt/bulk", f"sweep[{rank}]") == before
        sh(cloud, f"echo {rank} > /mnt/cached; sync; echo 3 > /proc/sys/vm/drop_caches", f"sweep[{rank}]")
    assert [sh(cloud, "cat /mnt/cached", node) for node in ("sweep[0]", "sweep[1]", "cfd[0]")] == ["0", "1", "shared"]
    until(lambda: not layers(cloud), "its source's disk is one again")
    cloud.client.delete("sweep")
    cloud.client.wait_gone("sweep", timeout=BOOT)
    assert sh(cloud, "sync; echo 3 > /proc/sys/vm/drop_caches; cat /mnt/cached; sha256sum < /mnt/bulk") == before
    cloud.check()
