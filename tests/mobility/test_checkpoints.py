"""Checkpoints of real guests: what runs in them goes on through one, and goes on from there when the cluster is restored."""

import pytest
from harness.cloud import BOOT, PATIENT, Cloud
from harness.wait import until

COUNTER = ("setsid sh -c 'i=0; while :; do i=$((i+1)); echo $i > /run/count.new; mv /run/count.new /run/count; sleep 0.2; done' "
           "</dev/null >/dev/null 2>&1 & until [ -e /run/count ]; do sleep 0.1; done")


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=2, cores=4, memory="2G", changes={"control": PATIENT}).up()


def count(cloud, name, rank):
    return int(cloud.run(f"{name}[{rank}]", "cat", "/run/count").stdout.split()[-1])


def counts(cloud, name):
    return [count(cloud, name, rank) for rank in range(2)]


def goes_on(cloud, name):
    """Each counter gets further."""
    before = counts(cloud, name)
    until(lambda: all(now > then for now, then in zip(counts(cloud, name), before)), lambda: f"{name} counts on from {before}", BOOT)
    return before


def tell(cloud, name):
    """What is known from outside of nodes that do not go on."""
    look = "for i in 1 2; do virsh -q domstats --vcpu --state {0} | grep -E 'state.state|vcpu.0.time'; sleep 1; done; virsh dumpxml {0} | grep -B1 -A1 state="
    nodes = "\n".join(f"{node} {cloud.shell(node['host'], look.format('weft-' + node['id']))}" for node in cloud.nodes(name))
    return f"{nodes}\n{cloud.log_tail(60)}"


def test_goes_on_and_comes_back(cloud):
    cloud.client.create("cfd", 2, path="bridge", memory="256M", image="tiny", start="cold", layout="spread")
    cloud.client.wait_phase("cfd", "ready", timeout=BOOT)
    for rank in range(2):
        cloud.run(f"cfd[{rank}]", "sh", "-c", COUNTER)
    early = goes_on(cloud, "cfd")
    cloud.client.expect(201, "POST", "/v1/clusters/cfd/checkpoints?tenant=acme", {"name": "before"})
    shown = lambda: cloud.client.get("/v1/checkpoints/before", tenant="acme")  # noqa: E731
    until(lambda: shown()["state"] in ("complete", "failed"), lambda: f"{shown()}", BOOT)
    assert shown()["state"] == "complete", shown()
    print(f"paused {shown()['paused_ms']} ms, skew {shown()['skew_ms']} ms, {shown()['size']} bytes")
    cloud.client.wait_phase("cfd", "ready", timeout=BOOT)
    boots = [cloud.run(f"cfd[{rank}]", "cat", "/proc/sys/kernel/random/boot_id").stdout for rank in range(2)]
    late = goes_on(cloud, "cfd")
    cloud.client.delete("cfd")
    cloud.client.wait_gone("cfd", timeout=BOOT)

    cloud.client.expect(201, "POST", "/v1/checkpoints/before/restore?tenant=acme", {"as": "again"})
    until(lambda: cloud.client.cluster("again")["phase"] == "ready", lambda: f"{cloud.client.cluster('again')}\n{tell(cloud, 'again')}", 4 * BOOT)
    back = counts(cloud, "again")
    print(f"early {early}, late {late}, back {back}")
    assert all(b > e for b, e in zip(back, early)), "they go on from where they were"
    assert [cloud.run(f"again[{rank}]", "cat", "/proc/sys/kernel/random/boot_id").stdout for rank in range(2)] == boots
    goes_on(cloud, "again")
    cloud.client.delete("again")
    cloud.client.wait_gone("again", timeout=BOOT)
    cloud.client.expect(204, "DELETE", "/v1/checkpoints/before?tenant=acme")
    cloud.check()
