"""Partition networks: real bridges and VXLANs between namespaces."""

import os
import re
import subprocess

import pytest
from host import domain, network

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


def start(host, vxlan=10001, peers=()):
    return host.hook("network", f"weft-{vxlan}", "start", network(vxlan, peers))


def stop(host, vxlan=10001):
    return host.hook("network", f"weft-{vxlan}", "stopped", network(vxlan))


def prepare(host, node, vxlan=10001, op="prepare"):
    return host.hook("qemu", f"weft-{node}", op, domain(node, vxlan=vxlan))


def release(host, node, vxlan=10001):
    return prepare(host, node, vxlan, "release")


def accepted(answer):
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
    return True


def peers(host, vxlan=10001):
    """Where frames for all go."""
    lines = host.run("bridge", "fdb", "show", "dev", f"wefv{vxlan}").stdout.splitlines()
    return sorted(line.split()[2] for line in lines if line.startswith("00:00:00:00:00:00 dst "))


def destinations(host, vxlan=10001):
    """Where any frame goes."""
    words = host.run("bridge", "fdb", "show", "dev", f"wefv{vxlan}").stdout.split()
    return {words[i + 1] for i, word in enumerate(words) if word == "dst"}


def cable(one, one_address, other, other_address, name="eth0"):
    one.run("ip", "link", "add", name, "type", "veth", "peer", "name", name, "netns", other.pid)
    for host, address in ((one, one_address), (other, other_address)):
        host.run("ip", "address", "add", f"{address}/24", "dev", name)
        host.run("ip", "link", "set", name, "up")


@pytest.fixture
def pair(make):
    """Two hosts on one wire."""
    one, other = make(), make()
    cable(one, A, other, B)
    return one, other


def address_of(space, interface):
    return space.run("ip", "-o", "link", "show", interface).stdout.partition("link/ether ")[2].split()[0]


def pings(space, address, count=3):
    return space.run("ping", "-n", "-c", count, "-i", "0.02", "-W", "5", address, check=False).returncode == 0


# --- making and removing ---


def test_start_makes_it_and_stop_removes_it(make):
    host = make()
    assert accepted(start(host, peers=[A, B]))
    assert host.links() == ["weft10001", "wefv10001"] and peers(host) == [A, B]
    tunnel = host.run("ip", "-d", "link", "show", "wefv10001").stdout
    assert "vxlan id 10001 " in tunnel and "dstport 4789" in tunnel and "mtu 1450" in tunnel and "master weft10001" in tunnel
    bridge = host.run("ip", "-d", "link", "show", "weft10001").stdout
    assert "forward_delay 0 " in bridge and "stp_state 0 " in bridge and "mcast_snooping 0" in bridge and "mtu 1450" in bridge
    assert "UP" in bridge and host.run("ip", "-br", "address", "show", "weft10001").stdout.split()[2:] == []
    assert accepted(stop(host))
    assert host.links() == [] and host.records("networks") == []


def all_links(host):
    """Without their states, which follow a while after the links came up."""
    return re.sub(r" state \S+", "", host.run("ip", "link", "show").stdout)


def test_again_is_the_same(make):
    host = make()
    assert accepted(start(host, peers=[A, B]))
    before = all_links(host)
    assert accepted(start(host, peers=[A, B]))
    assert all_links(host) == before and peers(host) == [A, B]
    assert accepted(stop(host)) and accepted(stop(host))
    assert host.links() == []


def test_peers_become_exactly_those(make):
    host = make()
    assert accepted(start(host, peers=[A, B]))
    host.run("bridge", "fdb", "append", "02:00:00:00:00:77", "dev", "wefv10001", "dst", A)  # as if learned
    assert accepted(start(host, peers=[B, C]))
    assert peers(host) == [B, C] and destinations(host) == {B, C}
    assert accepted(start(host, peers=[]))
    assert destinations(host) == set()


def test_thousand_peers(make):
    host = make()
    many = [f"10.{i // 250}.0.{i % 250 + 1}" for i in range(1024)]
    assert accepted(start(host, peers=many))
    assert len(peers(host)) == 1024
    assert accepted(start(host, peers=many[1000:]))
    assert peers(host) == sorted(many[1000:])
    assert "more than 1024 peers" in start(host, peers=many + [B]).stderr


