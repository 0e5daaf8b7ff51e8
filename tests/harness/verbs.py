"""What is asked of whole clusters: checkpoints, restores, clones."""

from .wait import until

PATIENCE = 240.0  # seconds, for the memory of a few emulated nodes on a busy machine


def checkpoint(cloud, name, tenant="acme"):
    return cloud.client.get(f"/v1/checkpoints/{name}", tenant=tenant)


def ask_checkpoint(cloud, cluster, name, tenant="acme"):
    cloud.client.expect(201, "POST", f"/v1/clusters/{cluster}/checkpoints?tenant={tenant}", {"name": name})


def wait_checkpoint(cloud, name, state="complete"):
    until(lambda: checkpoint(cloud, name)["state"] in (state, "failed"), lambda: f"{state}: {checkpoint(cloud, name)}", PATIENCE)
    made = checkpoint(cloud, name)
    assert made["state"] == state, made
    return made


def restore(cloud, name, tenant="acme"):
    cloud.client.expect(201, "POST", f"/v1/checkpoints/{name}/restore?tenant={tenant}", {})


def clone(cloud, cluster, name, count=None, tenant="acme"):
    body = {"name": name} | ({"count": count} if count else {})
    cloud.client.expect(201, "POST", f"/v1/clusters/{cluster}/clone?tenant={tenant}", body)
