"""The guests that weft gave to hosts, started by virsh as they are: same definitions, seeds and networks, and the same readiness."""

import concurrent.futures
import json
import time
from pathlib import Path

from harness.lab import SWITCH

POOL = "/var/lib/libvirt/images/weft"
READY = Path(__file__).resolve().parent / "ready.py"


def keep(cloud, name):
    """What weft gave to each host, as libvirt has it."""
    nodes = cloud.nodes(name)
    domains = [{"host": node["host"], "name": f"weft-{node['id']}", "rank": node["rank"],
                "xml": cloud.virsh(node["host"], "dumpxml", f"weft-{node['id']}")} for node in nodes]
    networks = []
    for host in cloud.hosts:
        for network in cloud.virsh(host, "net-list", "--name").split():
            networks.append({"host": host, "name": network, "xml": cloud.virsh(host, "net-dumpxml", network)})
    for domain in domains:
        cloud.shell(domain["host"], f"cp {POOL}/{domain['name']}.seed /tmp/{domain['name']}.seed")
    return domains, networks


def _roster(domains, rank):
    lines = ["generation 1", f"self {rank}"]
    lines += [f"node {d['rank']} n-{d['rank']} 10.64.0.{d['rank'] + 1} 1" for d in domains]
    return "\n".join(lines) + "\n"


def _begin(cloud, domain):
    cloud.virsh(domain["host"], "create", "/dev/stdin", text=domain["xml"])


def by_hand(cloud, domains, networks, at_once):
    """The same guests by virsh, up to the same readiness."""
    for network in networks:
        cloud.virsh(network["host"], "net-create", "/dev/stdin", text=network["xml"])
    for domain in domains:
        cloud.shell(domain["host"], f"cp /tmp/{domain['name']}.seed {POOL}/")
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(len(domains) if at_once else 1) as pool:
        list(pool.map(lambda domain: _begin(cloud, domain), domains))
    plan = [{"uri": f"qemu+tcp://10.77.0.{10 + int(d['host'][1:])}/system", "name": d["name"], "roster": _roster(domains, d["rank"])} for d in domains]
    cloud.exec(SWITCH, "/usr/bin/python3", str(READY), text=json.dumps(plan), timeout=600)
    took = time.monotonic() - began
    for domain in domains:
        cloud.virsh(domain["host"], "destroy", domain["name"])
        cloud.shell(domain["host"], f"rm -f {POOL}/{domain['name']}.seed")
    for network in networks:
        cloud.virsh(network["host"], "net-destroy", network["name"])
    return took