def test_names_are_resolved(make):
    host = make()
    assert accepted(start(host, peers=["localhost"]))
    assert peers(host) == ["127.0.0.1"]
    answer = start(host, peers=["no-such-host.invalid"])
    assert answer.returncode == 1 and "no-such-host.invalid" in answer.stderr and answer.stderr.count("\n") == 1
    assert peers(host) == ["127.0.0.1"], "what is refused changes nothing"


def test_node_without_network(make):
    host = make()
    assert accepted(prepare(host, "a-1"))
    assert host.links() == ["weft10001", "wefv10001"] and destinations(host) == set()
    assert accepted(release(host, "a-1"))
    assert host.links() == []


def test_goes_with_the_last_that_needs_it(make, guest):
    host = make()
    assert accepted(start(host, peers=[B])) and accepted(prepare(host, "a-1")) and accepted(prepare(host, "a-2"))
    assert accepted(release(host, "a-1"))
    assert host.links() == ["weft10001", "wefv10001"]
    assert accepted(stop(host))
    assert host.links() == ["weft10001", "wefv10001"], "a-2 was prepared, though it has no port yet"
    guest(host, 10001, "10.64.0.2")
    assert accepted(release(host, "a-2"))
    assert host.links() == ["tap1", "weft10001", "wefv10001"], "something is on the bridge"
    host.run("ip", "link", "delete", "tap1")
    assert accepted(release(host, "a-2"))
    assert host.links() == []


def test_shared_memory_goes_with_the_last_node_of_its_cluster(make):
    host = make()
    shared = host.root / "dev/shm"
    shared.mkdir(parents=True)
    assert accepted(prepare(host, "a-1")) and accepted(prepare(host, "aa-1"))
    for name in ("weft-a", "weft-aa", "weft", "other"):
        (shared / name).write_bytes(b"x")
    assert accepted(prepare(host, "a-2"))
    assert accepted(release(host, "a-1")) and (shared / "weft-a").exists()
    assert accepted(release(host, "a-2"))
    assert sorted(path.name for path in shared.iterdir()) == ["other", "weft", "weft-aa"]


def test_shared_memory_is_of_no_one_who_was_there_before(make):
    """Somebody who knew the cluster's name would have made it, and read what its nodes write."""
    host = make()
    planted = host.root / "dev/shm/weft-a"
    planted.parent.mkdir(parents=True)
    planted.write_bytes(b"x")
    assert accepted(prepare(host, "a-1"))
    assert not planted.exists()


def test_shared_memory_is_for_nobody_else(make):
    """QEMU makes the file readable by all; libvirt asks for "started" before the node runs or right after."""
    host = make()
    shared = host.root / "dev/shm/weft-a"
    shared.parent.mkdir(parents=True)
    assert accepted(prepare(host, "a-1"))
    shared.write_bytes(b"x")
    shared.chmod(0o644)
    assert accepted(prepare(host, "a-1", op="started"))
    assert shared.stat().st_mode & 0o777 == 0o600
    shared.unlink()
    (shared.parent / "other").write_bytes(b"x")
    shared.symlink_to("other")
    answer = prepare(host, "a-1", op="started")
    assert answer.returncode == 1 and "/dev/shm/weft-a" in answer.stderr


def test_bridge_that_was_lost_comes_back_with_its_peers(make):
    host = make()
    assert accepted(start(host, peers=[A, B]))
    host.run("ip", "link", "delete", "wefv10001")
    host.run("ip", "link", "delete", "weft10001")
    assert accepted(prepare(host, "a-1"))
    assert peers(host) == [A, B]


def test_name_taken_by_another_kind(make):
    host = make()
    host.run("ip", "link", "add", "weft10001", "type", "veth")
    answer = start(host, peers=[B])
    assert answer.returncode == 1 and "weft10001 exists and is not weft's bridge" in answer.stderr
    answer = prepare(host, "a-1")
    assert answer.returncode == 1 and "weft10001" in answer.stderr
    assert "weft10001" in host.links() and host.records() == [] and host.records("networks") == []


def test_number_taken_by_another_interface(make):
    host = make()
    host.run("ip", "link", "add", "other", "type", "vxlan", "id", "10001", "dstport", "4789")
    answer = prepare(host, "a-1")
    assert answer.returncode == 1 and "wefv10001" in answer.stderr
    assert host.links() == ["other"]


