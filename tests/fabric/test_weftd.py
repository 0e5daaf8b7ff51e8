"""weftd over a real opensm: clusters come and go, things break, and in the end ports, switches, opensm, its file and the store agree.
Meanwhile `weft show` and the events tell what holds it up."""

import json

import pytest
from harness import invariants
from harness.fabric import SM, STANDBY
from harness.nets import fat_tree
from harness.wait import until
from weftsite import MLX5, Site, key
from test_drift import forget_tables, uplinks
from test_faults import CAPACITY
from test_managers import come_back, rules

HOSTS = 8
WIDE = {"cores": 4}  # one of them on a host


@pytest.fixture
def new_site(fabric, manager):
    """Starts weftd on it."""
    made = []

    def start(**options):
        made.append(Site(fabric, **options))
        made[-1].start()
        return made[-1]

    yield start
    for site in made:
        if site.process:
            site.stop()
        site.remove()


@pytest.fixture
def site(new_site):
    return new_site()


# --- from the beginning to the end ---


def test_clusters_come_grow_shrink_and_go(site):
    site.make("cfd", 3, **WIDE)
    site.make("sim", 6, "umbrella", cores=1)
    assert site.number("cfd") != site.number("sim", "umbrella")
    site.settle()
    site.client.scale("cfd", 5)
    site.ready("cfd", ready=5)
    site.settle()
    site.client.scale("cfd", 1)
    site.ready("cfd", ready=1)
    site.settle()
    site.stop()
    site.start()
    site.settle()
    site.remove_clusters("cfd")
    site.remove_clusters("sim", tenant="umbrella")
    site.settle()
    assert site.wish().partitions == {}


def test_the_partition_is_on_the_ports_before_a_node_is_ready(site):
    """Also when many come at once."""
    names = [f"c{number}" for number in range(8)]
    for name in names:
        site.client.create(name, 3, cores=1)
    for name in names:
        site.ready(name)
        tables = site.fabric.tables()
        for host in site.hosts_of(name):
            table = tables[site.fabric.net.port_guid(host)]
            assert key(site.number(name)) in table.keys and key(site.number(name)) in table.enforced_keys
    site.settle()


def test_a_whole_adapter_has_its_key_first(new_site):
    site = new_site(adapter=MLX5)
    site.make("cfd", 3, path="passthrough")
    assert site.first_keys("cfd") == {key(site.number("cfd"))}
    site.settle()
    site.master.kill()
    site.master.start()
    assert site.first_keys("cfd") == {key(site.number("cfd"))}
    ports = [site.fabric.net.port_guid(host) for host in site.hosts_of("cfd")]
    site.remove_clusters("cfd")
    site.settle()
    assert {site.fabric.tables(guid)[guid].own[0] for guid in ports} == {0x7FFF}
    site.make("next", 8, path="passthrough")
    assert site.first_keys("next") == {key(site.number("next"))}
    site.settle()


def test_virtual_ports_are_refused_where_no_manager_programs_them(new_site):
    site = new_site(adapter=MLX5 | {"vfs": 4})
    site.client.create("cfd", 2, path="sriov")
    site.wait_reason("cfd", "virtual functions of mlx5", "--path passthrough")
    assert site.client.cluster("cfd")["phase"] == "queued"
    site.make("sim", 2, path="auto")
    assert {node["path"] for node in site.client.nodes("sim")} != {"sriov"}
    site.remove_clusters("cfd", "sim")
    site.settle()


def test_what_is_shared(new_site, fabric):
    servers = [fabric.net.port_guid(name) for name in ("h7", "h8")]
    storage = {"name": "storage", "pkey": "0x7001", "servers": [f"0x{guid:016x}" for guid in servers], "clusters": "limited", "tenants": ["acme"]}
    site = new_site(shared=[storage])
    site.make("cfd", len(set(site.names) - {"h7", "h8"}), shared=["storage"], **WIDE)
    site.make("sim", 4, "umbrella")
    tables = fabric.tables()
    for guid in servers:
        assert 0xF001 in tables[guid].keys
    users = {fabric.net.port_guid(host) for host in site.hosts_of("cfd")}
    assert not users & set(servers), "a port cannot be both a full and a limited member"
    assert {guid for guid, table in tables.items() if 0x7001 in table.keys} == users
    site.settle()
    site.remove_clusters("cfd")
    site.remove_clusters("sim", tenant="umbrella")
    site.settle()
    assert site.wish().partitions == {0x7001: dict.fromkeys(servers, "full")}


