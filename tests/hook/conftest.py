import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from host import MLX4, MLX5, Host, Namespace  # noqa: E402


@pytest.fixture
def make(tmp_path):
    """Makes hosts, given lines that describe their adapters."""
    made = []

    def new(*adapters):
        host = Host(tmp_path / f"host{len(made)}", adapters)
        made.append(host)
        return host

    yield new
    for host in made:
        host.close()


@pytest.fixture
def guest():
    """Makes namespaces that stand for nodes: on a host's bridge, with an address."""
    made = []

    def new(host, vxlan, address):
        space = Namespace()
        made.append(space)
        tap = f"tap{len(made)}"
        host.run("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "netns", space.pid)
        host.run("ip", "link", "set", tap, "master", f"weft{vxlan}", "up")
        space.run("ip", "address", "add", f"{address}/16", "dev", "eth0")
        space.run("ip", "link", "set", "eth0", "up", "mtu", "1450")
        return space

    yield new
    for space in made:
        space.close()


@pytest.fixture
def host(make):
    """One of each adapter."""
    return make(MLX5, MLX4)
