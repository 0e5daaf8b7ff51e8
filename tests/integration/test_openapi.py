"""docs/openapi.json says what weftd does: the same routes and roles, and answers of the shapes that it describes."""

import json
import re
import subprocess

import jsonschema
import pytest
from harness.weft import SOURCE, build_folder, host

DOCUMENT = json.loads((SOURCE / "docs/openapi.json").read_text(encoding="utf-8"))
METHODS = ("get", "post", "put", "patch", "delete", "head", "options", "trace")


def operations():
    return [(method.upper(), path, operation) for path, item in DOCUMENT["paths"].items() for method, operation in item.items()]


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from references(item)


def resolve(value):
    while "$ref" in value:
        target = DOCUMENT
        for part in value["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        value = target
    return value


def routes():
    done = subprocess.run([build_folder() / "src/daemon/weftd", "--routes"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def test_document_and_route_table_agree():
    table = {(route["method"], re.sub(r":([a-z]+)", r"{\1}", route["path"]), route["role"]) for route in routes()}
    assert {(method, path, operation["x-weft-role"]) for method, path, operation in operations()} == table


def test_references_resolve_and_nothing_is_unused():
    wanted = set(references(DOCUMENT))
    for reference in wanted:
        assert resolve({"$ref": reference})
    there = {f"#/components/{kind}/{name}" for kind in ("parameters", "responses", "schemas") for name in DOCUMENT["components"][kind]}
    assert wanted == there


def test_operations_are_complete():
    ids = [operation["operationId"] for _, _, operation in operations()]
    assert len(ids) == len(set(ids))
    for method, path, operation in operations():
        where = f"{method} {path}"
        assert method.lower() in METHODS, where
        assert operation["summary"] and operation["tags"], where
        parameters = [resolve(parameter) for parameter in operation.get("parameters", [])]
        names = [(parameter["in"], parameter["name"]) for parameter in parameters]
        assert len(names) == len(set(names)), where
        assert [name for place, name in names if place == "path"] == re.findall(r"{([a-z]+)}", path), where
        assert sum(status.startswith("2") or status == "101" for status in operation["responses"]) == 1, where
        assert {"400", "401", "429"} <= operation["responses"].keys(), where
        assert ("requestBody" in operation) <= (method in ("POST", "PATCH")), where
        assert (("header", "Idempotency-Key") in names) == (method == "POST"), where
        assert ("403" in operation["responses"]) == (operation["x-weft-role"] != "viewer"), where


def test_schemas_are_json_schema():
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for parameter in DOCUMENT["components"]["parameters"].values():
        jsonschema.Draft202012Validator.check_schema(parameter["schema"])


def test_query_parameters_agree(weft):
    """A parameter that the document names is known to the route, and no other."""
    for method, path, operation in operations():
        if method != "GET":
            continue
        named = {resolve(p)["name"] for p in operation.get("parameters", []) if resolve(p)["in"] == "query"}
        answer = weft.client.request("GET", re.sub(r"{[a-z]+}", "x", path) + "?no-such-parameter=1")
        assert answer.status == 400
        known = answer.json["detail"].rsplit(" takes ", 1)[1]
        assert (set() if known == "none" else set(known.split(", "))) == named, path


@pytest.fixture
def ask(weft):
    """Asks, and checks question and answer against the document."""

    def validate(value, schema):
        jsonschema.validate(value, schema | {"components": DOCUMENT["components"]}, jsonschema.Draft202012Validator)

    def call(method, path, body=None, headers=None):
        plain = path.split("?")[0]
        matches = [(m, p, o) for m, p, o in operations() if m == method and re.fullmatch(re.sub(r"{[a-z]+}", "[^/]+", p), plain)]
        _, _, operation = min(matches, key=lambda match: match[1].count("{"))
        if body is not None:
            validate(body, operation["requestBody"]["content"]["application/json"]["schema"])
        answer = weft.client.request(method, path, body, headers)
        described = resolve(operation["responses"][str(answer.status)])
        assert described.get("headers", {}).keys() - {"Idempotent-Replayed"} <= answer.headers.keys()
        if "content" in described:
            kind = answer.headers["Content-Type"]
            validate(answer.json, described["content"][kind]["schema"])
        else:
            assert answer.text == ""
        return answer

    return call


def test_answers_are_as_described(weft, ask):
    for path in ("/v1/version", "/v1/whoami", "/v1/openapi.json"):
        assert ask("GET", path).status == 200
    assert ask("POST", "/v1/clusters?tenant=acme", {"name": "cfd", "count": 2, "cores": 1, "memory": "256M", "image": "mpi"}).status == 201
    weft.client.wait_phase("cfd", "ready")
    wish = {"name": "wish", "numa": "required", "layout": "spread", "exclusive": True, "apart": ["cfd"], "walltime": "12h",
            "priority": 5, "preemptible": True, "memory": "256M", "image": "mpi", "count": 2, "matrix": [[0, 0.5], [1, 0]]}
    tried = ask("POST", "/v1/placements?tenant=acme", wish)
    assert (tried.status, tried.json["fits"]) == (200, True)
    refused = ask("POST", "/v1/placements?tenant=acme", {"name": "wish", "count": 1000, "image": "mpi", "pattern": "ring"})
    assert (refused.status, refused.json["fits"]) == (200, False)
    assert ask("POST", "/v1/clusters?tenant=acme", wish).status == 201
    assert ask("GET", "/v1/clusters/wish?tenant=acme").json["walltime"] == 12 * 3600
    assert ask("PATCH", "/v1/clusters/cfd?tenant=acme", {"count": 3}).status == 200
    weft.client.wait_phase("wish", "ready")  # both have their places before there is a host that is to go again
    weft.client.wait_phase("cfd", "ready", ready=3)
    assert ask("POST", "/v1/hosts", host("n9") | {"labels": {"rack": "r9"}}).status == 201
    assert ask("POST", "/v1/hosts/n9/drain", {"evict": True}).status == 200
    assert ask("POST", "/v1/hosts/n9/undrain").status == 200
    assert ask("POST", "/v1/tenants", {"name": "initech", "quota": {"memory": "1T", "nodes": 4}}).status == 201
    assert ask("PATCH", "/v1/tenants/initech", {"quota": {"nodes": None}}).status == 200
    assert ask("PATCH", "/v1/tenants/initech", {"share": 2.5, "priority_max": 100}).status == 200
    assert ask("POST", "/v1/principals", {"name": "milton", "tenant": "initech", "role": "viewer"}).status == 201
    assert ask("POST", "/v1/reservations", {"name": "firmware", "hosts": "n[3-4]", "duration": "1h", "tenant": "acme"}).status == 201
    weft.client.create("large", 4, cores=6, layout="spread")
    token = ask("POST", "/v1/tokens", {"principal": "milton", "note": "stapler", "expires_in": "1d"})
    assert token.status == 201
    for path in ("/v1/clusters", "/v1/clusters?name=cfd", "/v1/clusters/cfd?tenant=acme", "/v1/clusters/cfd/nodes?tenant=acme",
                 "/v1/clusters/cfd/events?tenant=acme", "/v1/events?limit=5", "/v1/queue", "/v1/queue?tenant=acme", "/v1/usage",
                 "/v1/reservations", "/v1/reservations/firmware", "/v1/audit", "/v1/hosts", "/v1/hosts/n1", "/v1/hosts/n9",
                 "/v1/fabrics", "/v1/fabrics/ib0", "/v1/fabrics/ib0/partitions", "/v1/fabrics/ib0/tables", "/v1/fabrics/ib0/topology",
                 "/v1/tenants",
                 "/v1/tenants/initech", "/v1/principals", "/v1/tokens"):
        assert ask("GET", path).status == 200, path
    for path in ("/v1/tokens/" + token.json["id"], "/v1/principals/milton", "/v1/tenants/initech", "/v1/hosts/n9", "/v1/reservations/firmware"):
        assert ask("DELETE", path).status == 204, path
    assert ask("DELETE", "/v1/clusters/cfd?tenant=acme").status == 202
    assert ask("GET", "/v1/clusters/absent?tenant=acme").status == 404
    assert ask("POST", "/v1/tenants", {"name": "acme"}).status == 409
    assert ask("DELETE", "/v1/hosts/n1").status == 409
