"""What must always be true (docs/architecture.md), computed from the dump and the world alone, not by weft's own code.

Each function returns the list of what is wrong, in words; an empty one is what the tests want to see."""

from collections import Counter, defaultdict
from urllib.parse import urlsplit

from .world import Member

SYSTEM = "-system"  # the tenant of the system's own clusters
QUOTAS = ("clusters", "nodes", "cores", "memory", "gpus", "vfs", "storage")


# --- the ledger: claims and records explain each other, at any moment ---


def node_claims(node, hosts):
    """(resource, amount) that a node must hold, from its own record; amount 0: for itself alone. On its way it has both places."""
    claims = place_claims(node, hosts) + [(f"mac/{node['mac']}", 0)]
    if node.get("target"):
        claims += [claim for claim in place_claims(node | {"devices": [], "gpus": []} | node["target"], hosts) if "/guid/" not in claim[0]]
    return claims


def place_claims(node, hosts):
    place = f"host/{node['host']}"
    host = hosts[node["host"]]
    claims = [(f"{place}/core/{core}", 0) for core in node["cores"]]
    claims += [(f"{place}/numa/{numa}/pages/{size_text(size)}", pages) for numa, size, pages in node["memory"]]
    for _rail, hca, vf, guid in node.get("devices", []):
        if node.get("bandwidth"):
            claims.append((f"{place}/lane/{hca}/{node['sl']}", node["bandwidth"]))
        if vf >= 0:
            claims += [(f"{place}/vf/{hca}/{vf}", 0), (f"fabric/{host['fabric']}/guid/{guid}", 0)]
        else:
            claims.append((f"{place}/hca/{hca}", 0))
            claims += [(f"{place}/vf/{hca}/{i}", 0) for i in range(vfs_of(host)[hca])]
    return claims + [(f"{place}/gpu/{gpu}", 0) for gpu in node.get("gpus", [])]


def host_claims(host):
    known = sum(numa["cores"] for numa in host.get("numa", []))
    kind = "vfs" if not known or any(vfs_of(host).values()) else "bare"
    ports = [(f"fabric/{host['fabric']}/guid/{hca['port_guid']}", 0) for hca in host.get("hcas", []) if "port_guid" in hca]
    return [*ports, (f"fabric/{host['fabric']}/hosts/{kind}", 1)]


def vfs_of(host):
    return {hca["name"]: hca.get("vfs", 0) for hca in host.get("hcas", [])}


UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size_text(size):
    unit = next((unit for unit in "GMK" if size % UNITS[unit] == 0), "")
    return f"{size // UNITS[unit]}{unit}" if unit else str(size)


def cluster_claims(cluster):
    groups = [{"gpus": 0, "rails": 0} | group for group in cluster["groups"]]
    demand = {
        "clusters": 1,
        "nodes": sum(g["count"] for g in groups),
        "cores": sum(g["count"] * g["cores"] for g in groups),
        "memory": sum(g["count"] * (g["memory"] + cluster.get("shm", 0)) for g in groups),
        "storage": sum(g["count"] * g.get("disk", 0) for g in groups),
        "gpus": sum(g["count"] * g["gpus"] for g in groups),
        "vfs": sum(g["count"] * g["rails"] for g in groups if not (cluster.get("bridged") and g.get("path", "auto") == "auto")),
    }
    if cluster["tenant"] == SYSTEM:  # counts in no quota, and keeps nobody from removing its image
        return [(f"cluster/{cluster['id']}", 0)]
    images = Counter(group["image"] for group in groups)
    shares = [(f"tenant/{cluster['tenant']}/{word}", demand[word]) for word in QUOTAS if demand[word]]
    return [(f"cluster/{cluster['id']}", 0)] + shares + [(f"image/{image}", count) for image, count in images.items()]


def saved_max(size):
    return size + size // 64 + (64 << 20)


def checkpoint_storage(checkpoint):
    """Bytes of its files; while it is made, the most that they may have."""
    files = [node[part]["size"] for node in checkpoint.get("nodes", []) for part in ("saved", "disk") if node.get(part)]
    if files or checkpoint.get("state") == "failed":
        return sum(files)
    groups = checkpoint["wish"]["groups"]
    return sum(g["count"] * (saved_max(g["memory"]) + (saved_max(g["disk"]) if g.get("disk") else 0)) for g in groups)


