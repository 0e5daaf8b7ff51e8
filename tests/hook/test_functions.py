"""Virtual functions: GUIDs, policy and P_Keys, what is refused, and what is left after anything went wrong."""

import json
import os
import subprocess

import pytest
from host import EACCES, EIO, MLX4, MLX5, device, domain

GUID = 0x0277650000000001
COLONS = "02:77:65:00:00:00:00:01"
NOBODY = "ff:ff:ff:ff:ff:ff:ff:ff"
SRIOV = "/devices/pci0000:00/0000:41:00.0/sriov"
IOV = "/devices/pci0000:00/0000:42:00.0/infiniband/mlx4_0/iov"


def mlx4(**changes):
    return device(hca="mlx4_0", driver="mlx4", pf="0000:42:00.0", **changes)


def vendor(host, vf):
    return tuple(host.value(f"{SRIOV}/{vf}/{name}") for name in ("node", "port", "policy"))


def index_map(host, function, port=1):
    """A function's map but what is mapped nowhere: index to the port's index."""
    folder = host.sys / IOV.lstrip("/") / function / "ports" / str(port) / "pkey_idx"
    text = host.run("sh", "-c", 'cd "$1" && for i in *; do echo "$i $(cat "$i")"; done', "sh", folder).stdout
    pairs = (line.split() for line in text.splitlines())
    return {int(index): int(value) for index, value in pairs if value != "127"}


def prepare(host, node, *devices, **options):
    return host.hook("qemu", f"weft-{node}", "prepare", domain(node, devices=devices, **options))


def release(host, node, *devices):
    return host.hook("qemu", f"weft-{node}", "release", domain(node, devices=devices))


def refused(answer, *words):
    assert answer.returncode == 1
    assert answer.stdout == ""
    assert answer.stderr.startswith("weft-hook: ") and answer.stderr.count("\n") == 1, answer.stderr
    for word in words:
        assert word in answer.stderr
    return True


def accepted(answer):
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    return True


# --- setting up and undoing ---


def test_mlx5_gets_its_guids_and_loses_them(host):
    assert accepted(prepare(host, "a-1", device(vf=2, guid=GUID)))
    assert vendor(host, 2) == (COLONS, COLONS, "Follow")
    assert vendor(host, 1) == ("00:00:00:00:00:00:00:00",) * 2 + ("Down",)
    assert host.link("/bus/pci/devices/0000:41:00.3/driver") is None, "the host's driver took over the GUID that was there before"
    assert host.link("/bus/pci/devices/0000:41:00.2/driver") == "mlx5_core"

    assert accepted(release(host, "a-1", device(vf=2)))
    assert vendor(host, 2) == (NOBODY, NOBODY, "Down")
    assert host.records() == [] and host.links() == []


def test_mlx5_is_down_while_its_guids_change(host):
    host.order(f"value {SRIOV}/0/policy Up")
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert [(path.rpartition("/")[2], value) for path, value in host.written() if "/sriov/" in path] == [
        ("policy", "Down"), ("node", COLONS), ("port", COLONS), ("policy", "Follow")]


def test_mlx4_maps_the_partition_first_and_nothing_else(host):
    assert accepted(prepare(host, "a-1", mlx4(vf=3, guid=GUID, pkey=1)))
    assert index_map(host, "0000:42:00.4") == {0: 2, 1: 0}, "0x8001 is the port's index 2, 0x7fff its index 0"
    assert index_map(host, "0000:42:00.4", port=2) == {}
    assert host.value(f"{IOV}/ports/1/admin_guids/4") == "277650000000001"
    assert host.value(f"{IOV}/ports/1/admin_guids/3") == "0"

    assert accepted(release(host, "a-1", mlx4(vf=3)))
    assert index_map(host, "0000:42:00.4") == {}
    assert host.value(f"{IOV}/ports/1/admin_guids/4") == "f" * 16


def test_mlx4_has_what_it_shares_behind_its_own(host):
    host.order(f"value {IOV}/ports/1/pkeys/5 0x7001")
    host.order(f"value {IOV}/ports/1/pkeys/6 0xf002")
    assert accepted(prepare(host, "a-1", mlx4(vf=3, pkey=1, shared="0xf002 0x7001")))
    assert index_map(host, "0000:42:00.4") == {0: 2, 1: 6, 2: 5, 3: 0}, "its own, the shared ones in their order, the default"
    assert accepted(release(host, "a-1", mlx4(vf=3, shared="0xf002 0x7001")))
    assert index_map(host, "0000:42:00.4") == {}


