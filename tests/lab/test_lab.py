"""The lab itself: what its hosts are, what can happen to them, and that nothing of it stays."""

import fcntl
import json
import os
import signal
import time
import xml.etree.ElementTree as ElementTree

import pytest

from harness.lab import SWITCH, UP_SECONDS, machine
from harness.wait import until
from harness.weft import build_folder

DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <memory unit='MiB'>64</memory>
  <memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>
  <vcpu>2</vcpu>
  <cputune><vcpupin vcpu='0' cpuset='{cpu}'/><vcpupin vcpu='1' cpuset='24'/><emulatorpin cpuset='0'/></cputune>
  <numatune><memory mode='strict' nodeset='{node}'/></numatune>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu><numa><cell id='0' cpus='0-1' memory='64' unit='MiB'/></numa></cpu>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
"""


def start(lab, host, name, cpu=8, node=1, check=True):
    return lab.virsh(host, "create", "/dev/stdin", check=check, text=DOMAIN.format(name=name, cpu=cpu, node=node))


def reaches(lab, host):
    """Does the switch get an answer from its libvirtd?"""
    uri = f"qemu+tcp://10.77.0.{10 + int(host[1:])}/system"
    return lab.exec(SWITCH, "timeout", "5", "virsh", "-q", "-c", uri, "list", check=False).returncode == 0


@pytest.fixture
def domain(hosts):
    """One that runs on h1, on processors, a NUMA node and pages that are only described."""
    start(hosts, "h1", "folded")
    yield "folded"
    if hosts.host("h1")["domains"]:
        hosts.virsh("h1", "destroy", "folded")


# --- hosts ---

def test_hosts_are_apart(hosts):
    assert [hosts.exec(name, "hostname").strip() for name in hosts.hosts] == ["h1", "h2"]
    uuids = {ElementTree.fromstring(hosts.virsh(name, "capabilities")).findtext("host/uuid") for name in hosts.hosts}
    assert len(uuids) == 2
    assert hosts.exec("h1", "getent", "hosts", "h2").split() == ["10.77.0.12", "h2"]
    until(lambda: all(reaches(hosts, name) for name in hosts.hosts), "both are reached")
    hosts.shell("h1", "touch /var/lib/libvirt/images/weft/mine")
    assert hosts.shell("h2", "ls /var/lib/libvirt/images/weft") == ""
    hosts.shell("h1", "rm /var/lib/libvirt/images/weft/mine")


def test_libvirt_sees_the_described_hardware(hosts):
    cells = ElementTree.fromstring(hosts.virsh("h1", "capabilities")).findall("host/topology/cells/cell")
    assert [cell.get("id") for cell in cells] == ["0", "1"]
    assert [cell.findtext("memory") for cell in cells] == [str(4 << 20)] * 2
    assert [cell.findtext("pages[@size='2048']") for cell in cells] == ["1536"] * 2
    distances = [[sibling.get("value") for sibling in cell.findall("distances/sibling")] for cell in cells]
    assert distances == [["10", "20"], ["20", "10"]]
    siblings = {int(cpu.get("id")): cpu.get("siblings") for cell in cells for cpu in cell.findall("cpus/cpu")}
    assert siblings == {cpu: f"{cpu % 16},{cpu % 16 + 16}" for cpu in range(32)}
    assert [cell.find("cpus/cpu").get("socket_id") for cell in cells] == ["0", "1"]
    info = dict(line.split(":") for line in hosts.virsh("h1", "nodeinfo").splitlines() if line)
    assert (info["CPU(s)"].strip(), info["Memory size"].split()[0]) == ("32", str(8 << 20))


def test_domain_runs_on_what_is_only_described(hosts, domain):
    assert hosts.virsh("h1", "domstate", domain).strip() == "running"
    command = hosts.shell("h1", "tr '\\0' ' ' < /proc/$(pidof qemu-system-x86_64)/cmdline")
    assert '"mem-path":"/dev/hugepages/' in command and '"host-nodes":[1],"policy":"bind"' in command
    pins = ElementTree.fromstring(hosts.virsh("h1", "dumpxml", domain)).findall("cputune/vcpupin")
    assert [pin.get("cpuset") for pin in pins] == ["8", "24"]


def test_what_is_not_described_is_refused(hosts):
    assert "cannot set CPU affinity" in start(hosts, "h1", "no-such-cpu", cpu=100, check=False).stderr
    assert "NUMA node" in start(hosts, "h1", "no-such-node", node=5, check=False).stderr
    assert hosts.host("h1")["domains"] == {}


def test_domain_outlives_libvirtd(hosts, domain):
    process = hosts.exec("h1", "pidof", "qemu-system-x86_64")
    hosts.stop_libvirtd("h1")
    assert not hosts.host("h1")["libvirtd"]
    assert hosts.exec("h1", "pidof", "qemu-system-x86_64") == process
    hosts.start_libvirtd("h1")
    assert hosts.host("h1")["domains"] == {domain: "running"}


def test_leftovers_are_found(hosts, domain):
    hosts.shell("h1", "ip link add weft9 type bridge; touch /var/lib/libvirt/images/weft/weft-x.disk /var/lib/libvirt/images/weft/image-1")
    found = hosts.leftovers()
    hosts.shell("h1", "ip link del weft9; rm /var/lib/libvirt/images/weft/*")
    assert {"h1: link weft9", "h1: domain folded", "h1: file images/weft/weft-x.disk"} < set(found)
    assert len(found) == 4 and any("qemu-system-x86_64" in line for line in found)
    hosts.virsh("h1", "destroy", domain)
    hosts.wait_clean()


# --- cables and power ---

def test_cut_and_heal(hosts, domain):
    hosts.cut("h1")
    assert hosts.host("h1")["state"] == "cut"
    assert not reaches(hosts, "h1")
    until(lambda: reaches(hosts, "h2"), "the other one is reached")
    assert hosts.exec("h1", "timeout", "5", "virsh", "-c", "qemu+tcp://10.77.0.12/system", "list", check=False).returncode != 0
    assert hosts.host("h1")["domains"] == {domain: "running"}
    hosts.heal("h1")
    assert hosts.host("h1")["state"] == "up"
    until(lambda: reaches(hosts, "h1"), "h1 is reached again")


def test_power_loss(hosts):
    start(hosts, "h2", "lost")
    hosts.shell("h2", "echo kept > /var/lib/libvirt/images/weft/file; echo gone > /run/file")
    inside = int(hosts.exec("h2", "pidof", "qemu-system-x86_64"))
    outside = [pid for pid in os.listdir("/proc") if pid.isdigit() and _is_on(hosts, "h2", pid) and _inner_pid(pid) == inside]
    assert len(outside) == 1
    hosts.kill("h2")
    assert not any(os.path.exists(f"/proc/{pid}") for pid in outside)
    assert hosts.host("h2") | {"libvirtd": False, "domains": {}} == hosts.host("h2")
    assert hosts.host("h2")["state"] == "dead" and hosts.host("h1")["state"] == "up"
    wait_active(hosts, "h1")
    hosts.heal("h2")
    assert hosts.host("h2")["state"] == "up"
    until(lambda: reaches(hosts, "h2"), "h2 is reached again")
    assert hosts.shell("h2", "cat /var/lib/libvirt/images/weft/file; ls /run/file 2>/dev/null || true") == "kept\n"
    assert hosts.host("h2")["domains"] == {}
    wait_active(hosts, "h1", "h2")
    hosts.shell("h2", "rm /var/lib/libvirt/images/weft/file")


def _is_on(lab, host, pid):
    """Other hosts, also those of labs beside this one, have processes of the same inner pid."""
    try:
        return os.path.samefile(f"/proc/{pid}/ns/pid", f"/proc/{first_process(lab, f'hosts/{host}/init.pid')}/ns/pid")
    except OSError:
        return False


def _inner_pid(pid):
    """Its pid on its host; None where it is on none."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as status:
            line = next(line for line in status if line.startswith("NSpid:"))
    except OSError:
        return None
    numbers = line.split()[1:]
    return int(numbers[2]) if len(numbers) == 3 else None


