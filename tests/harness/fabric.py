#!/usr/bin/python3
"""A fabric of its own: ibsim, and real opensm on it, in a network and pid namespace that end with the process that made them.

From Python:

    with Fabric(folder, fat_tree(2, 4, 2)).up() as fabric:
        manager = fabric.manager().start()
        fabric.unlink("h1")

From a shell, and so for a C program:

    fabric.py run FOLDER [--tree 2,4,2 | --net FILE] [--plugin] [--standby] -- PROGRAM…    PROGRAM runs inside, all ends with it
    fabric.py up FOLDER … / down FOLDER / console FOLDER 'Unlink "h1"' / manager FOLDER NAME kill|start|sweep

In FOLDER then are: console (ibsim's), NAME/etc/partitions.conf, NAME/opensm.conf, NAME/opensm.log, NAME/weft.sock (the
plugin's), NAME/pid and NAME/pid-outside (opensm's, as it is seen inside and outside) for each manager NAME: "sm", and "sm2" as the
standby. PROGRAM finds FOLDER in WEFT_FABRIC, and any of libibumad's programs in there speaks to the fabric as the machine SIM_HOST.

ibsim takes at most 10 clients at a time: each opensm is one, each program that sends MADs another.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
for place in (SOURCE / "lab", SOURCE / "tests"):
    sys.path.insert(0, str(place))

from harness.nets import SM, fat_tree  # noqa: E402
from harness.process import text_of  # noqa: E402
from harness.wait import until  # noqa: E402
from harness.weft import build_folder  # noqa: E402
from weftlab.process import Process, enter  # noqa: E402

STANDBY = "sm2"
UP_SECONDS = 180
PROGRAM_MAX = 300  # seconds; only one that hangs gets there: asking for all paths is 8,000 questions, each through three processes
PARTITIONS = "Default=0x7fff, ipoib : ALL=limited, SELF=full ;\n"
ROOM = """
set -e
mount --make-rprivate /
mount -t proc proc /proc
ip link set lo up
: >ready
if [ -p leash ]; then cat <leash >/dev/null & else sleep infinity & fi
wait
"""
# A sweep only when something asks for one, and a standby that notices soon that its master is gone.
OPTIONS = {"sweep_interval": 0, "sminfo_polling_timeout": 200, "polling_retry_number": 3, "force_log_flush": "TRUE",
           "console": "local"}


def umad2sim():
    """What is preloaded by whoever speaks to ibsim; with WEFT_TAP set, also what notes its packets in that file."""
    found = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")
    assert found, "libumad2sim.so is not installed; tools/packages lab brings it"
    names = ["fabric-agents.so", "fabric-wakeups.so"] + (["fabric-tap.so"] if "WEFT_TAP" in os.environ else [])
    return ":".join([*(str(build_folder().resolve() / "tests/fabric" / name) for name in names), found[0]])


def states(pid):
    """Of the threads of a process, each a letter as in ps."""
    return set(re.findall(r"^State:\t(.)", "".join(map(text_of, glob.glob(f"/proc/{pid}/task/*/status"))), re.MULTILINE))


@dataclass
class Table:
    """P_Keys by index, 0 where there is none; None: the port did not answer."""

    own: list
    enforced: list

    @property
    def keys(self):
        return {pkey for pkey in self.own or () if pkey}

    @property
    def enforced_keys(self):
        return {pkey for pkey in self.enforced or () if pkey}


class Fabric:
    """folder is made; net: a Net, or the text of one with limits of its own."""

    def __init__(self, folder, net=None):
        self.folder = Path(folder).resolve()
        self.net = net
        self.room = Process(self.folder / "room.process")
        self.ibsim = Process(self.folder / "ibsim.process")
        self.console_fifo = self.folder / "console"
        self.managers = {}
        self.leash = None
        self.told = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # --- from beginning to end ---

    def up(self, leashed=True):
        """Starts ibsim. leashed: all ends when this process does, in whatever way."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in ("ready", "leash"):
            (self.folder / left).unlink(missing_ok=True)
        if leashed:
            os.mkfifo(self.folder / "leash")
            self.leash = os.open(self.folder / "leash", os.O_RDWR | os.O_CLOEXEC)
        self.room.spawn(["sh", "-c", ROOM], self.folder / "room.log", new=("pid", "mnt", "net"), folder=self.folder)
        until((self.folder / "ready").exists, lambda: f"namespaces: {text_of(self.folder / 'room.log')}")
        self._start_ibsim()
        return self

    def _start_ibsim(self):
        (self.folder / "net").write_text(self.net.text(), encoding="ascii")
        self.console_fifo.unlink(missing_ok=True)
        os.mkfifo(self.console_fifo)
        nodes, switches, ports = self.net.counts()
        limits = ["-N", str(nodes + 8), "-S", str(switches + 8), "-P", str(ports + 64)]
        # Both ends of its console stay open, so that commands can come from anybody at any time.
        preload = f"LD_PRELOAD={build_folder().resolve() / 'tests/fabric/fabric-clients.so'}"
        self.ibsim.spawn(["sh", "-c", 'exec "$@" <>console', "sh", "env", preload, "stdbuf", "-oL", "ibsim", "-s", *limits, "net"],
                         self.folder / "ibsim.log", inside=self.room.pid, folder=self.folder)
        until(lambda: self.ibsim.pid is None or "simulator ready" in self.log(), "ibsim is ready")
        assert self.ibsim.pid, f"ibsim ended: {self.log()[-2000:]}"

    def log(self):
        return text_of(self.folder / "ibsim.log")

    def close(self):
        """With the namespace's first process goes all that runs in there."""
        self.room.kill()
        if self.leash is not None:
            os.close(self.leash)
            self.leash = None

    # --- programs in there ---

    def environment(self, host=SM):
        found = {"LD_PRELOAD": umad2sim(), "SIM_HOST": host, "WEFT_FABRIC": str(self.folder)}
        # To name functions a sanitizer opens files, by way of umad2sim: it would wait forever for a lock that is held already.
        return found | ({"TSAN_OPTIONS": os.environ["TSAN_OPTIONS"] + ":symbolize=0"} if "TSAN_OPTIONS" in os.environ else {})

    def command(self, argv, host=SM, preload=True):
        """What runs argv inside, as the machine `host`."""
        wanted = self.environment(host)
        if not preload:
            del wanted["LD_PRELOAD"]
        # umad2sim leaves a folder behind where it was started.
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)
        inside = ["env", "--chdir", str(scratch), *(f"{name}={value}" for name, value in wanted.items()), *map(str, argv)]
        return enter(self.room.pid, inside)

    def run(self, *argv, host=SM, timeout=PROGRAM_MAX, check=True):
        """Runs a program as that machine; returns its output."""
        done = subprocess.run(self.command(argv, host), capture_output=True, text=True, timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"{argv}: {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout if check else done

    # --- the ports, from outside ---

    def probe(self, *words):
        return json.loads(self.run(build_folder().resolve() / "tests/fabric/fabric-probe", *words))

    def tables(self, *guids):
        """{port GUID: Table} as read from these hosts' ports, all that can be reached unless told."""
        found = self.probe("tables", *map(hex, guids))
        return {int(guid, 16): Table(told["pkeys"], told["enforced"]) for guid, told in found.items()}

    def put(self, guid, index, pkey, table="own"):
        """Writes an entry as a stranger would; table: "own", or "enforced" at the switch."""
        self.probe("put", table, hex(guid), index, hex(pkey))

    def paths(self, *pkeys):
        """{P_Key: pairs of port GUIDs, as frozensets, for which the subnet administrator has a path with it}."""
        found = self.probe("paths", *map(hex, pkeys))
        return {int(pkey, 16): {frozenset(int(guid, 16) for guid in pair) for pair in pairs} for pkey, pairs in found.items()}

    # --- opensm ---

    def manager(self, name=SM, **settings):
        """The manager on that machine, as made before; settings: those of Manager."""
        if name not in self.managers or settings:
            self.managers[name] = Manager(self, name, **settings)
        return self.managers[name]

    # --- what ibsim is told ---

    def console(self, line):
        """Returns what ibsim answered, when it has done it."""
        before = len(self.log())
        self.told += 1
        mark = f"# told {os.getpid()}-{self.told}"
        with open(self.console_fifo, "w", encoding="ascii") as console:
            console.write(f"{line}\n{mark}\n")
        until(lambda: mark in self.log()[before:], f"ibsim does {line}")
        return self.log()[before:].partition(mark)[0]

    def unlink(self, node, port=None):
        """Pulls one cable of a node, or all."""
        self._tell("Unlink", node, port)

    def relink(self, node, port=None):
        self._tell("ReLink", node, port)

    def drop(self, node, percent, port=None, attribute=None):
        """So many of the MADs to a node's port are lost; attribute: only those (0x16 is P_KeyTable)."""
        place = f'"{node}"' + (f"[{port}]" if port else "")
        said = self.console(f"Error {place} {percent}" + (f" {attribute}" if attribute else ""))
        assert "# " not in said, said

    def _tell(self, verb, node, port):
        said = self.console(f'{verb} "{node}"' + (f"[{port}]" if port else ""))
        assert "# " not in said, f"{verb} {node}: {said}"

    @contextmanager
    def held(self):
        """No MAD arrives, and none is lost: what was sent meanwhile is done when it ends."""
        os.kill(self.ibsim.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.ibsim.pid, signal.SIGCONT)

    def forget(self, pid):
        """ibsim would keep the place of a client that was killed, and its machine would go on as one with a manager."""
        for number, client in re.findall(r"Client (\d+): pid (\d+) ", self.console("Attached")):
            if int(client) == pid:
                self.console(f"X {number}")


PKEYS = "0x0001-0x7ffe"  # that the plugin may write


class Manager:
    """One opensm on the machine `name`, with its own files in a folder of that name.

    plugin: with weft's, on self.socket; options: for opensm.conf."""

    def __init__(self, fabric, name, plugin=False, partitions=PARTITIONS, plugin_options=None, options=None):
        self.fabric, self.name, self.plugin = fabric, name, plugin
        self.folder = fabric.folder / name
        self.partitions = self.folder / "etc/partitions.conf"
        self.socket = self.folder / "weft.sock"
        self.process = Process(self.folder / "opensm.process")
        self.options = OPTIONS | {"partition_config_file": self.partitions, "log_file": self.folder / "opensm.log"}
        if plugin:
            self.options |= {"event_plugin_name": "weftosm", "event_plugin_options": plugin_options or f"socket={self.socket},pkeys={PKEYS}"}
        self.options |= options or {}
        self.site = partitions
        self.ups = self.began = 0

    def start(self, wait=True):
        """Also again, after it was killed: its files are as it left them."""
        self.partitions.parent.mkdir(parents=True, exist_ok=True)
        if not self.partitions.exists():
            self.partitions.write_text(self.site, encoding="ascii")
        lines = [f"{name} {value}\n" for name, value in self.options.items()]
        (self.folder / "opensm.conf").write_text("".join(lines), encoding="ascii")
        (self.folder / "console").unlink(missing_ok=True)
        os.mkfifo(self.folder / "console")
        self.ups, self.began = self.sweeps(), len(self.log())
        folders = {name: str(self.folder) for name in ("OSM_CACHE_DIR", "OSM_TMP_DIR")}
        libraries = {"LD_LIBRARY_PATH": str(build_folder().resolve() / "src/opensm-plugin")} if self.plugin else {}
        environment = os.environ | folders | libraries | self.fabric.environment(self.name)
        del environment["LD_PRELOAD"]  # not for the shell
        # A sanitizer that the plugin is built with must be there before opensm's first thread.
        preload = " ".join(filter(None, [os.environ.get("WEFT_OPENSM_PRELOAD"), umad2sim()]))
        with self._others_held():
            self.process.spawn(["sh", "-c", 'exec env LD_PRELOAD="$0" opensm -F opensm.conf <>console', preload],
                               self.folder / "opensm.out", inside=self.fabric.room.pid, folder=self.folder,
                               environment=environment)
            for file, pid in (("pid", self.inner_pid()), ("pid-outside", self.process.pid)):
                (self.folder / file).write_text(f"{pid}\n", encoding="ascii")
            until(self._knows_own_port, lambda: f"{self.name} finds its own port: {self.log()[-2000:]}", UP_SECONDS)
        return self.wait_up() if wait else self

    @contextmanager
    def _others_held(self):
        """A manager ignores SMInfo requests until its first sweep has found its own port, and one that is killed does so forever.
        On a real machine they time out and are sent again; umad2sim has no timeouts, and whoever asked would wait forever."""
        others = [Process(found).pid for found in self.fabric.folder.glob("*/opensm.process") if found != self.process.pid_file]
        others = [pid for pid in others if pid]
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: all(states(pid) <= {"T"} for pid in others), f"{others} stand still")
            yield others
        finally:
            for pid in others:
                os.kill(pid, signal.SIGCONT)

    def inner_pid(self):
        found = re.search(r"^NSpid:.*\s(\d+)$", text_of(f"/proc/{self.process.pid}/status"), re.MULTILINE)
        return int(found[1])

    def log(self):
        return text_of(self.folder / "opensm.log")

    def sweeps(self):
        """How many sweeps of the whole fabric have ended since the log began."""
        return self.log().count("SUBNET UP")

    def wait_up(self, seconds=UP_SECONDS):
        """Until it has swept since it was started, or since that was last waited for."""
        until(lambda: self.process.pid is None or self.sweeps() > self.ups,
              lambda: f"{self.name} brings the subnet up: {self.log()[-2000:]}", seconds)
        assert self.process.pid, f"opensm ended: {text_of(self.folder / 'opensm.out')[-2000:]}"
        self.ups = self.sweeps()
        return self

    def wait_standby(self):
        """Since it was started."""
        until(lambda: "Entering STANDBY state" in self.log()[self.began:], lambda: f"{self.name} is standby: {self.log()[-2000:]}", UP_SECONDS)
        return self

    def kill(self, sig=signal.SIGKILL):
        pid = self.inner_pid()
        with self._others_held() as others:
            if others:
                self.wait_quiet()
            self.process.kill(sig)
            self.fabric.forget(pid)
        shutil.rmtree(self.folder / f"sys-{pid}", ignore_errors=True)

    def wait_quiet(self):
        """Until it does not sweep, and has answered whoever is held by now: whoever has a MAD to work on does not sleep. Twice, as one
        hands it on."""
        both = (self.process.pid, self.fabric.ibsim.pid)
        until(lambda: all(states(pid) <= {"S", "T"} for _ in range(2) for pid in both), f"{self.name} and ibsim have nothing to do")

    def write_partitions(self, text):
        """At once: the plugin reads the file again and again, and would take half of it for all."""
        fresh = self.partitions.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.rename(self.partitions)

    def hangup(self):
        """Makes it read its files and sweep; does not wait."""
        os.kill(self.process.pid, signal.SIGHUP)

    def sweep(self):
        """From the beginning: one that was under way may have read its files before."""
        self.wait_quiet()
        self.ups = self.sweeps()
        self.hangup()
        return self.wait_up()

    def ask(self, line, until_text):
        """Of its console; what it said up to that text."""
        out = self.folder / "opensm.out"
        before = len(text_of(out))
        with open(self.folder / "console", "w", encoding="ascii") as console:
            console.write(line + "\n")
        until(lambda: self.process.pid is None or until_text in text_of(out)[before:], f"opensm answers {line}")
        assert self.process.pid, f"opensm ended: {text_of(out)[-2000:]}{self.log()[-2000:]}"
        return text_of(out)[before:]

    def _knows_own_port(self):
        """It is the first that a sweep finds."""
        return " scanned on 0 nodes" not in self.ask("portstatus", " nodes in ")

    def status(self):
        return self.ask("status", "Known SMs")

    def mads_sent(self):
        """To ports and switches since it was started, as it counts."""
        return int(re.search(r"QP0 MADs sent +: (\d+)", self.status())[1])

    def mads_on_wire(self):
        """That it waits to be answered."""
        return int(re.search(r"QP0 MADs outstanding \(on wire\) +: (\d+)", self.status())[1])


