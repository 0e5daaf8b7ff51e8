"""A site whose store and blobs are on a disk that fails, and a client that is patient with it."""

import contextlib
import json
import shutil
import sqlite3
import tempfile
from pathlib import Path

from disk import Disk
from harness import dump
from harness.wait import until
from harness.weft import Weft, fresh_key
from operations import OPERATIONS
from survivor import Survivor

# Of all that weftd does, what writes in different ways: records, blobs that come in pieces, files that are fetched, the first start.
CHOSEN = ("first-start", "create", "delete", "image", "images", "image-rm", "template", "checkpoint", "people")


def chosen():
    return [operation for operation in OPERATIONS if operation.name in CHOSEN]


class FaultyWeft(Weft):
    """Its store is in a folder of its own, which attach() puts behind faultfs."""

    def __init__(self, root=None, hosts=4, changes=None):
        super().__init__(root, hosts, changes)
        folder = self.root / "store"
        folder.mkdir(exist_ok=True)
        self.config["store"].update(path=str(folder / "weft.db"), reserve="512K")  # more than SQLite bears to miss
        self.disk = None
        self.cut_with = None  # keep and seed of the power cut that is to come
        self.may_give_up = False

    def attach(self):
        self.disk = Disk(self.root / "store")

    def start(self, failpoint=None, failpoint_log=None):
        """Dying before it serves is no surprise here."""
        try:
            served = super().start(failpoint or "none", failpoint_log)
        except AssertionError:
            if not self.may_give_up or self.process.poll() in (None, 0):
                raise
            self.process, served = None, False
        if not served:
            self.lose_power()
        return served

    def died(self):
        code = self.process.poll()
        if code and code > 0 and self.may_give_up:
            self.process = None
            return True
        dead = super().died()
        if dead:
            self.lose_power()
        return dead

    def lose_power(self):
        if self.disk and self.cut_with and self.disk.was_cut():
            self.disk.lose_power(*self.cut_with)
            self.check_log()

    @contextlib.contextmanager
    def copied_store(self):
        """While weftd is away: whoever opens the store then brings it in order, which is weftd's to do."""
        with tempfile.TemporaryDirectory() as folder:
            for path in Path(self.config["store"]["path"]).parent.glob("weft.db*"):
                shutil.copy(path, folder)
            yield Path(folder) / "weft.db"

    def check_log(self):
        """SQLite can fold what is left of the log into what is left of the file."""
        with self.copied_store() as path, contextlib.closing(sqlite3.connect(path, isolation_level=None)) as store:
            assert store.execute("PRAGMA wal_checkpoint").fetchone()[0] == 0

    def check_trail(self):
        """Whatever the disk did, what it has of the audit trail is one chain, and goes as far as weftd knew that it does."""
        trail = Path(self.config["store"]["path"]).parent / "audit.log"
        self.cli("audit", "verify", trail)
        last = json.loads(trail.read_text(encoding="utf-8").splitlines()[-1])
        head = json.loads(Path(f"{trail}-head").read_text(encoding="ascii"))
        assert head == {"sequence": last["sequence"], "hash": last["hash"]} or head["sequence"] < last["sequence"]

    def dump(self):
        """A store whose first transaction never was is empty."""
        if self.process:
            return super().dump()
        with self.copied_store() as path:
            try:
                return dump.read(path)
            except sqlite3.OperationalError as error:
                assert "no such table" in str(error), error
                return dump.Dump({"records": {}, "claims": {}, "meters": {}})

    def remove(self):
        if self.process:
            self.kill()
        if self.disk:
            self.disk.remove()
        shutil.rmtree(self.root, ignore_errors=True)


class Patient(Survivor):
    """Repeats what weftd could not do."""

    def passes(self, answer):
        """weftd could not: nothing happened, or nobody knows."""
        return answer.status in (500, 503, 507) or answer.status == 409 and answer.json["code"] == "exhausted"

    def call(self, method, path, body=None, *, accept=()):
        headers = {"Idempotency-Key": fresh_key()} if method == "POST" else None
        tries = []

        def answered():
            tries.append(self.alive(lambda: self.client.request(method, path, body, headers)))
            return None if self.passes(tries[-1]) else tries[-1]

        answer = until(answered, lambda: f"{method} {path} is done, but {tries[-1].status} {tries[-1].text}")
        repeated = len(tries) > 1 or self.deaths
        good = answer.status < 300 or answer.status in accept or (repeated and answer.status in (404, 409, 412))
        assert good, f"{method} {path}: {answer.status} {answer.text}"
        return answer


def run(operation, base, rules=(), cut_with=None, may_give_up=False):
    """The operation on a copy of the site whose disk follows these rules; what was written."""
    weft = base.clone()
    try:
        operation.before(weft)
        weft.cut_with, weft.may_give_up = cut_with, may_give_up
        weft.attach()
        weft.disk.rule(*rules)
        site = Patient(weft)
        site.start()
        operation.act(site)
        site.settle(operation.check)
        weft.stop_or_dead()
        weft.check_trail()
        weft.disk.unmount()
        return [entry[0] for entry in weft.disk.entries()]
    except Exception as error:
        raise AssertionError(f"operation {operation.name}, {rules} {cut_with or ''}: {error}\n{weft.log_tail()}") from error
    finally:
        weft.remove()
