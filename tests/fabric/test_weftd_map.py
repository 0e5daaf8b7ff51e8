"""weftd takes what hosts do not tell from opensm's map, and compares what opensm says with what the ports have."""

import pytest
from harness.fabric import SM, umad2sim
from harness.wait import until
from harness.weft import build_folder
from weftsite import MLX4, Site, key


class VagueSite(Site):
    """Hosts tell neither their leaf nor which port is theirs."""

    def _host(self, name, adapter):
        description = super()._host(name, adapter)
        del description["leaf"], description["hcas"][0]["port_guid"]
        return description


@pytest.fixture(params=["plugin", "file"])
def site(request, new_fabric):
    fabric = new_fabric()
    fabric.manager(SM, plugin=request.param == "plugin").start()
    made = VagueSite(fabric, way=request.param, adapter=MLX4)
    made.start()
    yield made
    if made.process:
        made.stop()
    made.remove()


def answered(ask):
    """Opening a port of the simulator now and then fails, and weftd then says so: ask again."""
    return until(lambda: (answer := ask()).status == 200 and answer.json, lambda: ask().text)


def ports(site):
    return {port["host"]: port for port in answered(lambda: site.client.request("GET", "/v1/fabrics/ib0/tables"))["ports"]}


def found(site):
    return {host["name"]: host["hcas"][0].get("port_guid") for host in site.client.items("/v1/hosts")}


def test_hosts_are_found_and_tables_compared(site):
    net = site.fabric.net
    wanted = {name: f"0x{net.port_guid(name):016x}" for name in site.names}
    until(lambda: found(site) == wanted, lambda: f"{found(site)} is {wanted}: {site.client.get('/v1/fabrics/ib0')['no_port']}")
    by_leaf = until(lambda: {leaf["switch"]: leaf["hosts"] for leaf in site.client.get("/v1/fabrics/ib0/topology")["leaves"]}, "there is a map")
    size = max(map(len, by_leaf.values()))
    site.make("cfd", size, cores=6)
    assert sorted(site.hosts_of("cfd")) in [sorted(hosts) for hosts in by_leaf.values()], "one leaf has room for all, and has them"
    site.settle()

    told = ports(site)
    assert set(told) == set(site.names) and not any(port["differences"] for port in told.values()), told
    wish = f"0x{key(site.number('cfd')):04x}"
    assert {name for name, port in told.items() if wish in port["pkeys"] and wish in port["enforced"]} == site.hosts_of("cfd")
    until(lambda: site.cli("fabric", "partitions", "--verify", check=False).stdout.count("as the manager says") == len(site.names), "all are told")
    site.remove_clusters("cfd")


def test_a_stray_answer_ends_the_look_and_not_weftd(new_fabric, tmp_path):
    fabric = new_fabric()
    fabric.manager(SM).start()
    stray = tmp_path / "stray"
    stray.touch()
    site = Site(fabric, way="file")
    preload = build_folder().resolve() / "tests/fabric/fabric-stray.so"
    site.prefix += [f"WEFT_STRAY={stray}", f"LD_PRELOAD={preload}:{umad2sim()}"]
    site.start()
    try:
        refused = site.client.request("GET", "/v1/fabrics/ib0/tables")
        assert refused.status == 503 and "weft-discover was ended by signal 6" in refused.text
        stray.unlink()
        assert set(ports(site)) == set(site.names)
        site.stop()
    finally:
        site.remove()
