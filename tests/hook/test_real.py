"""A real device in an HCA's clothes: hcafs on a /sys that is passed through. Here that /sys is made of plain files; a kernel's own is for
lab/metal."""

import shutil
import subprocess

import pytest
from host import BUILD, Host, Namespace, device, domain
from test_simulator import functions, usable, write

PF, VFS = "0000:01:00.0", ("0000:01:00.1", "0000:01:00.2")
ABOVE = "devices/pci0000:00/0000:00:02.0"
FOLDER = f"{ABOVE}/{PF}"
GUID = 0x0277650000000001
REAL = f"real mlx4_0 {PF} ports=1 guid=0x42 0x7fff,0x8002,0x8001"


class Sys:
    """What the kernel has of an NVMe device with two functions."""

    def __init__(self, folder):
        self.folder = folder
        for name in ("bus/pci/devices", "bus/pci/drivers/nvme", "class/nvme", "kernel/iommu_groups", "module"):
            (folder / name).mkdir(parents=True)
        self.add(PF, {"sriov_totalvfs": 4, "sriov_numvfs": 2, "class": "0x010802", "numa_node": 1})
        (folder / FOLDER / "nvme/nvme0").mkdir(parents=True)
        (folder / FOLDER / "driver").symlink_to("../../../../bus/pci/drivers/nvme")
        for number, pci in enumerate(VFS):
            self.add_function(number, pci)

    def add(self, pci, values):
        place = self.folder / ABOVE / pci
        place.mkdir(parents=True)
        (self.folder / "bus/pci/devices" / pci).symlink_to(f"../../../{ABOVE}/{pci}")
        for name, value in values.items():
            (place / name).write_text(f"{value}\n", encoding="utf-8")

    def add_function(self, number, pci):
        group = self.folder / f"kernel/iommu_groups/{number + 1}/devices"
        self.add(pci, {"numa_node": 1, "reset": "", "driver_override": "(null)"})
        (self.folder / ABOVE / pci / "physfn").symlink_to(f"../{PF}")
        (self.folder / ABOVE / pci / "iommu_group").symlink_to(f"../../../../kernel/iommu_groups/{number + 1}")
        group.mkdir(parents=True)
        (group / pci).symlink_to(f"../../../../{ABOVE}/{pci}")
        (self.folder / FOLDER / f"virtfn{number}").symlink_to(f"../{pci}")

    def remove_function(self, number, pci):
        shutil.rmtree(self.folder / ABOVE / pci)
        (self.folder / "bus/pci/devices" / pci).unlink()
        shutil.rmtree(self.folder / f"kernel/iommu_groups/{number + 1}")
        (self.folder / FOLDER / f"virtfn{number}").unlink()


class Machine(Host):
    def __init__(self, folder, *lines):
        self.real = Sys(folder / "real")
        super().__init__(folder, [f"sys {folder}/real", *lines])

    def listing(self, path):
        return sorted(self.run("ls", "-A", self.sys / path).stdout.split())


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "host", REAL)
    yield made
    made.close()


def test_all_else_is_passed_through(machine):
    assert machine.value(f"{FOLDER}/class") == "0x010802" and machine.value(f"bus/pci/devices/{VFS[1]}/numa_node") == "1"
    assert machine.listing("bus/pci/drivers") == ["mlx4_core", "nvme"], "both are there"
    assert machine.link(f"bus/pci/devices/{VFS[0]}/iommu_group") == "1" and machine.link(f"kernel/iommu_groups/1/devices/{VFS[0]}") == VFS[0]
    assert write(machine, f"bus/pci/devices/{VFS[0]}/reset", 1) == 0
    assert (machine.real.folder / ABOVE / VFS[0] / "reset").read_text(encoding="utf-8") == "1\n"
    assert machine.written()[-1] == (f"/{ABOVE}/{VFS[0]}/reset", "1")
    (machine.real.folder / "module/late").write_text("x\n", encoding="utf-8")
    assert machine.value("module/late") == "x" and machine.listing("module") == ["late"]
    (machine.real.folder / "module/late").unlink()
    assert machine.run("cat", machine.sys / "module/late", check=False).returncode != 0


