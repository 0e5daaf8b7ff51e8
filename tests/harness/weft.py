"""A weftd of its own in a temporary folder, and its clients."""

import contextlib
import copy
import http.client
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import struct
import subprocess
import tempfile
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urlencode

from . import dump
from .wait import PATIENCE, until
from .world import World

SOURCE = Path(__file__).resolve().parents[2]
GIB = 1 << 30
# What weftd's main loop may do at once, in microseconds of its thread's processor time: a busy machine makes it no more, but a sanitizer does.
SLICE_MAX = 20000 * (10 if {"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys() else 1)


def build_folder():
    return Path(os.environ.get("WEFT_BUILD", SOURCE / "build"))


def surroundings():
    """The environment. pytest notes there which test runs, also while another thread reads it."""
    while True:
        with contextlib.suppress(KeyError):
            return dict(os.environ)


def host(name, **changes):
    """A small host: 2 NUMA nodes of 4 cores, one of which is the host's own, 4 GiB in 2M pages, 4 virtual functions."""
    number = int("".join(filter(str.isdigit, name)) or 0)
    description = {
        "name": name,
        "fabric": "ib0",
        "leaf": f"leaf{(number + 1) // 2}",
        "numa": [{"cores": 4, "threads": 2, "pages": {"2M": 1024}}] * 2,
        "housekeeping": 1,
        "hcas": [{"name": "mlx5_0", "driver": "mlx5", "numa": 0, "rail": 0, "port_guid": f"0x{0x0002C90300000000 + number:016x}", "vfs": 4}],
        "gpus": [{"name": f"0000:4{i}:00.0", "numa": i} for i in range(2)],
        "uri": f"fake://{name}/",
    }
    return description | changes


def default_config(root, hosts=4):
    return {
        "store": {"path": str(root / "weft.db"), "reserve": "64K"},  # copied with the store
        "audit": {"syslog": "none"},
        "hypervisor": {"driver": "fake", "world": str(root / "hosts")},
        "api": {"socket": str(root / "weft.sock"), "requests_per_second": 100000, "requests_burst": 100000, "processor_per_tenant": 100},
        "control": {
            "backoff_base": "20ms",
            "backoff_max": "200ms",
            "host_grace": "300ms",
            "scan_interval": "100ms",
            "start_deadline": "2s",
            "await_deadline": "2s",
            "meet_deadline": "2s",
            "still_deadline": "2s",
            "checkpoint_skew": "20s",
            "connect_deadline": "2s",
            "link_idle": "1s",
            "stop_deadline": "2s",
            "list_deadline": "1s",
            "apply_deadline": "2s",
        },
        "fabrics": [{"name": "ib0", "pkey_first": "0x0001", "pkey_last": "0x3fff", "guid_prefix": "0x02c9010000000000", "vxlan_base": 10000}],
        "hosts": [host(f"n{i + 1}") for i in range(hosts)],
        "tenants": [{"name": "acme", "devices": ["passthrough", "gpu"]}, {"name": "umbrella"}],
        "principals": [
            {"name": f"{tenant}-{role}", "tenant": tenant, "role": role} for tenant in ("acme", "umbrella") for role in ("viewer", "member")
        ]
        + [{"name": "olga", "role": "operator"}, {"name": "ada", "role": "admin"}],
    }


@dataclass
class Answer:
    status: int
    headers: dict
    text: str

    @property
    def json(self):
        return json.loads(self.text)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """Speaks to one weftd as one principal: over the Unix socket, or over TLS with a token."""

    def __init__(self, connect, token=None):
        self.connect = connect
        self.token = token

    def request(self, method, path, body=None, headers=None):
        """body: bytes as they are, or anything that JSON can say."""
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        with contextlib.closing(self.connect()) as connection:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode(errors="replace"))

    def expect(self, status, method, path, body=None, headers=None):
        answer = self.request(method, path, body, headers)
        assert answer.status == status, f"{method} {path}: {answer.status} {answer.text}"
        return answer.json if answer.text else None

    def get(self, path, **query):
        return self.expect(200, "GET", path + ("?" + urlencode(query) if query else ""))

    def items(self, path, **query):
        """All pages of a list."""
        found, after = [], None
        while True:
            page = self.get(path, **query, **({"after": after} if after else {}))
            found += page["items"]
            after = page["next"]
            if after is None:
                return found

    def create(self, name, count=2, tenant="acme", key=None, **spec):
        body = {"name": name, "count": count, "cores": 1, "memory": "256M", "image": "mpi"} | spec
        headers = {"Idempotency-Key": key} if key else None
        return self.expect(201, "POST", f"/v1/clusters?tenant={tenant}", body, headers)

    def scale(self, name, count, tenant="acme"):
        return self.expect(200, "PATCH", f"/v1/clusters/{quote(name)}?tenant={tenant}", {"count": count})

    def delete(self, name, tenant="acme"):
        return self.expect(202, "DELETE", f"/v1/clusters/{quote(name)}?tenant={tenant}")

    def cluster(self, name, tenant="acme"):
        """None when there is none."""
        answer = self.request("GET", f"/v1/clusters/{quote(name)}?tenant={tenant}")
        assert answer.status in (200, 404), answer.text
        return answer.json if answer.status == 200 else None

    def nodes(self, name, tenant="acme"):
        return self.items(f"/v1/clusters/{quote(name)}/nodes", tenant=tenant)

    def events(self, **query):
        return self.items("/v1/events", **query)

    def wait_phase(self, name, phase, tenant="acme", timeout=PATIENCE, **fields):
        """Until the cluster is in this phase and its fields have these values."""
        wanted = {"phase": phase} | fields
        last = []

        def check():
            last[:] = [self.cluster(name, tenant)]
            return last[0] if last[0] and all(last[0][k] == v for k, v in wanted.items()) else None

        return until(check, lambda: f"cluster {name} {wanted}, it is {last[0]}", timeout)

    def wait_gone(self, name, tenant="acme", timeout=PATIENCE):
        until(lambda: self.cluster(name, tenant) is None, lambda: f"cluster {name} gone, it is {self.cluster(name, tenant)}", timeout)

    def wait_open(self, hosts=4):
        """Until so many hosts take nodes: a cluster that needs most of each comes and goes."""
        self.create("all", hosts, cores=4)
        self.wait_phase("all", "ready")
        self.delete("all")
        self.wait_gone("all")


class Weft:
    """One site: its configuration, store and world in a folder, and at most one running weftd."""

    def __init__(self, root=None, hosts=4, changes=None):
        self.root = Path(root or tempfile.mkdtemp(prefix="weft-"))
        self.config = default_config(self.root, hosts)
        for section, values in (changes or {}).items():
            if isinstance(values, dict):
                self.config.setdefault(section, {}).update(values)
            else:
                self.config[section] = values
        self.fabric_world = self.root / "fabric"
        self.world = World(self.root / "hosts", self.fabric_world)
        self.process = None
        self.prefix = []  # of weftd's command: what brings it elsewhere
        self.messages = ""  # that it logs beside the usual: "all"
        self.client = Client(lambda: UnixConnection(self.socket))

    @property
    def socket(self):
        return self.root / "weft.sock"

    @property
    def blobs(self):
        """The folder of files of images, templates and checkpoints."""
        return Path(self.config["store"]["path"]).with_name("images")

    @property
    def log(self):
        return self.root / "weftd.log"

    def clone(self):
        """A copy of a stopped site: the same store and world in another folder, whose hosts are nobody's yet."""
        assert self.process is None
        other = type(self)()
        shutil.copytree(self.root, other.root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.sock"))  # of one that was killed
        text = json.dumps(self.config).replace(str(self.root), str(other.root))
        other.config = json.loads(text)
        (other.root / "weftd.log").unlink(missing_ok=True)
        for record in other.root.glob("**/owner"):
            record.unlink()
        return other

    def take_hosts(self):
        """An operator has all hosts taken from another weftd, or for a store that is older than they are."""
        def whose():
            return {host["name"]: host.get("reason") or "" for host in self.client.get("/v1/hosts")["items"]}

        self.cli("site", "take", "--yes", *whose())
        until(lambda: not any("weft site take" in reason for reason in whose().values()), lambda: f"the hosts are taken: {whose()}")

    # --- the process ---

    def start(self, failpoint=None, failpoint_log=None):
        """False when it died of the failpoint before it could serve."""
        assert self.process is None
        self.write_config()
        environment = surroundings() | {"G_MESSAGES_DEBUG": self.messages, "G_DEBUG": "fatal-criticals", "WEFT_CLOCK": str(self.root / "clock")}
        if failpoint:
            environment["WEFT_FAILPOINT"] = failpoint
        if failpoint_log:
            environment["WEFT_FAILPOINT_LOG"] = str(failpoint_log)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, build_folder().resolve() / "src/daemon/weftd", "--config", self.root / "weft.yaml"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True)
        until(lambda: self.serves() or self.process.poll() is not None, lambda: f"weftd serves: {self.log_tail()}")
        if self.process.poll() is None:
            return True
        assert failpoint and self.process.returncode == -signal.SIGKILL, f"weftd ended with {self.process.returncode}: {self.log_tail()}"
        self.process = None
        return False

    def run_refused(self):
        """What weftd says when it does not start with this configuration."""
        assert self.process is None
        self.write_config()
        done = subprocess.run([build_folder() / "src/daemon/weftd", "--config", self.root / "weft.yaml"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        assert done.returncode > 0, f"weftd ended with {done.returncode}"
        return done.stderr

    def set_clock(self, seconds, boot=None):
        """The clock of weftd's machine is wrong by that. boot: a name, as if the machine had booted since."""
        path = self.root / "clock.new"
        path.write_text(f"{seconds} {boot}" if boot else f"{seconds}", encoding="utf-8")
        path.rename(self.root / "clock")

    def _fabric(self, description):
        """With a fake manager, where it does not say what it has; None: it has none, and does not say so."""
        fake = {"driver": "fake", "world": str(self.fabric_world / description["name"])}
        whole = {"manager": fake} | description
        return {field: value for field, value in whole.items() if value is not None}

    def write_config(self):
        config = self.config | {"fabrics": [self._fabric(description) for description in self.config["fabrics"]]}
        (self.root / "weft.yaml").write_text(json.dumps(config, indent=1), encoding="utf-8")

    def serves(self):
        """Who was killed may have left a child that has not become another program yet, and has its socket until then."""
        with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            if probe.connect_ex(str(self.socket)) != 0:
                return False
            pid, _, _ = struct.unpack("iii", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iii")))
            return pid == self.process.pid

    def died(self):
        """Whether the failpoint has killed it; any other end is an error."""
        if self.process is None:
            return True
        code = self.process.poll()
        if code is None:
            return False
        assert code == -signal.SIGKILL, f"weftd ended with {code}: {self.log_tail()}"
        self.process = None
        return True

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.process = None

    def stop(self):
        """A clean end; whatever the sanitizers or GLib complained of fails here."""
        process, self.process = self.process, None
        process.terminate()
        code = process.wait(PATIENCE)
        assert code == 0, f"weftd ended with {code}: {self.log_tail()}"
        self.check_log()

    def stop_or_dead(self):
        """A clean end, unless somebody has killed it already."""
        process, self.process = self.process, None
        process.terminate()
        code = process.wait(PATIENCE)
        assert code in (0, -signal.SIGKILL), f"weftd ended with {code}: {self.log_tail()}"

    def check_log(self):
        text = self.log.read_text(encoding="utf-8", errors="replace")
        for word in ("CRITICAL", "runtime error:", "Sanitizer"):
            assert word not in text, self.log_tail()

    def log_tail(self, lines=20):
        """The last lines that tell more than that it came and went."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        told = [line for line in text.splitlines() if not line.endswith((": stopping", "weft.sock"))]
        return "\n".join(told[-lines:])

    def remove(self):
        if self.process:
            self.kill()
        shutil.rmtree(self.root, ignore_errors=True)

    def tcp_port(self):
        """The port that weftd says that it listens on: this one, not the one before it, as it says so before it answers."""
        self.client.request("GET", "/v1/version")

        def said():
            found = re.findall(r"TCP port (\d+)", self.log.read_text(encoding="utf-8"))
            return int(found[-1]) if found else None

        return until(said, lambda: f"weftd names its TCP port: {self.log_tail()}")

    # --- clients ---

    def token(self, principal, **spec):
        return self.client.expect(201, "POST", "/v1/tokens", {"principal": principal} | spec)["token"]

    def tls_client(self, token, certificate):
        """Over TCP, with the server's certificate as the only one that is trusted."""
        context = ssl.create_default_context(cafile=certificate)
        port = self.tcp_port()
        return Client(lambda: http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE, context=context), token)

    def cli(self, *arguments, check=True, text=None, env=None):
        """Runs weft; returns its CompletedProcess."""
        environment = surroundings() | {"WEFT_URL": f"unix://{self.socket}", "NO_COLOR": "1"} | (env or {})
        done = subprocess.run([build_folder() / "src/cli/weft", *arguments], capture_output=True, text=True, input=text,
                              env=environment, timeout=PATIENCE * 2, check=False)
        assert not check or done.returncode == 0, f"weft {' '.join(arguments)}: {done.returncode}: {done.stderr}"
        return done

    # --- what is in the store ---

    # --- what weftd has ended, and what is left of it all the same ---

    def site(self):
        """The id of its site."""
        return self.dump().values("meta")["site"]["id"]

    def prove(self, *keys):
        """The store has a record that these ended. It has a place, as an operator's word has: of an image's file that is not there yet it
        would be dropped."""
        with contextlib.closing(sqlite3.connect(self.root / "weft.db", timeout=PATIENCE)) as store, store:
            store.executemany("INSERT OR IGNORE INTO record (kind, key, scope, place, revision, value) VALUES ('ended', ?, '', '-', 1, '{}')",
                              [(key,) for key in keys])

    def add_ended(self, host, name, like):
        """A domain that has ended, and is there: a copy of another one, renamed."""
        self.prove(f"node/{name.removeprefix('weft-')}/{self.world.stay(like)}")
        self.world.add_stray(host, name, like)

    def add_ended_network(self, host, vxlan, cluster, *peers):
        self.prove(f"network/{cluster}")
        self.world.add_network(host, vxlan, cluster, *peers, site=self.site())

    def add_ended_image(self, host, digest):
        self.prove(f"image/{digest}")
        self.world.add_image(host, digest, site=self.site())

    def add_ended_memory(self, host, name):
        memory = f"{self.site()}-{name}"
        self.prove(f"memory/{memory}")
        self.world.add_primed(host, memory)

    def dump(self):
        return dump.read(self.config["store"]["path"])


@contextlib.contextmanager
def beside(arguments, environment, **streams):
    """weft running beside us, not forever."""
    # Whoever runs the tests in the background has SIGINT ignored, and children inherit that.
    with subprocess.Popen([build_folder() / "src/cli/weft", *arguments], env=environment,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **streams) as process:
        watchdog = threading.Timer(PATIENCE * 2, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            if process.poll() is None:
                process.kill()


def fresh_key():
    return uuid.uuid4().hex


def with_changes(description, **changes):
    return copy.deepcopy(description) | changes