def test_what_weft_fabric_tells(site):
    site.make("cfd", 3, **WIDE)
    shown = json.loads(site.cli("fabric", "show", "--json").stdout)
    assert shown["manager"]["way"] == "plugin" and shown["manager"]["master"] and shown["source"] == "manager"
    assert shown["no_port"] == [] and len(shown["no_host"]) == 1, "all but the manager's machine are hosts"
    told = json.loads(site.cli("fabric", "partitions", "--json").stdout)["partitions"]
    ours = {int(entry["pkey"], 16): {member["host"] for member in entry["members"]} for entry in told if entry["ours"]}
    assert ours == {site.number("cfd"): site.hosts_of("cfd")}
    (report,) = [entry for entry in json.loads(site.cli("doctor", "--json", check=False).stdout) if not entry.get("host")]
    of_fabric = [check for check in report["checks"] if check["check"] == "fabric ib0"]
    assert of_fabric and all(check["state"] == "ok" for check in of_fabric), of_fabric
    site.remove_clusters("cfd")


# --- opensm goes and comes ---


def test_opensm_is_killed_and_started_again(site):
    site.make("cfd", 3, **WIDE)
    site.master.kill()
    site.client.create("sim", 3, **WIDE)
    site.wait_reason("sim", "the subnet manager cannot be reached")
    site.client.delete("cfd")
    site.master.start()
    site.ready("sim")
    site.client.wait_gone("cfd")
    site.settle()


def test_the_socket_is_gone(site):
    site.make("cfd", 3, **WIDE)
    site.master.socket.unlink()
    site.stop()
    site.start()
    site.client.create("sim", 2, **WIDE)
    until(lambda: "subnet manager" in (site.client.cluster("sim")["reason"] or ""), "it is told why sim waits")
    site.master.kill()
    site.master.start()
    site.ready("sim")
    site.settle()


def test_the_standby_takes_over(new_fabric):
    fabric = new_fabric(fat_tree(2, 4, 2, managers=(SM, STANDBY)))
    first = fabric.manager(SM, plugin=True, options={"sm_priority": 5}).start()
    second = fabric.manager(STANDBY, plugin=True, options={"sm_priority": 3}).start(wait=False).wait_standby()
    site = Site(fabric, managers=(SM, STANDBY))
    site.start()
    try:
        site.make("cfd", 3, **WIDE)
        first.kill()
        second.wait_up()
        site.make("sim", 4, "umbrella")
        site.client.scale("cfd", 1)
        site.ready("cfd", ready=1)
        assert site.master is second
        site.settle()
        come_back(first)
        second.kill()
        until(lambda: rules(first), "the first rules again, with a file of long ago")
        site.settle()
        site.stop()
    finally:
        site.remove()


# --- ports, cables, switches ---


def test_a_port_never_answers(site, fabric):
    fabric.drop("h5", 100)
    site.client.create("cfd", HOSTS, **WIDE)
    site.wait_reason("cfd", f"port 0x{fabric.net.port_guid('h5'):016x}", "does not answer")
    site.make("sim", 2, labels={"host": "h2"})
    fabric.drop("h5", 0)
    site.ready("cfd")
    site.settle()


def test_a_port_flaps(site, fabric):
    site.make("cfd", HOSTS, **WIDE)
    for number in range(5):
        fabric.unlink("h5")
        if number == 2:
            site.client.create("sim", HOSTS, cores=2)
        fabric.relink("h5")
    site.ready("sim")
    site.settle()


def test_a_switch_reboots(site, fabric, manager):
    site.make("cfd", HOSTS, **WIDE)
    forget_tables(fabric, "leaf2")
    fabric.unlink("leaf2")
    manager.wait_up()
    site.client.create("sim", HOSTS, cores=2)
    site.wait_reason("sim", "port")
    fabric.relink("leaf2")
    site.ready("sim")
    site.ready("cfd")
    site.settle()


def test_the_fabric_splits_and_joins(site, fabric, manager):
    site.make("cfd", HOSTS, **WIDE)
    site.make("old", HOSTS, cores=1)
    for port in uplinks(fabric.net, "leaf2"):
        fabric.unlink("leaf2", port)
    manager.wait_up()
    site.client.delete("old")
    site.client.create("sim", HOSTS, cores=1, layout="spread")
    site.wait_reason("sim", "port")
    for port in uplinks(fabric.net, "leaf2"):
        fabric.relink("leaf2", port)
    site.ready("sim")
    site.client.wait_gone("old")
    site.settle()


