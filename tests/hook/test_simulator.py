"""The simulated adapters themselves: they refuse what Linux and the drivers refuse (drivers/pci/iov.c, drivers/base/bus.c, mlx4, mlx5)."""

import errno
import socket
import threading

import pytest
from host import MLX4, Host

PF5 = "devices/pci0000:00/0000:41:00.0"
PF4 = "devices/pci0000:00/0000:42:00.0"
MLX5 = "mlx5 mlx5_0 0000:41:00.0 0 vendor total=8 numa=1"
GUID = "02:77:65:00:00:00:00:01"


def write(host, path, value):
    """0 or the errno of what the kernel says."""
    done = host.run("python3", "-c", "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY); os.write(f, sys.argv[2].encode())",
                    host.sys / path, f"{value}\n", check=False)
    said = done.stderr.partition("[Errno ")[2].partition("]")[0]
    assert done.returncode == 0 or said, done.stderr
    return int(said or 0)


def functions(host):
    return sorted(host.run("ls", host.sys / ".functions").stdout.split())


def usable(host, pci):
    """What a function has: its GUID, whether its link is up, and its P_Keys by index."""
    (_, guid), (_, link), *keys = (line.split() for line in host.value(f".functions/{pci}").splitlines())
    return int(guid, 16), link, {int(index): int(key, 16) for index, key in keys}


@pytest.fixture
def mlx5(make):
    return make(MLX5)


# --- sriov_numvfs ---


def test_functions_come_and_go_with_their_number(mlx5):
    assert functions(mlx5) == [] and mlx5.value(f"{PF5}/sriov_numvfs") == "0"
    assert write(mlx5, f"{PF5}/sriov_numvfs", 3) == 0
    assert functions(mlx5) == ["0000:41:00.1", "0000:41:00.2", "0000:41:00.3"]
    assert mlx5.link(f"{PF5}/virtfn2") == "0000:41:00.3" and mlx5.link("bus/pci/devices/0000:41:00.3/physfn") == "0000:41:00.0"
    assert mlx5.link("bus/pci/devices/0000:41:00.1/driver") == "mlx5_core" and mlx5.value("bus/pci/devices/0000:41:00.1/numa_node") == "1"
    assert write(mlx5, f"{PF5}/sriov_numvfs", 0) == 0
    assert functions(mlx5) == [] and mlx5.link(f"{PF5}/virtfn0") is None
    assert mlx5.run("ls", mlx5.sys / PF5 / "sriov", check=False).stdout == ""
    assert mlx5.run("ls", mlx5.sys / "bus/pci/devices").stdout.split() == ["0000:41:00.0"]


@pytest.mark.parametrize(("value", "error"), [("many", errno.EINVAL), ("-1", errno.EINVAL), ("4 VFs", errno.EINVAL), ("", errno.EINVAL),
                                              ("9", errno.ERANGE), ("70000", errno.ERANGE), ("5", errno.EBUSY), ("2", errno.EBUSY), ("4", 0), ("0x4", 0)])
def test_numbers_that_are_refused(mlx5, value, error):
    assert write(mlx5, f"{PF5}/sriov_numvfs", 4) == 0
    assert write(mlx5, f"{PF5}/sriov_numvfs", value) == error
    assert len(functions(mlx5)) == 4 and mlx5.value(f"{PF5}/sriov_numvfs") == "4"


def test_mlx4_has_its_functions_by_a_module_option(make):
    host = make(MLX4)
    assert host.value(f"{PF4}/sriov_numvfs") == "8"
    assert write(host, f"{PF4}/sriov_numvfs", 8) == 0
    assert write(host, f"{PF4}/sriov_numvfs", 0) == errno.ENOENT
    assert len(functions(host)) == 8


def test_without_a_driver_nobody_makes_functions(mlx5):
    assert write(mlx5, "bus/pci/drivers/mlx5_core/unbind", "0000:41:00.0") == 0
    assert mlx5.run("ls", mlx5.sys / "class/infiniband").stdout == ""
    assert write(mlx5, f"{PF5}/sriov_numvfs", 2) == errno.ENOENT
    assert write(mlx5, "bus/pci/drivers_probe", "0000:41:00.0") == 0
    assert write(mlx5, f"{PF5}/sriov_numvfs", 2) == 0 and len(functions(mlx5)) == 2
    assert write(mlx5, "bus/pci/drivers/mlx5_core/unbind", "0000:41:00.0") == 0
    assert functions(mlx5) == [], "they go with their physical function's driver"


def test_the_vendors_values_survive_their_function(mlx5):
    for number in (1, 0, 1):
        assert write(mlx5, f"{PF5}/sriov_numvfs", number) == 0
        if number and mlx5.value(f"{PF5}/sriov/0/policy") == "Down":
            assert write(mlx5, f"{PF5}/sriov/0/port", GUID.upper()) == 0 and write(mlx5, f"{PF5}/sriov/0/policy", "Follow") == 0
    assert (mlx5.value(f"{PF5}/sriov/0/port"), mlx5.value(f"{PF5}/sriov/0/policy")) == (GUID, "Follow")
    assert write(mlx5, f"{PF5}/sriov/0/port", "0x0277650000000001") == errno.EINVAL
    assert write(mlx5, f"{PF5}/sriov/0/policy", "follow") == errno.EINVAL


