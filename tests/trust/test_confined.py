"""Hosts that are like a site's: systemd, AppArmor enforcing, QEMU as a user of its own. All that weft does there is allowed by libvirt's own
rules, and these rules keep one node's QEMU from everything of another's. The tests stand on each other, since a node takes a minute to boot."""

import re

import pytest
from harness.confined import MEMORY, QEMU, attack, attempt, none, wanted
from harness.metal import BOOT, DISK, NODE
from harness.wait import until

SPEC = {"memory": "192M", "path": "bridge", "cores": 1}
LOOK = "for p in $(pidof qemu-system-x86_64); do stat -c %u /proc/$p; cat /proc/$p/attr/current; done"


@pytest.fixture(scope="module")
def forks(site):
    """Two nodes of acme on one host and one on the other, forked."""
    site.make("first", 1, **SPEC)
    site.await_template()
    site.end("first")
    site.make("forks", 3, layout="spread", **SPEC)
    nodes = site.nodes("forks")
    assert len({node["host"] for node in nodes}) == 2
    assert not any(node.get("cold") for node in site.dump().values("node").values()), f"they were forked\n{site.log_tail()}"
    return nodes


def test_hosts_are_like_a_sites(site):
    for host in site.hosts:
        assert site.shell(host, "cat /proc/1/comm").strip() == "systemd"
        assert "libvirtd (enforce)" in site.shell(host, "cat /sys/kernel/security/apparmor/profiles")
        secmodels = re.findall(r"<model>(.*)</model>", site.virsh(host, "capabilities"))
        assert {"apparmor", "dac"} <= set(secmodels)
        assert site.shell(host, "systemctl is-active libvirtd weft-prepare").split() == ["active", "active"]


def test_nodes_boot_and_are_forked(site, forks):
    found = [line for host in site.hosts for line in site.shell(host, LOOK).splitlines()]
    assert found[::2] == [QEMU] * len(forks)
    assert all(re.fullmatch(r"libvirt-[0-9a-f-]{36} \(enforce\)", line) for line in found[1::2]), found
    assert len(set(found[1::2])) == len(forks), "each has a profile of its own"
    none(site)


def test_no_memory_stays_mounted(site, forks):
    for host in site.hosts:
        assert "pc.ram" not in site.shell(host, "cat /proc/mounts")


@pytest.fixture(scope="module")
def other(site, forks):
    """A node of umbrella, forked, beside one of acme."""
    hosts = [node["host"] for node in forks]
    site.only(min(hosts, key=hosts.count))
    site.make("others", 1, "umbrella", **SPEC)
    site.only(*site.hosts)
    [node] = site.nodes("others", "umbrella")
    return node


def test_another_tenants_forks_have_memory_of_their_own(site, other):
    assert not site.dump().values("node")[other["id"]].get("cold"), f"it was forked\n{site.log_tail()}"
    template = site.client.items("/v1/templates")[0]["id"]
    primed = site.client.get(f"/v1/templates/{template}")["primed"]
    assert {memory["tenant"] for memory in primed} == {"acme", "umbrella"}
    assert len({memory["id"] for memory in primed}) == len(primed)
    none(site)


def test_a_qemu_opens_nothing_of_another(site, forks, other):
    """Whoever broke out of a guest has its QEMU's user and profile. Another node of its tenant stands beside it on one host, and one of another
    tenant on the other."""
    pairs = [(a, b) for a in forks for b in [*forks, other] if a["host"] == b["host"] and a is not b]
    assert {b["id"] for _, b in pairs} > {other["id"]} and len({a["host"] for a, _ in pairs}) == 2
    for own, victim in pairs:
        tried = attack(site, own, victim)
        assert any(MEMORY in path for path in tried) and any(path.endswith(".state") for path in tried)
    none(site)


def test_libvirtd_begins_again(site, forks, other):
    """What is root's stays so, and weftd gets in as before."""
    host = other["host"]
    site.shell(host, "systemctl restart libvirtd")
    until(lambda: site.weft("run", "others[0]", "--tenant", "umbrella", "--", "true", check=False).returncode == 0,
          lambda: f"weftd reaches the node again\n{site.log_tail()}", BOOT)
    assert attempt(site, host, wanted(site, other)[1]) == []
    none(site)


def test_a_node_moves(site, forks):
    node = forks[0]
    target = next(host for host in site.hosts if host != node["host"])
    site.client.expect(202, "POST", "/v1/clusters/forks/nodes/0/move?tenant=acme", {"to": target})
    until(lambda: site.nodes("forks")[0]["host"] == target and not site.dump().values("move"), lambda: f"it has moved\n{site.log_tail()}", BOOT)
    none(site)


def test_a_cluster_is_saved_and_restored(site, forks):
    site.client.expect(201, "POST", "/v1/clusters/others/checkpoints?tenant=umbrella", {"name": "kept"})
    until(lambda: site.client.get("/v1/checkpoints/kept", tenant="umbrella")["state"] == "complete", lambda: f"it is saved\n{site.log_tail()}", BOOT)
    site.end("others", "umbrella")
    site.client.expect(201, "POST", "/v1/checkpoints/kept/restore?tenant=umbrella", {"as": "again"})
    site.ready("again", "umbrella")
    none(site)


def test_functions_come_and_go(site, forks):
    """By VFIO, plugged into nodes that were forked: what the first tenant wrote is nowhere afterwards."""
    for tenant, name in (("acme", "cfd"), ("umbrella", "mix")):
        site.make(name, 2, tenant, layout="spread", **NODE)
        had = [site.function(node) for node in site.nodes(name, tenant)]
        assert [site.seen(name, node, tenant) for node in site.nodes(name, tenant)] == had
        assert not any(any(site.disk(function)) for function in had), "it came blank"
        for rank, function in enumerate(had):
            site.run(f"{name}[{rank}]", "sh", "-c", f"echo {tenant} was here | dd of={DISK} bs=512 conv=sync,fsync", tenant=tenant)
            assert tenant.encode() in site.disk(function)
        none(site)
        site.end(name, tenant)
        until(lambda had=had: not any(any(site.disk(function)) for function in had), "nothing is left on the disks", BOOT)
    none(site)


def test_all_of_it_goes(site, forks):
    site.remove_all()
    site.check()
    none(site)
