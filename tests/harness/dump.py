"""What `weftd --dump` prints, made easy to ask."""


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
