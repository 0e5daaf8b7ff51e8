"""The event list and the stream of server-sent events."""

import contextlib
import json
import sqlite3

from harness.wait import PATIENCE
from harness.weft import UnixConnection


class Stream:
    """Reads server-sent events from one connection."""

    def __init__(self, weft, path="/v1/events", after=None):
        self.connection = UnixConnection(weft.socket, PATIENCE)
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": after} if after else {})
        self.connection.request("GET", path, headers=headers)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.headers["Content-Type"].startswith("text/event-stream")

    def next(self):
        fields = {}
        while True:
            line = self.answer.readline().decode()
            assert line, "the stream ended"
            line = line.rstrip("\r\n")
            if not line and fields:
                fields["data"] = json.loads(fields["data"])
                return fields
            if line and not line.startswith(":"):
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")

    def until(self, wanted):
        """All events up to the first of this type."""
        seen = []
        while not seen or seen[-1]["event"] != wanted:
            seen.append(self.next())
        return seen

    def close(self):
        self.connection.close()


@contextlib.contextmanager
def opened(weft, token):
    """The raw answer of a stream of all events that this token may see."""
    with contextlib.closing(UnixConnection(weft.socket)) as connection:
        connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream", "Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert answer.status == 200
        yield answer


def test_stream_tells_the_life_of_a_cluster(weft):
    with contextlib.closing(Stream(weft)) as stream:
        weft.client.create("cfd", 2)
        born = stream.until("cluster-ready")
        weft.client.delete("cfd")
        died = stream.until("cluster-deleted")
    events = born + died
    assert all(event["event"] == event["data"]["type"] and event["id"] == event["data"]["id"] for event in events)
    ids = [event["id"] for event in events]
    assert ids == sorted(set(ids)), "in order, none twice"
    stored = [event["id"] for event in weft.client.events()]
    assert set(ids) <= set(stored)


def test_stream_goes_on_after_a_restart(weft):
    with contextlib.closing(Stream(weft)) as stream:
        weft.client.create("cfd", 1)
        last = stream.until("cluster-ready")[-1]["id"]
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.kill()
    weft.start()
    with contextlib.closing(Stream(weft, after=last)) as stream:
        missed = stream.until("cluster-deleted")
    assert all(event["id"] > last for event in missed), "nothing twice"
    stored = [e["id"] for e in weft.client.events() if last < e["id"] <= missed[-1]["id"]]
    assert [event["id"] for event in missed] == sorted(stored), "nothing left out"


def test_events_go_on_where_the_clock_went_back(weft):
    """Whoever read the last one before must not miss those that come after."""
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "initech"})
    weft.stop()
    with contextlib.closing(sqlite3.connect(weft.config["store"]["path"])) as db, db:
        key, text = db.execute("SELECT key, value FROM record WHERE kind = 'event' ORDER BY key DESC LIMIT 1").fetchone()
        value = json.loads(text)
        value["id"] = int(key, 16) + 10**12
        future = f"{value['id']:016x}"
        db.execute("UPDATE record SET key = ?, value = ? WHERE kind = 'event' AND key = ?", (future, json.dumps(value), key))
    weft.start()
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    assert {"cluster-created", "cluster-ready"} <= {event["type"] for event in weft.client.events() if event["id"] > future}


def test_stream_of_one_cluster(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    with contextlib.closing(Stream(weft, "/v1/clusters/cfd/events?tenant=acme")) as stream:
        weft.client.create("other", 1)
        weft.client.wait_phase("other", "ready")
        weft.client.scale("cfd", 2)
        events = stream.until("cluster-ready")
    assert {event["data"]["cluster_name"] for event in events} == {"cfd"}


def test_many_readers_do_not_disturb(weft):
    with contextlib.ExitStack() as stack:
        streams = [stack.enter_context(contextlib.closing(Stream(weft))) for _ in range(10)]
        idle = stack.enter_context(contextlib.closing(Stream(weft)))
        for number in range(5):
            weft.client.create(f"c{number}", 1)
        weft.client.wait_phase("c4", "ready")
        seen = [stream.until("cluster-ready") for stream in streams]
        assert all([e["id"] for e in events] == [e["id"] for e in seen[0]] for events in seen)
        assert idle.next()["id"] == seen[0][0]["id"]


def test_stop_ends_the_streams(weft):
    with contextlib.closing(Stream(weft)) as stream:
        weft.stop()
        with contextlib.suppress(ConnectionError):
            while line := stream.answer.readline():
                assert line.startswith(b":") or not line.strip(), "only comments until the end"


def test_revoked_token_ends_its_stream(weft):
    """At once, not at the next sign of life; others' streams go on."""
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-viewer"})
    kept = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member"})
    with opened(weft, made["token"]) as doomed, opened(weft, kept["token"]) as other:
        weft.client.expect(204, "DELETE", f"/v1/tokens/{made['id']}")
        assert doomed.read() == b""
        weft.client.create("cfd", 1)
        assert next(line for line in other if line.startswith(b"event:")) == b"event: cluster-created\n"


def test_list_pages(weft):
    for number in range(3):
        weft.client.create(f"c{number}", 1)
        weft.client.wait_phase(f"c{number}", "ready")
    everything = weft.client.items("/v1/events", limit=1000)
    paged = weft.client.items("/v1/events", limit=2)
    assert paged[: len(everything)] == everything and len(everything) > 4
