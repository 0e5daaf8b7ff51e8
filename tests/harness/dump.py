"""What the store holds, made easy to ask. It is read here as `weftd --dump` reads it, since tests look many times a second: a test compares both."""

import contextlib
import json
import sqlite3

from .wait import PATIENCE

HOLDER = "kind || ' ' || key FROM {0} JOIN record ON id = holder ORDER BY resource"


def read(path):
    """The store in a file, also while weftd has it open: all of one moment."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=rw", PATIENCE, uri=True, isolation_level=None)) as store:
        store.execute("PRAGMA query_only = ON")
        store.execute("BEGIN")
        records = {name: {"scope": scope, "place": place, "revision": revision, "value": json.loads(value), "claims": [], "shares": {}}
                   for name, scope, place, revision, value in
                   store.execute("SELECT kind || ' ' || key, scope, place, revision, value FROM record ORDER BY kind, key")}
        claims = dict(store.execute("SELECT resource, " + HOLDER.format("claim")))
        for resource, holder in claims.items():
            records[holder]["claims"].append(resource)
        for resource, amount, holder in store.execute("SELECT resource, amount, " + HOLDER.format("share")):
            records[holder]["shares"][resource] = amount
        meters = dict(store.execute("SELECT resource, used FROM meter ORDER BY resource"))
    return Dump({"records": records, "claims": claims, "meters": meters})


class Dump:
    def __init__(self, document):
        self.document = document
        self.records = {}
        for name, record in document["records"].items():
            kind, key = name.split(" ", 1)
            self.records.setdefault(kind, {})[key] = record
        self.owners = document["claims"]  # resource: "kind key" of its only holder
        self.meters = document["meters"]  # resource: sum of all shares

    def values(self, kind):
        """{key: value} of all records of a kind."""
        return {key: record["value"] for key, record in self.records.get(kind, {}).items()}

    def held(self):
        """(holder, resource, amount) of every claim, as the holder's record lists it; amount 0: for itself alone."""
        for name, record in self.document["records"].items():
            yield from ((name, resource, 0) for resource in record["claims"])
            yield from ((name, resource, amount) for resource, amount in record["shares"].items())
