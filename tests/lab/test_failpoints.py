"""weftd is killed at every failpoint that a real create reaches, and started again: the cluster is ready all the same, nothing runs twice,
and it goes without a trace. One create is killed at as many of them as it comes to, one after the other. In the long matrix each has a
create of its own, of two nodes, and there are the failpoints of the delete too."""

import http.client
import os
import time

import pytest

from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import until

FULL = bool(os.environ.get("WEFT_LAB_FULL"))
NODES = 2 if FULL else 1
DEATH = (OSError, http.client.HTTPException)  # of weftd, before or within its answer


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2, changes={"control": PATIENT}).up()


def learn(cloud):
    """The failpoints that it reaches, in their order."""
    log = cloud.root / "failpoints.log"
    cloud.stop_weftd()
    cloud.start_weftd(failpoint_log=log)
    cloud.make("cfd", NODES)
    reached = log.read_text(encoding="utf-8").split()
    cloud.remove_all()
    cloud.stop_weftd()
    return list(dict.fromkeys(log.read_text(encoding="utf-8").split() if FULL else reached))


class Survivor:
    """Does what it is told although weftd is killed at these failpoints, one after the other."""

    def __init__(self, cloud, failpoints):
        self.cloud = cloud
        self.to_come = list(failpoints)
        self.armed = None
        self.killed = []
        self.start()

    def start(self):
        self.armed = self.to_come.pop(0) if self.to_come else None
        self.cloud.start_weftd(failpoint=self.armed)

    def revive(self):
        if self.cloud.weftd_runs():
            return False
        self.killed.append(self.armed)
        self.start()
        return True

    def do(self, act):
        end = time.monotonic() + BOOT
        while True:
            self.revive()
            try:
                return act()
            except (*DEATH, AssertionError):
                if time.monotonic() > end or not (self.revive() or self.armed):
                    raise

    def until(self, check, what):
        def checked():
            try:
                return check()
            except DEATH:
                self.revive()
                return False

        until(checked, what, BOOT)


def survive(cloud, failpoints):
    """A create, and where it was killed."""
    for host in cloud.hosts if any(failpoint.startswith("bring") for failpoint in failpoints) else ():
        cloud.forget_images(host)
    site = Survivor(cloud, failpoints)
    site.do(lambda: cloud.client.cluster("cfd") or cloud.create("cfd", NODES))
    site.until(lambda: (cluster := cloud.client.cluster("cfd")) and cluster["phase"] == "ready", f"cfd is ready, with {failpoints}")
    cloud.check()
    site.do(lambda: cloud.client.cluster("cfd") and cloud.client.delete("cfd"))
    site.until(lambda: cloud.client.cluster("cfd") is None, f"cfd is gone, with {failpoints}")
    site.do(cloud.remove_all)
    cloud.stop_weftd()
    return site.killed


def test_every_failpoint(cloud):
    reached = learn(cloud)
    assert len(reached) > 10, reached
    left, creates = list(reached), 0
    while left:
        killed = survive(cloud, left[:1] if FULL else left)
        creates += 1
        assert killed and None not in killed and len(set(killed)) == len(killed), f"of {left} these killed: {killed}"
        left = [failpoint for failpoint in left if failpoint not in killed]
    print(f"killed at {len(reached)} failpoints in {creates} creates")
