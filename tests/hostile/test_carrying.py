"""What several tenants wait for is brought in the turn of whoever is next, not in that of whoever asked first; and so is memory made that
nodes are forked from."""

import contextlib
import hashlib

import pytest
from harness.wait import until
from test_checkpoints import COLD
from test_templates import SHAPE, captured

DISK = b"a disk that everybody boots from" * 64


def add_image(weft):
    digest = hashlib.sha256(DISK).hexdigest()
    headers = {"Content-Type": "application/octet-stream"}
    assert weft.client.request("PATCH", f"/v1/blobs/{digest}?offset=0&size={len(DISK)}", DISK, headers).status == 200
    weft.client.expect(201, "POST", "/v1/images", {"name": "mpi", "disk": {"digest": digest, "size": len(DISK), "format": "raw"}})


def carriers(weft):
    return {host for host, images in weft.world.images().items() if images}


def test_an_image_that_another_tenant_wants_everywhere(site):
    """One worker carries. The first tenant wants the image on all hosts, and the second one on the last of them."""
    weft = site(hosts=12, changes={"control": {"workers": 4, "workers_per_host": 2}})
    add_image(weft)
    weft.world.fault("slow bring 400")
    weft.client.create("wide", 12, layout="spread", path="bridge", start="cold")
    until(lambda: len(weft.client.nodes("wide")) == 12, "they have their places")
    last = max(weft.client.nodes("wide"), key=lambda node: node["rank"])["host"]
    weft.client.create("small", 1, tenant="umbrella", hosts=last, path="bridge", start="cold")
    until(lambda: weft.client.nodes("small", tenant="umbrella"), "it has its place")
    before = len(carriers(weft))
    until(lambda: last in carriers(weft), "it is there")
    brought = [path for path in weft.world.hosts.glob("*/pool/image-*") if not path.suffix]
    order = [path.parts[-3] for path in sorted(brought, key=lambda path: path.stat().st_mtime_ns)]
    assert order.index(last) < max(8, before + 6), "it did not wait for all that the first tenant wants"
    weft.client.wait_phase("small", "ready", tenant="umbrella")
    weft.client.wait_phase("wide", "ready")


def bring_everywhere(weft, hosts):
    """All hosts have the files of the image and of its template: what is left to do there is to make memory of them."""
    weft.stop()
    for host in hosts:
        for path in weft.blobs.iterdir():
            weft.world.add_image(host, path.name, path.read_bytes(), site=weft.site())
    weft.start()


def memory_made(weft):
    """Hosts with memory to fork from, in the order in which it was made."""
    paths = sorted(weft.world.hosts.glob("*/primed/[!.]*"), key=lambda path: path.stat().st_mtime_ns)
    return [path.parent.parent.name for path in paths]


@pytest.mark.parametrize("same", [True, False])
def test_memory_that_one_tenant_wants_everywhere(site, same):
    """One worker makes it. The first tenant wants it on many hosts, and the second one its own on the last of these, or on another one."""
    weft = site(hosts=14, changes={"control": {"workers": 4, "workers_per_host": 2, "start_deadline": "1m"}})
    hosts = [f"n{i + 1}" for i in range(14)]
    captured(weft)
    weft.client.delete("first")
    weft.client.wait_gone("first")
    bring_everywhere(weft, hosts)
    weft.world.fault("slow prime 50")  # so that times of files tell their order
    with contextlib.ExitStack() as locks:
        for host in hosts:
            locks.enter_context(weft.world.locked(host, "primed"))
        weft.client.create("wide", 12, **SHAPE, layout="spread", hosts="n[1-12]")
        until(lambda: len(weft.dump().values("primed")) == 12, "memory is claimed on all of its hosts")
        last = max(weft.client.nodes("wide"), key=lambda node: node["rank"])["host"] if same else "n13"
        weft.client.create("small", 1, **SHAPE, tenant="umbrella", hosts=last)
        until(lambda: weft.client.nodes("small", tenant="umbrella"), "it has its place")
        until(lambda: len(weft.dump().values("primed")) == 13, "its memory is claimed")
        weft.client.create("later", 1, **SHAPE, start="cold", hosts="n14")
        weft.client.wait_phase("later", "ready")  # what was asked for before is asked for by now
    weft.client.wait_phase("small", "ready", tenant="umbrella")
    weft.client.wait_phase("wide", "ready")
    assert not any(node.get("cold") for node in weft.dump().values("node").values())
    assert len(memory_made(weft)) == 13
    # After the one that was being made, and one of the first tenant's.
    assert memory_made(weft).index(last) <= 2, memory_made(weft)


def test_what_lasts_leaves_workers_to_others(site):
    """Two workers carry. A tenant saves nodes that never end, and has one of them; another one's image comes all the same."""
    weft = site(hosts=4, changes={"control": {"workers": 8, "workers_per_host": 2, "start_deadline": "1m"}})
    weft.client.create("wide", 2, **COLD | {"layout": "spread", "hosts": "n[1-2]"})
    weft.client.wait_phase("wide", "ready")
    add_image(weft)
    weft.world.fault("hang save")
    weft.client.expect(201, "POST", "/v1/clusters/wide/checkpoints?tenant=acme", {"name": "mine"})
    weft.client.wait_phase("wide", "checkpointing")
    weft.client.create("small", 1, tenant="umbrella", cores=1, memory="64M", image="mpi", path="bridge", start="cold", hosts="n4")
    weft.client.wait_phase("small", "ready", tenant="umbrella")
    weft.world.fault()
