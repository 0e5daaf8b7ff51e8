"""A lab of its own in a temporary folder, with its hosts, its weftd and its clients; and whoever looks for what is left."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

from . import dump
from .wait import PATIENCE, until
from .weft import SOURCE, Client, UnixConnection, build_folder

PROGRAM = SOURCE / "lab/weft-lab"
SWITCH = "switch"
UP_SECONDS = 400  # more than the lab itself waits for its parts, one after the other
OWN_LINKS = {"lo", "eth0", "eth1"}
HOST_SCRIPT = r"""
set -e
ip -j link show
for name in $(virsh -q list --all --name); do echo "domain $name"; done
for name in $(virsh -q net-list --all --name); do echo "network $name"; done
for pid in $(pidof qemu-system-x86_64 || true); do echo "process qemu-system-x86_64 ($pid)"; done
cd /var/lib/libvirt
find images/weft -type f ! -name 'image-*' -printf 'file %p\n'
find qemu /etc/libvirt/qemu /dev/hugepages/libvirt/qemu -mindepth 1 -name '*weft-*' -printf 'file %p\n' 2>/dev/null || true
"""


class Lab:
    """options: those of weft lab up, such as hosts=2; changes: sections to change in its weft.yaml."""

    patience = PATIENCE

    def __init__(self, changes=None, **options):
        self.root = Path(tempfile.mkdtemp(prefix="weft-lab-"))
        self.folder = self.root / "lab"
        self.options = {"hosts": 2} | options
        self.changes = changes or {}
        self.client = Client(lambda: UnixConnection(self.socket))

    @property
    def site(self):
        return self.folder / "weft"

    @property
    def socket(self):
        return self.site / "weft.sock"

    @property
    def hosts(self):
        return [f"h{number + 1}" for number in range(self.options["hosts"])]

    # --- the lab ---

    def command(self, verb, *arguments):
        return [str(PROGRAM), verb, "--dir", str(self.folder), *map(str, arguments)]

    def lab(self, verb, *arguments, check=True, env=None, timeout=UP_SECONDS):
        """Runs a verb of weft lab; returns its CompletedProcess."""
        process = self.begin(verb, *arguments, env=env)
        out, told = process.communicate(timeout=timeout)
        assert not check or process.returncode == 0, f"weft lab {verb} {arguments}: {process.returncode}: {told}"
        return subprocess.CompletedProcess(process.args, process.returncode, out, told)

    def begin(self, verb, *arguments, env=None):
        environment = os.environ | {"WEFT_BUILD": str(build_folder().resolve())} | (env or {})
        return subprocess.Popen(self.command(verb, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env=environment)

    def up(self, weftd=False):
        options = [word for name, value in self.options.items() for word in (f"--{name}", value)]
        self.lab("up", "--no-weftd", *options)
        if weftd:
            self.start_weftd()
        return self

    def down(self):
        self.lab("down")

    def remove(self):
        """Also after a failed test."""
        self.lab("down", check=False)
        shutil.rmtree(self.root, ignore_errors=True)

    def status(self):
        return json.loads(self.lab("status", "--json").stdout)

    def host(self, name):
        return next(host for host in self.status()["hosts"] if host["name"] == name)

    def cut(self, host):
        self.lab("cut", host)

    def heal(self, host):
        self.lab("heal", host)

    def kill(self, host):
        self.lab("kill", host)

    def stop_libvirtd(self, host):
        self.lab("libvirtd", host, "stop")

    def start_libvirtd(self, host):
        self.lab("libvirtd", host, "start")

    def exec(self, host, *command, check=True, text=None, timeout=60):
        """Runs a command on a host, or on the switch; returns its output."""
        done = subprocess.run(self.command("exec", host, "--", *command), capture_output=True, text=True, input=text,
                              timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"on {host}: {command}: {done.returncode}: {done.stderr}"
        return done.stdout if check else done

    def virsh(self, host, *arguments, check=True, text=None):
        return self.exec(host, "virsh", "-q", *arguments, check=check, text=text)

    def shell(self, host, script):
        return self.exec(host, "sh", "-c", script)

    # --- its weftd ---

    def start_weftd(self, failpoint=None, failpoint_log=None):
        config = yaml.safe_load((self.site / "weft.yaml").read_text(encoding="utf-8"))
        for section, values in self.changes.items():
            if isinstance(values, dict):
                config.setdefault(section, {}).update(values)
            else:
                config[section] = values
        (self.site / "weft.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")
        wanted = {"WEFT_FAILPOINT": failpoint, "WEFT_FAILPOINT_LOG": failpoint_log and str(failpoint_log)}
        done = self.lab("weftd", "start", env={name: value for name, value in wanted.items() if value}, check=not failpoint)
        assert done.returncode == 0 or "weftd ended" in done.stderr, done.stderr

    def stop_weftd(self):
        self.lab("weftd", "stop")

    def weftd_runs(self):
        return self.status()["weftd"]["running"]

    def weft(self, *arguments, check=True, text=None, timeout=UP_SECONDS, env=None):
        """Runs weft against it; returns its CompletedProcess."""
        environment = os.environ | {"WEFT_URL": f"unix://{self.socket}", "NO_COLOR": "1"} | (env or {})
        done = subprocess.run([build_folder() / "src/cli/weft", *arguments], capture_output=True, text=True, input=text,
                              env=environment, timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"weft {arguments}: {done.returncode}: {done.stderr}\n{self.log_tail()}"
        return done

    def dump(self):
        return dump.read(self.site / "weft.db")

    def log_tail(self, lines=20):
        log = self.site / "weftd.log"
        return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]) if log.exists() else ""

    # --- what is left ---

    def leftovers(self, hosts=None):
        """What is on these hosts, all that live unless told, that belongs to a node: empty when all clusters are gone."""
        return [found for host in hosts or self.living() for found in self._leftovers_of(host)]

    def living(self):
        return [host["name"] for host in self.status()["hosts"] if host["state"] != "dead"]

    def _leftovers_of(self, host):
        lines = self.shell(host, HOST_SCRIPT).splitlines()
        links = [f"link {link['ifname']}" for link in json.loads(lines[0]) if link["ifname"] not in OWN_LINKS]
        return [f"{host}: {found}" for found in links + lines[1:]]

    def wait_clean(self, hosts=None):
        last = []

        def clean():
            last[:] = self.leftovers(hosts)
            return not last

        until(clean, lambda: f"nothing left, but {last}\n{self.tell_hosts()}\n{self.log_tail()}", self.patience)

    def tell_hosts(self):
        """How the lab has its hosts, and how weftd sees them and why: for whoever reads a failure."""
        seen = self.weft("hosts", check=False) if self.weftd_runs() else None
        return self.lab("status", check=False).stdout + (seen.stdout + seen.stderr if seen else "")

    def remains(self):
        """What of the lab is left on the machine: empty after down()."""
        found = [f"file {path}" for path in self.root.iterdir()] if self.root.exists() else []
        for process in Path("/proc").glob("[0-9]*"):
            if _mentions(process, str(self.root)):
                found.append(f"process {process.name}: {_read(process / 'cmdline')}")
        return found


def labs():
    """For a fixture: what makes labs, all of which go at its end."""
    made = []

    def make(kind=Lab, **options):
        made.append(kind(**options))
        return made[-1]

    yield make
    for lab in made:
        lab.remove()


def _read(path):
    try:
        return path.read_text(encoding="utf-8", errors="replace").replace("\0", " ")
    except OSError:
        return ""


def _mentions(process, folder):
    """Is it of that folder: by what it is called with, has mounted, or has open?"""
    if process.name == str(os.getpid()):
        return False
    if folder in _read(process / "cmdline") or folder in _read(process / "mountinfo"):
        return True
    try:
        return any(os.readlink(fd).startswith(folder) for fd in (process / "fd").iterdir())
    except OSError:
        return False


def machine():
    """What a lab must leave as it was: links, addresses, mounts, namespaces, and folders that hosts have of their own."""
    def told(*command):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def names(folder):
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else None

    folders = ("/dev", "/dev/hugepages", "/run", "/run/netns", "/run/libvirt", "/etc/libvirt", "/var/lib/libvirt",
               "/var/log/libvirt", "/var/cache/libvirt")
    return {
        "links": [(link["ifname"], link["flags"], link.get("master")) for link in json.loads(told("ip", "-j", "link", "show"))],
        "addresses": [(link["ifname"], [entry["local"] for entry in link["addr_info"]])
                      for link in json.loads(told("ip", "-j", "addr", "show"))],
        "routes": told("ip", "route"),
        "mounts": _read(Path("/proc/self/mountinfo")),
        "processors": _read(Path("/sys/devices/system/cpu/online")),
        "hostname": told("hostname"),
        "folders": {name: names(name) for name in folders},
    }
