"""Nodes with disks of their own, and nodes that share memory, on hosts like a site's: libvirt's own rules let QEMU have each file of a chain,
also when several nodes have the image below it, and nothing else. The tests stand on each other, since a node takes a minute to boot."""

import re

import pytest
from harness.cloud import POOL
from harness.confined import attack, images_of, none, process_of, shared_by
from harness.metal import BOOT
from harness.ownimage import MOUNT, add_own
from harness.wait import until

SPEC = {"memory": "192M", "path": "bridge", "cores": 1, "image": "own", "start": "cold"}
# The memory that a node shares with others, as it sees it: where it begins.
BAR = "for d in /sys/bus/pci/devices/*; do [ $(cat $d/device) != 0x1110 ] || { echo 1 >$d/enable; sed -n 's/ .*//;3p' $d/resource; }; done"
FORGET = "sync; echo 3 >/proc/sys/vm/drop_caches"


def sh(site, node, script, tenant="acme"):
    return site.run(node, "sh", "-c", script, tenant=tenant).stdout.strip()


def has(site, node, tenant="acme"):
    """What is on its disk."""
    return sh(site, node, f"{FORGET}; cat /mnt/text; sha256sum </mnt/bulk", tenant)


def mode(site, host, path):
    return site.shell(host, f"stat -c '%a %u' {path}").split()


def files(site, *ends):
    """What nodes have in the pools beside images."""
    return [name for host in site.hosts for name in site.shell(host, f"ls {POOL}").split() if name.endswith(ends)]


def await_one_disk(site):
    """Until nothing is left of what was saved, and each disk is one again."""
    until(lambda: not files(site, ".layer", ".saved"), lambda: f"{files(site, '.layer', '.saved')}\n{site.log_tail()}", BOOT)


@pytest.fixture(scope="module")
def near(site, tmp_path_factory):
    """Two nodes of acme on the first host, which share memory there. The second one begins when the first has run for a while."""
    add_own(site, tmp_path_factory.mktemp("own"))
    site.only(site.hosts[0])
    site.make("near", 1, shm="1M", **SPEC)
    [first] = site.nodes("near")
    assert mode(site, first["host"], shared_by(first))[0] == "600"
    site.client.scale("near", 2)
    site.ready("near", ready=2)
    return site.nodes("near")


@pytest.fixture(scope="module")
def others(site, near):
    """Beside them one more of acme, and one of umbrella: all four have their disk upon the same image."""
    for name, tenant in (("cfd", "acme"), ("mix", "umbrella")):
        site.create(name, 1, tenant, **SPEC)
    for name, tenant in (("cfd", "acme"), ("mix", "umbrella")):
        site.ready(name, tenant, ready=1)
        sh(site, f"{name}[0]", f"{MOUNT} && echo {name} >/mnt/text && dd if=/dev/urandom of=/mnt/bulk bs=64k count=16 2>/dev/null && sync", tenant)
    site.only(*site.hosts)
    return [*site.nodes("cfd"), *site.nodes("mix", "umbrella")]


def test_nodes_of_a_host_share_memory(site, near):
    host, path = near[0]["host"], shared_by(near[0])
    assert mode(site, host, path)[0] == "600"
    for node in near:
        assert path in site.shell(host, f"cat /proc/{process_of(site, node)}/maps")
    first, second = (sh(site, f"near[{rank}]", BAR) for rank in range(2))
    sh(site, "near[0]", f"devmem {first} 32 0x77656674")
    assert sh(site, "near[1]", f"devmem {second} 32") == "0x77656674"
    none(site)


def test_nodes_of_two_tenants_have_disks_upon_one_image(site, near, others):
    host = near[0]["host"]
    nodes = [*near, *others]
    assert {node["host"] for node in nodes} == {host}
    definitions = [site.virsh(host, "dumpxml", f"weft-{node['id']}") for node in nodes]
    [base] = {re.search(r"<backingStore type='file'.*?<source file='([^']*)'", text, re.DOTALL)[1] for text in definitions}
    assert base in images_of(site, nodes[0])
    owner = mode(site, host, f"{POOL}/weft-{nodes[0]['id']}.disk")
    assert owner[0] == "600" and mode(site, host, base) == owner
    assert has(site, "cfd[0]").startswith("cfd\n") and has(site, "mix[0]", "umbrella").startswith("mix\n")
    none(site)


def test_a_qemu_opens_no_disk_and_no_shared_memory_of_another(site, near, others):
    """Of another node of its cluster, of its tenant and of another tenant."""
    cfd, mix = others
    for own, victim in ((near[0], near[1]), (cfd, near[0]), (mix, near[0]), (near[0], mix)):
        tried = attack(site, own, victim)
        assert f"{POOL}/weft-{victim['id']}.disk" in tried
        assert (shared_by(victim) in tried) == (victim in near and own not in near)
    none(site)


def test_shared_memory_goes_with_its_nodes(site, near, others):
    site.end("near")
    host, path = near[0]["host"], shared_by(near[0])
    assert path not in site.shell(host, "find /dev/shm").splitlines()
    none(site)


def test_a_node_moves_with_its_disk(site, others):
    node, target = others[0], site.hosts[1]
    before = has(site, "cfd[0]")
    site.client.expect(202, "POST", "/v1/clusters/cfd/nodes/0/move?tenant=acme", {"to": target})
    until(lambda: site.nodes("cfd")[0]["host"] == target and not site.dump().values("move"), lambda: f"it has moved\n{site.log_tail()}", BOOT)
    assert has(site, "cfd[0]") == before
    assert mode(site, target, f"{POOL}/weft-{node['id']}.disk")[0] == "600"
    assert has(site, "mix[0]", "umbrella").startswith("mix\n"), "the image below it is still there for those that stay"
    none(site)


def test_a_disk_is_saved_and_restored(site, others):
    sh(site, "mix[0]", "echo cached >/mnt/cached", "umbrella")
    before = has(site, "mix[0]", "umbrella")
    site.client.expect(201, "POST", "/v1/clusters/mix/checkpoints?tenant=umbrella", {"name": "whole"})
    until(lambda: site.client.get("/v1/checkpoints/whole", tenant="umbrella")["state"] == "complete", lambda: f"it is saved\n{site.log_tail()}", BOOT)
    await_one_disk(site)
    assert has(site, "mix[0]", "umbrella") == before, "it goes on"
    none(site)
    site.end("mix", "umbrella")
    site.client.expect(201, "POST", "/v1/checkpoints/whole/restore?tenant=umbrella", {"as": "again"})
    site.ready("again", "umbrella")
    assert has(site, "again[0]", "umbrella") == before
    assert sh(site, "again[0]", "cat /mnt/cached", "umbrella") == "cached"
    site.client.expect(204, "DELETE", "/v1/checkpoints/whole?tenant=umbrella")
    none(site)


def test_a_clone_has_disks_of_its_own(site, others):
    before = has(site, "cfd[0]")
    site.weft("clone", "cfd", "--to", "sweep", "-n", "2", "--tenant", "acme")
    for rank in range(2):
        assert has(site, f"sweep[{rank}]") == before
        sh(site, f"sweep[{rank}]", f"echo {rank} >/mnt/text")
    assert [has(site, node).split()[0] for node in ("sweep[0]", "sweep[1]", "cfd[0]")] == ["0", "1", "cfd"]
    await_one_disk(site)
    none(site)


def test_all_of_it_goes(site, others):
    site.remove_all()
    site.check()
    assert not files(site, ".disk", ".layer", ".saved")
    none(site)
