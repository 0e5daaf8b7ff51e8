"""Any cloud image works: a plain Debian with systemd and cloud-init, which knows nothing of weft. It boots slowly when it is
emulated, so that it is looked at with make test-lab-full only."""

import os
import subprocess
import time

import pytest

from harness.cloud import CONTROL, POOL, Cloud
from harness.wait import until
from harness.weft import build_folder

pytestmark = pytest.mark.skipif(not os.environ.get("WEFT_LAB_FULL"), reason="WEFT_LAB_FULL is not set: a cloud image boots slowly")

BOOT, BOOT_LEAST = 300.0, 5.0  # seconds
# The image has no other locale.
USER_DATA = """#cloud-config
locale: C.UTF-8
write_files:
  - path: /etc/site.conf
    content: "colour = blue\\n"
runcmd:
  - [sh, -c, "cat /etc/site.conf > /root/ran"]
"""


@pytest.fixture(scope="module")
def user_key(tmp_path_factory):
    """Private key of a user."""
    key = tmp_path_factory.mktemp("keys") / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice", "-f", key], check=True)
    return key


@pytest.fixture(scope="module")
def cloud(module_lab, user_key, tmp_path_factory):
    lab = module_lab(Cloud, hosts=1, images=("cloud",), memory="2G", changes={"control": CONTROL | {"await_deadline": f"{BOOT:g}s"}})
    user_data = tmp_path_factory.mktemp("seed") / "user-data"
    user_data.write_text(USER_DATA, encoding="ascii")
    lab.up()
    lab.weft("create", "cfd", "--tenant", "acme", "-n", "1", "--memory", "768M", "--image", "cloud", "--user-data", str(user_data),
             "--ssh-key", f"{user_key}.pub", "--no-wait")
    lab.ready("cfd", timeout=BOOT, ready=1)
    lab.weft("run", "cfd", "--tenant", "acme", "--", "cloud-init", "status", "--wait", timeout=BOOT)
    return lab


def begin(cloud, *arguments):
    return subprocess.Popen([build_folder() / "src/cli/weft", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            stdin=subprocess.DEVNULL, env=os.environ | {"WEFT_URL": f"unix://{cloud.socket}"})


def out(cloud, *command):
    return cloud.run("cfd", *command).stdout.strip()


def test_names_and_address(cloud):
    assert out(cloud, "hostname") == out(cloud, "cat", "/etc/hostname") == "cfd-0"
    assert out(cloud, "getent", "-s", "files", "hosts", "cfd-0").split() == ["10.64.0.1", "cfd-0"]
    assert out(cloud, "cat", "/etc/weft/hostfile") == "cfd-0 slots=1"
    assert "10.64.0.1/16" in out(cloud, "ip", "-4", "-o", "addr", "show", "eth0")
    assert "mtu 1450" in out(cloud, "ip", "link", "show", "eth0")


def test_memory_may_be_locked(cloud):
    """In what weft run starts, in a login, and in the ssh server itself, which cloud-init made wait for weft."""
    assert out(cloud, "sh", "-c", "ulimit -l") == "unlimited"
    assert out(cloud, "ssh", "cfd-0", "ulimit -l") == "unlimited"
    assert out(cloud, "systemctl", "show", "ssh", "--property", "LimitMEMLOCK") == "LimitMEMLOCK=infinity"


@pytest.mark.parametrize("user", ["root", "debian"])
def test_keys_of_the_cluster_and_of_the_user(cloud, user, user_key):
    """cloud-init makes the image's user after weft has come, and would disable root's keys."""
    keys = out(cloud, "sh", "-c", f"cat ~{user}/.ssh/authorized_keys").splitlines()
    assert {line.split()[-1] for line in keys} == {"cfd", "alice"} and all(line.startswith("ssh-ed25519 ") for line in keys)
    own = user_key.with_name("id_ed25519.pub").read_text(encoding="ascii").strip()
    assert own in keys
    done = cloud.weft("run", "cfd", "--tenant", "acme", "-l", user, "--", "ssh", "-o", "BatchMode=yes", "cfd-0", "id", "-un")
    assert done.stdout.strip() == user


def test_user_data_takes_effect_beside_ours(cloud):
    assert out(cloud, "cat", "/etc/site.conf", "/root/ran") == "colour = blue\ncolour = blue"
    assert out(cloud, "systemctl", "is-system-running") == "running"


def test_scp(cloud, tmp_path):
    file = tmp_path / "data"
    file.write_bytes(os.urandom(1 << 20))
    cloud.weft("scp", "--tenant", "acme", str(file), "cfd:/root/data")
    cloud.weft("scp", "--tenant", "acme", "cfd:/root/data", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


def test_reboot_from_inside(cloud):
    """The node is the same one, with its disk; whoever was inside is told at once, and it answers again."""
    before, boot = cloud.nodes("cfd"), out(cloud, "cat", "/proc/sys/kernel/random/boot_id")
    cloud.run("cfd", "sh", "-c", "echo kept > /root/kept; sync")
    session = begin(cloud, "run", "cfd", "--tenant", "acme", "--", "sleep", "1000")
    cloud.run("cfd", "reboot", check=False)
    told = session.communicate(timeout=BOOT)[1]
    began = time.monotonic()
    assert session.returncode != 0 and "cfd" in told, told
    done = until(lambda: (d := cloud.run("cfd", "cat", "/proc/sys/kernel/random/boot_id", check=False)).returncode == 0 and d,
                 "it answers again", BOOT)
    assert done.stdout.strip() != boot and time.monotonic() - began > BOOT_LEAST
    assert out(cloud, "cat", "/root/kept") == "kept"
    assert out(cloud, "hostname") == "cfd-0"
    cloud.ready("cfd", ready=1)
    assert cloud.nodes("cfd") == before
    cloud.check()


def test_its_disk_goes_with_it(cloud):
    disk = f"{POOL}/weft-{cloud.nodes('cfd')[0]['id']}.disk"
    assert cloud.shell("h1", f"qemu-img info -U {disk}").count("backing file: ") == 1
    cloud.remove_all()
    assert "weft-" not in cloud.shell("h1", f"ls {POOL}")
