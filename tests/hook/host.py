"""Hosts for the hook: a network and mount namespace each, with a root of their own whose /sys is simulated."""

import contextlib
import errno
import os
import subprocess
from pathlib import Path

DOMAIN = "https://weft.dev/xmlns/domain/1"
NETWORK = "https://weft.dev/xmlns/network/1"
BUILD = Path(os.environ.get("WEFT_BUILD", Path(__file__).resolve().parents[2] / "build"))
PATIENCE = 60
MLX5 = "mlx5 mlx5_0 0000:41:00.0 8 vendor"
MLX4 = "mlx4 mlx4_0 0000:42:00.0 8 0x7fff,0x8002,0x8001"


class Namespace:
    """A network and mount namespace that lives until close()."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && echo ready && exec sleep infinity"],
                                       stdout=subprocess.PIPE, text=True)
        assert self.holder.stdout.readline() == "ready\n"

    @property
    def pid(self):
        return self.holder.pid

    def inside(self, *command):
        return ["nsenter", "-t", str(self.pid), "-n", "-m", "--", *map(str, command)]

    def run(self, *command, check=True, **options):
        return subprocess.run(self.inside(*command), capture_output=True, text=True, check=check, timeout=PATIENCE, **options)

    def links(self):
        names = (line.split()[0].split("@")[0] for line in self.run("ip", "-br", "link").stdout.splitlines())
        return sorted(name for name in names if name != "lo")

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


class Host(Namespace):
    """adapters are lines for hcafs."""

    def __init__(self, folder, adapters=()):
        super().__init__()
        self.root = folder
        self.sys = folder / "sys"
        self.sys.mkdir(parents=True)
        (folder / "dev" / "vfio").mkdir(parents=True)
        (folder / "run" / "libvirt" / "qemu").mkdir(parents=True)
        (folder / "run" / "libvirt" / "network").mkdir(parents=True)
        (folder / "adapters").write_text("\n".join(adapters), encoding="utf-8")
        self.files = None
        if adapters:
            self.files = subprocess.Popen(self.inside(BUILD / "lab/hcafs", folder / "adapters", self.sys), stdout=subprocess.PIPE, text=True)
            assert self.files.stdout.readline() == "ready\n"

    def close(self):
        if self.files:
            self.files.terminate()
            self.files.wait()
            self.files.stdout.close()
        super().close()

    # --- the simulated /sys ---

    def order(self, text):
        self.run("sh", "-c", 'printf %s "$1" > "$2"', "sh", text, self.sys / ".control")

    def written(self):
        """What was written since forget(): pairs of path and value."""
        return [tuple(line.split(" ", 1)) for line in self.run("cat", self.sys / ".control").stdout.splitlines()]

    def forget(self):
        self.order("forget")

    def value(self, path):
        return self.run("cat", self.sys / path.lstrip("/")).stdout.strip()

    def link(self, path):
        """The last part of a link's target, or None."""
        answer = self.run("readlink", self.sys / path.lstrip("/"), check=False)
        return answer.stdout.strip().rpartition("/")[2] or None

    # --- weft host prepare ---

    def prepare(self, *arguments, environment=(), program=("src/cli/weft", "host", "prepare")):
        settings = {"WEFT_HOOK_ROOT": self.root} | dict(environment)
        return self.run("env", *(f"{k}={v}" for k, v in settings.items()), BUILD / program[0], *program[1:], *arguments, check=False)

    # --- the hook ---

    def command(self, *arguments, environment=()):
        return self.inside("env", f"WEFT_HOOK_ROOT={self.root}", *(f"{k}={v}" for k, v in dict(environment).items()),
                           BUILD / "src/hook/weft-hook", *arguments)

    def hook(self, kind, name, op, text, environment=()):
        return subprocess.run(self.command(kind, name, op, environment=environment), input=text, capture_output=True, text=True,
                              check=False, timeout=PATIENCE)

    def orphan(self, kind, name, op, text):
        """Runs the hook by a libvirtd that is gone afterwards."""
        return subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *self.command(kind, name, op)], input=text, capture_output=True,
                              text=True, check=False, timeout=PATIENCE)

    def readmit(self, pci, environment=()):
        return subprocess.run(self.command("readmit", pci, environment=environment), capture_output=True, text=True, check=False, timeout=PATIENCE)

    def hook_many(self, calls):
        """All at the same instant; calls are (kind, name, op, text)."""
        running = []
        for kind, name, op, text in calls:
            process = subprocess.Popen(self.command(kind, name, op), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            running.append((process, text))
        answers = []
        for process, text in running:  # each waits for its standard input: they begin as it comes
            process.stdin.write(text)
            process.stdin.close()
            process.stdin = None
        for process, _ in running:
            output, problem = process.communicate(timeout=PATIENCE)
            answers.append((process.returncode, output, problem))
        return answers

    def records(self, kind="domains"):
        with contextlib.suppress(FileNotFoundError):
            return sorted(entry.name for entry in (self.root / "run/weft-hook" / kind).iterdir())
        return []

    @contextlib.contextmanager
    def running(self, domain):
        """libvirt has a process for this domain."""
        process = subprocess.Popen(["sleep", "infinity"])
        file = self.root / f"run/libvirt/qemu/{domain}.pid"
        file.write_text(f"{process.pid}\n", encoding="utf-8")
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            with contextlib.suppress(FileNotFoundError):
                file.unlink()


def device(hca="mlx5_0", driver="mlx5", pf="0000:41:00.0", vf=0, guid=0x0277650000000001, pkey=1, rail=0, **changes):
    """A device of a node's metadata, as attributes."""
    pci = f"{pf[:8]}{(vf + 1) // 8:02x}.{(vf + 1) % 8:x}"
    attributes = {"rail": rail, "hca": hca, "driver": driver, "vf": vf, "pci": pci, "pf": pf, "guid": f"0x{guid:016x}", "pkey": f"0x{pkey:04x}"}
    return attributes | changes


def attributes(values):
    return "".join(f" {name}='{value}'" for name, value in values.items() if value is not None)


def hostdev(pci):
    domain, bus, rest = pci.split(":")
    slot, function = rest.split(".")
    return (f"<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' "
            f"function='0x{function}'/></source></hostdev>")


def domain(node, vxlan=10001, devices=(), hostdevs=None, extra="", ports=""):
    """The XML that libvirt gives the qemu hook."""
    plugged = [d["pci"] for d in devices if d.get("plugged") != "later"] if hostdevs is None else hostdevs
    marks = "".join(f"<weft:device{attributes(d)}/>" for d in devices)
    return (f"<domain type='kvm'><name>weft-{node}</name><metadata><weft:node xmlns:weft='{DOMAIN}' id='{node}' tenant='acme' rank='0' "
            f"path='sriov' mac='02:00:00:00:00:01'><weft:cluster id='c' name='cfd'/><weft:record>{{}}</weft:record>"
            f"<weft:partition pkey='0x0001' vxlan='{vxlan}'/>"
            f"{marks}{extra}</weft:node></metadata><devices>{''.join(map(hostdev, plugged))}{ports}</devices></domain>")


def network(vxlan, peers=()):
    """The XML that libvirt gives the network hook."""
    marks = "".join(f"<weft:peer address='{peer}'/>" for peer in peers)
    return (f"<hookData>\n<network><name>weft-{vxlan}</name><metadata><weft:network xmlns:weft='{NETWORK}' cluster='c' vxlan='{vxlan}'>"
            f"{marks}</weft:network></metadata><forward mode='bridge'/><bridge name='weft{vxlan}'/></network>\n</hookData>")


EACCES = errno.EACCES
EIO = errno.EIO
