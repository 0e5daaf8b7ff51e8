"""One tenant floods dry runs that take long: they are computed on workers, and others are answered in the meantime."""

import contextlib
import json
import select

from harness.wait import until
from harness.weft import Client, UnixConnection
from harness.wire import raw

NODES = 362
USERS = [{"name": f"acme-{n}", "tenant": "acme", "role": "member"} for n in range(4)]
OF_EACH = 4  # dry runs that one principal may have under way
HOSTS = {
    "name": "n[01-16]",
    "fabric": "ib0",
    "uri": "fake://{name}/",
    "leaf": "leaf[1-4]",
    "numa": [{"cores": 24, "threads": 2, "pages": {"2M": 65536}}] * 2,
    "housekeeping": 1,
    "hcas": [{"name": "mlx5_0", "driver": "mlx5", "numa": 0, "rail": 0, "port_guid": "0x0002c90300100000", "vfs": 64}],
}


def spec():
    """All pairs talk, and no order suits all: a search of some tenths of a second."""
    rows = [[0 if a == b else 1 + (min(a, b) * 7919 + max(a, b) * 104729) % 9 for b in range(NODES)] for a in range(NODES)]
    return {"name": "try", "count": NODES, "cores": 2, "memory": "256M", "image": "mpi", "matrix": rows}


def flooded(site):
    """A site where four users of acme can ask, and the text of their requests."""
    weft = site(hosts=0, changes={"hosts": [HOSTS]})
    weft.stop()
    weft.config["principals"] += USERS
    weft.start()
    body = json.dumps(spec(), separators=(",", ":")).encode()
    head = "POST /v1/placements HTTP/1.1\r\nHost: weft\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
    return weft, [head.format(weft.token(user["name"]), len(body)).encode() + body for user in USERS]


def client(weft, principal):
    return Client(lambda: UnixConnection(weft.socket), weft.token(principal))


@contextlib.contextmanager
def asking(weft, texts):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(contextlib.closing(raw(weft, text))) for text in texts for _ in range(OF_EACH)]


def unanswered(connections):
    answered, _, _ = select.select(connections, [], [], 0)
    return len(connections) - len(answered)


def test_others_are_answered_while_a_tenant_floods_dry_runs(site):
    weft, texts = flooded(site)
    victim = client(weft, "umbrella-member")
    with asking(weft, texts) as connections:
        victim.get("/v1/version")
        assert unanswered(connections) > 0
        victim.create("mine", 1, tenant="umbrella")
        assert unanswered(connections) > 0
        weft.client.get("/v1/whoami")
        assert unanswered(connections) > 0
    victim.wait_phase("mine", "ready", tenant="umbrella")


def test_another_tenants_and_an_operators_dry_run_come_between(site):
    weft, texts = flooded(site)
    small = {"name": "try", "count": 2, "cores": 1, "memory": "256M", "image": "mpi"}
    with asking(weft, texts) as connections:
        assert client(weft, "umbrella-member").expect(200, "POST", "/v1/placements", small)["fits"]
        assert unanswered(connections) > 0
        assert weft.client.expect(200, "POST", "/v1/placements?tenant=acme", small)["fits"]
        assert unanswered(connections) > 0


def test_dry_runs_of_clients_that_hung_up_are_not_computed(site):
    """The workers are free for the next at once, whatever was asked for before. Reading it was charged: the tenant may be in debt first."""
    weft, texts = flooded(site)

    def is_answered():
        with contextlib.closing(raw(weft, texts[0])) as last:
            return last.recv(12) == b"HTTP/1.1 200"

    under_way = 0
    for _ in range(8):
        with asking(weft, texts) as connections:
            under_way += unanswered(connections)
    assert under_way > 0
    until(is_answered, "the next is computed")
