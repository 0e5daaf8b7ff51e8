"""Processes in namespaces, known by pid files that cannot lie.

A process writes its pid file itself, before it becomes the program: whoever started it may die at any moment. The file has
the pid as this machine sees it, the start time and the boot, so that a pid that was used again is never taken for it. Until
then the process also holds the lab's lock, which it inherited: nobody can look for it too early.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

CLONE_NEW = {"mnt": 0x00020000, "uts": 0x04000000, "ipc": 0x08000000, "pid": 0x20000000, "net": 0x40000000}

libc = ctypes.CDLL(None, use_errno=True)


class LabError(Exception):
    """What went wrong, with the value, and what to do."""


def _check(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


PF_EXITING = 0x4


def _stat(pid):
    """State, flags and start time; None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[6]), int(fields[19])


class Process:
    """A process that may or may not run, by its pid file."""

    def __init__(self, pid_file):
        self.pid_file = Path(pid_file)

    def _find(self, unwanted_flags=0):
        try:
            known = json.loads(self.pid_file.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):
            return None
        stat = _stat(known["pid"])
        if not stat or stat[0] in "ZX" or stat[2] != known["start"] or known["boot"] != _boot():
            return None
        return None if stat[1] & unwanted_flags else known["pid"]

    @property
    def pid(self):
        """None when it does not run, or no longer for long."""
        return self._find(PF_EXITING)

    def kill(self, sig=signal.SIGKILL, timeout=30):
        """Ends it and waits until it is gone; with a namespace's first process goes all that is in it."""
        pid = self._find()
        if pid:
            with suppress(ProcessLookupError):
                self._end(pid, sig, timeout)
        self.pid_file.unlink(missing_ok=True)

    def _end(self, pid, sig, timeout):
        fd = os.pidfd_open(pid)
        try:
            # The descriptor is of that very process only if it is still there under that pid.
            if self._find() == pid:
                signal.pidfd_send_signal(fd, sig)
                if not select.select([fd], [], [], timeout)[0]:
                    raise LabError(f"process {pid} of {self.pid_file} did not end within {timeout} s; look at it with ps")
        finally:
            os.close(fd)

    def _remember(self):
        """Runs in the process itself, while it still sees the machine's own /proc, which knows its pid out there."""
        pid = int(os.readlink("/proc/self"))
        fresh = self.pid_file.with_name(self.pid_file.name + ".new")
        fresh.write_text(json.dumps({"pid": pid, "start": _stat(pid)[2], "boot": _boot()}), encoding="ascii")
        fresh.rename(self.pid_file)

    def spawn(self, argv, log, inside=None, new=(), environment=None, folder="/"):
        """Starts the program in the namespaces of process `inside` and in `new` ones; its output goes to the file `log`.

        With a new "pid" namespace it is that namespace's first process. Returns when it has become the program.
        """
        self.kill()  # what may be left of an earlier one
        namespaces = _open_namespaces(inside)
        reader, writer = os.pipe()  # closed by exec, or tells why there was none
        child = os.fork()
        if child == 0:
            _run_child(lambda: self._become(argv, log, namespaces, new, environment, folder), writer)
        for fd in (writer, *namespaces.values()):
            os.close(fd)
        os.waitpid(child, 0)
        with open(reader, encoding="utf-8") as failure:
            reason = failure.read()
        if reason:
            raise LabError(f"cannot start {argv[0]}: {reason}")

    def _become(self, argv, log, namespaces, new, environment, folder):
        os.setsid()
        if "pid" in namespaces:
            _check(libc.setns(namespaces["pid"], CLONE_NEW["pid"]), "setns pid")
            # Its parent is out here: unreaped it would stay in there, and hold up the end of all in there.
            _go_on_in_child(reap=True)
        if "pid" in new:
            _check(libc.unshare(CLONE_NEW["pid"]), "unshare pid")
        _go_on_in_child()
        self._remember()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for fd, place in ((os.open("/dev/null", os.O_RDONLY), 0), (output, 1), (output, 2)):
            os.dup2(fd, place)
        for kind, fd in namespaces.items():
            if kind != "pid":
                _check(libc.setns(fd, CLONE_NEW[kind]), f"setns {kind}")
        for kind in new:
            if kind != "pid":
                _check(libc.unshare(CLONE_NEW[kind]), f"unshare {kind}")
        os.chdir(folder)
        os.execvpe(argv[0], argv, environment or os.environ)


def _open_namespaces(pid):
    if pid is None:
        return {}
    order = ("pid", "net", "uts", "ipc", "mnt")
    return {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in order}


def _go_on_in_child(reap=False):
    child = os.fork()
    if child != 0:
        if reap:
            os.waitpid(child, 0)
        os._exit(0)


def _run_child(become, writer):
    try:
        become()
    except BaseException as error:  # pylint: disable=broad-except # nothing may return into the parent's code
        os.write(writer, str(error).encode())
    os._exit(127)


def enter(pid, argv):
    """The command that runs argv in the namespaces of that process."""
    return ["nsenter", "-t", str(pid), "-m", "-u", "-i", "-n", "-p", "--", *argv]


def become(pid, argv):
    """Replaces this program by that command, whose exit code is then ours."""
    command = enter(pid, argv)
    os.execvp(command[0], command)


def run(argv, text=None, timeout=60):
    """Runs a command to its end and returns its output; a failure tells what it said."""
    try:
        done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=timeout, check=False)
    except FileNotFoundError as error:
        raise LabError(f"there is no program {argv[0]}; tools/packages lab installs what the lab needs") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{' '.join(argv)}: no answer within {timeout} s") from error
    if done.returncode != 0:
        raise LabError(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout
