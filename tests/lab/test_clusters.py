"""Clusters on real hosts: created, grown, shrunk, deleted, healed; and what a user finds inside."""

import os
import pty
import subprocess

import pytest

from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import PATIENCE, until
from harness.weft import build_folder

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=3, changes={"control": PATIENT}).up()


def test_create_scale_delete(cloud):
    cloud.make("cfd", 2)
    cloud.check()
    before = {node["id"] for node in cloud.nodes("cfd")}
    cloud.client.scale("cfd", 4)
    cloud.ready("cfd", ready=4)
    cloud.check()
    nodes = cloud.nodes("cfd")
    assert before <= {node["id"] for node in nodes} and len({node["host"] for node in nodes}) >= 2
    cloud.client.scale("cfd", 1)
    cloud.ready("cfd", ready=1)
    cloud.check()
    assert [node["rank"] for node in cloud.nodes("cfd")] == [0]


def test_what_a_user_finds_inside(cloud):
    """Names, addresses and the hostfile are there at first login, and follow the cluster as it grows."""
    cloud.make("cfd", 2)
    assert cloud.run("cfd[1]", "hostname").stdout.strip() == "cfd-1"
    cloud.client.scale("cfd", 3)
    cloud.ready("cfd", ready=3)
    for rank in range(3):
        hosts = cloud.run(f"cfd[{rank}]", "cat", "/etc/hosts").stdout.split("\n")
        named = {line.split()[1]: line.split()[0] for line in hosts if line.startswith("10.64.")}
        assert named == {"cfd-0": "10.64.0.1", "cfd-1": "10.64.0.2", "cfd-2": "10.64.0.3"}
        hostfile = cloud.run(f"cfd[{rank}]", "cat", "/etc/weft/hostfile").stdout.split("\n")
        assert [line for line in hostfile if line] == [f"cfd-{i} slots=1" for i in range(3)]
    assert cloud.run("cfd[2]", "ping", "-c", "1", "-W", "5", "cfd-0").returncode == 0
    assert cloud.run("cfd", "sh", "-c", "ulimit -l").stdout.strip() == "unlimited"
    assert "slots=1" in cloud.weft("hostfile", "cfd", "--tenant", "acme").stdout


def test_run_passes_streams_and_status(cloud):
    cloud.make("cfd")
    assert cloud.run("cfd", "sh", "-c", "cat; exit 7", text="hello", check=False).stdout == "hello"
    done = cloud.run("cfd", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
    size = 3 << 20
    assert len(cloud.run("cfd", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x").stdout) == size


def test_node_that_ends_by_itself_is_started_again(cloud):
    cloud.make("cfd", 2)
    cloud.run("cfd[1]", "poweroff", "-f", check=False)
    until(lambda: any("healing" in event["message"] for event in cloud.client.events()), "it is noticed")
    cloud.ready("cfd", ready=2)
    cloud.check()


def knows_all(cloud, target, count):
    return all(cloud.run(target, "grep", "-c", f"cfd-{i}$", "/etc/hosts", check=False).stdout.strip() == "1" for i in range(count))


def reboot(cloud, target):
    boot = cloud.run(target, "cat", "/proc/sys/kernel/random/boot_id").stdout
    cloud.run(target, "sh", "-c", "echo gone > /etc/gone; reboot -f", check=False)
    return boot


def test_node_that_reboots_meets_the_others_again(cloud):
    """All that it was told lay in its memory."""
    cloud.make("cfd", 2)
    before, known = cloud.nodes("cfd"), cloud.events("node-rebooted")
    boot = reboot(cloud, "cfd[1]")
    until(lambda: cloud.events("node-rebooted") != known, "it is noticed")
    assert cloud.client.cluster("cfd")["phase"] == "healing"
    cloud.ready("cfd", ready=2)
    assert cloud.run("cfd[1]", "cat", "/proc/sys/kernel/random/boot_id").stdout != boot
    assert cloud.run("cfd[1]", "test", "-e", "/etc/gone", check=False).returncode == 1
    assert knows_all(cloud, "cfd[1]", 2) and cloud.nodes("cfd") == before
    assert cloud.run("cfd[1]", "ping", "-c", "1", "-W", "5", "cfd-0").returncode == 0
    cloud.check()


def test_node_that_reboots_while_nobody_listens(cloud):
    cloud.make("cfd", 2)
    host, domain = next((node["host"], "weft-" + node["id"]) for node in cloud.nodes("cfd") if node["rank"] == 1)
    known = cloud.events("node-rebooted")
    cloud.stop_weftd()
    cloud.virsh(host, "reset", domain)
    cloud.start_weftd()
    until(lambda: cloud.events("node-rebooted") != known, "it is noticed", BOOT)
    cloud.ready("cfd", ready=2)
    assert knows_all(cloud, "cfd[1]", 2)
    cloud.check()


def test_same_addresses_in_two_clusters(cloud):
    cloud.create("cfd", 2, "acme")
    cloud.create("sim", 2, "umbrella")
    cloud.ready("cfd", "acme")
    cloud.ready("sim", "umbrella")
    assert cloud.run("cfd", "cat", "/etc/hosts").stdout.count("10.64.0.2") == 1
    assert cloud.run("sim", "cat", "/etc/hosts", tenant="umbrella").stdout.count("10.64.0.2") == 1
    cloud.check()


def test_weftd_starts_again_and_adopts(cloud):
    cloud.make("cfd", 2)
    before = cloud.domains()
    cloud.stop_weftd()
    cloud.start_weftd()
    assert cloud.ready("cfd", ready=2)
    assert cloud.domains() == before
    assert cloud.run("cfd[1]", "hostname").stdout.strip() == "cfd-1"
    cloud.check()


def test_doctor_and_top(cloud):
    cloud.make("cfd")
    report = cloud.weft("doctor", "h1", "--json", check=False).stdout
    assert '"hook"' in report and '"kvm"' in report
    assert "cfd" in cloud.weft("top", "cfd", "--tenant", "acme", "--once").stdout


CTRL_BRACKET = b"\x1d"


class Console:
    """weft console on a terminal of its own."""

    def __init__(self, cloud, target):
        self.terminal, inner = pty.openpty()
        self.process = subprocess.Popen([build_folder() / "src/cli/weft", "console", target, "--tenant", "acme"], stdin=inner, stdout=inner,
                                        stderr=inner, env=os.environ | {"WEFT_URL": f"unix://{cloud.socket}"}, start_new_session=True)
        os.close(inner)
        os.set_blocking(self.terminal, False)
        self.seen = b""

    def shows(self, text):
        try:
            self.seen += os.read(self.terminal, 65536)
        except (BlockingIOError, OSError):
            pass
        return text in self.seen

    def wait_for(self, text):
        until(lambda: self.shows(text), lambda: f"the console shows {text}, not {self.seen[-300:]}")

    def type(self, keys):
        os.write(self.terminal, keys)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.terminal)


def test_console(cloud):
    """A shell on the serial line; Ctrl-] leaves it, and the next one gets it."""
    cloud.make("cfd")
    for number in (6, 7):
        console = Console(cloud, "cfd")
        try:
            console.wait_for(b"Ctrl-] ends it")
            console.type(b"\n")
            console.wait_for(b"# ")
            console.type(f"echo $((1000 + {number}))\n".encode())
            console.wait_for(f"100{number}".encode())
            console.type(CTRL_BRACKET)
            assert console.process.wait(timeout=PATIENCE) == 0
        finally:
            console.close()
