"""What `weftd --dump` prints, made easy to ask."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    resource: str
    holder: tuple  # (kind, key)
    amount: int  # 0: exclusive


class Dump:
    def __init__(self, document):
        self.document = document
        self.records = {}
        for record in document["records"]:
            self.records.setdefault(record["kind"], {})[record["key"]] = record
        self.claims = [Claim(c["resource"], (c["kind"], c["key"]), c.get("amount", 0)) for c in document["claims"]]
        self.meters = {m["resource"]: m["used"] for m in document["meters"]}

    def values(self, kind):
        """{key: value} of all records of a kind."""
        return {key: record["value"] for key, record in self.records.get(kind, {}).items()}

    def wishes(self):
        """What a refused request must leave as it was: all but what weftd writes by itself as time goes by."""
        return self.document