@pytest.mark.parametrize("table", ["own", "enforced"])
def test_somebody_takes_a_key_away(site, fabric, table):
    site.make("cfd", HOSTS, **WIDE)
    guid = fabric.net.port_guid("h3")
    found = fabric.tables(guid)[guid]
    index = getattr(found, table).index(key(site.number("cfd")))
    fabric.put(guid, index, 0, table)
    site.wait_event("partition-repaired", f"0x{site.number('cfd'):04x}", "h3")
    site.settle()


@pytest.mark.parametrize("table", ["own", "enforced"])
def test_somebody_gives_a_key_away(site, fabric, table):
    """To a host that is no member: the key of a cluster, and one that nobody has."""
    site.make("cfd", 3, **WIDE)
    outsider = min(set(site.names) - site.hosts_of("cfd"))
    for index, number in (2, site.number("cfd")), (40, 0x0123):
        fabric.put(fabric.net.port_guid(outsider), index, key(number), table)
        site.wait_event("partition-repaired", f"0x{key(number):04x}", f"host {outsider} ")
    site.settle()
    site.remove_clusters("cfd")
    fabric.put(fabric.net.port_guid("h3"), 7, key(0x0124), table)
    site.wait_event("partition-repaired", f"0x{key(0x0124):04x}", "host h3 ")
    site.settle()


def test_a_limited_member_becomes_a_full_one(new_site, fabric):
    storage = {"name": "storage", "pkey": "0x7001", "servers": [f"0x{fabric.net.port_guid('h8'):016x}"], "clusters": "limited", "tenants": ["acme"]}
    site = new_site(shared=[storage])
    site.make("cfd", 2, shared=["storage"], **WIDE)
    user = min(site.hosts_of("cfd"))
    fabric.put(fabric.net.port_guid(user), 9, 0xF001)
    site.wait_event("partition-repaired", "0xf001", f"host {user} ")
    site.settle()


# --- the file ---


def test_the_managed_file_is_edited_by_hand(site, manager):
    site.make("cfd", 3, **WIDE)
    site.make("sim", 3, "umbrella", **WIDE)
    text = manager.partitions.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if f"=0x{site.number('cfd'):04x}" in line)
    del lines[at + 1]  # its first member
    manager.write_partitions("".join(lines))
    manager.hangup()
    site.settle()
    manager.write_partitions(text.split("# >>>")[0] + "storage=0x7005 : ALL=limited ;\n")
    manager.hangup()
    site.wait_event("partition-repaired")
    until(lambda: not site.differences_of_weft(), "weft's part is there again")
    assert "storage=0x7005" in manager.partitions.read_text(encoding="utf-8")


def test_the_file_cannot_be_written(site, fabric, manager):
    place = manager.partitions.parent
    site.make("cfd", 3, **WIDE)
    fabric.run("mount", "--bind", place, place)
    fabric.run("mount", "-o", "remount,ro,bind", place)
    site.client.create("sim", 3, **WIDE)
    site.wait_reason("sim", "partitions.conf")
    fabric.run("umount", place)
    site.ready("sim")
    site.settle()


def test_a_mark_is_missing(site, manager):
    site.make("cfd", 3, **WIDE)
    text = manager.partitions.read_text(encoding="utf-8")
    manager.write_partitions(text.replace("# <<< weft <<<\n", ""))
    site.client.create("sim", 3, **WIDE)
    site.wait_reason("sim", "mark")
    manager.write_partitions(text)
    site.ready("sim")
    site.settle()


def test_the_file_has_lost_wefts_part(site, manager):
    """opensm still has the partitions in memory, but would forget them with its next sweep: they are written again before it."""
    text = manager.partitions.read_text(encoding="utf-8")
    site.make("cfd", 3, **WIDE)
    manager.write_partitions(text)
    site.wait_event("partition-repaired")
    site.settle()


# --- tables that are full ---


def test_placement_knows_when_a_ports_table_is_full(site, fabric, manager):
    """The site's own partitions take all places but one."""
    text = manager.partitions.read_text(encoding="utf-8")
    many = "".join(f"p{number}=0x{number:04x} : ALL=limited ;\n" for number in range(0x5000, 0x5000 + CAPACITY - 2))
    manager.write_partitions(many + text)
    manager.sweep()
    until(lambda: len(site.client.get("/v1/fabrics/ib0/partitions")["partitions"]) == CAPACITY - 1, "weft has seen them")
    site.make("one", 1, labels={"host": "h1"})
    site.client.create("two", 1, labels={"host": "h1"})
    site.wait_reason("two", "P_Key")
    assert site.client.cluster("two")["phase"] == "queued"
    site.remove_clusters("one")
    site.ready("two")
    manager.write_partitions(manager.partitions.read_text(encoding="utf-8").replace(many, ""))
    manager.sweep()
    until(lambda: not site.differences_of_weft(), "all agree but the switches, which opensm leaves what was the site's")


