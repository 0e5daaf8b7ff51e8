"""Tenants do not exist for each other: every route of the route table, tried as somebody else."""

import contextlib
import json
import re
import subprocess
from datetime import datetime, timedelta, timezone

import pytest
from harness.wait import until
from harness.weft import Client, build_folder

ROLES = ("viewer", "member", "operator", "admin")
PRINCIPALS = {"viewer": "umbrella-viewer", "member": "umbrella-member", "operator": "olga", "admin": "ada"}
# Whatever the routes of a kind are called with: an object of the other tenant, and one that nobody has.
FOREIGN_CLUSTER, FOREIGN_TENANT, FOREIGN_PRINCIPAL = "secret-plan", "acme", "acme-member"
NOBODY = {":cluster": "nobody-has-this", ":tenant": "nobody", ":principal": "nobody", ":token": "0nobodyhas00", ":host": "nohost",
          ":image": "nothing", ":digest": "0" * 64, ":fabric": "nofabric", ":reservation": "nothing", ":template": "0" * 12,
          ":checkpoint": "nothing"}
BODIES = {
    ("POST", "/v1/clusters"): {"name": "mine", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"},
    ("PATCH", "/v1/clusters/:cluster"): {"count": 2},
    ("POST", "/v1/clusters/:cluster/clone"): {"name": "mine"},
    ("POST", "/v1/clusters/:cluster/nodes/:rank/move"): {"copy": "auto", "disrupt": True},
    ("POST", "/v1/clusters/:cluster/checkpoints"): {"disrupt": True},
    ("POST", "/v1/checkpoints"): {},
    ("POST", "/v1/checkpoints/:checkpoint/restore"): {},
    ("POST", "/v1/placements"): {"name": "mine", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"},
    ("POST", "/v1/hosts"): {"name": "n9"},
    ("POST", "/v1/hosts/:host/drain"): {"evict": False, "move": True, "disrupt": True},
    ("POST", "/v1/hosts/:host/undrain"): {},
    ("POST", "/v1/hosts/:host/take"): {},
    ("POST", "/v1/backup"): {"passphrase": "a guess"},
    ("POST", "/v1/clock/accept"): {},
    ("POST", "/v1/site/adopt"): {"host": "n1"},
    ("POST", "/v1/site/remove"): {"host": "n1"},
    ("POST", "/v1/fabrics/:fabric/map"): {},
    ("POST", "/v1/reservations"): {"name": "mine", "hosts": "n1", "duration": "1h"},
    ("POST", "/v1/images"): {"name": "stolen"},
    ("PATCH", "/v1/blobs/:digest"): {},
    ("POST", "/v1/tenants"): {"name": "stolen"},
    ("PATCH", "/v1/tenants/:tenant"): {"quota": {"nodes": 1}},
    ("POST", "/v1/principals"): {"name": "eve", "role": "admin"},
    ("POST", "/v1/tokens"): {"principal": FOREIGN_PRINCIPAL},
}


def routes():
    done = subprocess.run([build_folder() / "src/daemon/weftd", "--routes"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def two_tenants(request, certificate):
    """acme has objects of every kind; umbrella looks for them."""
    from harness.weft import Weft

    weft = Weft(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    request.addfinalizer(weft.remove)
    weft.start()
    made = weft.client.create(FOREIGN_CLUSTER, 2)
    weft.client.wait_phase(FOREIGN_CLUSTER, "ready")
    weft.client.create("ours", 1, tenant="umbrella")
    weft.client.wait_phase("ours", "ready", tenant="umbrella")
    token = weft.client.expect(201, "POST", "/v1/tokens", {"principal": FOREIGN_PRINCIPAL, "note": "hidden-note"})
    tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    weft.client.expect(201, "POST", "/v1/reservations", {"name": "firmware", "hosts": "n1", "start": tomorrow, "duration": "1h"})
    clients = {role: weft.tls_client(weft.token(name), certificate["certificate"]) for role, name in PRINCIPALS.items()}
    foreign = {":cluster": [made["id"], FOREIGN_CLUSTER], ":tenant": [FOREIGN_TENANT], ":principal": [FOREIGN_PRINCIPAL],
               ":token": [token["id"]], ":host": ["n1"], ":image": ["mpi"], ":digest": ["1" * 64], ":fabric": ["ib0"], ":reservation": ["firmware"],
               ":template": ["1" * 12], ":checkpoint": ["secret-state"]}
    weft.client.create("aside", 1, path="bridge")
    weft.client.wait_phase("aside", "ready")
    weft.client.expect(201, "POST", "/v1/clusters/aside/checkpoints?tenant=acme", {"name": "secret-state"})
    until(lambda: weft.client.get("/v1/checkpoints/secret-state", tenant="acme")["state"] == "complete", "there is a checkpoint")
    secrets = ["secret-state", FOREIGN_CLUSTER, made["id"], token["id"], "hidden-note", FOREIGN_PRINCIPAL, made["created"]]
    secrets += [node[field] for node in weft.client.nodes(FOREIGN_CLUSTER) for field in ("id", "mac")]
    secrets += [guid for node in weft.client.nodes(FOREIGN_CLUSTER) for guid in node["guids"]]
    return weft, clients, foreign, secrets


def parameter(path):
    match = re.search(r":[a-z]+", path)
    return match[0] if match else None


def ask(client, route, name):
    """The answer to a route with this object in it, with the object's own name and the time taken out of the text."""
    path = route["path"].replace(parameter(route["path"]), name).replace(":rank", "0")
    answer = client.request(route["method"], path, BODIES.get((route["method"], route["path"])))
    return answer.status, answer.text.replace(name, "NAME")


def wishes(weft):
    """What a request could have changed of others."""
    dump = weft.dump()
    return {kind: dump.values(kind) for kind in ("cluster", "checkpoint", "move", "host")}


def leaks(text, secrets, asked=()):
    return [secret for secret in secrets if secret in text and secret not in asked]


def named(method="", role=None):
    return [r for r in routes() if parameter(r["path"]) and (role is None or r["role"] == role)]


def test_route_table_is_complete():
    assert len(routes()) >= 30
    assert all(route["role"] in ROLES for route in routes())
    bodies = {(r["method"], r["path"]) for r in routes() if r["method"] in ("POST", "PATCH")}
    assert bodies == BODIES.keys(), "a new route with a body needs an entry here"


@pytest.mark.parametrize("route", routes(), ids=lambda r: f"{r['method']} {r['path']}")
def test_roles_below_are_denied(two_tenants, route):
    _, clients, foreign, secrets = two_tenants
    for role in ROLES[: ROLES.index(route["role"])]:
        path, name = route["path"], parameter(route["path"])
        for target in foreign[name] if name else [None]:
            answer = clients[role].request(route["method"], path.replace(name, target) if name else path,
                                           BODIES.get((route["method"], path)))
            assert (answer.status, answer.json["code"]) == (403, "denied"), f"{role}: {answer.text}"
            assert not leaks(answer.text, secrets, [target])


@pytest.mark.parametrize("route", [r for r in routes() if parameter(r["path"])], ids=lambda r: f"{r['method']} {r['path']}")
@pytest.mark.parametrize("role", ["viewer", "member"])
def test_foreign_is_as_absent(two_tenants, route, role):
    """Same status and same text, whether it belongs to somebody else or to nobody."""
    weft, clients, foreign, _ = two_tenants
    before = wishes(weft)
    name = parameter(route["path"])
    absent = ask(clients[role], route, NOBODY[name])
    for target in foreign[name]:
        assert ask(clients[role], route, target) == absent
    assert wishes(weft) == before


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/events", "/v1/queue", "/v1/usage", "/v1/tenants", "/v1/tokens", "/v1/whoami", "/v1/checkpoints"])
@pytest.mark.parametrize("role", ["viewer", "member"])
def test_lists_show_only_ones_own(two_tenants, path, role):
    _, clients, _, secrets = two_tenants
    answer = clients[role].request("GET", path)
    assert answer.status in (200, 403)
    assert not leaks(answer.text, secrets) and FOREIGN_TENANT not in answer.text
    for host in ("n1", "n2", "n3", "n4"):
        assert f'"{host}"' not in answer.text, "hosts are no business of tenants"


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/usage", "/v1/clusters/" + FOREIGN_CLUSTER, "/v1/clusters/ours/nodes"])
def test_tenant_parameter_opens_no_door(two_tenants, path):
    _, clients, _, secrets = two_tenants
    for role in ("viewer", "member"):
        foreign = clients[role].request("GET", f"{path}?tenant={FOREIGN_TENANT}")
        absent = clients[role].request("GET", f"{path}?tenant=nobody")
        assert foreign.status == absent.status
        assert foreign.text.replace(FOREIGN_TENANT, "nobody") == absent.text
        assert not leaks(foreign.text, secrets, [FOREIGN_CLUSTER])


def test_pages_and_cursors_do_not_reach_across(two_tenants):
    weft, clients, _, secrets = two_tenants
    cursor = weft.client.get("/v1/clusters", limit=1)["next"]
    assert cursor
    answer = clients["viewer"].request("GET", f"/v1/clusters?after={cursor}")
    assert not leaks(answer.text, secrets)
    for event in weft.client.events()[:3]:
        answer = clients["viewer"].request("GET", "/v1/events", headers={"Last-Event-ID": event["id"]})
        assert not leaks(answer.text, secrets)


def test_creating_with_a_foreign_tenant_is_refused(two_tenants):
    weft, clients, _, _ = two_tenants
    before = weft.dump().values("cluster")
    body = BODIES["POST", "/v1/clusters"]
    for tenant in (FOREIGN_TENANT, "nobody"):
        answer = clients["member"].request("POST", f"/v1/clusters?tenant={tenant}", body)
        assert answer.status in (403, 404), answer.text
    assert weft.dump().values("cluster") == before


def test_same_name_in_two_tenants(two_tenants):
    """A name that another tenant uses is free, and a conflict is never told across tenants."""
    weft, clients, _, _ = two_tenants
    body = BODIES["POST", "/v1/clusters"] | {"name": FOREIGN_CLUSTER}
    made = clients["member"].expect(201, "POST", "/v1/clusters", body)
    assert made["tenant"] == "umbrella"
    clients["member"].expect(202, "DELETE", f"/v1/clusters/{made['id']}")
    weft.client.wait_gone(FOREIGN_CLUSTER, tenant="umbrella")
    assert weft.client.cluster(FOREIGN_CLUSTER)["phase"] == "ready"


def test_idempotency_keys_are_ones_own(two_tenants):
    weft, clients, _, secrets = two_tenants
    body = {"name": "keyed", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"}
    weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", body, {"Idempotency-Key": "shared-key"})
    other = clients["member"].expect(201, "POST", "/v1/clusters", body, {"Idempotency-Key": "shared-key"})
    assert other["tenant"] == "umbrella"


def test_a_tenant_inherits_nothing_by_its_name(weft):
    """Removed and made again, a tenant sees nothing of what its namesake did; operators see both."""
    def member():
        weft.client.expect(201, "POST", "/v1/tenants", {"name": "phoenix"})
        weft.client.expect(201, "POST", "/v1/principals", {"name": "bird", "tenant": "phoenix", "role": "member"})
        return Client(weft.client.connect, weft.token("bird"))

    first = member()
    weft.client.create("ashes", 1, tenant="phoenix")
    weft.client.wait_phase("ashes", "ready", tenant="phoenix")
    weft.client.delete("ashes", tenant="phoenix")
    weft.client.wait_gone("ashes", tenant="phoenix")
    assert first.items("/v1/events") and first.get("/v1/usage")["tenants"][0]["nodes"] == 1
    begin = first.items("/v1/events")[0]["id"]
    weft.client.expect(204, "DELETE", "/v1/tenants/phoenix")

    second = member()
    assert second.items("/v1/events") == []
    assert second.get("/v1/usage")["tenants"][0]["nodes"] == 0
    weft.client.create("feather", 1, tenant="phoenix")
    weft.client.wait_phase("feather", "ready", tenant="phoenix")
    assert {event["cluster_name"] for event in second.items("/v1/events")} == {"feather"}
    with contextlib.closing(second.connect()) as stream:
        stream.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Last-Event-ID": begin,
                                                     "Authorization": f"Bearer {second.token}"})
        answer = stream.getresponse()
        told = next(line for line in answer if line.startswith(b"data:"))
        assert b"feather" in told and b"ashes" not in told
    assert {"ashes", "feather"} <= {event["cluster_name"] for event in weft.client.events()}


@pytest.mark.parametrize("disrupt", [False, True])
def test_who_may_disrupt(two_tenants, disrupt):
    """That connections break is one's own to allow: a member for its clusters, nobody for another's, and for a host only who may empty it."""
    weft, clients, foreign, _ = two_tenants
    before, body = wishes(weft), {"disrupt": disrupt}
    for what in ("nodes/0/move", "checkpoints"):
        own = f"/v1/clusters/ours/{what}"
        assert clients["viewer"].request("POST", own, body).status == 403
        for name in foreign[":cluster"]:
            assert clients["member"].request("POST", f"/v1/clusters/{name}/{what}", body).status == 404
            assert clients["member"].request("POST", f"/v1/clusters/{name}/{what}?tenant={FOREIGN_TENANT}", body).status in (403, 404)
        wrong = clients["member"].request("POST", own, {"disrupt": "yes"})
        assert wrong.status == 400 and "disrupt" in wrong.text, wrong.text
    for role in ("viewer", "member"):
        assert clients[role].request("POST", "/v1/hosts/n1/drain", body | {"move": True}).status == 403
    assert wishes(weft) == before


def test_operators_see_all(two_tenants):
    _, clients, _, _ = two_tenants
    names = {(c["tenant"], c["name"]) for c in clients["operator"].items("/v1/clusters")}
    assert {("acme", FOREIGN_CLUSTER), ("umbrella", "ours")} <= names