# --- the fabric ---

def wait_active(lab, *names):
    """opensm writes the file of its ports anew at each sweep, and one may find half of it."""
    until(lambda: lab.status()["fabric"]["active"] == list(names), lambda: f"{names} are active: {lab.status()['fabric']}")


def test_fabric_has_these_hosts(hosts):
    wait_active(hosts, "h1", "h2")
    assert hosts.status()["fabric"]["state"] == "up"
    text = hosts.shell(SWITCH, f"cd {hosts.folder}/fabric; "
                               f"LD_PRELOAD={build_folder().resolve()}/tests/fabric/fabric-agents.so:$(echo /usr/lib/*/umad2sim/libumad2sim.so) "
                               "SIM_HOST=h1 ibnetdiscover --ports")
    found = {line.split("'")[1]: line.split()[3] for line in text.splitlines() if line.startswith("CA")}
    assert found == {"h1 mlx5_0": "0x0002c90300000101", "h2 mlx5_0": "0x0002c90300000201", "sm mlx5_0": "0x0002c903000f0001"}


# --- the whole ---

def test_wrong_use_is_told(new_lab, hosts):
    lab = new_lab()
    cases = [
        (lab, ["up", "--hosts", "0"], "--hosts must be 1 to 200, is 0"),
        (lab, ["up", "--memory", "much"], "'much' is not a size"),
        (lab, ["up", "--hook", "/no/such"], "/no/such: no such program"),
        (lab, ["up", "--pages", "100000"], "more than a NUMA node's memory"),
        (lab, ["status"], "make one with weft lab up"),
        (lab, ["cut", "h1"], "make one with weft lab up"),
        (lab, ["down", "--name", "../x"], "'../x' is no name for a lab"),
        (hosts, ["cut", "h9"], "it has h1, h2"),
        (hosts, ["up", "--hosts", "3"], "there with hosts 2, not 3"),
        (hosts, ["exec", "h1"], "which command?"),
    ]
    for where, arguments, told in cases:
        done = where.lab(*arguments, check=False)
        assert done.returncode == 1 and told in done.stderr, (arguments, done.stderr)
    assert lab.remains() == []


