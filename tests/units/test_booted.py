"""The shipped units under systemd: that they can do what they are for, and nothing of what they are not."""

import json
import shutil
from pathlib import Path

import pytest
from machine import Machine

from harness.wait import until
from harness.weft import SOURCE, default_config

STATE = "/var/lib/weft"
PCI = "0000:77:00.0"
FUNCTION = "0000:77:00.1"
GROUP = "43"

# Devices and settings of a host, in memory: what is written there reaches no kernel.
PREPARE = f"""
mknod -m 660 dev/infiniband/umad0 c 10 229
chgrp 990 dev/infiniband/umad0
cat /proc/devices > run/devices
sed -i 's/^ *10 misc/10 infiniband_mad/' run/devices
mount --bind run/devices proc/devices

mount -t tmpfs tmpfs sys/bus/pci
mount -t tmpfs tmpfs sys/devices/system/node
mkdir -p sys/bus/pci/devices sys/bus/pci/drivers/mlx5_core sys/devices/system/node/node0/hugepages/hugepages-2048kB
echo 4 > sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages
echo 4 > sys/devices/system/node/node0/hugepages/hugepages-2048kB/free_hugepages
touch sys/bus/pci/drivers/mlx5_core/unbind
mount -t tmpfs tmpfs sys/devices/virtual
mkdir -p sys/devices/virtual/{PCI} sys/devices/virtual/{FUNCTION} sys/devices/virtual/iommu_groups/{GROUP}
for pci in {PCI} {FUNCTION}; do
    ln -s "../../../devices/virtual/$pci" "sys/bus/pci/devices/$pci"
    ln -s /sys/bus/pci/drivers/mlx5_core "sys/devices/virtual/$pci/driver"
done
ln -s ../{FUNCTION} sys/devices/virtual/{PCI}/virtfn0
ln -s ../{PCI} sys/devices/virtual/{FUNCTION}/physfn
ln -s ../iommu_groups/{GROUP} sys/devices/virtual/{FUNCTION}/iommu_group
echo 8 > sys/devices/virtual/{PCI}/sriov_totalvfs
echo 1 > sys/devices/virtual/{PCI}/sriov_numvfs
echo 1 > sys/devices/virtual/{PCI}/sriov_drivers_autoprobe
touch dev/vfio/{GROUP}
chown 992 dev/vfio/{GROUP}
"""

# Stands for opensm: a process of root's that has this name and says when it is told something.
OPENSM = """#!/bin/sh
trap 'echo told >> /run/told' HUP
echo $$ > /run/opensm.pid
while :; do sleep infinity & wait; done
"""

# What mode file does, and what a weftd that was taken over might try.
PROBE = """#!/bin/sh
try() { name=$1; shift; if "$@" 2> /dev/null; then echo "$name yes"; else echo "$name no"; fi; }
try device sh -c 'exec 3<> /dev/infiniband/umad0'
try partitions sh -c 'echo "Default=0x7fff : ALL=limited, SELF=full ;" > /var/lib/weft/opensm/partitions.conf'
try sees grep -q opensm "/proc/$(cat /run/opensm.pid)/comm"
try signal sh -c 'kill -HUP "$(cat /run/opensm.pid)"'
try memory sh -c 'exec 3< /dev/mem'
try opensm.conf sh -c 'echo >> /etc/opensm/opensm.conf'
try shadow sh -c 'exec 3< /etc/shadow'
try chown sh -c 'touch /var/lib/weft/x && chown :weft-users /var/lib/weft/x'
ssh -o BatchMode=yes -o ConnectTimeout=5 nobody@127.0.0.1 2>&1 | grep -q 'Connection refused' && echo ssh runs
"""
PROBED = """[Service]
Type=oneshot
Restart=no
ExecStart=
ExecStart=/etc/weft/probe
StandardOutput=truncate:/run/probed
"""


def write_config(machine, fabric):
    config = default_config(Path(STATE), hosts=2)
    config["api"] |= {"socket": "/run/weft/weft.sock", "group": "weft-users"}
    config["principals"].append({"name": "alice", "tenant": "acme", "role": "member", "unix_user": "alice"})
    config["fabrics"][0] |= {"manager": {"driver": "fake", "world": f"{STATE}/fabric"}} | fabric
    machine.write("/etc/weft/weft.yaml", json.dumps(config))


@pytest.fixture
def machine(tmp_path):
    new = Machine(tmp_path, PREPARE)
    write_config(new, {})
    new.write("/usr-local/opensm", OPENSM, 0o755)
    new.write("/etc/systemd/system/opensm.service", "[Service]\nExecStart=/usr-local/opensm\n")
    new.write("/etc/opensm/opensm.conf", "keep_pkey_indexes TRUE\n")
    new.write("/etc/shadow", "secret\n", 0o600)
    new.write("/dev/mem", "")
    new.write("/etc/weft/probe", PROBE, 0o755)
    try:
        new.boot()
        yield new
    finally:
        new.close()


