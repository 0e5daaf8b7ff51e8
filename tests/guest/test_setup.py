"""What "guest start" leaves in a node: in a small root of its own, in namespaces of its own."""

import shutil
import subprocess
from pathlib import Path

import pytest
from guest import program

NODE = """hostname cfd-3
rank 3
cluster cfd
mac 02:00:00:00:00:03 10.64.0.4/16 1450
{rails}pkey 0x8012
sl 2
path {path}
slots 4
slurm 0
login ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII cfd
"""


def set_up(root, rails="", path="bridge"):
    prepare(root, rails, path)
    start(root)
    return root


def prepare(root, rails, path):
    for folder in ("bin", "seed/weft/files/ssh", "etc", "run", "dev", "proc", "sys", "root", "tmp"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    (root / "bin/sh").symlink_to("busybox")
    shutil.copy(program(), root / "seed/weft/guest")
    (root / "seed/weft/node").write_text(NODE.format(rails=rails, path=path), encoding="utf-8")
    (root / "seed/weft/files/ssh/id_ed25519").write_text("private\n", encoding="utf-8")
    (root / "seed/weft/files/ssh/id_ed25519.pub").write_text("ssh-ed25519 AAAA cfd\n", encoding="utf-8")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n192.0.2.1 license\n", encoding="utf-8")


def start(root, before=":", after=":"):
    """Until it goes to the background, and after that."""
    script = f"mount -t proc proc {root}/proc && mount -t sysfs sys {root}/sys && {before} && chroot {root} /seed/weft/guest start /seed && {after}"
    done = subprocess.run(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "sh", "-c", script], capture_output=True,
                          text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def profile(root):
    lines = (root / "etc/profile.d/weft.sh").read_text(encoding="utf-8").splitlines()
    return dict(line.removeprefix("export ").replace("'", "").split("=", 1) for line in lines)


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


def test_node_with_a_fabric_device_is_told_its_partition(root):
    """UCX names partitions without the bit for full membership."""
    told = profile(set_up(root, rails="ipoib 0 0x0002c90300000001 10.65.0.4/16\n", path="sriov"))
    assert (told["UCX_IB_PKEY"], told["UCX_IB_SL"]) == ("0x12", "2")
    assert "UCX_NET_DEVICES" not in told


@pytest.mark.skipif(Path("/sys/module/ib_ipoib").exists(), reason="this machine's kernel knows IPoIB")
def test_nobody_waits_for_an_interface_that_the_image_does_not_know(root):
    """Its devices are set up at once, without one for the rail: whoever meets the others waits for that."""
    prepare(root, "ipoib 0 0x0002c90300000001 10.65.0.4/16\n", "sriov")
    lock = root / "run/weft/setup.lock"
    start(root, before="ip link add node address 02:00:00:00:00:03 type veth peer name bridge",
          after=f"until [ -e {lock} ]; do sleep 0.05; done && timeout 20 flock -s {lock} true && ip addr show node | grep -q 10.64.0.4")


def test_node_without_is_not(root):
    assert "UCX_IB_PKEY" not in profile(set_up(root))


def test_files(root):
    set_up(root)
    assert "memlock" in (root / "etc/security/limits.d/weft.conf").read_text(encoding="utf-8")
    hosts = (root / "etc/hosts").read_text(encoding="utf-8")
    assert "192.0.2.1 license" in hosts and "10.64.0.4" in hosts and "cfd-3" in hosts
    key = root / "root/.ssh/id_ed25519"
    assert key.read_text(encoding="utf-8") == "private\n" and key.stat().st_mode & 0o777 == 0o600
    assert "IIIIIIII" in (root / "root/.ssh/authorized_keys").read_text(encoding="utf-8")


def test_twice_is_once(root):
    set_up(root)
    before = texts(root)
    start(root)
    assert texts(root) == before


def texts(root):
    return {path: path.read_text(encoding="utf-8") for path in sorted((root / "etc").rglob("*")) + sorted((root / "root").rglob("*")) if path.is_file()}