# --- drivers ---


def test_new_functions_without_a_driver(mlx5):
    assert write(mlx5, f"{PF5}/sriov_drivers_autoprobe", "maybe") == errno.EINVAL
    assert write(mlx5, f"{PF5}/sriov_drivers_autoprobe", "0") == 0
    assert write(mlx5, f"{PF5}/sriov_numvfs", 1) == 0
    assert mlx5.link("bus/pci/devices/0000:41:00.1/driver") is None


def test_drivers_and_devices_that_belong_together(mlx5):
    assert write(mlx5, f"{PF5}/sriov_numvfs", 1) == 0
    vf = "0000:41:00.1"
    assert write(mlx5, "bus/pci/drivers/vfio-pci/bind", vf) == errno.ENODEV, "it was not told to"
    assert write(mlx5, "bus/pci/drivers/mlx5_core/bind", vf) == errno.EBUSY
    assert write(mlx5, "bus/pci/drivers/vfio-pci/unbind", vf) == errno.ENODEV
    assert write(mlx5, f"bus/pci/devices/{vf}/driver_override", "vfio-pci") == 0
    assert write(mlx5, "bus/pci/drivers/mlx5_core/unbind", vf) == 0
    assert write(mlx5, "bus/pci/drivers/mlx5_core/bind", vf) == errno.ENODEV
    assert write(mlx5, "bus/pci/drivers_probe", vf) == 0 and mlx5.link(f"bus/pci/devices/{vf}/driver") == "vfio-pci"
    assert write(mlx5, f"bus/pci/devices/{vf}/driver_override", "") == 0
    assert write(mlx5, "bus/pci/drivers_probe", "0000:41:00.7") == errno.ENODEV


# --- P_Keys ---


def test_mlx4_begins_with_the_first_key_alone(make):
    host = make(MLX4)
    assert usable(host, "0000:42:00.1") == (0, "up", {0: 0x7FFF})
    iov = f"{PF4}/infiniband/mlx4_0/iov"
    assert write(host, f"{iov}/0000:42:00.1/ports/1/pkey_idx/1", 2) == 0
    assert usable(host, "0000:42:00.1")[2] == {0: 0x7FFF, 1: 0x8001}
    assert write(host, f"{iov}/0000:42:00.1/ports/1/pkey_idx/0", "none") == 0
    assert usable(host, "0000:42:00.1")[2] == {1: 0x8001}
    for value in ("128", "-1", "two"):
        assert write(host, f"{iov}/0000:42:00.1/ports/1/pkey_idx/1", value) == errno.EINVAL
    assert write(host, f"{iov}/0000:42:00.0/ports/1/pkey_idx/1", 2) == errno.EINVAL, "the physical function's own"


class Manager:
    """Answers for the ports of a fabric: {GUID: keys}."""

    def __init__(self, path):
        self.tables = {}
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(str(path))
        self.socket.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.socket.accept()
            with connection, connection.makefile("rw") as stream:
                guid = int(stream.readline(), 16)
                stream.write(" ".join(f"0x{key:04x}" for key in self.tables.get(guid, ())) + "\n")


def test_tables_follow_the_fabric(tmp_path):
    manager = Manager(tmp_path / "fabric")
    host = Host(tmp_path / "host", [f"fabric {tmp_path}/fabric", "mlx4 mlx4_0 0000:42:00.0 2 guid=0x42", "mlx5 mlx5_0 0000:41:00.0 2 vendor"])
    try:
        manager.tables[0x42] = [0x7FFF, 0x8001]
        assert usable(host, "0000:42:00.1") == (0, "up", {0: 0x7FFF})
        assert host.value(f"{PF4}/infiniband/mlx4_0/iov/ports/1/pkeys/0") == "0x7fff"
        manager.tables[0x42] = [0x8003]
        assert usable(host, "0000:42:00.1")[2] == {0: 0x8003}, "the port's index has another key now"

        assert write(host, f"{PF5}/sriov/0/port", GUID) == write(host, f"{PF5}/sriov/0/policy", "Follow") == 0
        assert usable(host, "0000:41:00.1") == (0x0277650000000001, "down", {}), "no manager knows this virtual port"
        manager.tables[0x0277650000000001] = [0x8001, 0x7FFF]
        assert usable(host, "0000:41:00.1") == (0x0277650000000001, "up", {0: 0x8001, 1: 0x7FFF})
        assert write(host, f"{PF5}/sriov/0/policy", "Down") == 0
        assert usable(host, "0000:41:00.1")[1:] == ("down", {})
    finally:
        host.close()