def answer_claims(dump):
    """What is kept of answers to a tenant, by their bytes; an operator's are not bounded."""
    for key, record in dump.records.get("request", {}).items():
        if record["scope"]:
            body = record["value"]["body"]
            yield f"request {key}", f"tenant/{record['scope']}/answers", 1024 + len((body or "").encode())


def template_claims(template):
    if not template.get("tenant"):
        return []
    tenant, stored = template["tenant"], 0 if template["state"] == "failed" else template.get("size", 0) + template.get("disk_size", 0)
    bytes_of = "storage" if template.get("source") else "templates"
    counted = [] if template.get("source") else [(f"tenant/{tenant}/template-count", 1)]
    return counted + ([(f"tenant/{tenant}/{bytes_of}", stored)] if stored else [])


def checkpoint_claims(checkpoint):
    images = Counter(group["image"] for group in checkpoint["wish"]["groups"])
    counted = [] if checkpoint.get("hidden") else [(f"tenant/{checkpoint['tenant']}/checkpoints", 1)]
    stored = checkpoint_storage(checkpoint)
    if stored:
        counted.append((f"tenant/{checkpoint['tenant']}/storage", stored))
    return counted + [(f"image/{image}", count) for image, count in images.items()]


def primed_claims(primed):
    place = f"host/{primed['host']}/numa/{primed['numa']}"
    return [(f"{place}/primed/{primed['template']}/{primed['tenant']}", 0), (f"{place}/pages/{size_text(primed['page_size'])}", primed["pages"])]


def principal_claims(principal):
    unix = [(f"unix/{principal['unix_user']}", 0)] if principal.get("unix_user") else []
    return unix + ([(f"tenant/{principal['tenant']}/principals", 1)] if principal.get("tenant") else [])


def expected_claims(dump):
    """(holder, resource, amount) of everything that the records say they hold."""
    hosts = dump.values("host")
    makers = {
        "fabric": lambda value: [(f"fabric/{value['name']}/pkey/{int(shared['pkey'], 16)}", 0) for shared in value.get("shared", [])],
        "host": host_claims,
        "node": lambda value: node_claims(value, hosts),
        "cluster": cluster_claims,
        "cluster-status": lambda value: [(f"fabric/{value['fabric']}/pkey/{value['pkey']}", 0)] if value.get("pkey") else [],
        "checkpoint": checkpoint_claims,
        "template": template_claims,
        "primed": primed_claims,
        "principal": principal_claims,
        "reservation": lambda _: [("reservations", 1)],
        "token": lambda value: [(f"token/{value['hash']}", 0), (f"principal/{value['principal']}/tokens", 1)],
    }
    for kind, make in makers.items():
        for key, value in dump.values(kind).items():
            yield from ((f"{kind} {key}", resource, amount) for resource, amount in make(value))
    yield from answer_claims(dump)


def ledger(dump):
    """What must be true at any moment."""
    wrong = orphans(dump)
    if wrong:
        return wrong
    expected = list(expected_claims(dump))
    held = set(dump.held())
    wrong += [f"{holder} does not hold {resource} ({amount})" for holder, resource, amount in set(expected) - held]
    wrong += [f"{holder} holds {resource} ({amount}), which its record does not say" for holder, resource, amount in held - set(expected)]

    alone = Counter(resource for _, resource, amount in expected if not amount)
    wrong += [f"{resource} is used {count} times" for resource, count in alone.items() if count > 1]
    owners = {resource: holder for holder, resource, amount in expected if not amount}
    if owners != dump.owners:
        wrong.append(f"owners are {dump.owners}, not {owners}")

    sums = Counter()
    for _, resource, amount in expected:
        if amount:
            sums[resource] += amount
    if dump.meters != dict(sums):
        wrong.append(f"meters {dump.meters} are not the sums {dict(sums)}")
    return wrong + capacity(dump) + neighbours(dump)