def test_mlx4_waits_for_what_it_shares(host):
    assert refused(prepare(host, "a-1", mlx4(pkey=1, shared="0x7001")), "0x7001", "subnet manager")
    assert not [path for path, _ in host.written() if path.startswith(IOV)], "nothing has changed"


def test_mlx4_is_closed_before_its_guid_changes_and_opened_last(host):
    assert accepted(prepare(host, "a-1", mlx4(vf=0)))
    written = [path.replace(IOV, "") for path, _ in host.written() if path.startswith(IOV)]
    guid = written.index("/ports/1/admin_guids/1")
    opened = [path for path in written[guid + 1:]]
    assert opened == ["/0000:42:00.1/ports/1/pkey_idx/0", "/0000:42:00.1/ports/1/pkey_idx/1"]


def test_mlx4_may_not_send_management_packets(host):
    host.order(f"value {IOV}/0000:42:00.1/ports/1/enable_smi_admin 1")
    assert accepted(prepare(host, "a-1", mlx4(vf=0)))
    assert host.value(f"{IOV}/0000:42:00.1/ports/1/enable_smi_admin") == "0"


def test_function_beyond_the_first_slot(host):
    assert accepted(prepare(host, "a-1", device(vf=7), mlx4(vf=7, rail=1, guid=GUID + 1)))
    assert vendor(host, 7)[2] == "Follow"
    assert index_map(host, "0000:42:01.0") == {0: 2, 1: 0}


def test_devices_plugged_later_are_prepared_at_start(host):
    assert accepted(prepare(host, "a-1", device(vf=0, plugged="later")))
    assert vendor(host, 0) == (COLONS, COLONS, "Follow")


def test_preparing_again_changes_nothing(host):
    one = mlx4(vf=1)
    assert accepted(prepare(host, "a-1", one))
    before = index_map(host, "0000:42:00.2")
    assert accepted(prepare(host, "a-1", one))
    assert index_map(host, "0000:42:00.2") == before == {0: 2, 1: 0}
    assert host.records() == ["weft-a-1"]


def test_a_node_that_comes_back_with_other_devices_leaves_the_old_ones(host):
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert accepted(prepare(host, "a-1", device(vf=1)))
    assert vendor(host, 0) == (NOBODY, NOBODY, "Down")
    assert vendor(host, 1) == (COLONS, COLONS, "Follow")


def test_a_function_of_vfio_is_left_there(host):
    host.order("link /devices/pci0000:00/0000:41:00.1/driver ../../../bus/pci/drivers/vfio-pci")
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert host.link("/bus/pci/devices/0000:41:00.1/driver") == "vfio-pci"


def test_whole_adapter(host):
    whole = device(vf=-1) | {"vf": None, "guid": None, "pci": "0000:41:00.0"}
    host.forget()
    assert accepted(prepare(host, "a-1", whole))
    assert host.written() == []
    assert refused(prepare(host, "b-1", device(vf=0)), "node a-1's", "0000:41:00.1")
    assert accepted(release(host, "a-1", whole))
    assert accepted(prepare(host, "b-1", device(vf=0)))
    assert refused(prepare(host, "a-1", whole), "node b-1's")


# --- what is refused ---


@pytest.mark.parametrize(("one", "words"), [
    (device(vf=2, pci="0000:41:00.5"), ["virtual function 2", "0000:41:00.3 on this host, not 0000:41:00.5"]),
    (device(vf=9), ["no virtual function 9"]),
    (device(hca="mlx5_7"), ["no HCA mlx5_7"]),
    (device(pf="0000:99:00.0"), ["mlx5_0 is 0000:41:00.0 on this host, not 0000:99:00.0"]),
    (device(driver="mlx4"), ["driver mlx5_core, not mlx4_core"]),
    (mlx4(pkey=3), ["0x8003", "subnet manager"]),
    (device(hca="../../etc"), ["HCA", "not allowed"]),
    (device(pci="0000:41:00.1/../.."), ["PCI address"]),
    (device(guid=0), ["guid"]),
    (device(guid=2**64 - 1), ["guid"]),
    (device(pkey=0), ["pkey"]),
    (device(pkey=0x8001), ["pkey", "0x7ffe"]),
])
def test_wrong_device(host, one, words):
    host.forget()
    assert refused(prepare(host, "a-1", one, hostdevs=[]), *words)
    assert host.written() == [] and host.records() == [] and host.links() == []


