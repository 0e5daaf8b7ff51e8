#!/usr/bin/python3
"""A random walk: operations, kills and faults in any order, against a simple model of what should exist.

    make robustness SEED=7 STEPS=2000

The seed decides what is done and where weftd is killed; what the kernel schedules in between is left to chance. On a failure
the steps so far and the command that repeats the walk are printed."""

import argparse
import os
import random
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from harness.wait import until  # noqa: E402
from harness.weft import SOURCE, Weft  # noqa: E402
from operations import add_settled_image  # noqa: E402
from survivor import Survivor  # noqa: E402

HOSTS = 6
TENANTS = ("acme", "umbrella")
NODES_MAX = 10  # of all clusters: always fits, also with two hosts away
AWAY_MAX = 2
QUIET_EVERY = 12  # steps between two quiet points, about
FAULTS = ("fail start 2 broken", "fail stop 2 stuck", "fail list 1 deaf", "fail connect 2 no bridge", "fail disconnect 2 in use",
          "fail open 2 no stream", "fail sync 2 no answer", "fail meet 2 nobody there",
          "fail move 2 no way", "broken move 1", "fail save 2 no space", "fail fetch 2 no answer", "fail become 2 nobody",
          "fail plug 2 no port", "slow move 60", "slow save 30", "hang move 1", "hang save 1",
          "slow start 30", "slow stop 30", "slow connect 30", "slow sync 30",
          "hang start 1", "hang list 1", "hang inspect 1", "hang connect 1", "hang open 1", "hang sync 1", "hang meet 1")
JUMPS = tuple(sign * seconds for seconds in (3600, 86400, 3650 * 86400) for sign in (1, -1))
FABRIC_FAULTS = ("fail apply 2 busy", "slow apply 30", "hang apply 1")


@dataclass
class Model:
    """What the user and the site were told to be."""

    clusters: dict = field(default_factory=dict)  # (tenant, name): count
    clones: set = field(default_factory=set)  # those of them that may have failed: their source may be gone, or a fork fail
    checkpoints: dict = field(default_factory=dict)  # (tenant, name): count of nodes
    away: dict = field(default_factory=dict)  # host: "lost", "drained", "emptied" or "evicted"
    foreign: set = field(default_factory=set)  # (host, domain)
    strays: set = field(default_factory=set)  # (host, domain) with weft's mark that no record explains
    serial: int = 0

    def room(self):
        """Nodes of clones have their cores on one NUMA node each, which leaves some unused."""
        return NODES_MAX - sum(self.clusters.values()) - (2 if self.clones else 0)