def neighbours(dump):
    """Who wants its hosts for itself alone has them so, and who must be apart is."""
    there = defaultdict(set)
    hosts = defaultdict(set)
    alone = defaultdict(set)
    for node in dump.values("node").values():
        for place in (node, node.get("target") or node):
            there[place["host"]].add(node["cluster"])
            hosts[node["cluster"]].add(place["host"])
            if node.get("exclusive"):
                alone[place["host"]].add(node["cluster"])
    wrong = [f"host {name} is exclusively of {alone[name]}, and has nodes of {there[name]}" for name in alone if len(there[name]) > 1]
    clusters = dump.values("cluster")
    for key, cluster in clusters.items():
        for name in cluster.get("apart", []):
            other = clusters.get(f"{cluster['tenant']}/{name}")
            both = hosts[cluster["id"]] & hosts[other["id"]] if other else set()
            wrong += [f"clusters {key} and {name} are both on {host}" for host in both]
    return wrong


def capacity(dump):
    """What nodes hold is there, and no more than there is."""
    wrong = []
    hosts = dump.values("host")
    pages = Counter()
    for key, node in [(key, place) for key, value in dump.values("node").items() for place in (value, value.get("target")) if place]:
        host = hosts[node["host"]]
        for numa, size, count in node["memory"]:
            pages[node["host"], numa, size] += count
        there = {gpu["name"] for gpu in host.get("gpus", [])}
        wrong += [f"node {key} holds GPU {gpu}, which its host has not" for gpu in node.get("gpus", []) if gpu not in there]
        vfs = vfs_of(host)
        wrong += [f"node {key} holds {device}, which its host has not"
                  for device in node.get("devices", []) if device[2] >= vfs.get(device[1], -1)]
        wrong += [f"node {key} holds core {core} of {node['host']}" for core in node["cores"] if core not in free_cores(host)]
    for primed in dump.values("primed").values():
        pages[primed["host"], primed["numa"], primed["page_size"]] += primed["pages"]
    for (name, numa, size), used in pages.items():
        count = hosts[name]["numa"][numa]["pages"].get(size_text(size), 0)
        if used > count:
            wrong.append(f"host {name} numa {numa}: {used} pages of {size} in use, it has {count}")
    return wrong


def free_cores(host):
    """All but the first ones of each NUMA node, which are the host's own."""
    first, found = 0, set()
    for numa in host["numa"]:
        found |= set(range(first + host.get("housekeeping", 0), first + numa["cores"]))
        first += numa["cores"]
    return found


def orphans(dump):
    """Nothing is left of what is gone."""
    wrong = []
    clusters = dump.values("cluster")
    ids = {cluster["id"] for cluster in clusters.values()}
    wrong += [f"status {key} without a cluster" for key in dump.values("cluster-status") if key not in clusters]
    hosts = dump.values("host")
    wrong += [f"node {key} on host {node['host']}, which is not there" for key, node in dump.values("node").items() if node["host"] not in hosts]
    wrong += [f"node {key} without its cluster" for key, node in dump.values("node").items() if node["cluster"] not in ids]
    wrong += [f"status of host {key}, which is not there" for key in dump.values("host-status") if key not in hosts]
    principals = dump.values("principal")
    wrong += [f"token {key} of nobody" for key, token in dump.values("token").items() if token["principal"] not in principals]
    tenants = dump.values("tenant")
    wrong += [f"cluster {key} of no tenant" for key, cluster in clusters.items() if cluster["tenant"] not in {*tenants, SYSTEM}]
    wrong += [f"primed memory {key} on host {primed['host']}, which is not there" for key, primed in dump.values("primed").items()
              if primed["host"] not in hosts]
    wrong += moves(dump, ids)
    ranks = Counter((n["cluster"], n["rank"]) for n in dump.values("node").values() if n["phase"] != "stopping")
    wrong += [f"rank {rank} of cluster {cluster} {count} times" for (cluster, rank), count in ranks.items() if count > 1]
    return wrong


def moves(dump, clusters):
    """A node that is on its way has its wish, which names where to; a wish is of a cluster that is there."""
    nodes = dump.values("node")
    wishes = dump.records.get("move", {})
    wrong = [f"move {key} of no cluster" for key, record in wishes.items() if record["value"]["cluster"] not in clusters]
    going = {(node["cluster"], node["rank"]): node for node in nodes.values() if node.get("target")}
    for (cluster, rank), node in going.items():
        wish = wishes.get(f"{cluster}/{rank}")
        if not wish or wish["value"]["node"] != node["id"] or wish["place"] != node["target"]["host"]:
            wrong.append(f"node {node['id']} is on its way to {node['target']['host']}, and its wish is {wish}")
    wrong += [f"move {key} is on its way to {record['place']}, and no node is" for key, record in wishes.items()
              if record["place"] and not nodes.get(record["value"]["node"], {}).get("target")]
    return wrong