def test_function_of_another_physical_one(host):
    host.order("link /devices/pci0000:00/0000:41:00.1/physfn ../0000:42:00.0")
    host.forget()
    assert refused(prepare(host, "a-1", device(vf=0)), "0000:41:00.1 is a virtual function of 0000:42:00.0")
    assert host.written() == []


def test_device_that_the_metadata_does_not_name(host):
    host.forget()
    assert refused(prepare(host, "a-1", device(vf=0), hostdevs=["0000:41:00.1", "0000:41:00.2"]), "may not have 0000:41:00.2")
    assert refused(prepare(host, "a-1", hostdevs=["0000:42:00.0"]), "may not have 0000:42:00.0")
    assert host.written() == []
    assert accepted(prepare(host, "a-1", device(vf=0), hostdevs=["0000:41:00.1", "0000:61:00.0"])), "a GPU is not the hook's"


def test_default_partition_must_be_limited(make):
    host = make("mlx4 mlx4_0 0000:42:00.0 2 0xffff,0x8001")
    assert refused(prepare(host, "a-1", mlx4()), "0x7fff", "limited members")
    assert host.written() == []


def test_key_comes_later(host):
    assert refused(prepare(host, "a-1", mlx4(pkey=3)), "0x8003")
    host.order(f"value {IOV}/ports/1/pkeys/5 0x8003")
    assert accepted(prepare(host, "a-1", mlx4(pkey=3)))
    assert index_map(host, "0000:42:00.1") == {0: 5, 1: 0}


def test_function_in_use_by_another_node(host):
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert refused(prepare(host, "b-1", device(vf=0, guid=GUID + 1)), "0000:41:00.1", "node a-1's")
    # libvirt cleans up after the refused one: that must not touch what is the other's
    assert accepted(release(host, "b-1", device(vf=0, guid=GUID + 1)))
    assert vendor(host, 0) == (COLONS, COLONS, "Follow")
    assert host.records() == ["weft-a-1"]


def test_guid_in_use_by_another_node(host):
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert refused(prepare(host, "b-1", device(vf=1)), "GUID 0x0277650000000001", "node a-1's")


def test_function_in_use_by_a_process(host):
    """Whoever has it, weft's or not, and whatever the records say."""
    group = host.link("/bus/pci/devices/0000:41:00.1/iommu_group")
    file = host.root / "dev/vfio" / group
    file.touch()
    host.order("link /devices/pci0000:00/0000:41:00.1/driver ../../../bus/pci/drivers/vfio-pci")
    with file.open("rb"):
        host.forget()
        assert refused(prepare(host, "a-1", device(vf=0)), "0000:41:00.1", f"process {os.getpid()}")
        assert host.written() == []
    assert accepted(prepare(host, "a-1", device(vf=0)))


def test_never_cleared_under_a_running_process(host):
    """A record that looks dead while its node still has the function."""
    assert host.orphan("qemu", "weft-a-1", "prepare", domain("a-1", devices=[device(vf=0)])).returncode == 0
    file = host.root / "dev/vfio" / host.link("/bus/pci/devices/0000:41:00.1/iommu_group")
    file.touch()
    host.order("link /devices/pci0000:00/0000:41:00.1/driver ../../../bus/pci/drivers/vfio-pci")
    with file.open("rb"):
        assert accepted(prepare(host, "b-1", device(vf=1, guid=GUID + 1)))
        assert vendor(host, 0) == (COLONS, COLONS, "Follow")
    assert accepted(release(host, "b-1"))
    assert vendor(host, 0) == (NOBODY, NOBODY, "Down")


@pytest.mark.parametrize("fault", [f"fail {{}} {EACCES}", f"fail {{}} {EIO}", "ignore {}"])
@pytest.mark.parametrize("path", [f"{SRIOV}/0/port", f"{SRIOV}/1/policy", f"{IOV}/0000:42:00.1/ports/1/pkey_idx/0",
                                  f"{IOV}/ports/1/admin_guids/1"])