def test_interfaces_of_others_are_left_alone(make):
    host = make()
    for command in (["weftbr0", "type", "bridge"], ["weft007", "type", "bridge"], ["wefv9", "type", "bridge"],
                    ["wefvx5", "type", "vxlan", "id", "5", "dstport", "4789"], ["virbr0", "type", "bridge"]):
        host.run("ip", "link", "add", *command)
    before = host.links()
    assert accepted(prepare(host, "a-1")) and accepted(release(host, "a-1"))
    assert host.links() == before


def test_foreign_networks(make):
    host = make()
    for op in ("start", "started", "stopped", "updated", "port-created", "port-deleted"):
        assert accepted(host.hook("network", "default", op, "<hookData><network><name>default</name></network></hookData>"))
        assert accepted(host.hook("network", "weft-10001", op, "<hookData><network><name>weft-10001</name></network></hookData>"))
    assert host.links() == [] and host.records("networks") == []


# --- killed, dead, many ---


@pytest.mark.parametrize("point", ["hook-recorded", "hook-forgotten"])
def test_killed(make, point):
    host = make()
    killed = {"environment": {"WEFT_FAILPOINT": point}}
    assert accepted(start(host, 10002, [C]))
    op = "start" if point == "hook-recorded" else "stopped"
    assert accepted(start(host, peers=[B])) if op == "stopped" else True
    assert host.hook("network", "weft-10001", op, network(10001, [B]), **killed).returncode == -9
    if op == "start":
        assert accepted(start(host, peers=[B])) and peers(host) == [B]
        assert accepted(stop(host))
    else:
        assert accepted(prepare(host, "a-1", 10002))  # anybody's next run
    assert host.links() == ["weft10002", "wefv10002"] and peers(host, 10002) == [C]


def test_libvirtd_died_while_it_started_the_network(make):
    host = make()
    assert host.orphan("network", "weft-10001", "start", network(10001, [B])).returncode == 0
    assert accepted(start(host, 10002, [C]))
    assert host.links() == ["weft10002", "wefv10002"]


def test_network_outlives_libvirtd(make):
    host = make()
    assert host.orphan("network", "weft-10001", "start", network(10001, [B])).returncode == 0
    (host.root / "run/libvirt/network/weft-10001.xml").touch()
    assert accepted(start(host, 10002, [C])) and accepted(stop(host, 10002))
    assert host.links() == ["weft10001", "wefv10001"] and peers(host) == [B]


def test_twenty_at_the_same_instant(make):
    """Nodes of two clusters and their networks, on one host."""
    host = make()
    calls = [("qemu", f"weft-a-{i}", "prepare", domain(f"a-{i}", vxlan=10001 + i % 2)) for i in range(20)]
    calls[7:7] = [("network", f"weft-{v}", "start", network(v, [A, B])) for v in (10001, 10002)]
    assert {answer for answer in host.hook_many(calls)} == {(0, "", "")}
    assert host.links() == ["weft10001", "weft10002", "wefv10001", "wefv10002"]
    assert peers(host, 10001) == peers(host, 10002) == [A, B]
    assert len(host.records()) == 20
    calls = [("qemu", name, "release", text) for kind, name, _, text in calls if kind == "qemu"]
    calls[3:3] = [("network", f"weft-{v}", "stopped", network(v)) for v in (10001, 10002)]
    assert {answer for answer in host.hook_many(calls)} == {(0, "", "")}
    assert host.links() == [] and host.records() == [] and host.records("networks") == []


# --- traffic ---


def join(hosts, guest, vxlan=10001, base="10.64.0"):
    addresses = [A, B, C][:len(hosts)]
    for host, own in zip(hosts, addresses):
        assert accepted(start(host, vxlan, [a for a in addresses if a != own]))
        assert accepted(prepare(host, f"n{vxlan}-1", vxlan))
    return [guest(host, vxlan, f"{base}.{rank + 1}") for rank, host in enumerate(hosts)]


def test_nodes_reach_each_other_across_hosts(pair, guest):
    one, other = join(pair, guest)
    assert pings(one, "10.64.0.2")
    assert one.run("ping", "-n", "-c", "1", "-W", "5", "-M", "do", "-s", "1422", "10.64.0.2", check=False).returncode == 0, "1,450 bytes"
    assert other.run("ip", "neigh", "show", "10.64.0.1").stdout.strip()