def test_the_device_looks_like_an_hca(machine):
    assert machine.link("class/infiniband/mlx4_0/device") == PF and machine.link(f"bus/pci/devices/{PF}/driver") == "mlx4_core"
    assert machine.run("test", "-d", machine.sys / FOLDER / "driver").returncode == 0
    assert machine.listing("class") == ["infiniband", "nvme"] and machine.listing(f"{FOLDER}/nvme") == ["nvme0"]
    assert machine.value("class/infiniband/mlx4_0/ports/1/gids/0").endswith(":0000:0042")
    assert machine.listing("class/infiniband/mlx4_0/iov") == [PF, *VFS, "ports"]
    assert usable(machine, VFS[0]) == (0, "up", {0: 0x7FFF})


def test_functions_follow_the_kernels(machine):
    machine.real.remove_function(1, VFS[1])
    assert functions(machine) == [VFS[0]] and machine.listing("class/infiniband/mlx4_0/iov") == [PF, VFS[0], "ports"]
    machine.real.add_function(1, VFS[1])
    assert functions(machine) == list(VFS)


def test_without_its_driver_it_is_no_hca(machine):
    driver = machine.real.folder / FOLDER / "driver"
    driver.unlink()
    assert machine.listing("class/infiniband") == [] and functions(machine) == []
    assert machine.link(f"{FOLDER}/driver") is None
    driver.symlink_to("../../../../bus/pci/drivers/nvme")
    assert machine.listing("class/infiniband") == ["mlx4_0"] and functions(machine) == list(VFS)


def test_the_hook_works_on_it(machine):
    """With its disks: test_scrub.py."""
    (machine.real.folder / FOLDER / "class").write_text("0x020000\n", encoding="utf-8")
    (machine.real.folder / FOLDER / "nvme/nvme0").rmdir()
    (machine.real.folder / FOLDER / "nvme").rmdir()
    node = domain("n1", devices=[device("mlx4_0", "mlx4", PF, 1, GUID, pkey=1)])
    done = machine.hook("qemu", "weft-n1", "prepare", node)
    assert done.returncode == 0, done.stderr
    assert usable(machine, VFS[1]) == (GUID, "up", {0: 0x8001, 1: 0x7FFF})
    assert machine.hook("qemu", "weft-n1", "release", node).returncode == 0
    assert usable(machine, VFS[1]) == ((1 << 64) - 1, "up", {})


def test_what_is_no_real_device_is_refused(tmp_path):
    sys = Sys(tmp_path / "real")
    for lines, said in (([f"sys {tmp_path}/none"], "none"), ([f"sys {sys.folder}", "real mlx4_0 0000:09:00.0"], "0000:09:00.0"),
                        ([f"sys {sys.folder}", f"real mlx4_0 {VFS[0]}"], VFS[0])):
        (tmp_path / "lines").write_text("\n".join(lines), encoding="utf-8")
        host = Namespace()
        done = host.run(BUILD / "lab/hcafs", tmp_path / "lines", tmp_path, check=False)
        host.close()
        assert done.returncode == 2 and said in done.stderr


TELLER = """
import socketserver
class Port(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"0x7fff 0x8001\\n" if int(self.rfile.readline(), 16) == 0x42 else b"\\n")
with socketserver.TCPServer(("127.0.0.1", 7471), Port) as server:
    print("ready", flush=True)
    server.serve_forever()
"""


def test_tables_come_over_tcp(tmp_path):
    made = Machine(tmp_path / "host", "fabric 127.0.0.1:7471", f"real mlx4_0 {PF} ports=1 guid=0x42")
    teller = subprocess.Popen(made.inside("python3", "-c", TELLER), stdout=subprocess.PIPE, text=True)
    try:
        assert teller.stdout.readline() == "ready\n"
        assert usable(made, VFS[0])[2] == {0: 0x7FFF}
        assert made.value(f"{FOLDER}/infiniband/mlx4_0/iov/ports/1/pkeys/1") == "0x8001"
        teller.kill()
        teller.wait()
        done = made.run("cat", made.sys / FOLDER / "infiniband/mlx4_0/iov/ports/1/pkeys/0", check=False)
        assert done.returncode != 0, "nobody knows now"
    finally:
        teller.kill()
        teller.communicate()
        made.close()
