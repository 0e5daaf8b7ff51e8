"""An irregular fabric as opensm's plugin tells it and as a file of ibnetdiscover's: the same leaves, and the same topology.conf, which a
real Slurm takes."""

import json
import re

import pytest
from harness.fabric import SM
from harness.nets import irregular
from harness.slurm import Slurm
from harness.wait import until
from harness.weft import Weft, host
from weftsite import MLX5, Site

HOSTS = 6
NAMELESS, TWO_RAILS = ("n3", "n4"), "n5"
LEAVES = {"leaf1": ["n1", "n2", "n5"], "leaf2": ["n3", "n5"], "switch": ["n4"], "spine2": ["n6"]}


def describe(net, name):
    """A host that says no more of its place than it must."""
    hca = MLX5 | ({"port_guid": f"0x{net.port_guid(name):016x}"} if name in (*NAMELESS, TWO_RAILS) else {})
    rails = [hca, MLX5 | {"name": "mlx5_1", "pci": "0000:42:00.0", "rail": 1, "port_guid": f"0x{net.port_guid(name, 2):016x}"}]
    described = host(name, gpus=[], hcas=rails if name == TWO_RAILS else [hca])
    del described["leaf"]
    return described


class Told(Site):
    """By the plugin."""

    def _host(self, name, adapter):
        return describe(self.fabric.net, name)


class Imported(Weft):
    def __init__(self, net):
        super().__init__()
        self.config["hosts"] = [describe(net, f"n{number}") for number in range(1, HOSTS + 1)]


@pytest.fixture
def run():
    made = []

    def start(site):
        made.append(site)
        site.start()
        return site

    yield start
    for site in made:
        site.stop()
        site.remove()


def leaves(site):
    return {leaf["switch"]: leaf["hosts"] for leaf in site.client.get("/v1/fabrics/ib0/topology")["leaves"]}


def test_an_irregular_fabric(new_fabric, run, tmp_path):
    fabric = new_fabric(irregular())
    fabric.manager(SM, plugin=True).start()
    told, imported = run(Told(fabric)), run(Imported(fabric.net))
    file = tmp_path / "ib0.net"
    file.write_text(fabric.run("ibnetdiscover"), encoding="utf-8")
    imported.cli("fabric", "import", str(file))
    for site in (told, imported):
        until(lambda site=site: leaves(site) == LEAVES, lambda site=site: f"{leaves(site)} is {LEAVES}")
        shown = json.loads(site.cli("fabric", "show", "--json").stdout)
        assert shown["no_port"] == [] and len(shown["no_host"]) == 1, "all but the manager's machine are hosts"
    topology = told.cli("fabric", "topology", "--slurm").stdout
    assert imported.cli("fabric", "topology", "--slurm").stdout == topology
    assert "lonely" not in topology and topology.count(TWO_RAILS) == 1
    with Slurm(tmp_path, topology, HOSTS) as slurm:
        said = slurm.run("scontrol", "show", "topology")
        assert "lack access" not in slurm.log() and "no switch can reach all nodes" not in slurm.log(), slurm.log()
        nodes = dict(re.findall(r"SwitchName=(\S+) .*?Nodes=(\S+)", said))
        assert nodes == {"leaf1": "n1,n2,n5", "leaf2": "n3", "switch": "n4", "spine2-hosts": "n6", "spine2": "n[1-6]"}