# --- the world: after convergence it is what the store says ---


def world(dump, world, lost=()):
    """lost: hosts that cannot be reached, where stale domains may wait until they come back."""
    wrong = []
    doomed = failed_clones(dump)
    nodes = {key: node for key, node in dump.values("node").items() if node["cluster"] not in doomed}
    wanted, may = defaultdict(set), defaultdict(set)
    for node in dump.values("node").values():
        (may if node["cluster"] in doomed else wanted)[node["host"]].add(f"weft-{node['id']}")
    running = world.domains()
    for host in wanted.keys() | running.keys():
        ours = {name for name in running.get(host, set()) if name.startswith("weft-")}
        wrong += [f"domain {name} does not run on {host}" for name in sorted(wanted[host] - ours)]
        if host not in lost:
            wrong += [f"domain {name} runs on {host}, and no node explains it" for name in sorted(ours - wanted[host] - may[host])]
    stopped = {(host, name) for host, names in world.domains("off").items() for name in names if name.startswith("weft-")}
    wrong += [f"domain {name} lies stopped on {host}" for host, name in sorted(stopped) if host not in lost]
    wrong += [f"node {key} is {node['phase']}" for key, node in nodes.items() if node["phase"] != "ready"] + met(dump, nodes) + boots(dump, world)
    wrong += [f"domain {name} is halted on {host}" for state in ("in", "out") for host, names in world.domains(state).items()
              if host not in lost for name in names]
    wrong += [f"node {key} is on its way to {node['target']['host']}" for key, node in nodes.items() if node.get("target")]
    wrong += [f"node {key} is at rest" for key, node in nodes.items() if node.get("still")]
    wrong += [f"move {key} has not ended" for key in dump.values("move")]
    evicting = {name for name, host in dump.values("host").items() if host.get("evicting")}
    wrong += [f"node {key} is still on {node['host']}" for key, node in nodes.items() if node["host"] in evicting]
    wrong += marks(dump, world, lost)
    return wrong + partitions(dump, world) + networks(dump, world, lost) + images(dump, world, lost) + templates(dump, world, lost) + counts(dump)


def marks(dump, world, lost=()):
    """Every mark is of this site, and of a stay that a record tells of; so no host is held."""
    own = dump.values("meta")["site"]["id"]
    stays = {(node["host"], key, node.get("placement")) for key, node in dump.values("node").items()}
    wrong = [f"host {name} is held: {status.get('reason')}" for name, status in dump.values("host-status").items() if status["state"] == "held"]
    for host, kind, name, site, stay in sorted(world.marks()):
        if host in lost:
            continue
        if site != own:
            wrong.append(f"{kind} {name} on {host} is marked as of site {site}, not {own}")
        if kind == "node" and (host, name, stay) not in stays:
            wrong.append(f"node {name} on {host} is marked as of stay {stay}, and no record tells of that")
    ended = dump.values("ended")
    wrong += [f"node {key} is there, and has ended" for key, node in dump.values("node").items() if f"node/{key}/{node.get('placement')}" in ended]
    return wrong


def address(host):
    """How the others reach it: as in its URI unless told."""
    return host.get("address") or urlsplit(host.get("uri", "")).hostname or host["name"]


def networks(dump, world, lost=()):
    """Each host has the networks of the clusters that have nodes there, each with all other hosts of the cluster as peers."""
    hosts = dump.values("host")
    places = defaultdict(set)
    for node in dump.values("node").values():
        places[node["cluster"]].add(node["host"])
    wanted = {}
    for status in dump.values("cluster-status").values():
        for host in places[status["cluster"]]:
            peers = sorted(address(hosts[other]) for other in places[status["cluster"]] if other != host)
            wanted[host, status.get("vxlan")] = (status["cluster"], peers)
    found = world.networks()
    wrong = [f"network {place} is {found.get(place)}, not {network}" for place, network in wanted.items() if found.get(place) != network]
    return wrong + [f"network {place} {found[place]} is of no cluster there" for place in found.keys() - wanted.keys() if place[0] not in lost]