def test_foreign_folder_is_left_alone(new_lab):
    lab = new_lab()
    lab.folder.mkdir()
    (lab.folder / "thesis").write_text("years of work", encoding="utf-8")
    assert "not a lab's" in lab.lab("up", "--no-weftd", check=False).stderr
    assert "not a lab's" in lab.lab("down", check=False).stderr
    assert (lab.folder / "thesis").exists()


def test_nothing_of_the_machine_is_touched(new_lab):
    before = machine()
    lab = new_lab(hosts=2, threads=2).up()
    during = machine()
    start(lab, "h1", "guest")
    lab.kill("h2")
    lab.down()
    assert during == before
    assert machine() == before
    wait_gone(lab)


def wait_gone(lab):
    """What only waited for a process in the lab ends a moment after it."""
    until(lambda: not lab.remains(), lambda: f"nothing is left, but {lab.remains()}")


def test_up_completes_what_is_there(new_lab):
    lab = new_lab(hosts=2).up()
    lab.kill("h1")
    lab.cut("h2")
    lab.stop_libvirtd("h2")
    lab.up()
    assert [(host["state"], host["libvirtd"]) for host in lab.status()["hosts"]] == [("up", True)] * 2
    os.kill(first_process(lab), signal.SIGKILL)
    until(lambda: not lab.status()["running"], "the room is gone")
    assert {host["state"] for host in lab.status()["hosts"]} == {"dead"}
    lab.up()
    assert [(host["state"], host["libvirtd"]) for host in lab.status()["hosts"]] == [("up", True)] * 2
    wait_active(lab, "h1", "h2")


def first_process(lab, file="room.pid"):
    """The one that holds a lab or a host."""
    return json.loads((lab.folder / file).read_text(encoding="ascii"))["pid"]


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.2, 0.3, 0.5, 0.8])
def test_killed_half_way_and_cleaned(new_lab, delay):
    lab = new_lab(hosts=3)
    making = lab.begin("up", "--no-weftd", "--hosts", 3)
    time.sleep(delay)  # where it is killed does not matter; that it is somewhere else each time does
    making.kill()
    making.communicate()
    lab.down()
    wait_gone(lab)