def test_unwritable_file_leaves_nothing_half_done(host, path, fault):
    devices = [device(vf=0), device(vf=1, rail=1, guid=GUID + 1), mlx4(vf=0, rail=2, guid=GUID + 2)]
    host.order(f"value {SRIOV}/1/policy Up")
    host.order(fault.format(path))
    answer = prepare(host, "a-1", *devices)
    assert refused(answer, path.removeprefix(SRIOV).removeprefix(IOV))
    assert refused(release(host, "a-1", *devices))
    assert host.records() == ["weft-a-1"], "what could not be undone is not forgotten"
    host.order(f"mend {path}")

    for entry in (host.root / "var/lib/weft/quarantine").iterdir():
        assert host.readmit(entry.name).returncode == 0
    assert host.records() == [] and host.links() == []
    assert vendor(host, 0)[2] == "Down" and vendor(host, 1)[2] == "Down"
    assert index_map(host, "0000:42:00.1") in ({}, {0: 0}), "closed, or as it always was"
    assert accepted(prepare(host, "a-1", *devices))
    assert vendor(host, 0) == (COLONS, COLONS, "Follow")


# --- killed, dead, many ---


def kill_at(host, point, op, node, *devices):
    answer = host.hook("qemu", f"weft-{node}", op, domain(node, devices=devices), environment={"WEFT_FAILPOINT": point})
    assert answer.returncode == -9
    return True


@pytest.mark.parametrize("point", ["hook-recorded", "hook-device-prepared"])
def test_killed_while_preparing(host, point):
    devices = [device(vf=0), mlx4(vf=0, rail=1, guid=GUID + 1)]
    assert kill_at(host, point, "prepare", "a-1", *devices)
    assert host.records() == ["weft-a-1"]
    assert accepted(release(host, "a-1", *devices))
    assert vendor(host, 0)[2] == "Down"
    assert host.records() == [] and host.links() == []
    assert accepted(prepare(host, "a-1", *devices))


def test_killed_while_releasing(host):
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert accepted(host.hook("qemu", "weft-a-1", "started", domain("a-1", devices=[device(vf=0)])))
    assert kill_at(host, "hook-cleared", "release", "a-1", device(vf=0))
    assert host.records() == ["weft-a-1"]
    # nobody releases it once more; whoever comes next finds it dead
    assert accepted(prepare(host, "b-1", device(vf=0, guid=GUID + 1)))
    assert host.records() == ["weft-b-1"]


def test_libvirtd_died_between_prepare_and_start(host):
    assert host.orphan("qemu", "weft-a-1", "prepare", domain("a-1", vxlan=10007, devices=[device(vf=0)])).returncode == 0
    assert vendor(host, 0)[2] == "Follow"
    assert accepted(prepare(host, "b-1", device(vf=1, guid=GUID + 1)))
    assert vendor(host, 0) == (NOBODY, NOBODY, "Down")
    assert host.records() == ["weft-b-1"] and host.links() == ["weft10001", "wefv10001"]


def prepare_for_nobody(host, text):
    """By a libvirtd that does not listen any more."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(host.command("qemu", "weft-a-1", "prepare"), input=text, stdout=subprocess.DEVNULL, stderr=writer, text=True, check=False)
    os.close(writer)
    return done.returncode


def test_libvirtd_died_before_the_hook_began(host):
    """Its parent is now another one, which lives forever: nobody would ever take such a record for dead."""
    assert prepare_for_nobody(host, domain("a-1", devices=[device(vf=0)])) != 0
    assert host.records() == [] and host.links() == [] and vendor(host, 0)[2] == "Down"


# Runs the rest of its words when the shell that it was forked by is gone.
ORPHAN = """text=$1; shift
{ while read -r pid name state parent rest </proc/self/stat && [ "$parent" = $$ ]; do :; done; exec "$@" <"$text"; } & exit"""


def test_libvirtd_died_between_fork_and_exec_of_another_child(host):
    """Which has the pipe's other end in its place for a moment, here: until the hook has ended."""
    text = host.root / "a-1.xml"
    text.write_text(domain("a-1", devices=[device(vf=0)]), encoding="utf-8")
    subprocess.run(["sh", "-c", ORPHAN, "sh", text, *host.command("qemu", "weft-a-1", "prepare")], capture_output=True, check=True)
    assert host.records() == [] and host.links() == [] and vendor(host, 0)[2] == "Down"


def test_hook_of_a_dead_libvirtd_comes_after_that_of_the_next(host):
    """What runs by now is not undone for one that nobody waits for."""
    text = domain("a-1", vxlan=10007, devices=[device(vf=0)])
    assert accepted(host.hook("qemu", "weft-a-1", "prepare", text))
    before = vendor(host, 0)
    assert before[2] == "Follow"
    assert prepare_for_nobody(host, text) != 0
    assert vendor(host, 0) == before and host.records() == ["weft-a-1"] and host.links() == ["weft10007", "wefv10007"]