def test_clusters_with_equal_addresses_do_not_meet(pair, guest):
    first = join(pair, guest, 10001)
    second = join(pair, guest, 10002)
    macs = [address_of(space, "eth0") for space in (*first, *second)]
    assert pings(first[0], "10.64.0.2") and pings(second[0], "10.64.0.2")
    for space, mine, foreign in ((first[0], macs[1], macs[3]), (second[0], macs[3], macs[1])):
        assert mine in space.run("ip", "neigh", "show").stdout and foreign not in space.run("ip", "neigh", "show").stdout


def test_no_loss_while_peers_change(pair, guest):
    """weftd destroys and creates the network: both follow each other while nodes talk."""
    one, _ = join(pair, guest)
    changes = 0
    while changes < 4:  # on a busy machine a change may take as long as all of these packets
        ping = subprocess.Popen(one.inside("ping", "-n", "-c", "150", "-i", "0.01", "-W", "5", "10.64.0.2"), stdout=subprocess.PIPE, text=True)
        while ping.poll() is None:
            assert accepted(stop(pair[0])) and accepted(start(pair[0], peers=[B, C] if changes % 2 else [B]))
            changes += 1
        assert "150 packets transmitted, 150 received, 0% packet loss" in ping.stdout.read()
        ping.stdout.close()
    assert peers(pair[0]) in ([B], [B, C])


def test_peer_that_is_gone_is_not_reached(pair, guest):
    one, _ = join(pair, guest)
    assert pings(one, "10.64.0.2") and B in destinations(pair[0])
    pair[1].run("ip", "link", "set", "eth0", "down")  # else it may be learned again
    assert accepted(stop(pair[0])) and accepted(start(pair[0], peers=[]))
    assert destinations(pair[0]) == set(), "also what was learned"


LISTEN = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", 9999))
print("ready", flush=True)
while (word := s.recv(100).decode()) != "end":
    print(word, flush=True)
"""
SEND = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); [s.sendto(sys.argv[2].encode(), (sys.argv[1], 9999)) for _ in range(5)]"


# A broadcast of one that has no address yet, as DHCP's: the kernel does not look where such packets come from.
BROADCAST = """
import socket, struct, sys
payload = sys.argv[1].encode()
udp = struct.pack("!4H", 9999, 9999, 8 + len(payload), 0) + payload
head = struct.pack("!2B3H2BH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\\xff" * 4)
total = sum(struct.unpack("!10H", head))
total = (total & 0xffff) + (total >> 16)
head = head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + head[12:]
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
s.send(b"\\xff" * 6 + bytes([2, 0, 0, 0, 0, 9]) + bytes([8, 0]) + head + udp)
"""


@pytest.mark.parametrize("rp_filter", [0, 2])
def test_host_has_no_leg_in_the_network(pair, guest, rp_filter):
    """A node knows the bridge's MAC and all of the host's addresses, and still reaches none of them."""
    host = pair[0]
    host.run("sh", "-c", f"echo {rp_filter} > /proc/sys/net/ipv4/conf/all/rp_filter")
    node, other = join(pair, guest)
    node.run("ip", "route", "add", "10.0.0.0/24", "dev", "eth0")
    node.run("ip", "neigh", "add", A, "lladdr", address_of(host, "weft10001"), "dev", "eth0")
    listeners = [subprocess.Popen(space.inside("/usr/bin/python3", "-c", LISTEN), stdout=subprocess.PIPE, text=True) for space in (host, other)]
    for listener in listeners:
        assert listener.stdout.readline() == "ready\n"
    node.run("/usr/bin/python3", "-c", BROADCAST, "everybody")
    node.run("/usr/bin/python3", "-c", SEND, A, "node")
    for word in ("host", "end"):
        pair[1].run("/usr/bin/python3", "-c", SEND, A, word)
    node.run("/usr/bin/python3", "-c", SEND, "10.64.0.2", "end")
    assert listeners[0].communicate(timeout=30)[0].split() == ["host"] * 5
    assert listeners[1].communicate(timeout=30)[0].split() == ["everybody"], "the other node has it"
    node.run("ip", "neigh", "del", A, "dev", "eth0")
    assert not pings(node, A, count=1), "nor does it answer ARP"
    for interface in ("weft10001", "wefv10001"):
        assert host.run("ip", "-6", "address", "show", "dev", interface).stdout == ""


# Frames to the addresses that a bridge keeps to itself, 01:80:c2:00:00:00 to 0f: with packets for the host, and with such as come from
# another host of a cluster.
GROUPS = """
import socket, struct

