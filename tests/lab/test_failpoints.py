"""weftd is killed at every failpoint that a real create and its delete reach, and started again: the cluster is ready all the same."""

import pytest

from harness.cloud import BOOT, Cloud
from harness.wait import until


@pytest.fixture(scope="module")
def cloud():
    lab = Cloud(hosts=2)
    try:
        yield lab.up()
    finally:
        lab.remove()


def learn(cloud):
    """The failpoints that one create and one delete reach, in their order."""
    log = cloud.root / "failpoints.log"
    cloud.stop_weftd()
    cloud.start_weftd(failpoint_log=log)
    cloud.make("cfd", 2)
    cloud.remove_all()
    cloud.stop_weftd()
    reached = list(dict.fromkeys(log.read_text(encoding="utf-8").split()))
    assert len(reached) > 10, reached
    return reached


def survive(cloud, failpoint):
    cloud.start_weftd(failpoint=failpoint)
    if cloud.weftd_runs():
        try:
            cloud.create("cfd", 2)
        except OSError:  # killed before it could answer
            pass
    until(lambda: not cloud.weftd_runs() or is_ready(cloud), f"{failpoint} is reached", BOOT)
    died = not cloud.weftd_runs()
    if died:
        cloud.start_weftd()
        if cloud.client.cluster("cfd") is None:
            cloud.create("cfd", 2)
    cloud.ready("cfd", ready=2)
    cloud.check()
    cloud.remove_all()
    cloud.stop_weftd()
    return died


def is_ready(cloud):
    try:
        cluster = cloud.client.cluster("cfd")
    except OSError:
        return False
    return cluster is not None and cluster["phase"] == "ready"


def test_every_failpoint_of_a_create(cloud):
    deaths = [failpoint for failpoint in learn(cloud) if survive(cloud, failpoint)]
    print(f"killed at {len(deaths)} failpoints: {' '.join(deaths)}")
    assert len(deaths) > 10