def test_node_outlives_libvirtd(host):
    text = domain("a-1", devices=[device(vf=0)])
    assert host.orphan("qemu", "weft-a-1", "prepare", text).returncode == 0
    with host.running("weft-a-1"):
        assert host.orphan("qemu", "weft-a-1", "started", text).returncode == 0
        assert refused(prepare(host, "b-1", device(vf=0, guid=GUID + 1)), "node a-1's")
        host.forget()
        assert accepted(host.hook("qemu", "weft-a-1", "reconnect", text))
        assert host.written() == []
    assert accepted(prepare(host, "b-1", device(vf=0, guid=GUID + 1))), "it died while nobody looked"


def test_reconnect_never_ends_a_running_node(host):
    answer = host.hook("qemu", "weft-a-1", "reconnect", domain("a-1", devices=[device(vf=0, pci="nonsense")], hostdevs=[]))
    assert answer.returncode == 0 and "PCI address" in answer.stderr


def test_after_a_reboot(host):
    """/run is empty, and the functions are as the driver made them."""
    assert accepted(prepare(host, "a-1", device(vf=0), mlx4(vf=0, rail=1, guid=GUID + 1)))
    subprocess.run(["rm", "-r", host.root / "run/weft-hook"], check=True)
    assert accepted(release(host, "a-1", device(vf=0)))
    assert accepted(prepare(host, "a-1", device(vf=0), mlx4(vf=0, rail=1, guid=GUID + 1)))
    assert index_map(host, "0000:42:00.1") == {0: 2, 1: 0}


def test_migration_target_is_asked_first(host):
    text = domain("a-1", devices=[device(vf=0)])
    host.forget()
    assert accepted(host.hook("qemu", "weft-a-1", "migrate", text))
    assert host.written() == [] and host.records() == []
    assert accepted(prepare(host, "a-1", device(vf=0)))
    assert refused(host.hook("qemu", "weft-b-1", "migrate", domain("b-1", devices=[device(vf=0, guid=GUID + 1)])), "node a-1's")


def test_many_at_once(make):
    """Eight nodes with a function each, and a ninth that wants one of theirs: one of the two gets it."""
    host = make(MLX5, MLX4)
    nodes = {f"a-{i}": [device(vf=i, guid=GUID + i), mlx4(vf=i, rail=1, guid=GUID + 100 + i)] for i in range(8)}
    nodes["z-1"] = [device(vf=0, guid=GUID + 50), mlx4(vf=0, rail=1, guid=GUID + 150)]
    answers = host.hook_many([("qemu", f"weft-{n}", "prepare", domain(n, devices=d)) for n, d in nodes.items()])
    lost = [n for n, (status, _, _) in zip(nodes, answers) if status]
    assert lost in (["a-0"], ["z-1"]), answers
    assert all(index_map(host, d[1]["pci"]) == {0: 2, 1: 0} for d in nodes.values())
    assert len({vendor(host, vf)[0] for vf in range(8)}) == 8
    answers = host.hook_many([("qemu", f"weft-{n}", "release", domain(n, devices=d)) for n, d in nodes.items()])
    assert {status for status, _, _ in answers} == {0}
    assert host.records() == [] and host.links() == []
    assert {vendor(host, vf) for vf in range(8)} == {(NOBODY, NOBODY, "Down")}


# --- others' business, and the report ---


@pytest.mark.parametrize("op", ["prepare", "start", "started", "stopped", "release", "migrate", "restore", "reconnect", "attach"])
def test_foreign_domains(host, op):
    host.forget()
    assert accepted(host.hook("qemu", "vm1", op, "<domain type='kvm'><name>vm1</name><devices/></domain>"))
    assert accepted(host.hook("qemu", "weft-lookalike", op, "<domain><name>weft-lookalike</name></domain>"))
    assert host.written() == [] and host.records() == [] and host.links() == []


def test_marked_domain_of_another_name(host):
    assert refused(host.hook("qemu", "clone", "prepare", domain("a-1", devices=[device()])), "id")
    assert refused(host.hook("qemu", "../a", "prepare", domain("a-1", devices=[device()])), "not allowed")


