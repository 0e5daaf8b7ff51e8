"""A machine with systemd as its first process: namespaces of this one, its /usr, and all the rest its own. Needs root."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from harness.wait import until
from harness.weft import SOURCE, build_folder

PATIENCE = 240.0  # a whole system is started, on a machine that may be busy
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
ACCOUNTS = {"passwd": "weft:x:990:990::/var/lib/weft:/usr/sbin/nologin\nalice:x:991:991::/:/bin/sh\nmallory:x:992:992::/:/bin/sh\n",
            "group": "weft:x:990:\nalice:x:991:\nmallory:x:992:\nweft-users:x:993:alice\n"}
# What would change the machine below. Its /sys and /proc/sys are read-only, so that others do not even begin.
MASKED = ("dev-hugepages.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sys-fs-fuse-connections.mount", "modprobe@.service")
TARGET = "[Unit]\nRequires=basic.target\nAfter=basic.target\n"

# $1: the new root; what is below it is mounted in a namespace that ends with the machine.
BOOT = """
set -eu
mount --make-rprivate /
ip link set lo up
mount --bind "$1" "$1"
cd "$1"
for folder in usr:/usr opt/build:"$2" opt/test:"$3"; do
    mkdir -p "${folder%%:*}"
    mount --bind "${folder#*:}" "${folder%%:*}"
    mount -o remount,bind,ro "${folder%%:*}"
done
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs sysfs sys
mount -o remount,bind,ro sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for device in $4; do touch "dev/$device"; mount --bind "/dev/$device" "dev/$device"; done
mkdir dev/pts dev/shm dev/infiniband dev/vfio
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
sh -eu "$5"
mkdir old
pivot_root . old
umount -l /old
exec env -i container=weft-test NOTIFY_SOCKET=/notify /lib/systemd/systemd --system --unit=test.target --log-target=journal --show-status=no
"""


def find_cgroup2():
    lines = (line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines())
    return Path(next(fields[1] for fields in lines if fields[2] == "cgroup2"))


def install(name, folder, sbin):
    """A shipped unit, as it is installed."""
    text = (SOURCE / "dist" / f"{name}.service.in").read_text(encoding="utf-8").replace("@sbindir@", str(sbin))
    path = folder / f"{name}.service"
    path.write_text(text, encoding="utf-8")
    return path


class Machine:
    def __init__(self, folder, prepare=""):
        """prepare: shell, run in the new root before systemd is."""
        self.root = folder / "root"
        self.folder = folder
        self.units = self.root / "etc/systemd/system"
        for name in ("etc/systemd/system", "etc/weft", "var/lib", "var/log", "proc", "sys", "dev", "run", "tmp", "root", "home", "opt", "usr"):
            (self.root / name).mkdir(parents=True)
        folder.chmod(0o755)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        for name, more in ACCOUNTS.items():
            (self.root / "etc" / name).write_text(Path("/etc", name).read_text(encoding="utf-8") + more, encoding="utf-8")
        for name in ("nsswitch.conf", "ld.so.cache"):
            shutil.copy(f"/etc/{name}", self.root / "etc" / name)
        (self.root / "etc/hosts").write_text("127.0.0.1 localhost\n", encoding="utf-8")
        (self.root / "etc/machine-id").touch()
        (self.root / "etc/systemd/system.conf").write_text(f"[Manager]\nDefaultTimeoutStartSec={PATIENCE}\n", encoding="utf-8")
        (self.units / "test.target").write_text(TARGET, encoding="utf-8")
        for name in MASKED:
            (self.units / name).symlink_to("/dev/null")
        for name, program in (("weftd", "daemon/weftd"), ("weft-prepare", "hook/weft-hook")):
            install(name, self.units, f"/opt/build/src/{program.partition('/')[0]}")
        (folder / "prepare").write_text(prepare, encoding="utf-8")
        self.cgroup = find_cgroup2() / f"weft-units-{os.getpid()}-{folder.name}"
        self.process = self.first = None

    def write(self, path, text, mode=0o644):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(mode)

    def read(self, path):
        """A file of its own mounts."""
        return Path(f"/proc/{self.first}/root", path.lstrip("/")).read_text(encoding="utf-8")

    def boot(self):
        self.cgroup.mkdir()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready:
            ready.bind(str(self.root / "notify"))
            ready.settimeout(PATIENCE)
            arguments = [self.root, build_folder().resolve(), Path(__file__).parent, " ".join(DEVICES), self.folder / "prepare"]
            join = 'echo 0 > "$0/cgroup.procs"; exec "$@"'
            self.process = subprocess.Popen(
                ["sh", "-c", join, self.cgroup, "unshare", "--pid", "--fork", "--kill-child", "--mount", "--uts", "--ipc", "--net", "--cgroup",
                 "sh", "-c", BOOT, "boot", *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=(self.folder / "boot").open("w"))
            try:
                while b"READY=1" not in ready.recv(4096).split():
                    pass
            except TimeoutError:
                raise AssertionError(f"systemd did not come up: {(self.folder / 'boot').read_text(encoding='utf-8')}") from None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.first = children.read_text(encoding="utf-8").split()[0]

    def command(self, *command):
        return ["nsenter", "-t", self.first, "--all", *map(str, command)]

    def run(self, *command, check=True):
        return subprocess.run(self.command(*command), capture_output=True, text=True, check=check, timeout=PATIENCE)

    def log(self, unit):
        self.run("journalctl", "--sync", check=False)  # what a service wrote before it ended may not have been read yet
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit, check=False).stdout

    def start(self, unit, check=True):
        answer = self.run("systemctl", "restart", unit, check=False)
        assert not check or answer.returncode == 0, f"{answer.stderr}{self.log(unit)}"
        return answer.returncode == 0

    def close(self):
        if self.process:
            self.process.send_signal(signal.SIGKILL)  # and with it the first process, and so all
            self.process.wait()
        until(self.remove_cgroups, "the machine's cgroups are empty", PATIENCE)

    def remove_cgroups(self):
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        return not self.cgroup.exists()
