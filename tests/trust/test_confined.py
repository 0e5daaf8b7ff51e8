"""Hosts that are like a site's: systemd, AppArmor enforcing, QEMU as a user of its own. All that weft does there is allowed by libvirt's own
rules, and these rules keep one node's QEMU from everything of another's. The tests stand on each other, since a node takes a minute to boot."""

import re

import pytest
from harness.metal import BOOT
from harness.wait import until

QEMU = "64055"  # libvirt-qemu, on Debian
SPEC = {"memory": "192M", "path": "bridge", "cores": 1}
LOOK = "for p in $(pidof qemu-system-x86_64); do stat -c %u /proc/$p; cat /proc/$p/attr/current; done"
# With the rights of a node's QEMU and no others.
AS_QEMU = f"setpriv --reuid {QEMU} --regid {QEMU} --clear-groups"
TRY = f"{AS_QEMU} aa-exec -p libvirt-{{profile}} -- head -c 1 {{path}} >/dev/null 2>&1 && echo opened || echo denied"


def denials(site, host):
    """Lines of the kernel's log: (of all but the attack, of the attack)."""
    lines = site.shell(host, "journalctl -k -o cat --no-pager | grep 'apparmor=\"DENIED\"' || true").splitlines()
    attack = [line for line in lines if 'comm="head"' in line]
    return [line for line in lines if line not in attack], attack


def none(site):
    assert [denials(site, host)[0] for host in site.hosts] == [[] for _ in site.hosts]


@pytest.fixture(scope="module")
def forks(site):
    """Two nodes of acme on one host and one on the other, forked."""
    site.make("first", 1, **SPEC)
    site.await_template()
    site.end("first")
    site.make("forks", 3, **SPEC)
    nodes = site.nodes("forks")
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


def test_a_qemu_opens_nothing_of_another(site, forks):
    """Whoever broke out of a guest has its QEMU's user and profile."""
    own, other = next((a, b) for a in forks for b in forks if a["host"] == b["host"] and a is not b)
    host = own["host"]
    profile = site.virsh(host, "domuuid", f"weft-{own['id']}").strip()
    process = site.shell(host, f"cat /run/libvirt/qemu/weft-{other['id']}.pid").strip()
    pool = "/var/lib/libvirt/images/weft"
    memory = site.shell(host, "ls -d /dev/hugepages/weft-memory/*").split()
    assert memory, "there is something to open"
    tried = {path: site.shell(host, TRY.format(profile=profile, path=path)).strip()
             for path in [*memory, f"{pool}/weft-{other['id']}.seed", f"/proc/{process}/mem", f"/proc/{process}/environ", f"{pool}/weft-{own['id']}.seed"]}
    assert tried.pop(f"{pool}/weft-{own['id']}.seed") == "opened", "its own it may read"
    assert set(tried.values()) == {"denied"}, tried
    assert site.shell(host, f"{AS_QEMU} head -c 1 {pool}/weft-{other['id']}.seed | wc -c").strip() == "1", "without its profile it could read this"
    _, attack = denials(site, host)
    assert len(attack) == 3 and all(f"libvirt-{profile}" in line for line in attack), "memory lies in a folder that is root's alone"
    none(site)


def test_another_tenants_forks_have_memory_of_their_own(site, forks):
    site.make("others", 1, "umbrella", **SPEC)
    [node] = site.nodes("others", "umbrella")
    assert not site.dump().values("node")[node["id"]].get("cold")
    template = site.client.items("/v1/templates")[0]["id"]
    primed = site.client.get(f"/v1/templates/{template}")["primed"]
    assert {memory["tenant"] for memory in primed} == {"acme", "umbrella"}
    assert len({memory["id"] for memory in primed}) == len(primed)
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


def test_all_of_it_goes(site, forks):
    site.remove_all()
    site.check()
    none(site)
