#!/usr/bin/python3
"""A random walk on simulated adapters: clusters come and go, weftd and weft-hook are killed at random moments, and now and then each
virtual function must be able to use its cluster's partition (index 0), those that it was granted, and the default as limited member: no
more, no less, and nobody's function nothing.

    make test-adapters SEED=7 STEPS=300

The seed decides what is done and whom it strikes; what the kernel schedules in between is left to chance."""

import argparse
import os
import random
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve()
for place in (HERE.parent, HERE.parents[1], HERE.parents[1] / "fabric", HERE.parents[1] / "robustness"):
    sys.path.insert(0, str(place))

from harness.wait import until  # noqa: E402
from harness.weft import SOURCE  # noqa: E402
from sites import ALLOWED, KINDS, site  # noqa: E402
from survivor import Survivor  # noqa: E402
from weftsite import TENANTS  # noqa: E402

NODES_MAX = 100
COUNT_MAX = 6
LOOK_EVERY = 10
PATIENCE = int(os.environ.get("PATIENCE", 180))  # seconds for what takes two on a machine of its own
HOOK_POINTS = (("qemu-prepare", "hook-recorded"), ("qemu-prepare", "hook-device-prepared"), ("qemu-release", "hook-cleared"))
HOOK_OPERATIONS = ("qemu-prepare", "qemu-release", "qemu-start*", "network-start")
WEFTD_POINTS = ("start-before", "start-after", "stop-before", "stop-after", "apply-before", "apply-after", "inspect-after", "nodes-placed",
                "nodes-released", "cluster-created", "cluster-deleted", "cluster-released")


class Walk:
    def __init__(self, weft, seed):
        self.weft, self.chance = weft, random.Random(seed)
        self.survivor = Survivor(weft)
        self.live = {}  # (tenant, name): nodes
        self.done = []
        self.made = self.nodes = self.strikes = 0
        self.armed = self.struck = False

    # --- what the user does ---

    def create(self, most=COUNT_MAX):
        self.made += 1
        tenant, name = self.chance.choice(TENANTS), f"c{self.made}"
        count = self.chance.randint(1, min(most, NODES_MAX - sum(self.live.values())))
        shared = [name for name, tenants in ALLOWED.items() if tenant in tenants and self.chance.random() < 0.5]
        body = {"name": name, "count": count, "cores": 1, "memory": "128M", "image": "mpi", "path": "sriov", "shared": shared}
        self.survivor.call("POST", f"/v1/clusters?tenant={tenant}", body)
        self.live[tenant, name] = count
        self.nodes += count
        return f"create {tenant}/{name} {count} {shared}"

    def delete(self):
        tenant, name = self.chance.choice(sorted(self.live))
        self.survivor.call("DELETE", f"/v1/clusters/{name}?tenant={tenant}")
        del self.live[tenant, name]
        return f"delete {tenant}/{name}"

    def operate(self):
        full = sum(self.live.values()) >= NODES_MAX
        return self.delete() if full or (self.live and self.chance.random() < 0.45) else self.create()

    # --- what happens to weftd and the hook ---

    def kill_soon(self):
        delay = self.chance.uniform(0.001, 0.4)
        threading.Timer(delay, self.weft.process.kill).start()
        return f"kill weftd in {delay * 1000:.0f} ms"

    def kill_at(self):
        point = f"{self.chance.choice(WEFTD_POINTS)}:{self.chance.randint(1, 4)}"
        self.survivor.alive(self.weft.stop_or_dead)
        self.survivor.start(point)
        return f"kill weftd at {point}"

    def strike(self):
        operation, point = self.chance.choice(HOOK_POINTS)
        how = f"{operation} at {point}"
        if self.chance.random() < 0.5:
            how = f"{self.chance.choice(HOOK_OPERATIONS)} after {self.chance.uniform(0.001, 0.1):.3f}"
        if self.struck:  # what undoes what a killed hook left is not killed as well (docs/hardware.md)
            return None
        self.struck = True
        self.count_strike()
        self.weft.trees.strike(how)
        self.armed = True
        return f"kill the hook's {how}"

    def count_strike(self):
        self.strikes += self.armed and self.weft.trees.is_struck()
        self.armed = False

    def nothing(self):
        return None

    DISTURBANCES = ((nothing, 40), (kill_soon, 20), (kill_at, 8), (strike, 32))

    def disturb(self):
        if not self.survivor.alive(lambda: self.weft.process and self.weft.process.poll() is None):
            return None
        return self.chance.choices(*zip(*self.DISTURBANCES))[0](self)

    # --- quiet points ---

    def look(self, strikes=False):
        """All is as wished, and functions can do what the store says. strikes: who was to be killed still is."""
        last = []
        if not strikes:
            self.count_strike()
            self.weft.trees.strike(None)

        def right():
            if self.weft.process is None or self.weft.died():
                self.survivor.after_death()
                self.weft.start()
            last[:] = self.survivor.alive(self.phases) or self.weft.wrong()
            return not last

        until(right, lambda: f"all as wished, but {last[:8]}\n{self.weft.log_tail()}", PATIENCE)
        self.struck = False
        self.weft.check_log()

    def phases(self):
        found = {(c["tenant"], c["name"]): (c["phase"], c["ready"]) for c in self.survivor.client.items("/v1/clusters")}
        wanted = {key: ("ready", count) for key, count in self.live.items()}
        return [f"{key} is {found.get(key)}, not {wanted.get(key)}" for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]

    def go(self, steps):
        self.survivor.start()
        for number in range(1, steps + 1):
            self.done += filter(None, [self.disturb(), self.operate()])
            if number % LOOK_EVERY == 0:
                self.look()
                self.done.append("all as wished")
        while self.live:
            self.done.append(self.delete())
        self.look()
        left = [place for place, function in self.weft.trees.functions().items() if function.is_somebodys]
        assert not left and not self.weft.trees.records() and not self.weft.trees.links()
        self.weft.stop()


def walk(kind, seed, steps):
    """Raises AssertionError with all that is needed to repeat it; returns a line of summary."""
    began = time.monotonic()
    with site(kind) as made:
        journey = Walk(made, seed)
        try:
            journey.go(steps)
        except Exception as error:
            path = "\n".join(journey.done[-40:])
            raise AssertionError(f"{kind}: the last steps were\n{path}\n{error}\nagain: make test-adapters SEED={seed} STEPS={steps}") from error
    return (f"{kind}: seed {seed}: {steps} creates and deletes, {journey.nodes} nodes on {len(made.trees.processes)} hosts, weftd killed "
            f"{journey.survivor.deaths} times, the hook {journey.strikes} times; {time.monotonic() - began:.0f} s; all functions as wished")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCE / "build"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--kind", choices=KINDS, action="append")
    options = parser.parse_args()
    os.environ["WEFT_BUILD"] = str(Path(options.build).resolve())
    for kind in options.kind or KINDS:
        try:
            print(walk(kind, options.seed, options.steps), flush=True)
        except AssertionError as error:
            print(error)
            sys.exit(1)


if __name__ == "__main__":
    main()