class Walk:
    def __init__(self, seed, steps, patience=None):
        self.random = random.Random(seed)
        self.steps = steps
        self.end = time.monotonic() + patience if patience else None
        self.model = Model()
        self.weft = Weft(hosts=HOSTS, changes={"control": {
            "start_deadline": "300ms", "await_deadline": "300ms", "meet_deadline": "300ms", "connect_deadline": "300ms",
            "stop_deadline": "300ms", "list_deadline": "200ms", "apply_deadline": "300ms", "backoff_max": "100ms"}})
        self.site = Survivor(self.weft)
        self.failpoints = self.known_failpoints()
        self.done = []
        self.kills = 0

    @staticmethod
    def known_failpoints():
        import subprocess

        return subprocess.run([SOURCE / "tools/check-failpoints", "--list"], check=True, capture_output=True, text=True).stdout.split()

    # --- operations; each returns a text for the list of steps, or None when it does not apply now ---

    def create(self):
        if self.model.room() < 1:
            return None
        self.model.serial += 1
        tenant, name = self.random.choice(TENANTS), f"c{self.model.serial}"
        count = self.random.randint(1, min(4, self.model.room()))
        start = self.random.choice(({"image": "mpi"}, {"image": "own", "path": "bridge", "start": "cold"}, {"image": "own", "path": "bridge"}))
        body = start | {"name": name, "count": count, "cores": self.random.randint(1, 2), "memory": "128M",
                "priority": self.random.randint(-5, 5), "preemptible": self.random.random() < 0.4}
        self.site.call("POST", f"/v1/clusters?tenant={tenant}", body)
        self.model.clusters[tenant, name] = count
        return f"create {tenant}/{name} {count}"

    def create_brief(self):
        """It ends by itself: the model does not know of it."""
        self.model.serial += 1
        body = {"name": f"b{self.model.serial}", "count": 1, "cores": 1, "memory": "128M", "image": "mpi", "walltime": "1s"}
        self.site.call("POST", f"/v1/clusters?tenant={self.random.choice(TENANTS)}", body)
        return f"create {body['name']} for 1 s"

    def reserve(self):
        """Sends away who gives way, for a second."""
        self.model.serial += 1
        name, host = f"r{self.model.serial}", f"n{self.random.randint(1, HOSTS)}"
        self.site.call("POST", "/v1/reservations", {"name": name, "hosts": host, "duration": "1s"}, accept=(409,))
        return f"reserve {host}"

    def pick(self):
        return self.random.choice(sorted(self.model.clusters)) if self.model.clusters else None

    def scale(self):
        key = self.pick()
        if not key:
            return None
        count = self.random.randint(1, max(1, min(6, self.model.clusters[key] + self.model.room())))
        self.site.call("PATCH", f"/v1/clusters/{key[1]}?tenant={key[0]}", {"count": count})
        self.model.clusters[key] = count
        return f"scale {key[0]}/{key[1]} {count}"

    def delete(self):
        key = self.pick()
        if not key:
            return None
        self.site.call("DELETE", f"/v1/clusters/{key[1]}?tenant={key[0]}")
        del self.model.clusters[key]
        self.model.clones.discard(key)
        return f"delete {key[0]}/{key[1]}"

    def move(self):
        key = self.pick()
        if not key:
            return None
        rank = self.random.randrange(self.model.clusters[key])
        wish = {"disrupt": True, "copy": self.random.choice(("auto", "pre-copy", "post-copy", "hybrid"))}
        answer = self.site.call("POST", f"/v1/clusters/{key[1]}/nodes/{rank}/move?tenant={key[0]}", wish, accept=(404, 409))
        return f"move {key[0]}/{key[1]}[{rank}]: {answer.status}"

    def clone(self):
        """Of what it is when it is asked for; it may fail later, and then stays so until it is deleted."""
        key = self.pick()
        if not key or self.model.room() < self.model.clusters[key]:
            return None
        self.model.serial += 1
        copy = (key[0], f"k{self.model.serial}")
        answer = self.site.call("POST", f"/v1/clusters/{key[1]}/clone?tenant={key[0]}", {"name": copy[1]}, accept=(400, 404, 409))
        if answer.status < 300:
            self.model.clusters[copy] = answer.json["count"]
            self.model.clones.add(copy)
        return f"clone {key[0]}/{key[1]} to {copy[1]}: {answer.status}"

    def checkpoint(self):
        key = self.pick()
        if not key:
            return None
        self.model.serial += 1
        name = f"p{self.model.serial}"
        body = {"name": name, "disrupt": True}
        answer = self.site.call("POST", f"/v1/clusters/{key[1]}/checkpoints?tenant={key[0]}", body, accept=(400, 409))
        if answer.status < 300:
            self.model.checkpoints[key[0], name] = self.model.clusters[key]
        return f"checkpoint {key[0]}/{key[1]} as {name}: {answer.status}"

    def pick_checkpoint(self):
        return self.random.choice(sorted(self.model.checkpoints)) if self.model.checkpoints else None

    def restore(self):
        """Refused while others have what its nodes had, and of what is not complete."""
        key = self.pick_checkpoint()
        if not key or self.model.room() < self.model.checkpoints[key]:
            return None
        self.model.serial += 1
        name = f"r{self.model.serial}"
        answer = self.site.call("POST", f"/v1/checkpoints/{key[1]}/restore?tenant={key[0]}", {"as": name}, accept=(400, 409))
        if answer.status < 300:
            self.model.clusters[key[0], name] = answer.json["count"]
        return f"restore {key[0]}/{key[1]} as {name}: {answer.status}"

    def forget(self):
        key = self.pick_checkpoint()
        if not key:
            return None
        answer = self.site.call("DELETE", f"/v1/checkpoints/{key[1]}?tenant={key[0]}", accept=(409,))
        if answer.status != 409:
            del self.model.checkpoints[key]
        return f"forget {key[0]}/{key[1]}: {answer.status}"

    def send_away(self, how):
        here = [f"n{i + 1}" for i in range(HOSTS) if f"n{i + 1}" not in self.model.away]
        if len(self.model.away) >= AWAY_MAX:
            return None
        name = self.random.choice(here)
        if how == "lost":
            self.weft.world.lose(name)
            self.site.lost.add(name)
        else:
            self.site.call("POST", f"/v1/hosts/{name}/drain", {"evict": how == "evicted", "move": how == "emptied", "disrupt": how == "emptied"})
        self.model.away[name] = how
        return f"{how} {name}"

    def lose(self):
        return self.send_away("lost")

    def drain(self):
        return self.send_away("drained")

    def evict(self):
        return self.send_away("evicted")

    def empty(self):
        return self.send_away("emptied")

    def bring_back(self):
        if not self.model.away:
            return None
        name = self.random.choice(sorted(self.model.away))
        how = self.model.away.pop(name)
        if how == "lost":
            self.weft.world.bring_back(name)
            self.site.lost.discard(name)
        else:
            self.site.call("POST", f"/v1/hosts/{name}/undrain", {})
        return f"back {name} (was {how})"

    def running(self):
        return sorted((host, name) for host, names in self.weft.world.domains().items() for name in names
                      if name.startswith("weft-") and (host, name) not in self.model.strays)

    def reboot(self):
        running = self.running()
        if not running:
            return None
        host, name = self.random.choice(running)
        self.weft.world.reboot(host, name)
        return f"reboot {name} on {host}"

    def end_domain(self):
        running = self.running()
        if not running:
            return None
        host, name = self.random.choice(running)
        try:
            self.random.choice((self.weft.world.end_domain, self.weft.world.remove_domain))(host, name)
        except FileNotFoundError:
            return None
        return f"end {name} on {host}"

    def foreign(self):
        self.model.serial += 1
        host, name = f"n{self.random.randint(1, HOSTS)}", f"foreign{self.model.serial}"
        self.weft.world.add_foreign(host, name)
        self.model.foreign.add((host, name))
        return f"foreign {name} on {host}"

    def stray(self):
        """As of another store: its host is held until an operator says that it may go."""
        running = self.running()
        if not running or self.model.strays:
            return None
        self.model.serial += 1
        host, name = f"n{self.random.randint(1, HOSTS)}", f"weft-0zzzzzzzz{self.model.serial:03}-7"
        try:
            self.weft.world.add_stray(host, name, like=self.random.choice(running)[1])
        except (FileNotFoundError, StopIteration):
            return None
        self.model.strays.add((host, name))
        return f"stray {name} on {host}"

    def release(self):
        """An operator lets go what is held on hosts that can be reached; until then it was left as it is."""
        for host, name in sorted(self.model.strays):
            if host in self.site.lost:
                continue
            assert host in self.weft.world.where(name), f"{name} on {host} was removed without a proof"
            self.site.until(lambda: self.is_gone(host, name), lambda: f"{name} on {host} is held, and then gone: {self.weft.log_tail()}")
            self.model.strays.discard((host, name))

    def is_gone(self, host, name):
        """Asks for its removal wherever it is held: a weftd that has just started does not know of it yet."""
        items = self.site.alive(lambda: self.site.client.items("/v1/site"))
        keys = [item["key"] for item in items if item["host"] == host]
        if keys:
            self.site.call("POST", "/v1/site/remove", {"host": host, "keys": keys}, accept=(409,))
        return host not in self.weft.world.where(name)

    def fault(self):
        if self.random.random() < 0.3:
            line = self.random.choice(FABRIC_FAULTS)
            self.weft.world.fabric_fault(line)
            return f"fabric: {line}"
        line = self.random.choice(FAULTS)
        self.weft.world.fault(line)
        return f"hosts: {line}"

    def jump(self):
        """The clock of weftd's machine is set; hosts' clocks are right."""
        self.model.serial += 1
        seconds = self.random.choice((0, *JUMPS))
        boot = f"boot{self.model.serial}" if self.random.random() < 0.5 else None
        self.weft.set_clock(seconds, boot)
        return f"clock {seconds:+} s" + (f", as after a boot ({boot})" if boot else "")

    def kill_now(self):
        self.weft.kill()
        self.kills += 1
        self.site.after_death()
        self.site.start()
        return "kill"

    def kill_soon(self):
        """While the next operations are under way."""
        delay = self.random.uniform(0.001, 0.08)
        threading.Timer(delay, self.weft.process.kill).start()
        self.kills += 1
        return f"kill in {delay * 1000:.0f} ms"

    def kill_at(self):
        name = self.random.choice(self.failpoints)
        times = self.random.randint(1, 4)
        self.site.alive(self.weft.stop_or_dead)
        self.site.start(f"{name}:{times}")
        self.kills += 1
        return f"kill at {name}:{times}"

    OPERATIONS = ((create, 16), (create_brief, 3), (reserve, 3), (scale, 14), (delete, 8), (move, 10), (clone, 5),
                  (checkpoint, 7), (restore, 7), (forget, 3), (empty, 3), (lose, 3), (drain, 3), (evict, 3), (bring_back, 8),
                  (end_domain, 8), (reboot, 6), (foreign, 1), (stray, 2), (fault, 8), (jump, 3), (kill_now, 4), (kill_soon, 12), (kill_at, 6))

    # --- quiet points ---

    def quiet(self):
        """No faults: everything must come to what the model says."""
        self.weft.world.fault()
        self.weft.world.fabric_fault()
        self.release()
        self.site.settle()
        self.site.until(self.as_modelled, lambda: f"the clusters are {self.seen()}, not {self.model.clusters}")
        self.site.until(self.are_put_aside, lambda: f"checkpoints are made or not: {self.saved()}, of {sorted(self.model.checkpoints)}")
        self.site.until(lambda: not self.standing(), lambda: f"nobody stands still, and no saved file is left, but {self.standing()}")
        for host, name in self.model.foreign:
            assert host in self.weft.world.where(name), f"{name} on {host} was not weft's to remove"
        for name, how in self.model.away.items():
            if how == "evicted":
                ours = [d for d in self.weft.world.domains().get(name, ()) if d.startswith("weft-")]
                assert not ours, f"{ours} on {name}, which was evicted"
        return "quiet"

    def standing(self):
        """Nodes that wait to go on, and files of saved ones, on hosts that can be reached."""
        hosts = self.weft.world.hosts
        return [str(path.relative_to(hosts)) for pattern in ("*/domains/*.paused", "*/pool/*.saved") for path in hosts.glob(pattern)
                if path.relative_to(hosts).parts[0] not in self.site.lost]

    def seen(self):
        return {(c["tenant"], c["name"]): (c["count"], c["ready"], c["phase"]) for c in self.site.client.items("/v1/clusters")}

    def as_modelled(self):
        seen, wanted = self.seen(), {key: (count, count, "ready") for key, count in self.model.clusters.items()}
        return seen == wanted | {key: seen[key] for key in self.model.clones & seen.keys() if seen[key][-1] == "failed"}

    def saved(self):
        return {(c["tenant"], c["name"]): c["state"] for c in self.site.client.items("/v1/checkpoints")}

    def are_put_aside(self):
        saved = self.saved()
        return saved.keys() == self.model.checkpoints.keys() and set(saved.values()) <= {"complete", "failed"}

    # --- the walk ---

    def step(self):
        operations, weights = zip(*self.OPERATIONS)
        while True:
            text = self.random.choices(operations, weights)[0](self)
            if text:
                return text

    def go(self):
        self.site.start()
        add_settled_image(self.site)
        for number in range(1, self.steps + 1):
            if self.end and time.monotonic() > self.end:
                break
            if self.site.alive(lambda: not self.weft.process) or self.random.random() < 1 / QUIET_EVERY:
                self.done.append(self.quiet())
            else:
                self.done.append(self.step())
        self.done.append(self.quiet())
        self.clean_up()

    def clean_up(self):
        """All away: nothing of weft's may be left in the store or in the world."""
        while self.model.away:
            self.bring_back()
        while self.model.clusters:
            self.delete()
        while self.model.checkpoints:
            self.forget()
        self.quiet()
        dump = self.weft.dump()
        assert not dump.values("node") and not dump.values("cluster-status")
        ours = [d for names in self.weft.world.domains().values() for d in names if d.startswith("weft-")]
        assert not ours and not self.weft.world.partitions() and not self.weft.world.networks()
        until(lambda: self.site.alive(self.weft.stop_or_dead) is None, "weftd stops")


def walk(seed, steps, patience=None):
    """Raises AssertionError with all that is needed to repeat it; returns a line of summary."""
    journey = Walk(seed, steps, patience)
    try:
        journey.go()
    except Exception as error:
        path = "\n".join(f"{i + 1:5} {text}" for i, text in enumerate(journey.done[-60:], max(0, len(journey.done) - 60)))
        raise AssertionError(f"the last steps were\n{path}\n{error}\nagain: make robustness SEED={seed} STEPS={steps}") from error
    finally:
        journey.weft.remove()
    return f"seed {seed}: {len(journey.done)} steps, {journey.kills} kills, all invariants held"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=str(SOURCE / "build"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    os.environ["WEFT_BUILD"] = str(Path(options.build).resolve())
    print(f"seed {options.seed}", flush=True)
    try:
        print(walk(options.seed, options.steps))
    except AssertionError as error:
        print(error)
        sys.exit(1)


if __name__ == "__main__":
    main()