def add_drop_in(machine, unit, text=None):
    folder = machine.units / f"{unit}.service.d"
    if text:
        folder.mkdir(exist_ok=True)
        (folder / "zz-test.conf").write_text(text, encoding="utf-8")
    else:
        shutil.copytree(SOURCE / f"dist/examples/{unit}.service.d", folder)
    machine.run("systemctl", "daemon-reload")


def probe(machine):
    add_drop_in(machine, "weftd", PROBED)
    machine.start("opensm")
    until(lambda: Path(f"/proc/{machine.first}/root/run/opensm.pid").exists(), "opensm's stand-in runs")
    machine.start("weftd")
    return dict(line.split() for line in machine.read("/run/probed").splitlines())


def whoami(machine, user):
    return machine.run("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "/opt/build/src/cli/weft", "whoami", check=False)


def test_weftd_is_started_and_knows_its_callers(machine):
    machine.start("weftd")
    assert "admin" in machine.run("/opt/build/src/cli/weft", "whoami").stdout
    assert "alice" in whoami(machine, "alice").stdout
    refused = whoami(machine, "mallory")
    assert refused.returncode != 0 and "ermission denied" in refused.stderr
    machine.run("/opt/build/src/cli/weft", "create", "cfd", "-n", "2", "--cores", "1", "--memory", "64M", "--tenant", "acme")
    machine.start("weftd")  # it was stopped cleanly, and comes again on what it left
    assert "cfd" in machine.run("/opt/build/src/cli/weft", "ls", "--tenant", "acme").stdout


FORBIDDEN = {"memory": "no", "opensm.conf": "no", "shadow": "no", "chown": "no", "ssh": "runs"}


def test_mode_file_is_forbidden_by_the_unit(machine):
    assert probe(machine) == {"device": "no", "partitions": "no", "sees": "no", "signal": "no"} | FORBIDDEN


def test_mode_file_is_allowed_by_the_drop_in(machine):
    add_drop_in(machine, "weftd")
    assert probe(machine) == {"device": "yes", "partitions": "yes", "sees": "yes", "signal": "yes"} | FORBIDDEN
    until(lambda: Path(f"/proc/{machine.first}/root/run/told").exists(), "opensm's stand-in was told")


def test_weftd_is_started_with_the_drop_in(machine):
    write_config(machine, {"manager": {"driver": "opensm", "way": "file", "partitions_file": f"{STATE}/opensm/partitions.conf"}})
    add_drop_in(machine, "weftd")
    machine.start("weftd")
    machine.start("opensm")
    assert "admin" in machine.run("/opt/build/src/cli/weft", "whoami").stdout


# --- weft-prepare ---

WISH = f"adapters:\n  - {{ name: '{PCI}', functions: 1 }}\npages:\n  2M: 16\n"


def prepared(machine):
    return machine.start("weft-prepare", check=False), machine.log("weft-prepare")


def test_a_host_is_prepared(machine):
    machine.write("/etc/weft/host.yaml", WISH)
    _, log = prepared(machine)
    assert machine.read("/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages").strip() == "16", log
    assert machine.read(f"/sys/devices/virtual/{PCI}/sriov_drivers_autoprobe").strip() == "0", log
    assert machine.read("/sys/bus/pci/drivers/mlx5_core/unbind").strip() == FUNCTION, log


def test_its_records_outlive_the_service(machine):
    machine.write("/etc/weft/host.yaml", "pages:\n  2M: 4\n")
    assert prepared(machine)[0]
    Path(f"/proc/{machine.first}/root/run/weft-hook/domains").mkdir()
    machine.run("systemctl", "stop", "weft-prepare")
    assert machine.start("weft-prepare") and Path(f"/proc/{machine.first}/root/run/weft-hook/domains").exists()


def test_nothing_is_taken_from_a_process_of_another_user(machine):
    machine.write("/etc/weft/host.yaml", WISH.replace("functions: 1", "functions: 0"))
    machine.run("rm", f"/sys/devices/virtual/{FUNCTION}/driver")
    machine.run("ln", "-s", "/sys/bus/pci/drivers/vfio-pci", f"/sys/devices/virtual/{FUNCTION}/driver")
    add_drop_in(machine, "weft-prepare", "[Unit]\nAfter=user.service\n")
    machine.write("/etc/systemd/system/user.service", f"[Service]\nUser=mallory\nStandardInput=file:/dev/vfio/{GROUP}\nExecStart=/bin/sleep infinity\n")
    machine.run("systemctl", "daemon-reload")
    machine.start("user")
    works, log = prepared(machine)
    pid = machine.run("systemctl", "show", "--value", "-p", "MainPID", "user").stdout.strip()
    assert not works and f"refused  {FUNCTION} is in use by process {pid}" in log
    assert machine.read(f"/sys/devices/virtual/{PCI}/sriov_numvfs") == "1\n"
