"""The same requests, in the same order, to Slurm and to weft, each with the same 1,000 hosts on the same leaf switches; for bench/schedule.

A request is so many nodes of so many cores, with 4 GiB for each of these and a virtual function: for Slurm tasks, which it may put
beside each other on a host as weft does nodes; functions are of the only kind that it counts by the task, gpu. How many nodes is
drawn as Lublin and Feitelson found it ("The workload on parallel supercomputers", 2003), as by weft simulate. Each is decided before
the next one is made. First, and not counted, 70 % of the cores are taken; then some of those that run end before each request, so
that it stays at that."""

import json
import math
import random
import re
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.slurm import Slurm
from harness.wait import until
from harness.weft import Weft, build_folder

HOSTS = 1000
ON_A_LEAF = 32
SOCKETS = 2
CORES = 128  # of a host, as machines of today have; Slurm's time grows with them: with 48 the ratio is about half
GIB = 512
GIB_A_CORE = 4
FUNCTIONS = 16
FILL = 0.7
MOST_NODES = 64
SHARES = (8, 16, 32, 64)  # cores of nodes that are not a host's only ones
WHOLE = 0.6  # of the requests are for whole hosts
DECIDED = 10.0  # seconds: what has no places by then does not fit
LEAST_RATIO = 100
GRANTS = 30  # requests that salloc is timed with
SIZES = ((1, 1), (2, 8), (9, MOST_NODES))  # nodes, from and to, for what is told apart by them


@dataclass
class Request:
    number: int
    nodes: int
    cores: int  # of each
    ends: list  # numbers of those that end before it

    @property
    def whole(self):
        return self.cores == CORES

    @property
    def gib(self):
        return self.cores * GIB_A_CORE


@dataclass
class Placed:
    """What became of a request."""
    leaves: int  # 0: it did not fit
    micros: float  # that the scheduler says that it took
    seconds: float = 0  # from the beginning of the command until a look says that it has places


