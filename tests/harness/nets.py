"""Fabrics in ibnetdiscover's format, for ibsim and for whoever imports such a file.

GUIDs follow from the order in which nodes are added, so that a test can name a port without asking anybody: port n of a host
or switch is its node's GUID + n, as ibsim counts (a switch's own port 0 has the node's).
"""

from dataclasses import dataclass, field

SWITCH_GUID, HOST_GUID, STEP = 0x0002C90200400000, 0x0002C90300100000, 0x10
SM = "sm"


@dataclass
class Node:
    kind: str
    name: str
    guid: int
    description: str
    size: int  # ports; grows with the links
    links: dict = field(default_factory=dict)  # port: (node, port)
    widths: dict = field(default_factory=dict)  # port: as in PortInfo, where it is not the usual 4x


class Net:
    def __init__(self):
        self.nodes = {}

    def switch(self, name, ports=0, description=None):
        guid = SWITCH_GUID + STEP * len(self.switches())
        return self._add(Node("Switch", name, guid, description or name, ports))

    def host(self, name, description=None, guid=None):
        guid = guid or HOST_GUID + STEP * len(self.hosts())
        return self._add(Node("Hca", name, guid, description or f"{name} mlx5_0", 0))

    def _add(self, node):
        self.nodes[node.name] = node
        return self

    def link(self, one, other, cables=1, width=None):
        """By the next free ports of both."""
        for _ in range(cables):
            a, b = self.nodes[one], self.nodes[other]
            port_a, port_b = len(a.links) + 1, len(b.links) + 1
            a.links[port_a], b.links[port_b] = (other, port_b), (one, port_a)
            if width:
                a.widths[port_a] = b.widths[port_b] = width
        return self

    # --- what is in it ---

    def switches(self):
        return [node.name for node in self.nodes.values() if node.kind == "Switch"]

    def hosts(self):
        return [node.name for node in self.nodes.values() if node.kind == "Hca"]

    def port_guid(self, host, port=1):
        return self.nodes[host].guid + port

    def leaf(self, host, port=1):
        """The switch and its port at the other end."""
        return self.nodes[host].links[port]

    def counts(self):
        ports = sum(max(node.size, len(node.links)) + 1 for node in self.nodes.values())
        return len(self.nodes), len(self.switches()), ports

    def text(self):
        return "\n".join(_record(node) for node in self.nodes.values())


def _record(node):
    guid = f"{'switchguid' if node.kind == 'Switch' else 'caguid'}=0x{node.guid:016x}"
    ports = max(node.size, len(node.links), 1)
    widths = {port: f" w={width}" for port, width in node.widths.items()}
    links = [f'[{port}] "{other}"[{other_port}]{widths.get(port, "")}' for port, (other, other_port) in sorted(node.links.items())]
    return "\n".join([guid, f'{node.kind} {ports} "{node.name}" # "{node.description}"', *links, ""])


def fat_tree(leaves, hosts, spines, managers=(SM,)):
    """Leaves of so many hosts each, every leaf linked to every spine; managers' machines hang on the first spine.

    Hosts are h1, h2, …: the first leaf has the first ones."""
    net = Net()
    for leaf in range(1, leaves + 1):
        net.switch(f"leaf{leaf}")
    for spine in range(1, spines + 1):
        net.switch(f"spine{spine}")
    for number in range(leaves * hosts):
        net.host(f"h{number + 1}").link(f"h{number + 1}", f"leaf{number // hosts + 1}")
    for leaf in range(1, leaves + 1):
        for spine in range(1, spines + 1):
            net.link(f"leaf{leaf}", f"spine{spine}")
    for name in managers:
        net.host(name).link(name, "spine1")
    return net


def irregular():
    """What real fabrics have: several cables between two switches, a switch without hosts, a host on two leaves, a host on a
    spine, switches of unequal size, a link of another width, and descriptions that are no host names."""
    net = Net()
    for name, size in (("leaf1", 36), ("leaf2", 18), ("leaf3", 36), ("spine1", 36), ("spine2", 36), ("lonely", 8)):
        net.switch(name, size, "MF0;switch:SX6036/U1" if name == "leaf3" else None)
    net.link("leaf1", "spine1", cables=3).link("leaf1", "spine2").link("leaf2", "spine1").link("leaf2", "spine2", cables=2)
    net.link("leaf3", "spine2", cables=2).link("spine1", "lonely").link("spine1", "spine2")
    for number in range(1, 7):
        net.host(f"n{number}", "MT25408 ConnectX Mellanox Technologies" if number in (3, 4) else None)
    for host, switch in (("n1", "leaf1"), ("n2", "leaf1"), ("n3", "leaf2"), ("n4", "leaf3")):
        net.link(host, switch)
    net.link("n5", "leaf1").link("n5", "leaf2")  # two rails
    net.link("n6", "spine2", width=8)  # 12x
    return net.host(SM).link(SM, "spine1")
