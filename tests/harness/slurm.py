"""A real slurmctld in a network of its own. Its nodes have no slurmd: it is here for what it makes of a fabric, and for where it places."""

import os
import subprocess
from pathlib import Path

from .wait import PATIENCE, until

CONFIGURATION = """
ClusterName=weft
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
TopologyPlugin=topology/tree
NodeName=n[1-{hosts}] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[17001-{port}] {node}
PartitionName=all Nodes=ALL Default=YES
"""
# The address beside 127.0.0.1 is for glibc, which else resolves nothing here.
START = "ip link set lo up && ip address add 192.0.2.1/32 dev lo && exec slurmctld -D -c"


class Slurm:
    """Runs while it is entered. Nodes are n1 and so on; topology: what topology.conf says of them; node: what slurm.conf says of each."""

    def __init__(self, folder, topology, hosts, node="CPUs=1 State=UNKNOWN", **options):
        self.folder = Path(folder)
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        text = CONFIGURATION.format(folder=folder, hosts=hosts, port=17000 + hosts, node=node)
        text += "".join(f"{name}={value}\n" for name, value in options.items())
        (self.folder / "slurm.conf").write_text(text, encoding="utf-8")
        (self.folder / "topology.conf").write_text(topology, encoding="utf-8")

    def __enter__(self):
        with (self.folder / "log").open("wb") as output:
            self.process = subprocess.Popen(["unshare", "-n", "sh", "-c", START], env=self.environment, stdout=output, stderr=output)
        try:
            until(lambda: "Running as primary controller" in self.log() or self.process.poll() is not None,
                  lambda: f"slurmctld runs: {self.log()}")
            assert self.process.poll() is None, self.log()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def _command(self, words):
        return ["nsenter", "-t", str(self.process.pid), "-n", *words]

    def run(self, *words):
        """What a command of Slurm's says."""
        done = subprocess.run(self._command(words), env=self.environment, check=False, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, f"{' '.join(words)}: {done.returncode}: {done.stderr}"
        return done.stdout

    def beside(self, *words, **streams):
        """One that runs beside us."""
        return subprocess.Popen(self._command(words), env=self.environment, **streams)