def leaves(hosts):
    """How many leaf switches these are on; n1 is the first one's first."""
    return len({(int(name[1:]) - 1) // ON_A_LEAF for name in hosts})


def draw_nodes(rng):
    """A quarter are single, the logarithm of the others is even in two parts, most are powers of two."""
    top = math.log2(MOST_NODES)
    if rng.random() < 0.24:
        return 1
    size = rng.uniform(0.8, top - 2.5) if rng.random() < 0.86 else rng.uniform(top - 2.5, top)
    return round(2 ** (round(size) if rng.random() < 0.75 else size))


def requests(seed, count):
    """Those that fill the hosts, and then as many as are counted."""
    rng = random.Random(seed)
    running, taken, made, filled = {}, 0, [], None
    while filled is None or len(made) < filled + count:
        nodes = rng.randint(1, MOST_NODES) if filled is None else draw_nodes(rng)
        cores = CORES if rng.random() < WHOLE else rng.choice(SHARES)
        ends = []
        while taken + nodes * cores > FILL * HOSTS * CORES:
            filled = len(made) if filled is None else filled
            ends.append(rng.choice(list(running)))
            taken -= running.pop(ends[-1])
        running[len(made)] = nodes * cores
        taken += nodes * cores
        made.append(Request(len(made), nodes, cores, ends))
    return made


# --- Slurm ---

# Hosts of the cloud are given to jobs before they are up. These never come up: their jobs have them, and stay in CONFIGURING.
NODE = f"Sockets={SOCKETS} CoresPerSocket={CORES // SOCKETS} ThreadsPerCore=1 RealMemory={GIB << 10} Gres=gpu:vf:{FUNCTIONS} State=CLOUD"
SETTINGS = {
    "GresTypes": "gpu",
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": "batch_sched_delay=0",  # by default it waits 3 s, for more to come
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_Core_Memory",
    "SuspendProgram": "/bin/true",
    "ResumeProgram": "/bin/true",
    "SuspendTime": 65000,
    "ResumeTimeout": 65000,
    "ResumeRate": 0,
}


def tree():
    """topology.conf"""
    firsts = range(1, HOSTS + 1, ON_A_LEAF)
    lines = [f"SwitchName=leaf{i} Nodes=n[{first}-{min(HOSTS, first + ON_A_LEAF - 1)}]" for i, first in enumerate(firsts)]
    return "\n".join([*lines, f"SwitchName=spine Switches=leaf[0-{len(firsts) - 1}]\n"])


class SlurmSide:
    def __init__(self, folder):
        self.slurm = Slurm(folder, tree(), HOSTS, NODE, **SETTINGS)
        self.script = folder / "job"
        self.script.write_text("#!/bin/sh\ntrue\n", encoding="utf-8")
        self.jobs = {}
        self.tests = []  # microseconds of each submission

    def __enter__(self):
        self.slurm.__enter__()
        self.version = self.slurm.run("sdiag", "-V").split()[-1]
        return self

    def __exit__(self, *_):
        self.slurm.__exit__()

    def _words(self, request):
        """As a user would ask for it."""
        words = ["-t", "1-0", "-n", str(request.nodes), "--gpus-per-task=vf:1"]
        return words + (["-N", str(request.nodes), "--exclusive", f"--mem={request.gib}G"] if request.whole else
                        ["-c", str(request.cores), f"--mem-per-cpu={GIB_A_CORE}G"])

    def place(self, request):
        self.slurm.run("sdiag", "-r")
        began = time.monotonic()
        job = self.slurm.run("sbatch", "--parsable", "-o", "/dev/null", *self._words(request), str(self.script)).strip()
        self.jobs[request.number] = job
        nodes = self._wait(job, began + DECIDED)
        seconds = time.monotonic() - began
        hosts = self.slurm.run("scontrol", "show", "hostnames", nodes).split() if nodes else []
        micros = until(lambda: cycles(self.slurm.run("sdiag")), "a cycle was counted, which is after its locks are given up")
        self.tests.append(int(re.search(r"REQUEST_SUBMIT_BATCH_JOB .*total_time:(\d+)", self.slurm.run("sdiag"))[1]))
        if not nodes:
            self.end(request.number)
        return Placed(leaves(hosts), micros, seconds)

    def _wait(self, job, end):
        """The job's nodes; none when the time is over."""
        while True:
            nodes = self.slurm.run("squeue", "-h", "-j", job, "-o", "%N").strip()
            if nodes or time.monotonic() > end:
                return nodes
            time.sleep(0.01)

    def end(self, number):
        """It gives its nodes back at once, as none of them is up."""
        self.slurm.run("scancel", self.jobs.pop(number))

    def grant(self, request):
        """The other way into Slurm, by which it decides at once: seconds until salloc says that it has an allocation. Then it would wait
        for its nodes to come up."""
        began = time.monotonic()
        with self.slurm.beside("salloc", "--no-shell", *self._words(request), stderr=subprocess.PIPE, text=True) as process:
            said = process.stderr.readline()
            seconds = time.monotonic() - began
            process.kill()
        assert "Granted job allocation" in said, said
        self.slurm.run("scancel", said.split()[-1])
        return seconds


def cycles(told):
    """Microseconds of the main and of the backfill scheduler since sdiag -r."""
    total = 0
    for part in told.split("Main schedule statistics", 1)[1].split("Latency for", 1)[0].split("Backfilling stats"):
        numbers = dict(re.findall(r"(Total cycles|Mean cycle):\s*(\d+)", part))
        total += int(numbers["Total cycles"]) * int(numbers.get("Mean cycle", 0))
    return total


# --- weft ---


def hosts(first, last):
    """weft.yaml deals the leaves out in equal blocks."""
    return {
        "name": f"n[{first}-{last}]",
        "fabric": "ib0",
        "leaf": f"leaf[{(first - 1) // ON_A_LEAF}-{(last - 1) // ON_A_LEAF}]",
        "numa": [{"cores": CORES // SOCKETS, "threads": 1, "pages": {"2M": GIB * 512 // SOCKETS}}] * SOCKETS,
        "hcas": [{"name": "mlx5_0", "driver": "mlx5", "numa": 0, "rail": 0, "port_guid": f"0x{0x0002C90300000000 + 16 * first:016x}", "vfs": FUNCTIONS}],
    }


class WeftSide:
    """weftd as it is, but that its hosts and its fabric are fakes."""

    def __init__(self, folder):
        full = HOSTS // ON_A_LEAF * ON_A_LEAF
        self.weft = Weft(folder, changes={"hosts": [hosts(1, full), hosts(full + 1, HOSTS)]})
        del self.weft.config["control"]

    def __enter__(self):
        self.weft.start()
        until(lambda: sum(host["state"] == "up" for host in self.weft.client.items("/v1/hosts", limit=1000)) == HOSTS, "all hosts are up", 60)
        return self

    def __exit__(self, *_):
        self.weft.kill()

    def _micros(self):
        """That the queue was gone through so far."""
        return self.weft.client.get("/v1/queue")["statistics"]["microseconds"]

    def place(self, request):
        before, name = self._micros(), f"c{request.number}"
        began = time.monotonic()
        self.weft.cli("create", name, "--tenant", "acme", "-n", str(request.nodes), "--cores", str(request.cores), "--memory", f"{request.gib}G",
                      "--image", "mpi", "--no-wait")
        cluster = self._wait(name, began + DECIDED)
        seconds = time.monotonic() - began
        placed = Placed(leaves(node["host"] for node in cluster["members"]), self._micros() - before, seconds)
        if placed.leaves:
            self.weft.client.wait_phase(name, "ready", timeout=60)  # or its nodes would start while the next one is timed
        else:
            self.end(request.number)
        return placed

    def _wait(self, name, end):
        while True:
            cluster = json.loads(self.weft.cli("show", name, "--tenant", "acme", "--json").stdout)
            if cluster["members"] or time.monotonic() > end:
                return cluster
            time.sleep(0.01)

    def end(self, number):
        self.weft.client.delete(f"c{number}")
        self.weft.client.wait_gone(f"c{number}")


def run(side, asked):
    """What becomes of each."""
    found = []
    for request in asked:
        for number in request.ends:
            if found[number].leaves:
                side.end(number)
        found.append(side.place(request))
        if len(found) % 50 == 0:
            print(f"  {len(found)} of {len(asked)}", flush=True)
    return found


def replay(folder, asked):
    """The same from the scheduler without weftd around it."""
    lines = [{"fleet": {"hosts": HOSTS, "per_leaf": ON_A_LEAF, "per_pod": HOSTS, "numa": SOCKETS, "cores": CORES // SOCKETS,
                        "memory": GIB << 10, "vfs": FUNCTIONS}}]
    for request in asked:
        lines += [{"free": str(number)} for number in request.ends]
        lines.append({"id": str(request.number), "nodes": request.nodes, "cores": request.cores, "memory": request.gib << 10, "vf": True})
    (folder / "requests").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    told = subprocess.run([build_folder() / "bench/schedule-bench", "replay", folder / "requests"], check=True, capture_output=True, text=True).stdout
    return [Placed(each["leaves"], each["micros"]) for each in map(json.loads, told.splitlines())]


# --- side by side ---

COUNTED = """Own time is counted inside both daemons. Of Slurm: the cycles of its main and backfill schedulers from sbatch until the job has its nodes,
by sdiag; not the test of each job at its submission, {test:.0f} µs. Of weft: all that its queue was gone through from weft create until the cluster
has its places, by GET /v1/queue: order, promises, placement, and the places taken; not the notice that its indexes take of this when nobody waits.
By itself: the same without weftd around it, request after request, so that all it needs is in the processor's caches, and with that notice.
End to end: until squeue, or weft show, tells of places; slurmctld looks at new batch jobs once a second, at those of salloc at once.
Slurm has its defaults, but {settings}."""


def percentile(numbers, part):
    return sorted(numbers)[min(len(numbers) - 1, int(len(numbers) * part))]


def summary(asked, placed):
    """(what, number) of one side."""
    def column(name, which=lambda request: True):
        return [getattr(each, name) for request, each in zip(asked, placed) if each.leaves and which(request)]

    micros, seconds = column("micros"), column("seconds")
    yield "requests that got places", len(micros)
    yield "own time for one, µs: median", statistics.median(micros)
    for low, high in SIZES:
        yield f"  of those of {low} to {high} nodes", statistics.median(column("micros", lambda request: low <= request.nodes <= high))
    yield "  mean", statistics.mean(micros)
    yield "  99th percentile", percentile(micros, 0.99)
    yield "leaf switches of one: mean", statistics.mean(column("leaves"))
    yield "  of those with whole hosts", statistics.mean(column("leaves", lambda request: request.whole))
    yield "  of those with parts of hosts", statistics.mean(column("leaves", lambda request: not request.whole))
    yield "end to end, ms: median", statistics.median(seconds) * 1e3
    yield "  99th percentile", percentile(seconds, 0.99) * 1e3


def verdicts(slurm, weft):
    """(what, measured, to reach, whether it is). Like with like: of requests that got places from both."""
    both = [pair for pair in zip(slurm, weft) if all(each.leaves for each in pair)]
    theirs, ours = (sum(each.micros for each in side) for side in zip(*both))
    spans = [statistics.mean(each.leaves for each in side) for side in zip(*both)]
    lacking = [sum(not each.leaves for each in side) for side in (slurm, weft)]
    yield "Slurm's own time over weft's, for all of them", theirs / ours, f"at least {LEAST_RATIO}", theirs / ours >= LEAST_RATIO
    yield "leaf switches of a request from weft", spans[1], f"at most Slurm's {spans[0]:.2f}", spans[1] <= spans[0]
    yield "requests without places from weft", lacking[1], f"at most Slurm's {lacking[0]}", lacking[1] <= lacking[0]


def ask_slurm(asked, count):
    """Placed of each of the last ones, and what else there is to tell."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder, SlurmSide(Path(folder)) as side:
        placed = run(side, asked)[-count:]
        grants = [side.grant(request) * 1e3 for request in asked[-GRANTS:]]
        return placed, {"version": side.version, "salloc": statistics.median(grants), "test": statistics.median(side.tests[-count:])}


def ask_weft(asked, count):
    """Placed of each of the last ones by weftd, and by its scheduler by itself."""
    with tempfile.TemporaryDirectory(prefix="weft-bench-") as folder:
        with WeftSide(Path(folder)) as side:
            placed = run(side, asked)[-count:]
        return placed, replay(Path(folder), asked)[-count:]


def compare(seed, count):
    """Prints all of it; returns the ratio, and whether what is to be reached was."""
    asked = requests(seed, count)
    print(f"{count} requests of 1 to {MOST_NODES} nodes, after {len(asked) - count} that fill {HOSTS} hosts of {CORES} cores, {ON_A_LEAF} on a leaf; "
          "Slurm takes a second for each", flush=True)
    slurm, also = ask_slurm(asked, count)
    weft, alone = ask_weft(asked, count)
    print(f"{'':40} {'Slurm ' + also['version']:>14} {'weft':>14}")
    for (what, theirs), (_, ours) in zip(summary(asked[-count:], slurm), summary(asked[-count:], weft)):
        print(f"{what:40} {theirs:14,.2f} {ours:14,.2f}")
    print(f"{'salloc until it is granted, ms: median':40} {also['salloc']:14,.2f}")
    print(f"{'the scheduler by itself, µs: median':40} {'':14} {statistics.median(each.micros for each in alone):14,.2f}")
    print(COUNTED.format(test=also["test"], settings=" ".join(f"{name}={value}" for name, value in SETTINGS.items())))
    found = list(verdicts(slurm, weft))
    for what, measured, wanted, good in found:
        print(f"{'reached' if good else 'MISSED ':7} {what}: {measured:.2f}, to reach {wanted}")
    return found[0][1], all(good for *_, good in found)
