"""Three clusters with the same addresses, a node of each on each of two hosts: every node attacks every node of the others by its MAC, with all that a
tenant can send. What arrives is counted by captures at the nodes' own ports, not believed from a ping that fails."""

import concurrent.futures
import json
import re

import pytest

from harness.cloud import PATIENT, Cloud

CLUSTERS = (("red", "acme"), ("blue", "umbrella"), ("green", "acme"))
CAPTURE = "/tmp/capture-{tap}.pcap"
MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")

# To an address that is nobody's, tied to the victim's MAC: so the frame goes to the victim if anything carries it there. What is given
# up after a while has begun before: a program alone takes a node seconds to start while all attack.
ATTACK = """
ip neigh replace 10.64.200.{n} lladdr {mac} dev eth0
ping -c 2 -i 0.2 -W 1 10.64.200.{n}
(exec 3<>/dev/tcp/10.64.200.{n}/22) & sleep 2; kill $!
for i in 1 2 3; do echo attack > /dev/udp/10.64.200.{n}/4791; done
timeout 3 ibv_rc_pingpong -g 1 -d rxe0 10.64.200.{n}
"""
SHOUT = """
ping -b -c 3 -i 0.2 -W 1 10.64.255.255
ping -c 2 -W 1 10.64.77.77
true
"""


@pytest.fixture(scope="module")
def cloud(module_lab):
    lab = module_lab(Cloud, hosts=2, images=("mpi",), cores=4, memory="3G", changes={"control": PATIENT}).up()
    for name, tenant in CLUSTERS:
        lab.spread(name, lab.hosts, tenant, memory="384M", image="mpi")
    for name, tenant in CLUSTERS:
        lab.ready(name, tenant, timeout=180, ready=2)
    yield lab
    lab.remove_all()


@pytest.fixture(scope="module")
def nodes(cloud):
    return [node | {"cluster_name": name, "tenant": tenant, "target": f"{name}[{node['rank']}]"}
            for name, tenant in CLUSTERS for node in cloud.nodes(name, tenant)]


def tap_of(cloud, node):
    xml = cloud.virsh(node["host"], "dumpxml", f"weft-{node['id']}")
    return re.search(r"<target dev='([^']+)'", xml.split("<interface")[1]).group(1)


def start_captures(cloud, nodes):
    for node in nodes:
        node["tap"] = tap_of(cloud, node)
        file = CAPTURE.format(tap=node["tap"])
        cloud.shell(node["host"], f"rm -f {file}; setsid tcpdump -U -i {node['tap']} -w {file} >/dev/null 2>{file}.log & echo $! > {file}.pid; "
                                  f"for i in $(seq 600); do [ -s {file} ] && exit; sleep 0.05; done; cat {file}.log >&2; exit 1")


def stop_captures(cloud, nodes):
    """For each node the lines of what passed its port, both ways."""
    seen = {}
    for node in nodes:
        file = CAPTURE.format(tap=node["tap"])
        cloud.shell(node["host"], f"kill $(cat {file}.pid)")
        seen[node["id"]] = cloud.shell(node["host"], f"tcpdump -e -nn -r {file} 2>/dev/null; rm -f {file} {file}.pid {file}.log").splitlines()
    return seen


def source(line):
    return MAC.search(line).group(0)


def inside(cloud, node, script):
    return cloud.run(node["target"], "bash", "-c", script, tenant=node["tenant"], check=False)


def test_nothing_crosses(cloud, nodes):
    start_captures(cloud, nodes)
    scripts = []
    for attacker in nodes:
        victims = [node for node in nodes if node["cluster_name"] != attacker["cluster_name"]]
        scripts.append("".join(ATTACK.format(n=10 + i, mac=victim["mac"]) for i, victim in enumerate(victims)) + SHOUT)
    with concurrent.futures.ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(lambda pair: inside(cloud, *pair), zip(nodes, scripts)))
    seen = stop_captures(cloud, nodes)
    cluster_of = {node["mac"]: node["cluster_name"] for node in nodes}
    for node in nodes:
        lines = seen[node["id"]]
        foreign = [line for line in lines if cluster_of.get(source(line), node["cluster_name"]) != node["cluster_name"]]
        assert not foreign, f"{node['target']} got {len(foreign)} packets of others: {foreign[:3]}"
        sent = [line for line in lines if source(line) == node["mac"]]
        heard = [line for line in lines if source(line) != node["mac"]]
        # The capture sees what it should: the attacks as they leave, and what the node's own cluster shouts.
        for kind in ("ICMP echo request", "Flags [S]", "ARP", ".4791", "10.64.255.255"):
            assert any(kind in line for line in sent), f"{node['target']} sent no {kind}"
        assert any("10.64.255.255" in line for line in heard), f"{node['target']} does not even hear its own cluster"


def test_the_own_cluster_is_reached_by_verbs(cloud, nodes):
    """rxe between the nodes of one cluster: so that silence between clusters means something."""
    first, second = nodes[:2]
    assert "rxe0" in inside(cloud, first, "ibv_devices").stdout
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        server = pool.submit(inside, cloud, first, "timeout 60 ibv_rc_pingpong -g 1 -d rxe0 -n 20")
        done = inside(cloud, second, "for i in $(seq 30); do ibv_rc_pingpong -g 1 -d rxe0 -n 20 red-0 && exit 0; sleep 1; done; exit 1")
        assert done.returncode == 0, done.stdout + done.stderr
        assert server.result().returncode == 0


def test_each_answers_as_itself(cloud, nodes):
    """The same address is another node in each cluster."""
    for node in nodes:
        told = inside(cloud, node, "ssh -o ConnectTimeout=20 10.64.0.1 hostname").stdout.strip()
        assert told == f"{node['cluster_name']}-0"


def test_hosts_carry_only_the_networks_of_their_nodes(cloud, nodes):
    for host in cloud.hosts:
        assert sorted(node["cluster_name"] for node in nodes if node["host"] == host) == ["blue", "green", "red"]
        vxlans = {cloud.client.cluster(node["cluster_name"], node["tenant"])["vxlan"] for node in nodes if node["host"] == host}
        assert cloud.network(host) == sorted(f"{kind}{vxlan}" for vxlan in vxlans for kind in ("weft", "wefv"))
        described = json.loads(cloud.exec(host, "ip", "-j", "-d", "link", "show", "type", "vxlan"))
        assert {link["linkinfo"]["info_data"]["id"] for link in described} == vxlans


def test_hosts_are_kept_out_of_the_nodes_ports(cloud, nodes):
    """Frames that a bridge keeps to itself would go to the host, and with a VXLAN packet in them into another cluster's network."""
    for node in nodes:
        port = f"/sys/class/net/{tap_of(cloud, node)}/brport/group_fwd_mask"
        assert cloud.exec(node["host"], "cat", port).strip() == "0xfffd", f"{node['target']} on {node['host']}"
