"""weftd is killed at every failpoint that a real create reaches, and started again: the cluster is ready all the same, nothing runs twice,
and it goes without a trace. The long matrix has two nodes, and the failpoints of the delete too."""

import os
import time

import pytest

from harness.cloud import BOOT, Cloud
from harness.wait import until

FULL = bool(os.environ.get("WEFT_LAB_FULL"))
NODES = 2 if FULL else 1


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2).up()


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
    """Does what it is told although weftd is killed once in the middle of it."""

    def __init__(self, cloud):
        self.cloud = cloud
        self.deaths = 0

    def revive(self):
        if self.cloud.weftd_runs():
            return False
        self.deaths += 1
        self.cloud.start_weftd()
        return True

    def do(self, act):
        end = time.monotonic() + BOOT
        while True:
            self.revive()
            try:
                return act()
            except (OSError, AssertionError):
                if time.monotonic() > end or not (self.revive() or self.deaths == 0):
                    raise

    def until(self, check, what):
        def checked():
            try:
                return check()
            except OSError:
                self.revive()
                return False

        until(checked, what, BOOT)


def survive(cloud, failpoint):
    for host in cloud.hosts if failpoint.startswith("bring") else ():
        cloud.forget_images(host)
    cloud.start_weftd(failpoint=failpoint)
    site = Survivor(cloud)
    site.do(lambda: cloud.client.cluster("cfd") or cloud.create("cfd", NODES))
    site.until(lambda: (cluster := cloud.client.cluster("cfd")) and cluster["phase"] == "ready", f"cfd is ready, with {failpoint}")
    cloud.check()
    site.do(lambda: cloud.client.cluster("cfd") and cloud.client.delete("cfd"))
    site.until(lambda: cloud.client.cluster("cfd") is None, f"cfd is gone, with {failpoint}")
    site.revive()
    cloud.remove_all()
    cloud.stop_weftd()
    return site.deaths


def test_every_failpoint(cloud):
    reached = learn(cloud)
    assert len(reached) > 10, reached
    deaths = {failpoint: survive(cloud, failpoint) for failpoint in reached}
    survived = [failpoint for failpoint, count in deaths.items() if count != 1]
    assert not survived, f"of {len(reached)} failpoints these killed nobody, or more than once: {survived}"
    print(f"killed at {len(reached)} failpoints")
