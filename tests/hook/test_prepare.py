"""weft host prepare: what it makes, leaves alone and refuses, and that it ends whole wherever it was killed."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from host import BUILD, device, domain

SOURCE = Path(__file__).resolve().parents[2]
MLX5 = "mlx5 mlx5_0 0000:41:00.0 0 vendor total=8"
MLX4 = "mlx4 mlx4_0 0000:42:00.0 4"
PF5 = "devices/pci0000:00/0000:41:00.0"
NODES = "devices/system/node"


def functions(host):
    """Functions and their drivers."""
    return {pci: host.link(f"bus/pci/devices/{pci}/driver") for pci in host.run("ls", host.sys / ".functions").stdout.split()}


def addresses(count, bus=41):
    return [f"0000:{bus}:0{vf // 8}.{vf % 8}" for vf in range(1, count + 1)]


def told(answer):
    """Steps as lines, and checks by name."""
    assert answer.stderr == "", answer.stderr
    result = json.loads(answer.stdout)
    steps = [f"{step['item']}: {step['state']}: {step['what']}" for step in result["steps"]]
    return steps, {check["check"]: check for check in result["checks"]}


def prepare(host, *arguments, **options):
    answer = host.prepare("--json", *arguments, **options)
    steps, checks = told(answer)
    bad = any(f": {word}: " in step for step in steps for word in ("refused", "failed", "left")) or any(c["state"] == "fail" for c in checks.values())
    assert answer.returncode == bad
    return steps, checks


def remedy(host, *arguments):
    return [step["remedy"] for step in json.loads(host.prepare("--json", *arguments).stdout)["steps"] if step["state"] == "refused"]


def wish(host, text):
    (host.root / "etc/weft").mkdir(parents=True, exist_ok=True)
    (host.root / "etc/weft/host.yaml").write_text(text, encoding="utf-8")


@pytest.fixture
def mlx5(make):
    return make(MLX5)


# --- virtual functions ---


def test_functions_are_made_without_a_driver(mlx5):
    wish(mlx5, "adapters:\n  - { name: mlx5_0, functions: 8 }\n")
    steps, checks = prepare(mlx5)
    assert steps == ["adapter mlx5_0: done: keep drivers of the host off its virtual functions", "adapter mlx5_0: done: make 8 virtual functions"]
    assert functions(mlx5) == dict.fromkeys(addresses(8))
    assert checks["adapter mlx5_0"]["found"] == "8 virtual functions"


def test_what_is_as_wished_is_left_alone(mlx5):
    assert prepare(mlx5, "--adapter", "mlx5_0=4")[0]
    mlx5.forget()
    assert prepare(mlx5, "--adapter", "mlx5_0=4")[0] == ["adapter mlx5_0: kept: 4 virtual functions, without a driver of the host"]
    assert mlx5.written() == []


def test_a_dry_run_tells_the_same_and_changes_nothing(mlx5):
    (mlx5.root / "run/weft-hook/domains").mkdir(parents=True)
    (mlx5.root / "run/weft-hook/domains/weft-a-1.x7f3q9").touch()  # a record that is being written
    before = sorted(path.relative_to(mlx5.root) for path in (mlx5.root / "run").rglob("*"))
    planned, _ = prepare(mlx5, "--adapter", "mlx5_0=4", "--dry-run")
    assert mlx5.written() == [] and functions(mlx5) == {}
    assert sorted(path.relative_to(mlx5.root) for path in (mlx5.root / "run").rglob("*")) == before
    assert [line.replace(": planned:", ": done:") for line in planned] == prepare(mlx5, "--adapter", "mlx5_0=4")[0]


def test_the_hook_prepares_where_nothing_else_is(mlx5):
    answer = mlx5.prepare("--adapter", "mlx5_0=2", program=("src/hook/weft-hook", "prepare"))
    assert "make 2 virtual functions" in answer.stdout and len(functions(mlx5)) == 2


def test_another_number(mlx5):
    prepare(mlx5, "--adapter", "mlx5_0=4")
    steps, _ = prepare(mlx5, "--adapter", "0000:41:00.0=6")
    assert steps == ["adapter 0000:41:00.0: done: remove its 4 virtual functions", "adapter 0000:41:00.0: done: make 6 virtual functions"]
    assert functions(mlx5) == dict.fromkeys(addresses(6))
    assert prepare(mlx5, "--adapter", "mlx5_0=0")[0] == ["adapter mlx5_0: done: remove its 6 virtual functions"]
    assert functions(mlx5) == {}


def test_drivers_are_taken_off_those_that_are_there(make):
    host = make(MLX5.replace(" 0 vendor", " 3 vendor"))
    assert functions(host) == dict.fromkeys(addresses(3), "mlx5_core")
    steps, checks = prepare(host, "--adapter", "mlx5_0=3")
    assert steps[1:] == [f"adapter mlx5_0: done: take mlx5_core off {pci}" for pci in addresses(3)]
    assert functions(host) == dict.fromkeys(addresses(3)) and checks["adapter mlx5_0"]["state"] == "ok"


def test_options_go_before_the_file(make):
    host = make(MLX5, MLX5.replace("mlx5_0", "mlx5_1").replace("41:", "43:"))
    wish(host, "adapters:\n  - { name: mlx5_0, functions: 8 }\n  - { name: mlx5_1, functions: 1 }\n")
    prepare(host, "--adapter", "mlx5_0=2")
    assert sorted(functions(host)) == addresses(2) + addresses(1, 43)


@pytest.mark.parametrize(("line", "wished", "said", "mends"), [
    (MLX5, "mlx5_7=4", "no such device (there are mlx5_0)", None),
    (MLX5, "mlx5_0=9", "0000:41:00.0 can have 8 virtual functions, not 9", "mstconfig -d 0000:41:00.0 set SRIOV_EN=1 NUM_OF_VFS=9"),
    (MLX5.replace("total=8", "total=0"), "mlx5_0=4", "has no virtual functions: SR-IOV is off", "mstconfig"),
    (MLX5.replace(" 0 vendor", " 3 vendor"), "0000:41:00.2=1", "0000:41:00.2 is a virtual function itself: write 0000:41:00.0", None),
    (MLX5, "mlx5_0=4,online", "only NVMe's functions are switched on", "leave out online"),
])
def test_what_cannot_be(make, line, wished, said, mends):
    host = make(line)
    [step], _ = prepare(host, "--adapter", wished)
    assert ": refused: " in step and said in step
    [hint] = remedy(host, "--adapter", wished)
    assert hint is mends if mends is None else mends in hint
    assert host.written() == []


def test_without_a_driver(mlx5):
    mlx5.order("drop /devices/pci0000:00/0000:41:00.0/driver")
    [step], _ = prepare(mlx5, "--adapter", "0000:41:00.0=4")
    assert "refused: 0000:41:00.0 has no driver" in step and "modprobe mlx5_core" in remedy(mlx5, "--adapter", "0000:41:00.0=4")[0]


def test_twice_by_two_names(mlx5):
    steps, _ = prepare(mlx5, "--adapter", "mlx5_0=4", "--adapter", "0000:41:00.0=4")
    assert steps[-1] == "adapter 0000:41:00.0: refused: 0000:41:00.0 is wished for by another name already"
    assert len(functions(mlx5)) == 4


def test_one_that_refuses_does_not_keep_others_waiting(make):
    host = make(MLX5, MLX5.replace("mlx5_0", "mlx5_1").replace("41:", "43:"))
    host.order(f"fail /{PF5}/sriov_numvfs 5")
    steps, checks = prepare(host, "--adapter", "mlx5_0=4", "--adapter", "mlx5_1=4")
    assert "adapter mlx5_0: failed: make 4 virtual functions: cannot write 4" in steps[1] and "Input/output error" in steps[1]
    assert sorted(functions(host)) == addresses(4, 43) and "adapter mlx5_0" not in checks
    host.order(f"mend /{PF5}/sriov_numvfs")
    assert prepare(host, "--adapter", "mlx5_0=4")[0] == ["adapter mlx5_0: done: make 4 virtual functions"]


# --- in use ---


def test_no_function_is_taken_from_a_process(mlx5):
    prepare(mlx5, "--adapter", "mlx5_0=4")
    mlx5.order("link /devices/pci0000:00/0000:41:00.3/driver ../../../bus/pci/drivers/vfio-pci")
    group = mlx5.link("bus/pci/devices/0000:41:00.3/iommu_group")
    with (mlx5.root / "dev/vfio" / group).open("w") as held:
        user = subprocess.Popen(["sleep", "infinity"], stdin=held)
    try:
        mlx5.forget()
        [step], _ = prepare(mlx5, "--adapter", "mlx5_0=2")
        assert f"refused: 0000:41:00.3 is in use by process {user.pid}" in step
        assert "weft drain" in remedy(mlx5, "--adapter", "mlx5_0=2")[0]
        assert prepare(mlx5, "--adapter", "mlx5_0=4")[0] == ["adapter mlx5_0: kept: 4 virtual functions, without a driver of the host"]
        assert mlx5.written() == []
    finally:
        user.kill()
        user.wait()
    prepare(mlx5, "--adapter", "mlx5_0=2")
    assert len(functions(mlx5)) == 2


def test_no_function_is_taken_from_a_node_that_gets_it_later(mlx5):
    prepare(mlx5, "--adapter", "mlx5_0=4")
    with mlx5.running("weft-a-1"):
        assert mlx5.hook("qemu", "weft-a-1", "prepare", domain("a-1", devices=[device(vf=1, plugged="later")])).returncode == 0
        [step], _ = prepare(mlx5, "--adapter", "mlx5_0=0")
        assert "refused: 0000:41:00.2 is in use by the node weft-a-1" in step
    assert len(functions(mlx5)) == 4


# --- mlx4 ---


def test_mlx4_wants_a_module_option(make):
    host = make(MLX4)
    [step], _ = prepare(host, "--adapter", "mlx4_0=8")
    assert step == "adapter mlx4_0: refused: there are 4 virtual functions, and mlx4_core makes 8 only when it is loaded"
    [hint] = remedy(host, "--adapter", "mlx4_0=8")
    assert "echo 'options mlx4_core num_vfs=8 probe_vf=0 port_type_array=1,1' > /etc/modprobe.d/weft-mlx4.conf" in hint and "update-initramfs" in hint
    assert not (host.root / "etc").exists()


def test_mlx4_option_is_written_when_asked_for(make):
    host = make(MLX4)
    steps, _ = prepare(host, "--adapter", "mlx4_0=8", "--modprobe")
    file = host.root / "etc/modprobe.d/weft-mlx4.conf"
    assert ": done: write options mlx4_core" in steps[0] and file.read_text() == "options mlx4_core num_vfs=8 probe_vf=0 port_type_array=1,1\n"
    assert remedy(host, "--adapter", "mlx4_0=8", "--modprobe") == ["update-initramfs -u (Debian) or dracut -f (RHEL), then reboot"]
    assert len(prepare(host, "--adapter", "mlx4_0=8", "--modprobe")[0]) == 1, "it is written once"


def test_mlx4_functions_that_are_there(make):
    host = make(MLX4, MLX4.replace("mlx4_0", "mlx4_1").replace("42:", "44:"))
    prepare(host, "--adapter", "mlx4_0=4")
    assert {functions(host)[pci] for pci in addresses(4, 42)} == {None}
    steps, _ = prepare(host, "--adapter", "mlx4_0=4", "--adapter", "mlx4_1=5")
    assert "another adapter of mlx4_core is to have 4 virtual functions" in steps[1]


# --- huge pages ---


@pytest.fixture
def paged(mlx5):
    """Two NUMA nodes."""
    for node in (0, 1):
        for size, total in ((2048, 100), (1048576, 0)):
            folder = f"/{NODES}/node{node}/hugepages/hugepages-{size}kB"
            mlx5.order(f"file {folder}/nr_hugepages {total}")
            mlx5.order(f"file {folder}/free_hugepages {total and 60 + 20 * node}")
    mlx5.order("file /kernel/mm/hugepages/hugepages-2048kB/resv_hugepages 0")
    return mlx5


def pages(host, node, size=2048, name="nr_hugepages"):
    return int(host.value(f"{NODES}/node{node}/hugepages/hugepages-{size}kB/{name}"))


def test_pages_of_each_node(paged):
    wish(paged, "pages:\n  2M: 128\n  1G: 1:4\n")
    steps, checks = prepare(paged)
    assert steps == ["pages 2M node 0: done: reserve 128 pages; there are 100", "pages 2M node 1: done: reserve 128 pages; there are 100",
                     "pages 1G node 1: done: reserve 4 pages; there are 0"]
    assert [pages(paged, node) for node in (0, 1)] == [128, 128] and [pages(paged, node, 1048576) for node in (0, 1)] == [0, 4]
    assert checks["hugepages"]["found"].startswith("NUMA node 0: 128 of 2M, 60 free; NUMA node 1: 128 of 2M")
    paged.forget()
    assert all(": kept: " in step for step in prepare(paged)[0]) and paged.written() == []


def test_fewer_pages_first(paged):
    steps, _ = prepare(paged, "--pages", "1G=0:2", "--pages", "2M=0:50,1:100")
    assert steps == ["pages 2M node 0: done: keep 50 pages; there are 100", "pages 1G node 0: done: reserve 2 pages; there are 0",
                     "pages 2M node 1: kept: 100 pages"]


def test_pages_in_use_stay(paged):
    steps, _ = prepare(paged, "--pages", "2M=30")
    assert steps == ["pages 2M node 0: refused: 30 pages of 100, of which 40 are in use or promised", "pages 2M node 1: done: keep 30 pages; there are 100"]
    assert "at least" in remedy(paged, "--pages", "2M=0:30")[0] and pages(paged, 0) == 100
    paged.order("value /kernel/mm/hugepages/hugepages-2048kB/resv_hugepages 10")
    assert "50 are in use or promised" in prepare(paged, "--pages", "2M=0:45")[0][0]


def test_memory_in_pieces(paged):
    paged.order(f"ignore /{NODES}/node1/hugepages/hugepages-1048576kB/nr_hugepages")
    steps, checks = prepare(paged, "--pages", "1G=1:64")
    assert "failed: reserve 64 pages; there are 0: only 0 were to be had" in steps[0] and "hugepagesz=1G hugepages=1:64" in steps[0]
    assert "hugepages" not in checks


def test_no_such_pages(paged):
    steps, _ = prepare(paged, "--pages", "1G=2:4", "--pages", "16M=4")
    assert steps[0] == "pages 1G node 2: refused: this host has no pages of 1G on NUMA node 2"
    assert ": refused: this host has no pages of 16M" in steps[1]


# --- what is wrong with the wish ---


@pytest.mark.parametrize(("text", "said"), [
    ("adapters: 4\n", "adapters"),
    ("adapter: []\n", "adapter"),
    ("adapters:\n  - { name: mlx5_0 }\n", "functions"),
    ("adapters:\n  - { name: ../x, functions: 1 }\n", "is no name of an adapter"),
    ("adapters:\n  - { name: a, functions: 1 }\n  - { name: a, functions: 2 }\n", "is there twice"),
    ("adapters:\n  - { name: a, functions: -1 }\n", "functions"),
    ("adapters:\n  - { name: a, functions: 1, onlin: true }\n", "onlin"),
    ("pages:\n  3M: 1\n", "pages.3M: 3M is no size of huge pages"),
    ("pages:\n  2M: many\n", '"many" is no number of pages'),
    ("pages:\n  2M: 0:1,0:2\n", "names NUMA node 0 twice"),
    ("pages:\n  2M: 1,2\n", "is no number of pages"),
    ("pages:\n  2M: 1\n  2048K: 1\n", "is there twice"),
    ("pages: [\n", "host.yaml"),
])
def test_wrong_wishes_change_nothing(mlx5, text, said):
    wish(mlx5, text)
    answer = mlx5.prepare("--adapter", "mlx5_0=4")
    assert answer.returncode == 2 and answer.stdout == "" and said in answer.stderr and answer.stderr.count("\n") == 1, answer.stderr
    assert mlx5.written() == [] and functions(mlx5) == {}


@pytest.mark.parametrize("arguments", [(), ("--adapter", "mlx5_0"), ("--adapter", "mlx5_0=x"), ("--adapter", "mlx5_0=1,on"), ("--adapter", "=1"),
                                       ("--pages", "2M"), ("--pages", "2M="), ("--pages", "=4"), ("--file", "/nowhere")])
def test_wrong_options(mlx5, arguments):
    answer = mlx5.prepare(*arguments)
    assert answer.returncode == 2 and answer.stderr.startswith("weft: ") and mlx5.written() == []


# --- the way of devices to nodes ---


class Board:
    """A host of plain files: an adapter with two functions below a root port."""

    def __init__(self, host):
        self.host = host
        self.port = host.sys / "devices/pci0000:40/0000:40:01.0"
        (host.sys / "bus/pci/devices").mkdir(parents=True)
        (host.sys / "bus/pci/drivers/mlx5_core").mkdir(parents=True)
        (host.sys / "class/infiniband/mlx5_0").mkdir(parents=True)
        (host.root / "dev/vfio/vfio").touch()
        for number, pci in enumerate(["0000:41:00.0", *addresses(2)]):
            folder = self.port / pci
            folder.mkdir(parents=True)
            (host.sys / "bus/pci/devices" / pci).symlink_to(f"../../../devices/pci0000:40/0000:40:01.0/{pci}")
            self.group(pci, number)
        (host.sys / "bus/pci/devices/0000:40:01.0").symlink_to("../../../devices/pci0000:40/0000:40:01.0")
        self.adapter = self.port / "0000:41:00.0"
        for number, pci in enumerate(addresses(2)):
            (self.adapter / f"virtfn{number}").symlink_to(f"../{pci}")
            (self.port / pci / "physfn").symlink_to("../0000:41:00.0")
        (self.adapter / "driver").symlink_to("../../../../bus/pci/drivers/mlx5_core")
        (host.sys / "class/infiniband/mlx5_0/device").symlink_to("../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0")
        for name, value in (("sriov_totalvfs", 8), ("sriov_numvfs", 2), ("sriov_drivers_autoprobe", 0)):
            (self.adapter / name).write_text(f"{value}\n", encoding="utf-8")
        self.acs(0x1d)
        self.chip("IR-PCI-MSIX-0000:41:00.0")

    def group(self, pci, number):
        link = self.port / pci / "iommu_group"
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../../../kernel/iommu_groups/{number}")
        members = self.host.sys / f"kernel/iommu_groups/{number}/devices"
        members.mkdir(parents=True, exist_ok=True)
        (members / pci).touch()

    def acs(self, control, capability=0x000d, whole=4096):
        config = bytearray(4096)
        config[0x06], config[0x34], config[0x40], config[0x42] = 0x10, 0x40, 0x10, 0x42
        config[0x100:0x108] = capability.to_bytes(2, "little") + b"\x01\x00" + (0x1d).to_bytes(2, "little") + control.to_bytes(2, "little")
        (self.port / "config").write_bytes(config[:whole])

    def chip(self, name):
        folder = self.host.sys / "kernel/irq/24"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "chip_name").write_text(f"{name}\n", encoding="utf-8")

    def check(self, name="adapter mlx5_0"):
        found = prepare(self.host, "--adapter", "mlx5_0=2")[1][name]
        report = self.host.hook("network", "weft-probe", "start", "<hookData/>").stderr.split("\n")[1]
        return found, json.loads(report)


@pytest.fixture
def board(make):
    return Board(make())


def test_a_host_in_order(board):
    steps, checks = prepare(board.host, "--adapter", "mlx5_0=2")
    assert steps == ["adapter mlx5_0: kept: 2 virtual functions, without a driver of the host"]
    assert {name: check["state"] for name, check in checks.items()} == {"iommu": "ok", "interrupts": "ok", "adapter mlx5_0": "ok"}
    assert board.host.prepare("--adapter", "mlx5_0=2").returncode == 0


def test_no_iommu(board):
    shutil.rmtree(board.host.sys / "kernel/iommu_groups")
    found, report = board.check("iommu")
    assert found["state"] == "fail" and "intel_iommu=on" in found["remedy"] and report["iommu_groups"] == 0


def test_interrupts_are_not_remapped(board):
    board.chip("PCI-MSIX-0000:41:00.0")
    found, report = board.check("interrupts")
    assert found["state"] == "fail" and "intremap=off" in found["remedy"] and report["interrupt_remapping"] is False
    folder = board.host.sys / "module/vfio_iommu_type1/parameters"
    folder.mkdir(parents=True)
    (folder / "allow_unsafe_interrupts").write_text("Y\n", encoding="utf-8")
    assert board.check("interrupts")[0]["state"] == "warn"


def test_functions_in_one_group_below_a_port_without_acs(board):
    board.acs(0, capability=0x0001)
    found, report = board.check()
    assert found["state"] == "ok" and report["hcas"][0]["acs_lacking"] == ["0000:40:01.0"], "the kernel's groups decide"
    for pci in addresses(2):
        board.group(pci, 9)
    found, report = board.check()
    assert found["state"] == "fail" and "no ACS at port 0000:40:01.0" in found["found"] and "ACSCap" in found["remedy"]
    assert report["hcas"][0]["shared"] == addresses(2)
    board.acs(0x0c)
    found, report = board.check()
    assert "ACS is off at port 0000:40:01.0" in found["found"] and "disable_acs_redir" in found["remedy"]
    assert report["hcas"][0]["acs_off"] == ["0000:40:01.0"] and report["hcas"][0]["acs_lacking"] == []
    board.acs(0x1d, whole=64)
    assert board.check()[1]["hcas"][0]["acs_off"] is None


def test_a_function_that_the_iommu_does_not_know(board):
    (board.port / "0000:41:00.2/iommu_group").unlink()
    found, report = board.check()
    assert found["state"] == "fail" and "0000:41:00.2" in found["found"] and report["hcas"][0]["ungrouped"] == ["0000:41:00.2"]


# --- NVMe ---

PF = "0000:01:00.0"


class Nvme:
    """A host with an NVMe device, whose controller answers from a file."""

    def __init__(self, host):
        self.host = host
        folder = host.sys / "devices/pci0000:00" / PF
        (folder / "nvme/nvme0").mkdir(parents=True)
        for name, value in (("sriov_totalvfs", 4), ("sriov_numvfs", 0), ("sriov_drivers_autoprobe", 1), ("reset", ""), ("nvme/nvme0/state", "live")):
            (folder / name).write_text(f"{value}\n", encoding="utf-8")
        for name in ("bus/pci/drivers/nvme", "bus/pci/devices", "class/nvme/nvme0"):
            (host.sys / name).mkdir(parents=True)
        (folder / "driver").symlink_to("../../../bus/pci/drivers/nvme")
        (host.sys / "bus/pci/devices" / PF).symlink_to(f"../../../devices/pci0000:00/{PF}")
        (host.sys / "class/nvme/nvme0/device").symlink_to(f"../../../devices/pci0000:00/{PF}")
        (host.root / "dev/nvme0").touch()
        self.folder = folder
        self.environment = {"LD_PRELOAD": BUILD / "tests/hook/nvme-sim.so", "NVME_SIM": host.root / "nvme-state",
                            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def prepare(self, *arguments, **environment):
        return prepare(self.host, *arguments, environment=self.environment | environment)

    def state(self):
        """Functions, which of them are on, what the primary keeps and what each was given."""
        numbers = (self.host.root / "nvme-state").read_bytes()
        words = memoryview(numbers[6:30]).cast("H")
        return numbers[1], list(numbers[2:6]), list(words[:2]), list(words[4:8]), list(words[8:12])


@pytest.fixture
def nvme(make):
    return Nvme(make())


def test_nvme_functions_are_switched_on(nvme):
    steps, _ = nvme.prepare("--adapter", "nvme0=4,online")
    assert [step.partition(": done: ")[2] for step in steps][:6] == [
        "keep drivers of the host off its virtual functions", "have it let go 8 queues for its functions", "have it let go 4 interrupts for its functions",
        "reset it", "make 4 virtual functions", "give function 0 2 queues"]
    assert nvme.state() == (4, [1] * 4, [0, 0], [2] * 4, [1] * 4)
    assert nvme.prepare("--adapter", "nvme0=4,online")[0] == ["adapter nvme0: kept: 4 virtual functions, without a driver of the host"]


def test_nvme_another_number_is_dealt_out_anew(nvme):
    nvme.prepare("--adapter", "nvme0=4,online")
    nvme.prepare("--adapter", "nvme0=2,online")
    assert nvme.state() == (2, [1, 1, 0, 0], [0, 0], [4, 4, 0, 0], [2, 2, 0, 0])
    nvme.prepare("--adapter", f"{PF}=0,online")
    assert nvme.state()[:2] == (0, [0] * 4)


def test_nvme_is_left_as_it_is_unless_asked_for(nvme):
    assert nvme.prepare("--adapter", "nvme0=4")[0][1] == "adapter nvme0: done: make 4 virtual functions"
    assert nvme.state() == (4, [0] * 4, [8, 4], [0] * 4, [0] * 4)


def test_nvme_that_does_not_answer(nvme):
    (nvme.host.root / "dev/nvme0").unlink()
    [step], _ = nvme.prepare("--adapter", "nvme0=4,online")
    assert "refused: its controller cannot be asked" in step and "/dev/nvme0" in step


def test_nvme_killed_anywhere_ends_whole(make, tmp_path):
    """From none to four, and from four to two."""
    wishes = ("nvme0=4,online", "nvme0=2,online")
    log = tmp_path / "log"
    first = Nvme(make())
    for wished in wishes:
        first.prepare("--adapter", wished, WEFT_FAILPOINT_LOG=log)
    points = log.read_text(encoding="utf-8").split()
    assert {"prepare-nvme-release-after", "prepare-nvme-reset-before", "prepare-nvme-assign-after", "prepare-nvme-online-after"} <= set(points)
    for wished, end in ((wishes[0], (4, [1] * 4, [0, 0], [2] * 4, [1] * 4)), (wishes[1], (2, [1, 1, 0, 0], [0, 0], [4, 4, 0, 0], [2, 2, 0, 0]))):
        for point in sorted(set(points)):
            nvme = Nvme(make())
            if wished == wishes[1]:
                nvme.prepare("--adapter", wishes[0])
            for number in (1, 2):
                nvme.host.prepare("--adapter", wished, environment=nvme.environment | {"WEFT_FAILPOINT": f"{point}:{number}"})
            nvme.prepare("--adapter", wished)
            assert nvme.state() == end, (wished, point)
            assert [": kept: " in step for step in nvme.prepare("--adapter", wished)[0]] == [True]
            nvme.host.close()


@pytest.mark.parametrize(("page", "begin", "end"), [("man/weft-host.yaml.5", ".Bd -literal -offset indent\n", ".Ed"),
                                                    ("hosts.md", "<<'YAML'\nadapters:", "YAML\n")])
def test_the_manual_is_understood(mlx5, page, begin, end):
    text = (SOURCE / "docs" / page).read_text(encoding="utf-8").partition(begin)[2].partition(end)[0]
    wish(mlx5, ("adapters:" if begin.endswith("adapters:") else "") + text)
    steps, _ = prepare(mlx5, "--dry-run")
    assert steps[-1] == "adapter mlx5_0: refused: 0000:41:00.0 can have 8 virtual functions, not 16" and len(steps) == 4, steps


# --- killed ---


def reached(host, log, *arguments):
    host.prepare(*arguments, environment={"WEFT_FAILPOINT_LOG": log})
    return log.read_text(encoding="utf-8").split()


def test_killed_anywhere_it_ends_whole(make, tmp_path):
    """From two functions with drivers to four without, and from two kinds of pages to others."""
    arguments = ("--adapter", "mlx5_0=4", "--adapter", "mlx5_1=2", "--adapter", "mlx4_0=8", "--modprobe", "--pages", "2M=0:50", "--pages", "1G=0:2")

    def fresh():
        host = make(MLX5.replace(" 0 vendor", " 2 vendor"), MLX5.replace("mlx5_0", "mlx5_1").replace("41:", "43:").replace(" 0 vendor", " 2 vendor"), MLX4)
        for size, total in ((2048, 100), (1048576, 0)):
            host.order(f"file /{NODES}/node0/hugepages/hugepages-{size}kB/nr_hugepages {total}")
            host.order(f"file /{NODES}/node0/hugepages/hugepages-{size}kB/free_hugepages {total}")
        return host

    points = reached(fresh(), tmp_path / "log", *arguments)
    assert {"prepare-autoprobe-before", "prepare-no-functions-after", "prepare-functions-before", "prepare-unbind-before", "prepare-pages-after",
            "prepare-modprobe-before"} <= set(points)
    for number, point in enumerate(points):
        host = fresh()
        killed = host.prepare(*arguments, environment={"WEFT_FAILPOINT": f"{point}:{points[:number + 1].count(point)}"})
        assert killed.returncode == -9 and killed.stdout == "", point
        prepare(host, *arguments)
        steps, _ = prepare(host, *arguments)
        assert all(": kept: " in step for step in steps[:-1]) and "refused: there are 4 virtual functions" in steps[-1], (point, steps)
        assert {pci: driver for pci, driver in functions(host).items() if ":42:" not in pci} == dict.fromkeys(addresses(4) + addresses(2, 43))
        assert (pages(host, 0), pages(host, 0, 1048576)) == (50, 2)
        assert (host.root / "etc/modprobe.d/weft-mlx4.conf").read_text().startswith("options mlx4_core num_vfs=8 ")
        host.close()


# --- memory of nodes ---


def test_the_folder_for_memory_is_there_before_others_can_make_it(mlx5):
    folder = mlx5.root / "dev/shm/weft-memory"
    _, checks = prepare(mlx5, "--adapter", "mlx5_0=2")
    assert folder.stat().st_mode & 0o7777 == 0o700 and folder.owner() == "root" and "memory folder" not in checks


def test_a_folder_for_memory_that_is_not_roots(mlx5):
    folder = mlx5.root / "dev/shm/weft-memory"
    folder.mkdir(parents=True)
    os.chown(folder, 1000, 1000)
    _, checks = prepare(mlx5, "--adapter", "mlx5_0=2")
    found = checks["memory folder"]
    assert found["state"] == "fail" and "belongs to user 1000" in found["found"] and f"rm -r {folder}" in found["found"] and found["remedy"]
    assert folder.stat().st_uid == 1000, "whose it is, is for an operator to see"