# --- the command ---

def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    for name in ("up", "run"):
        verb = verbs.add_parser(name)
        verb.add_argument("folder", type=Path)
        verb.add_argument("--tree", default="2,4,2", help="leaves, hosts on each, spines")
        verb.add_argument("--plugin", action="store_true")
        verb.add_argument("--standby", action="store_true")
        if name == "run":
            verb.add_argument("program", nargs="+")
    verbs.add_parser("down").add_argument("folder", type=Path)
    for name, words in (("console", ["line"]), ("manager", ["name", "act"])):
        verb = verbs.add_parser(name)
        verb.add_argument("folder", type=Path)
        for word in words:
            verb.add_argument(word, choices=("kill", "start", "sweep") if word == "act" else None)
    return parser.parse_args()


def bring_up(wanted, leashed):
    names = (SM, STANDBY) if wanted.standby else (SM,)
    fabric = Fabric(wanted.folder, fat_tree(*map(int, wanted.tree.split(",")), managers=names)).up(leashed)
    (fabric.folder / "plugin").write_text(json.dumps(wanted.plugin), encoding="ascii")
    fabric.manager(SM, plugin=wanted.plugin, options={"sm_priority": 5}).start()
    if wanted.standby:
        fabric.manager(STANDBY, plugin=wanted.plugin).start(wait=False).wait_standby()
    return fabric


def main():
    wanted = parse()
    if wanted.verb == "run":
        with bring_up(wanted, leashed=True) as fabric:
            return subprocess.call(fabric.command(wanted.program))
    if wanted.verb == "up":
        bring_up(wanted, leashed=False)
        return 0
    fabric = Fabric(wanted.folder)
    if wanted.verb == "console":
        print(fabric.console(wanted.line))
    elif wanted.verb == "manager":
        manager = fabric.manager(wanted.name, plugin=json.loads(text_of(fabric.folder / "plugin")))
        getattr(manager, wanted.act)()
    else:
        fabric.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
