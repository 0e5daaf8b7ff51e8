"""Lanes on a real opensm: the options that weft writes, as the ports hold them, and the service level that the SA tells.

ibsim keeps the tables that it is sent and gives them back; it carries no data, so that how ports share a link is not seen here
but in tests/unit/test-lanes.c, which takes turns as a port does. It knows eight virtual lanes, and no adapter with fewer."""

import re
import subprocess

import pytest
from harness.fabric import build_folder
from harness.plugin import Plugin, partition
from weftsite import Site

LANES = "1:40,2:20,3:5"
# Best effort, then the lanes by service level, as turns of up to four packets of 4 KiB: 7, 8, 4 and 1 of 20.
TURNS = [(0, 255), (1, 255), (2, 255), (3, 64), (0, 192), (1, 255)]


@pytest.fixture(scope="module")
def fabric(module_fabric):
    return module_fabric()


@pytest.fixture(scope="module")
def manager(fabric):
    """Runs with the options that weft has written; it was started without quality of service."""
    made = fabric.manager(plugin=True).start()
    write_options(made, LANES)
    return made.sweep()


def write_options(manager, lanes):
    subprocess.run([build_folder() / "src/cli/weft", "fabric", "qos", "--lanes", lanes, "--file", manager.folder / "opensm.conf", "--write"],
                   check=True, capture_output=True)


def rows(text, start):
    return [re.findall(r"\|\s*(\w+)", line) for line in text.splitlines() if line.startswith(start)]


def levels(fabric, where, port):
    """[virtual lane by service level], for each port that packets come from."""
    return [[int(vl) for vl in row] for row in rows(fabric.run("smpquery", "sl2vl", *where, port), "ports:")]


def arbitration(fabric, where, port):
    """Turns as (virtual lane, weight) of the tables of low and of high priority, those of no weight left out."""
    text = fabric.run("smpquery", "vlarb", *where, port)
    lanes, weights = rows(text, "VL "), rows(text, "WEIGHT")
    return [[(int(vl, 16), int(weight, 16)) for vl, weight in zip(*table) if int(weight, 16)] for table in zip(lanes, weights)]


def leaf_of(fabric):
    """How smpquery is told of the switch that h1 hangs on, at port 1."""
    line = next(line for line in fabric.run("ibswitches").splitlines() if '"leaf1"' in line)
    return [re.search(r"lid (\d+)", line)[1]]


def check_ports(fabric, turns, lanes):
    expected = lanes + [0] * (16 - len(lanes))
    for host in ("h1", "h8"):
        where = ["-G", hex(fabric.net.port_guid(host))]
        assert levels(fabric, where, "1") == [expected]
        assert arbitration(fabric, where, "1") == [turns, []]
    leaf = leaf_of(fabric)
    found = levels(fabric, leaf, "1")
    assert len(found) == 7 and all(row == expected for row in found)
    assert arbitration(fabric, leaf, "1") == [turns, []]
    assert arbitration(fabric, leaf, "5") == [turns, []]


def test_ports_hold_the_lanes(fabric, manager):
    check_ports(fabric, TURNS, [0, 1, 2, 3])


def test_weft_reads_them_back(fabric, manager):
    """From a port of the manager's machine, as an operator would."""
    def check(lanes):
        done = fabric.run(build_folder().resolve() / "src/cli/weft", "fabric", "qos", "--check", "--lanes", lanes, "--file",
                          manager.folder / "opensm.conf", check=False)
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    assert check(LANES) == (0, ["all 9 links of hosts hold the lanes, at both ends"])
    status, lines = check("1:40,2:20")
    assert status == 1
    assert "h1 mlx5_0 port 1: takes turns 0:255,1:255,2:255,3:64,0:192,1:255 instead of 0:128,1:128,2:64" in lines
    assert sum(line.startswith("leaf1 port 1: sends service levels over virtual lanes 0,1,2,3,") for line in lines) == 1
    status, lines = check("1:5,2:5,3:5,4:5,5:5,6:5,7:5,8:5")
    assert status == 1 and "h8 mlx5_0 port 1: has 8 virtual lanes, and 9 are needed: fewer lanes, or another cable end" in lines


def test_other_lanes_come_with_a_hangup(fabric, manager):
    write_options(manager, "2:50,4:25")
    manager.sweep()
    check_ports(fabric, [(0, 64), (1, 128), (2, 64)], [0, 0, 1, 0, 2])
    write_options(manager, LANES)
    manager.sweep()
    check_ports(fabric, TURNS, [0, 1, 2, 3])


def test_the_sa_tells_the_service_level_of_a_partition(fabric, manager):
    guids = [fabric.net.port_guid(name) for name in ("h1", "h2")]
    with Plugin(manager.socket) as plugin:
        assert plugin.hello()["qos"] is True
        plugin.apply([partition(0x11, guids, sl=2), partition(0x12, guids)])
    for number, level in ((0x11, 2), (0x12, 0)):
        assert level_of(fabric, ("h1", "h2"), number) == level


def level_of(fabric, hosts, number):
    """The service level of the path between them, as the first is told."""
    ends = [gid(fabric.net.port_guid(host)) for host in hosts]
    found = fabric.run("saquery", "PR", "--sgid", ends[0], "--dgid", ends[1], "--pkey", hex(0x8000 | number), host=hosts[0])
    return int(re.search(r"\bsl\.+(\w+)", found)[1], 0)


def gid(guid):
    return "fe80::" + ":".join(f"{guid >> shift & 0xffff:x}" for shift in (48, 32, 16, 0))


def test_a_guarantee_reaches_the_sa(fabric, manager):
    """From weftd to the path records that applications ask for; the rate of the hosts' links is what opensm tells."""
    site = Site(fabric)
    lanes = [map(int, lane.split(":")) for lane in LANES.split(",")]
    site.config["fabrics"][0]["qos"] = {"lanes": [{"sl": sl, "share": share} for sl, share in lanes]}
    site.start()
    try:
        site.make("cfd", 2, bandwidth="3G", path="sriov", cores=4)
        site.make("sim", 2, path="sriov", cores=4)
        assert site.client.cluster("cfd")["sl"] == 1
        for name, level in (("cfd", 1), ("sim", 0)):
            assert level_of(fabric, sorted(site.hosts_of(name)), site.number(name)) == level
        site.client.create("much", 2, bandwidth="5G", path="sriov", cores=4)
        site.wait_reason("much", "bandwidth")
        site.stop()
    finally:
        site.remove()


def test_nothing_is_promised_where_routing_owns_the_service_levels(new_fabric):
    fabric = new_fabric()
    manager = fabric.manager(plugin=True, options={"routing_engine": "dfsssp", "qos": "TRUE"}).start()
    with pytest.raises(subprocess.CalledProcessError) as refused:
        write_options(manager, LANES)
    assert b"dfsssp" in refused.value.stderr
    with Plugin(manager.socket) as plugin:
        assert plugin.hello()["routing"] == "dfsssp"
    site = Site(fabric)
    site.config["fabrics"][0]["qos"] = {"lanes": [{"sl": 1, "share": 40}]}
    site.start()
    try:
        site.client.create("cfd", 2, bandwidth="1G", path="sriov")
        site.wait_reason("cfd", "routing engine dfsssp keeps the service levels for itself")
        site.make("sim", 2, path="sriov")
        site.stop()
    finally:
        site.remove()