def test_report(host):
    answer = host.hook("network", "weft-probe", "start", "<hookData><network><name>weft-probe</name></network></hookData>")
    assert answer.returncode == 1 and answer.stdout == ""
    head, line, rest = answer.stderr.split("\n")
    assert head == "weft-hook: report" and rest == ""
    report = json.loads(line)
    assert report["kernel"] == os.uname().release
    assert {key for key, value in report.items() if value is False} - {"filters_bridges"} == {"vfio", "kvm", "tun", "unsafe_interrupts"}
    unknown = {"numa": 0, "vfs": 8, "vfs_total": 8, "state": "active", "ungrouped": [], "shared": [], "acs_off": [], "acs_lacking": []}
    assert report["hcas"] == [
        unknown | {"name": name, "driver": name[:4], "pci": f"0000:{bus}:00.0", "port_guid": f"0x0002c9030000000{number}",
                   "bound": [f"0000:{bus}:0{vf // 8}.{vf % 8}" for vf in range(1, 9)]}
        for name, bus, number in (("mlx4_0", 42, 2), ("mlx5_0", 41, 1))]
    assert report["interrupt_remapping"] is None
    assert report["iommu_groups"] == 18
    settings = host.run("sh", "-c", "cat /proc/sys/net/bridge/bridge-nf-call-*tables", check=False).stdout.split()
    assert report["filters_bridges"] == ("1" in settings)
    assert report["machine"]["uptime"] > 0
    assert accepted(host.hook("network", "weft-probe", "stopped", "<hookData/>"))


def report_of(host):
    answer = host.hook("network", "weft-probe", "start", "<hookData/>")
    return json.loads(answer.stderr.split("\n")[1])


def test_report_tidies_up(host):
    """What a hook that was killed while it wrote a record left beside it."""
    left = host.root / "run/weft-hook/domains/weft-a-1.x7f3q9"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.touch()
    report_of(host)
    assert not left.exists()


def test_report_of_rdma(make):
    """An address counts when its interface is one of an RDMA device that is up, and programs can get at that."""
    host = make()
    host.run("sh", "-c", "ip link add eth1 type veth peer eth2; for i in 1 2; do ip addr add 10.2.0.$i/24 dev eth$i; ip link set eth$i up; done")
    hca = host.sys / "class/infiniband/rxe0"
    (hca / "ports/1").mkdir(parents=True)
    (hca / "parent").write_text("eth2\n", encoding="ascii")
    (hca / "ports/1/state").write_text("4: ACTIVE\n", encoding="ascii")
    assert report_of(host)["rdma_address"] is None, "there is no rdma_cm"
    (host.root / "dev/infiniband").mkdir()
    (host.root / "dev/infiniband/rdma_cm").touch()
    assert report_of(host)["rdma_address"] == "10.2.0.2"
    (hca / "ports/1/state").write_text("1: DOWN\n", encoding="ascii")
    assert report_of(host)["rdma_address"] is None
    (hca / "ports/1/state").write_text("4: ACTIVE\n", encoding="ascii")
    (hca / "parent").unlink()
    (host.sys / "class/net/eth1/device/infiniband/rxe0").mkdir(parents=True)
    assert report_of(host)["rdma_address"] == "10.2.0.1"
    (host.sys / "class/net/eth1/device/physfn").mkdir()
    assert report_of(host)["rdma_address"] is None, "a virtual function is for nodes"


def test_report_without_anything(make):
    answer = make().hook("network", "weft-probe", "start", "<hookData/>")
    report = json.loads(answer.stderr.split("\n")[1])
    assert report["hcas"] == [] and report["iommu_groups"] == 0 and report["hugepages"] == []


# --- taken from under a node ---


def test_a_function_that_is_taken_from_under_a_node_is_told_of(host):
    function = device(vf=2, guid=GUID)
    assert accepted(prepare(host, "a-1", function, device(vf=3, guid=GUID + 1, rail=1)))
    with host.running("weft-a-1"):
        assert report_of(host)["lacking"] == []
        host.order(f"drop /bus/pci/devices/{function['pci']}")
        host.order("drop /devices/pci0000:00/0000:41:00.0/virtfn2")
        assert report_of(host)["lacking"] == [{"domain": "weft-a-1", "pci": function["pci"]}]
    assert accepted(release(host, "a-1", function)) and host.records() == []
    assert report_of(host)["lacking"] == report_of(host)["unclean"] == []
    assert vendor(host, 3)[2] == "Down", "what is there is taken back"
    assert refused(prepare(host, "b-1", device(vf=2, guid=GUID + 2)), "HCA mlx5_0 has no virtual function 2")