def images(dump, world, lost=()):
    """What a host has of images is some image's, and what its nodes start from is there."""
    files = {name: {image[part]["digest"] for part in ("disk", "kernel", "initrd") if image.get(part)}
             for name, image in dump.values("image").items()}
    named = set().union(*files.values()) | {template["digest"] for template in dump.values("template").values() if "digest" in template}
    found = world.images()
    wrong = [f"image {digest} on {host} is nobody's" for host, digests in found.items() if host not in lost for digest in digests - named]
    for key, node in dump.values("node").items():
        missing = files.get(node.get("image"), set()) - found.get(node["host"], set())
        wrong += [f"node {key} on {node['host']} without image {digest}" for digest in missing]
    return wrong


def templates(dump, world, lost=()):
    """Memory that nodes are forked from is some record's; what is being made has its cluster; who was forked knows who it is."""
    records, clusters = dump.values("primed"), dump.values("cluster")
    wrong = [f"memory {memory} on {host} is nobody's" for host, found in world.primed().items() if host not in lost
             for memory in found if records.get(memory, {}).get("host") != host]
    statuses = {cluster["id"]: dump.values("cluster-status").get(key, {}) for key, cluster in clusters.items()}
    for key, template in dump.values("template").items():
        if "source" in template:  # a clone's own, until it is ready
            status = statuses.get(template["cluster"])
            if status is None or status.get("cloned"):
                wrong.append(f"template {key} is kept for clone {template['cluster']}, which {'is ready' if status else 'is gone'}")
            continue
        made = f"{SYSTEM}/template-{key}" in clusters
        if (template["state"] == "capturing") != made:
            wrong.append(f"template {key} is {template['state']}, and its cluster is {'there' if made else 'not there'}")
    wrong += [f"node {key} was forked and does not know who it is" for key, node in dump.values("node").items()
              if world.is_blank(node["host"], f"weft-{key}")]
    return wrong


def failed_clones(dump):
    """Ids of those that could not be forked from what was captured; they stay so until they are deleted."""
    return {status["cluster"] for key, status in dump.values("cluster-status").items()
            if status["phase"] == "failed" and not status.get("cloned") and "clone_of" in dump.values("cluster").get(key, {})}


def met(dump, nodes):
    """Who is ready has met all members of now."""
    generations = {status["cluster"]: status.get("generation", 0) for status in dump.values("cluster-status").values()}
    return [f"node {key} has met {node.get('met', 0)} of {generations[node['cluster']]}"
            for key, node in nodes.items() if node.get("met", 0) != generations[node["cluster"]]]


def boots(dump, world):
    """… since its guest last began anew. One that a real guest program answers for has this machine's boot."""
    reboots = world.reboots()
    told = {key: (node.get("boot", ""), f"fake-{reboots[node['host'], 'weft-' + key]}") for key, node in dump.values("node").items()}
    return [f"node {key} has met the others in boot {boot}, and is in {now}"
            for key, (boot, now) in told.items() if boot.startswith("fake-") and boot != now]


def members_of(dump):
    """{cluster id: {Member}}: a virtual function of mlx5 is a port of its own, one of mlx4 uses its host's."""
    hosts = dump.values("host")
    members = defaultdict(set)
    for node in dump.values("node").values():
        hcas = {hca["name"]: hca for hca in hosts[node["host"]].get("hcas", [])}
        for _rail, name, vf, guid in node.get("devices", []):
            virtual = 0 if hcas[name]["driver"] == "mlx4" else int(guid, 16)
            members[node["cluster"]].add(Member(int(hcas[name]["port_guid"], 16), virtual, "full", 0 if vf < 0 or virtual else -1))
    return members


def shared_partitions(dump):
    """{number: (name, {Member})}: the servers, and the ports of all clusters that asked and may."""
    members = members_of(dump)
    statuses = dump.values("cluster-status")
    found = {}
    for fabric in dump.values("fabric").values():
        for shared in fabric.get("shared", []):
            ports = {Member(int(guid, 16), 0, "full", -1) for guid in shared["servers"]}
            servers = {member.port for member in ports}
            for key, cluster in dump.values("cluster").items():
                allowed = not shared.get("tenants") or cluster["tenant"] in shared["tenants"]
                if shared["name"] in cluster.get("shared", []) and allowed and statuses.get(key, {}).get("fabric") == fabric["name"]:
                    ports |= {Member(m.port, m.virtual, shared["clusters"], -1) for m in members[cluster["id"]]
                              if m.virtual or m.port not in servers}
            found[int(shared["pkey"], 16)] = (f"weft-shared-{shared['name']}", ports)
    return found