# --- without the plugin ---


@pytest.fixture
def by_way(new_fabric):
    """weftd beside an opensm without the plugin."""
    made = []

    def start(way, **options):
        fabric = new_fabric()
        fabric.manager().start()
        made.append(Site(fabric, way, **options))
        made[-1].start()
        return made[-1]

    yield start
    for site in made:
        site.stop()
        site.remove()


def test_by_the_file_alone(by_way):
    site = by_way("file")
    site.make("cfd", 3, **WIDE)
    site.make("sim", 4, "umbrella")
    site.settle()
    site.client.scale("cfd", 1)
    site.ready("cfd", ready=1)
    site.master.kill()
    site.client.create("next", 2)
    site.wait_reason("next", "the subnet manager cannot be reached")
    site.master.start()
    site.ready("next")
    site.settle()
    site.remove_clusters("cfd", "next")
    site.remove_clusters("sim", tenant="umbrella")
    site.settle()
    assert site.wish().partitions == {}


def test_by_the_file_a_key_that_was_given_away_stays_until_opensm_starts_again(by_way):
    """Told by its file, opensm does not look at tables that it knows: it is not said to be repaired again and again."""
    site = by_way("file")
    site.make("cfd", 2, **WIDE)
    outsider = min(set(site.names) - site.hosts_of("cfd"))
    site.fabric.put(site.fabric.net.port_guid(outsider), 2, key(site.number("cfd")))
    what = f"host {outsider} (mlx4_0) has P_Key 0x{key(site.number('cfd')):04x}"
    site.wait_event("partition-repaired", what)
    until(lambda: what in site.cli("doctor", check=False).stdout, "weft doctor tells of it")
    site.master.kill()
    site.master.start()
    until(lambda: what not in site.cli("doctor", check=False).stdout, "weft doctor has seen it go")
    assert len(site.wait_event("partition-repaired", what)) == 1
    site.settle()


def test_by_a_pool(by_way):
    """All its keys are on all ports; who holds which is weft's to know, and clusters come and go without opensm."""
    first, last = 0x0010, 0x001F
    site = by_way("pool", pkeys=(first, last))
    pool = {key(number) for number in range(first, last + 1)}
    site.make("cfd", 3, **WIDE)
    tables = site.fabric.tables()
    assert {frozenset(tables[site.fabric.net.port_guid(name)].keys) for name in site.names} == {frozenset(pool | {0x7FFF})}
    site.master.wait_quiet()  # ports have their keys before a sweep ends
    sweeps = site.master.sweeps()
    site.make("sim", 4, "umbrella")
    told = {entry["cluster"]: {member["host"] for member in entry["members"]}
            for entry in site.client.get("/v1/fabrics/ib0/partitions")["partitions"] if entry["cluster"]}
    assert told == {"cfd": site.hosts_of("cfd"), "sim": site.hosts_of("sim", "umbrella")}
    site.remove_clusters("cfd")
    site.remove_clusters("sim", tenant="umbrella")
    assert site.master.sweeps() == sweeps and not invariants.ledger(site.dump())


def test_what_is_shared_by_a_pool(by_way):
    """Its number lies outside of those of clusters, and is on all ports as they are."""
    site = by_way("pool", pkeys=(0x0010, 0x001F), shared=[{"name": "scratch", "pkey": "0x7002", "clusters": "full", "tenants": ["acme"]}])
    site.make("cfd", 3, shared=["scratch"], **WIDE)
    site.make("sim", 2, "umbrella")
    tables = site.fabric.tables()
    assert all(key(0x7002) in tables[site.fabric.net.port_guid(name)].keys for name in site.names)
    members = {int(entry["pkey"], 16): {member["host"] for member in entry["members"]}
               for entry in site.client.get("/v1/fabrics/ib0/partitions")["partitions"]}
    assert members[0x7002] == site.hosts_of("cfd")
    site.remove_clusters("cfd")
    site.remove_clusters("sim", tenant="umbrella")
