"""An MPI job goes on while its cluster is moved, put aside and copied, and its result is that of a run that nothing disturbs."""

import pytest

from harness.cloud import BOOT, Cloud
from harness.halo import STEPS, Job

NAME = "cfd"
RANKS = 2


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=3, images=("mpi",), memory="2G").up()


@pytest.fixture(scope="module")
def cluster(cloud):
    cloud.spread(NAME, cloud.hosts[:RANKS], memory="384M", image="mpi", path="bridge", start="cold")
    cloud.ready(NAME, timeout=2 * BOOT, ready=RANKS)
    return NAME


def test_undisturbed(cloud, cluster, watched):
    job = Job(cloud, cluster).start(RANKS)
    assert job.finish() == STEPS
    assert watched.moved() == []