def packet(source, target, port, payload):
    udp = struct.pack("!4H", 9999, port, 8 + len(payload), 0) + payload
    head = struct.pack("!2B3H2BH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, socket.inet_aton(source), socket.inet_aton(target))
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xffff) + (total >> 16)
    return b"\\x08\\0" + head[:10] + struct.pack("!H", ~(total + (total >> 16)) & 0xffff) + head[12:] + udp

s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
own = bytes([2, 0, 0, 0, 0, 9])
for last in range(16):
    group = bytes([1, 0x80, 0xc2, 0, 0, last])
    s.send(group + own + packet("10.0.0.2", "10.0.0.1", 9999, b"node"))
    inner = b"\\xff" * 6 + own + packet("10.64.0.9", "10.64.255.255", 9999, b"node")
    s.send(group + own + packet("10.0.0.2", "10.0.0.1", 4789, struct.pack("!II", 8 << 24, 10002 << 8) + inner))
"""


def test_groups_of_neighbours_lead_neither_to_the_host_nor_to_other_clusters(pair, guest):
    """What a bridge does not forward it hands to the host, which would take a VXLAN packet in it for another host's."""
    host = pair[0]
    near, far = join(pair, guest)
    other = join(pair, guest, 10002)
    for vxlan in (10001, 10002):
        assert accepted(prepare(host, f"n{vxlan}-1", vxlan, "start"))
    spaces = (host, other[0], pair[1])
    listeners = [subprocess.Popen(space.inside("/usr/bin/python3", "-c", LISTEN), stdout=subprocess.PIPE, text=True) for space in spaces]
    for listener in listeners:
        assert listener.stdout.readline() == "ready\n"
    for node in (near, far):  # both: what comes through the tunnel is at a port, too
        node.run("/usr/bin/python3", "-c", GROUPS)
    assert pings(near, "10.64.0.2") and pings(other[0], "10.64.0.2")
    pair[1].run("/usr/bin/python3", "-c", SEND, A, "end")
    other[1].run("/usr/bin/python3", "-c", SEND, "10.64.0.1", "end")
    host.run("/usr/bin/python3", "-c", SEND, B, "end")
    assert [listener.communicate(timeout=30)[0] for listener in listeners] == ["", "", ""]
    assert host.run("ip", "-6", "address", "show", "dev", "tap1").stdout == "", "nor does the host speak through a node's interface"


def test_interface_that_came_late_is_sealed_when_the_node_has_started(make, guest):
    host = make()
    assert accepted(prepare(host, "a")) and accepted(prepare(host, "a", op="start"))
    guest(host, 10001, "10.64.0.1")
    mask = "/sys/class/net/tap1/brport/group_fwd_mask"
    assert host.run("sh", "-c", f"mount -t sysfs sysfs /sys && cat {mask}").stdout == "0x0\n"
    assert accepted(prepare(host, "a", op="started"))
    assert host.run("cat", mask).stdout == "0xfffd\n"


FLOOD = """
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
for i in range(12000):
    s.send(b"\\xff" * 6 + bytes([2, 0, 0]) + i.to_bytes(3, "big") + b"\\x88\\xb5" + bytes(46))
"""


def test_addresses_that_are_learned_are_limited(pair, guest):
    """A node that sends from ever new addresses takes memory of no host, neither its own nor another's."""
    one, other = join(pair, guest)
    one.run("/usr/bin/python3", "-c", FLOOD)
    assert pings(one, "10.64.0.2"), "and still reaches the others"
    learned = pair[1].run("bridge", "fdb", "show", "dev", "wefv10001").stdout.splitlines()
    assert 1000 < sum("self" in line for line in learned) <= 8192 + 2
    if tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 7):
        for host in pair:
            table = host.run("bridge", "fdb", "show", "br", "weft10001").stdout.splitlines()
            assert sum("master weft10001" in line and "permanent" not in line for line in table) <= 8192