@pytest.mark.parametrize("delay", [0.06, 0.1, 0.15])
def test_removal_killed_half_way_and_repeated(new_lab, delay):
    lab = new_lab(hosts=2).up()
    removing = lab.begin("down")
    time.sleep(delay)  # as above
    removing.kill()
    removing.communicate()
    lab.down()
    wait_gone(lab)


@pytest.mark.parametrize("first", ["room.pid", "hosts/h1/init.pid", "hosts/h1/libvirtd.pid", "hosts/h2/init.pid"])
def test_half_made_is_completed(new_lab, first):
    lab = new_lab(hosts=2)
    making = lab.begin("up", "--no-weftd", "--hosts", 2)
    until((lab.folder / first).exists, f"{first} is written")
    making.kill()
    making.communicate()
    lab.up()
    assert [(host["state"], host["libvirtd"]) for host in lab.status()["hosts"]] == [("up", True)] * 2


def test_two_at_once_wait_for_each_other(new_lab):
    lab = new_lab(hosts=1)
    with open(lab.root / ".lab.lock", "w", encoding="ascii") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # so that each of them has to wait for one at least
        both = [lab.begin("up", "--no-weftd", "--hosts", 1) for _ in range(2)]
        for process in both:
            assert "another weft lab is at work" in process.stderr.readline()
    told = [process.communicate(timeout=UP_SECONDS)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    assert lab.host("h1")["libvirtd"]


def test_labs_side_by_side(hosts, new_lab):
    other = new_lab(hosts=1, threads=2).up()
    start(other, "h1", "theirs")
    assert hosts.host("h1")["domains"] == {} and other.host("h1")["domains"] == {"theirs": "running"}
    assert hosts.host("h1")["address"] == other.host("h1")["address"]
    other.down()
    wait_gone(other)
    assert hosts.host("h1")["libvirtd"]
    wait_active(hosts, "h1", "h2")


# --- weftd in the lab ---

def states(lab):
    return {host["name"]: host["state"] for host in lab.client.items("/v1/hosts")}


def test_weftd_sees_what_happens_to_hosts(cloud):
    until(lambda: states(cloud) == {"h1": "up", "h2": "up"}, lambda: f"both hosts are up, but {states(cloud)}")
    cloud.cut("h1")
    cloud.kill("h2")
    # With both of them silent weftd may be the one that is cut off.
    until(lambda: all("weftd may be cut off" in (host["reason"] or "") for host in cloud.client.items("/v1/hosts")),
          lambda: f"both hosts are silent, but {cloud.client.items('/v1/hosts')}", timeout=90)
    cloud.heal("h1")
    until(lambda: states(cloud) == {"h1": "up", "h2": "lost"}, lambda: f"one is lost, the other back, but {states(cloud)}", timeout=90)
    cloud.heal("h2")
    until(lambda: states(cloud) == {"h1": "up", "h2": "up"}, lambda: f"both hosts are up again, but {states(cloud)}", timeout=90)


def test_weftd_stops_and_starts(cloud):
    cloud.stop_weftd()
    assert not cloud.weftd_runs() and all(host["libvirtd"] for host in cloud.status()["hosts"])
    cloud.start_weftd()
    assert cloud.weftd_runs()
    until(lambda: states(cloud) == {"h1": "up", "h2": "up"}, lambda: f"both hosts are up, but {states(cloud)}")


def test_weftd_speaks_to_opensm(cloud):
    def shown():
        return json.loads(cloud.weft("fabric", "show", "--json").stdout)

    until(lambda: shown()["no_port"] == [], lambda: f"the map has the ports of both hosts: {shown()}")
    fabric = shown()
    assert fabric["manager"]["way"] == "plugin" and fabric["manager"]["master"]
    assert {adapter["host"] for switch in fabric["switches"] for adapter in switch["adapters"]} == {"h1", "h2", None}
    told = json.loads(cloud.weft("fabric", "partitions", "--json").stdout)["partitions"]
    assert [entry["name"] for entry in told] == ["Default"]
