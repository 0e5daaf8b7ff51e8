"""What an MPI user does at first login, on weft's own image."""

import pytest

from harness.cloud import PATIENT, Cloud


@pytest.fixture(scope="module")
def cloud(module_lab):
    lab = module_lab(Cloud, hosts=2, images=("mpi",), memory="3G", changes={"control": PATIENT}).up()
    lab.create("cfd", 3, memory="384M", image="mpi", slurm=True)
    lab.ready("cfd", timeout=180, ready=3)
    yield lab
    lab.remove_all()


def test_mpirun_needs_no_options(cloud):
    done = cloud.run("cfd", "mpirun", "mpi-ring")
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("rank")) == [f"rank {i} of 3 on cfd-{i}" for i in range(3)]
    assert "right" in done.stdout


def test_mpirun_over_verbs(cloud):
    """rxe takes the place of a virtual function: the same programs run."""
    done = cloud.run("cfd", "mpirun", "--mca", "pml", "ucx", "-x", "UCX_TLS=rc,self", "mpi-ring")
    assert "right" in done.stdout


def test_environment(cloud):
    """rxe knows no partitions, so that UCX is told of a P_Key only where a fabric device is (tests/guest)."""
    told = dict(line.split("=", 1) for line in cloud.run("cfd", "env").stdout.splitlines() if "=" in line)
    assert told["UCX_NET_DEVICES"] == "rxe0:1" and "UCX_IB_PKEY" not in told
    assert told["OMPI_MCA_orte_default_hostfile"] == "/etc/weft/hostfile"
    assert cloud.run("cfd", "bash", "-lc", "ulimit -l").stdout.strip() == "unlimited"


def test_ssh_between_all(cloud):
    for rank in range(3):
        for other in range(3):
            done = cloud.run(f"cfd[{rank}]", "ssh", f"cfd-{other}", "hostname")
            assert done.stdout.strip() == f"cfd-{other}"


def test_scp(cloud, tmp_path):
    file = tmp_path / "data with spaces.bin"
    file.write_bytes(bytes(range(256)) * 4096)
    cloud.weft("scp", "--tenant", "acme", str(file), "cfd[1]:/root/data.bin")
    cloud.weft("scp", "--tenant", "acme", "cfd[1]:/root/data.bin", str(tmp_path / "back.bin"))
    assert (tmp_path / "back.bin").read_bytes() == file.read_bytes()


def test_slurm(cloud):
    """Rank 0 is the controller; the topology is that of the real placement."""
    assert cloud.run("cfd", "sh", "-c", "for i in $(seq 60); do sinfo -h -t idle -o %D | grep -q 3 && exit 0; sleep 1; done; sinfo; exit 1").returncode == 0
    done = cloud.run("cfd", "srun", "-N", "3", "hostname")
    assert sorted(done.stdout.split()) == ["cfd-0", "cfd-1", "cfd-2"]
    assert "SwitchName" in cloud.run("cfd", "scontrol", "show", "topology").stdout
