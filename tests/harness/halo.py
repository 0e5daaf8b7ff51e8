"""An MPI job that runs in a cluster while something is done to it, and whether what it computes is right to the last bit."""

import functools
import re
import subprocess

from .wait import until
from .weft import SOURCE, build_folder

SOURCE_FILE = SOURCE / "tests/mobility/halo.c"
STEPS = 200
PACE = 50  # milliseconds of a step, so that the job takes its time and leaves some of the machine to others
PATIENCE = 180.0  # seconds until a job that stood still has gone on
HOLD, LOG, END = "/tmp/halo.hold", "/tmp/halo.log", "/tmp/halo.end"


@functools.cache
def program():
    """As nodes run it: the image is of the same release."""
    path = build_folder().resolve() / "tests/halo"
    if not path.exists() or path.stat().st_mtime < SOURCE_FILE.stat().st_mtime:
        subprocess.run(["mpicc", "-O2", "-std=gnu17", "-o", path, SOURCE_FILE], check=True)
    return path


@functools.cache
def truth(steps):
    """What one rank on this machine tells, whom nothing disturbs: {step: checksum}."""
    done = subprocess.run([program(), str(steps), "0"], capture_output=True, text=True, check=True)
    return reports(done.stdout)


def reports(text):
    return {int(step): checksum for step, checksum in re.findall(r"^step (\d+) checksum (\w{16})$", text, re.M)}


class Job:
    """Runs in a cluster of one tenant, from its node 0 on, as if a user had started it and gone away."""

    def __init__(self, cloud, cluster, tenant="acme"):
        self.cloud, self.cluster, self.tenant = cloud, cluster, tenant

    def start(self, ranks):
        """Goes on until finish()."""
        for rank in range(ranks):
            self.cloud.weft("scp", "--tenant", self.tenant, program(), f"{self.cluster}[{rank}]:/tmp/halo")
        command = f"mpirun -n {ranks} /tmp/halo {STEPS} {PACE} {HOLD} > {LOG} 2>&1 < /dev/null; echo $? > {END}"
        self.run(f"rm -f {END}; touch {HOLD}; setsid sh -c '{command}' > /dev/null 2>&1 < /dev/null &")
        self.wait_step(1)
        return self

    def run(self, script, check=True):
        return self.cloud.run(f"{self.cluster}[0]", "sh", "-c", script, tenant=self.tenant, check=check)

    def log(self):
        """Empty while the node cannot be asked."""
        return self.run(f"cat {LOG}; cat {END} 2>/dev/null", check=False).stdout

    def step(self):
        return max(reports(self.log()), default=0)

    def wait_step(self, step):
        until(lambda: self.step() >= step, lambda: f"step {step}, but {self.log()[-500:]!r}", PATIENCE)

    def goes_on(self):
        """From wherever it is by now."""
        self.wait_step(self.step() + 1)

    def finish(self):
        """Lets it end, and returns the last of the steps, all of which were right."""
        self.run(f"rm {HOLD}")
        until(lambda: re.search(r"^done.*\n0$", self.log(), re.M), lambda: f"the job ends well, but {self.log()[-500:]!r}", PATIENCE)
        return self.check()

    def check(self):
        """What it told so far."""
        told = reports(self.log())
        assert told, self.log()
        right = truth(max(told))
        assert told == right, f"first wrong at step {min(step for step in right if told.get(step) != right[step])}: {self.log()[:300]!r}"
        return max(told)
