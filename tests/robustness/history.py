"""Clients that create, scale, delete, read and conditionally change the same few clusters at once while weftd is killed under them,
and what each was answered: a history for linear.py."""

import contextlib
import http.client
import random
import threading
import time

from harness.wait import PATIENCE
from harness.weft import Client, UnixConnection, fresh_key
from linear import LOST, Call, Cluster

CLIENTS = 5
NAMES = 3  # that are fought for at a time
CALLS_PER_NAME = 40  # then others are fought for: what a checker has to try grows with the calls of one name
WEIGHTS = {"create": 4, "read": 4, "scale": 5, "delete": 2}
# Refused before anything was looked at: it never took place.
REFUSED = (429, 503)


class NotSent(Exception):
    """Nobody listened: the call did not take place."""


def shown(answer):
    """The cluster in an answer."""
    assert answer.status != 409 or answer.json["code"] == "conflict", answer.text
    if answer.status not in (200, 201, 202):
        return None
    body = answer.json
    return Cluster(body["id"], body["count"], answer.headers["ETag"], body["deleting"])


class Recorder:
    """One site and what its clients saw of it."""

    def __init__(self, weft, seed, calls, kills):
        self.weft = weft
        self.random = random.Random(seed)
        self.calls = calls
        self.kills = kills
        self.lock = threading.Lock()
        self.serving = threading.Event()
        self.begun = 0
        self.history = []
        self.failure = None

    def run(self):
        self.weft.start()
        self.serving.set()
        clients = [threading.Thread(target=self.guarded, args=(number, self.random.random())) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        self.kill_between(clients)
        for client in clients:
            client.join()
        if self.failure:
            raise self.failure
        return self.history

    def kill_between(self, clients):
        """Kills weftd while calls are under way, at about equal distances."""
        for number in range(1, self.kills + 1):
            goal = self.calls * number // (self.kills + 1)
            while self.begun < goal and any(client.is_alive() for client in clients):
                time.sleep(self.random.uniform(0.0005, 0.002))
            self.serving.clear()
            self.weft.kill()
            self.weft.start()
            self.serving.set()

    def guarded(self, number, seed):
        try:
            Contender(self, number, random.Random(seed)).run()
        except Exception as error:  # noqa: BLE001  told by run()
            self.failure = self.failure or error

    def next_name(self):
        """None when there were calls enough."""
        with self.lock:
            if self.begun >= self.calls or self.failure:
                return None
            round_number = self.begun // (NAMES * CALLS_PER_NAME)
            self.begun += 1
        return f"c{round_number}-{self.random.randrange(NAMES)}"

    def add(self, call):
        with self.lock:
            self.history.append(call)


class Contender:
    """One client. It remembers what it last saw of each name, and changes some of them only if they are still so."""

    def __init__(self, recorder, number, rng):
        self.recorder = recorder
        self.number = number
        self.random = rng
        self.last = {}

    def run(self):
        while name := self.recorder.next_name():
            self.contend(name)

    def contend(self, name):
        verb = self.random.choices(list(WEIGHTS), WEIGHTS.values())[0]
        count = self.random.randint(1, 9) if verb in ("create", "scale") else None
        match = self.last.get(name) if verb in ("scale", "delete") and self.random.random() < 0.5 else None
        begin = time.monotonic()
        try:
            answer = self.create(name, count) if verb == "create" else self.ask(verb, name, count, match)
        except NotSent:
            return
        end = time.monotonic()
        if answer is None:
            self.recorder.add(Call(name, verb, begin, LOST, None, count, match, client=self.number))
        elif answer.status not in REFUSED:
            seen = shown(answer)
            self.recorder.add(Call(name, verb, begin, end, answer.status, count, match, seen, self.number))
            self.last[name] = seen or self.last.get(name)

    def create(self, name, count):
        """With the same key until it is answered: it is one call, however often it is sent."""
        body = {"name": name, "count": count, "cores": 1, "memory": "64M", "image": "mpi"}
        headers, sent = {"Idempotency-Key": fresh_key()}, False
        for _ in range(3):
            with contextlib.suppress(NotSent):
                answer = self.send("POST", "/v1/clusters?tenant=acme", body, headers)
                if answer:
                    return answer
                sent = True
        if not sent:
            raise NotSent
        return None

    def ask(self, verb, name, count, match):
        method = {"read": "GET", "scale": "PATCH", "delete": "DELETE"}[verb]
        return self.send(method, f"/v1/clusters/{name}?tenant=acme", count and {"count": count}, match and {"If-Match": match.etag})

    def send(self, method, path, body, headers):
        """None: nobody knows whether it took place."""
        self.recorder.serving.wait(PATIENCE)
        try:
            return Client(self.connect).request(method, path, body, headers)
        except (OSError, http.client.HTTPException):
            return None

    def connect(self):
        connection = UnixConnection(self.recorder.weft.socket)
        try:
            connection.connect()
        except OSError as error:
            raise NotSent from error
        return connection
