"""A client that goes on when weftd is killed under it: it starts weftd again and repeats what was not acknowledged."""

import contextlib
import http.client
import subprocess
from pathlib import Path

from harness.invariants import UsageBook, converged, ledger
from harness.wait import until
from harness.weft import fresh_key

DEATH = (OSError, http.client.HTTPException)


class Survivor:
    """Drives one site. The store's ledger is checked at each death, before weftd is there again."""

    def __init__(self, weft, lost=()):
        self.weft = weft
        self.lost = set(lost)
        self.book = UsageBook()
        self.deaths = 0

    @property
    def client(self):
        return self.weft.client

    @property
    def world(self):
        return self.weft.world

    def start(self, failpoint=None, failpoint_log=None):
        self.look()
        if not self.weft.start(failpoint, failpoint_log):
            self.after_death()
            self.weft.start()

    def look(self):
        """What must be true at any moment."""
        if Path(self.weft.config["store"]["path"]).exists():
            dump = self.weft.dump()
            wrong = ledger(dump) + self.book.look(dump)
            assert not wrong, wrong

    def after_death(self):
        self.deaths += 1
        self.look()

    def revive(self):
        """The connection broke: weftd is dead or dying."""
        until(self.weft.died, lambda: f"weftd is dead, as its connection is: {self.weft.log_tail()}")
        self.after_death()
        self.weft.start()

    def alive(self, action):
        """Repeats the action until it ends without weftd dying in it."""
        while True:
            try:
                return action()
            except DEATH:
                self.revive()

    def until(self, check, what):
        return until(lambda: self.alive(check), what)

    def passes(self, _answer):
        """Whether it is a refusal that a client is to expect here, and to try again."""
        return False

    def call(self, method, path, body=None, *, accept=()):
        """A request that may have to be made again; then what it did the first time counts as its success."""
        headers = {"Idempotency-Key": fresh_key()} if method == "POST" else None
        before = self.deaths
        answer = self.alive(lambda: self.client.request(method, path, body, headers))
        repeated = self.deaths > before
        good = answer.status < 300 or answer.status in accept or (repeated and method == "DELETE" and answer.status == 404)
        assert good, f"{method} {path}: {answer.status} {answer.text}"
        return answer

    def cluster(self, name, tenant="acme"):
        return self.alive(lambda: self.client.cluster(name, tenant))

    def nodes(self, name, tenant="acme"):
        return self.alive(lambda: self.client.nodes(name, tenant))

    def host(self, name):
        return self.alive(lambda: self.client.get(f"/v1/hosts/{name}"))

    def settle(self, check=None):
        """Until the world is as wished, and check(self) finds nothing to object to. A death on the way is survived."""
        last = []

        def settled():
            if self.weft.died():
                self.after_death()
                self.weft.start()
            last[:] = converged(self.weft, self.lost)
            if not last and check:
                try:
                    self.alive(lambda: check(self))
                except AssertionError as error:
                    last[:] = [error]
            return not last

        until(settled, lambda: f"converged, but {last}\n{self.weft.log_tail()}")
        self.look()

    def dies(self, timeout):
        """Whether the failpoint is still reached within that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.weft.process.wait(timeout)
        return self.weft.process.poll() is not None


def prepare(operation, weft):
    """Makes it a stopped site as the operation wants to find it, and returns it."""
    if not operation.fresh:
        site = Survivor(weft)
        site.start()
        operation.prepare(site)
        site.settle()
        weft.stop()
    return weft