def resting(dump):
    """A number rests on a fabric that is there, and nobody has had it since before it was freed."""
    wrong = []
    for key, rest in dump.values("pkey-rest").items():
        fabric, number = key.split("/")
        if fabric not in dump.values("fabric"):
            wrong.append(f"number {number} rests on fabric {fabric}, which is not there")
        wrong += [f"number {number} of {fabric} was freed at {rest['freed']}, and {name} has it" for name, status in dump.values("cluster-status").items()
                  if (status.get("fabric"), status.get("pkey")) == (fabric, int(number, 16)) and status["since"] < rest["freed"]]
    return wrong


def partitions(dump, world):
    wrong = resting(dump)
    members = members_of(dump)
    wanted = shared_partitions(dump)
    for status in dump.values("cluster-status").values():
        if status.get("pkey"):
            wanted[status["pkey"]] = (f"weft-{status['cluster']}", members[status["cluster"]])
    found = {number: p for number, p in world.partitions().items() if p.name.startswith("weft-")}
    wrong += [f"partition 0x{number:04x} {found[number].name} is of no cluster" for number in found.keys() - wanted.keys()]
    for number, (name, ports) in wanted.items():
        if number not in found:
            wrong.append(f"partition 0x{number:04x} of {name} is not in the fabric")
            continue
        if found[number].name != name or found[number].members != ports:
            wrong.append(f"partition 0x{number:04x} is {found[number]}, not {name} {ports}")
    return wrong


def counts(dump):
    """Every cluster that is not waiting for room has the nodes that it asked for."""
    wrong = []
    nodes = Counter(node["cluster"] for node in dump.values("node").values())
    statuses = dump.values("cluster-status")
    for key, cluster in dump.values("cluster").items():
        status = statuses.get(key)
        if not status:
            wrong.append(f"cluster {key} has no status yet")
        elif cluster.get("deleted"):
            wrong.append(f"cluster {key} is still being deleted")
        elif status["phase"] in ("queued", "preempted", "failed"):
            continue
        elif status["phase"] != "ready":
            wrong.append(f"cluster {key} is {status['phase']}: {status.get('reason')}")
        else:
            wish = sum(group["count"] for group in cluster["groups"])
            seen = (nodes[cluster["id"]], status.get("nodes", 0), status.get("ready", 0))
            if seen != (wish, wish, wish):
                wrong.append(f"cluster {key} wants {wish} nodes; rows, nodes, ready are {seen}")
    return wrong


# --- usage: each node is paid for once, from its claim to its release ---


class UsageBook:
    """Remembers every node that was ever seen, and checks that its intervals are whole."""

    def __init__(self):
        self.since = {}

    def look(self, dump):
        wrong = []
        alive = dump.values("node")
        intervals = defaultdict(list)
        for key, usage in dump.values("usage").items():
            intervals[usage["node"]].append(usage)
        for key, node in alive.items():
            first = min((usage["start"] for usage in intervals[key]), default=node["since"])
            if self.since.setdefault(key, first) != first:
                wrong.append(f"node {key} changed its start from {self.since[key]} to {first}")
        for node, found in intervals.items():
            wrong += [f"usage of {node} ends before it starts" for usage in found if usage["end"] < usage["start"]]
            found.sort(key=lambda usage: usage["start"])
            # One that was moved is paid for by the place, without a gap.
            begins = [usage["start"] for usage in found[1:]] + ([alive[node]["since"]] if node in alive else [])
            wrong += [f"node {node} is paid for until {usage['end']}, and anew from {begin}"
                      for usage, begin in zip(found, begins) if not usage["end"] <= begin <= usage["end"] + 1]
            if found and node in self.since and found[0]["start"] != self.since[node]:
                wrong.append(f"usage of {node} starts at {found[0]['start']}, it was claimed at {self.since[node]}")
        paid = {node for node, found in intervals.items() if found}
        wrong += [f"node {key} is gone, and nobody pays for it" for key in self.since.keys() - alive.keys() - paid]
        return wrong


def converged(weft, lost=()):
    """What still keeps the site from being as wished; empty when it is."""
    dump = weft.dump()
    return ledger(dump) + world(dump, weft.world, lost)
