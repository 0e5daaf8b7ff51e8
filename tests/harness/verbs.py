"""What is asked of whole clusters: checkpoints, restores, clones; and whether this weft has it."""

import functools
import json

import pytest

from .wait import until
from .weft import SOURCE

PATIENCE = 240.0  # seconds, for the memory of a few emulated nodes on a busy machine


@functools.cache
def routes():
    """(method, path) of all that the API describes."""
    described = json.loads((SOURCE / "docs/openapi.json").read_text(encoding="utf-8"))["paths"]
    return {(method.upper(), path) for path, methods in described.items() for method in methods}


def needs(method, path):
    """For a test of a route that may not be there; it is told which one lacks."""
    return pytest.mark.skipif((method, path) not in routes(), reason=f"weft has no {method} {path} yet")


needs_checkpoints = needs("POST", "/v1/clusters/{cluster}/checkpoints")
needs_clones = needs("POST", "/v1/clusters/{cluster}/clone")


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
