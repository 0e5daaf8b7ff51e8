"""Commands in a node: what goes in, what comes out, and how they end."""

import hashlib
import os
import signal
import subprocess

import pytest

from guest import CLOSE, DATA, OPEN, SIGNAL, frame
from harness.process import is_running


def test_welcome_says_who_answers(guest):
    assert guest.facts["version"] == "1"
    assert guest.facts["hostname"] == os.uname().nodename
    assert guest.facts["boot"] == open("/proc/sys/kernel/random/boot_id").read().strip()


def test_output_errors_and_status(guest):
    session = guest.shell("echo out; echo err >&2; exit 7").end()
    assert (session.output, session.errors, session.status) == (b"out\n", b"err\n", 7)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_end_a_command(guest, number):
    session = guest.shell("echo ready; exec sleep 1000").wait_for(b"ready")
    session.signal(number)
    assert session.end().status == 128 + number


def test_signals_reach_the_whole_group(guest):
    session = guest.shell("sleep 1000 & echo $!; wait").wait_for(b"\n")
    session.signal(signal.SIGTERM)
    until_gone(guest, int(session.output))
    assert session.end().status == 128 + signal.SIGTERM


def test_signal_that_a_command_handles(guest):
    session = guest.shell("trap 'echo got it; exit 9' INT; echo ready; while :; do sleep 0.05; done").wait_for(b"ready")
    session.signal(signal.SIGINT)
    assert session.end().output.endswith(b"got it\n") and session.status == 9


@pytest.mark.parametrize("number", [0, 65, 1 << 31])
def test_signals_that_are_none(guest, number):
    session = guest.run("/bin/cat")
    session.signal(number)
    assert session.send(b"x").eof().end().status == 0


def test_status_of_a_signal(guest):
    assert guest.shell("kill -TERM $$").end().status == 128 + signal.SIGTERM


@pytest.mark.parametrize("command, status", [("/no/such/program", 127), ("/etc/passwd", 126), ("no-such-program", 127)])
def test_program_that_cannot_run(guest, command, status):
    session = guest.run(command).end()
    assert session.status == status
    assert session.errors.startswith(f"weft: {command}: ".encode())


def test_arguments_are_passed_as_they_are(guest):
    words = ["a b", "", "'\"$HOME", "ä\n", "--x=y"]
    session = guest.run("/usr/bin/printf", "<%s>", *words).end()
    assert session.output.decode() == "".join(f"<{word}>" for word in words)


def test_environment_and_folder(guest, tmp_path):
    (guest.root / "run/weft/environment").write_text("UCX_TLS=rc,self\nFROM_NODE=1\n")
    session = guest.shell("pwd; echo $UCX_TLS $FROM_NODE $MINE; echo ${SECRET-none}", env=["MINE=a=b", "FROM_NODE=2"], dir=str(tmp_path)).end()
    assert session.output.decode() == f"{tmp_path}\nrc,self 2 a=b\nnone\n"


def test_folder_that_is_not_there(guest):
    session = guest.run("/bin/true", dir="/no/such").end()
    assert session.status == 126 and b"/no/such" in session.errors


def test_user_that_is_not_there(guest):
    assert guest.run("/bin/true", user="nobody-of-that-name").end().refusal == "there is no user 'nobody-of-that-name' in the node"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_other_user(guest):
    session = guest.run("/usr/bin/id", "-un", user="nobody").end()
    assert session.output == b"nobody\n"


def test_login_shell(guest):
    session = guest.open("exec").send(b"echo $0; exit 3\n").end()
    assert session.status == 3 and session.output.startswith(b"-")


def test_memory_may_be_locked(guest):
    """As much as whoever runs the test may: root in a container is not always free to raise it."""
    may = subprocess.run(["/bin/bash", "-c", "ulimit -l unlimited 2>/dev/null || ulimit -l $(ulimit -Hl); ulimit -l"],
                         stdout=subprocess.PIPE, check=True).stdout
    assert guest.run("/bin/bash", "-c", "ulimit -l").end().output == may


def test_input_and_its_end(guest):
    session = guest.run("/usr/bin/sort").send(b"b\na\n").eof().end()
    assert (session.output, session.status) == (b"a\nb\n", 0)


def test_input_that_nobody_wants_is_taken(guest):
    session = guest.shell("exec <&-; sleep 0.1; echo done").send(bytes(1 << 20)).end()
    assert session.output == b"done\n"


def test_large_transfers_both_ways(guest):
    data = os.urandom(5 << 20)
    session = guest.run("/bin/cat").send(data)
    session.eof().end()
    assert hashlib.sha256(session.output).digest() == hashlib.sha256(data).digest()
    assert session.status == 0


def test_output_stays_within_the_window(guest):
    slow = guest.run("/usr/bin/head", "-c", "1000000", "/dev/zero", listens=False)
    slow.wait(lambda: len(slow.output) == 65536, "the window is used up")
    # Somebody else gets everything meanwhile, and still nothing more came of the slow one.
    assert len(guest.run("/usr/bin/head", "-c", "3000000", "/dev/zero").end().output) == 3000000
    assert len(slow.output) == 65536 and not slow.ended
    slow.listens = True
    slow.allow(65536)
    assert len(slow.end().output) == 1000000 and slow.status == 0


def test_more_input_than_the_window_allows(guest):
    session = guest.run("/bin/sleep", "1000")
    session.window = 1 << 30
    assert session.send(bytes(1 << 20)).end().refusal == "more data came than the window allows"


def test_what_children_left_behind_does_not_keep_a_session(guest):
    session = guest.shell("sleep 1000 & echo $!").end()
    assert session.status == 0
    guest.run("/bin/kill", session.output.decode().strip()).end()


def test_closing_hangs_up(guest):
    session = guest.shell("echo $$; exec sleep 1000").wait_for(b"\n")
    pid = int(session.output)
    session.close()
    until_gone(guest, pid)


def test_closing_kills_what_ignores_the_hangup(guest):
    session = guest.shell("trap '' HUP TERM; echo $$; while :; do sleep 0.1; done").wait_for(b"\n")
    pid = int(session.output)
    session.close()
    until_gone(guest, pid)


def until_gone(guest, pid):
    script = f"while [ -e /proc/{pid} ] && ! grep -q '^State:.*Z' /proc/{pid}/status; do sleep 0.02; done"
    assert guest.shell(script).end().status == 0


def test_end_of_the_stream_ends_all(guests):
    guest = guests().sync()
    pid = int(guest.shell("trap '' HUP; echo $$; while :; do sleep 0.1; done").wait_for(b"\n").output)
    guest.stop()
    assert not is_running(pid)


# --- terminals ---


def test_terminal_has_its_size_and_type(guest):
    session = guest.shell("stty size; tty; echo $TERM", tty=True, rows=33, cols=99, env=["TERM=vt100"]).end()
    lines = session.output.decode().splitlines()
    assert lines[0] == "33 99" and lines[1].startswith("/dev/pts/") and lines[2] == "vt100"
    assert session.errors == b""


def test_terminal_is_resized(guest):
    session = guest.shell("trap 'stty size; exit 5' WINCH; echo ready; while :; do sleep 0.05; done", tty=True).wait_for(b"ready")
    session.resize(40, 111)
    assert session.end().status == 5
    assert b"40 111" in session.output


def test_control_c_reaches_the_foreground(guest):
    session = guest.run("/bin/bash", "--norc", "-i", tty=True, env=["PS1=% "]).wait_for(b"% ")
    session.send(b"sh -c 'echo on\\ly; exec sleep 1000'\n").wait_for(b"only")
    session.send(b"\x03").wait_for(b"^C")
    session.send(b"echo still\\ here\n").wait_for(b"\rstill here")
    session.send(b"exit 4\n")
    assert session.end().status == 4


def test_end_of_a_terminals_input(guest):
    session = guest.run("/bin/cat", tty=True).send(b"line\n").wait_for(b"line\r\nline\r\n").eof()
    assert session.end().status == 0


def test_last_output_of_a_terminal_is_not_lost(guest):
    for _ in range(20):
        session = guest.shell("seq 1 2000", tty=True).end()
        assert session.output.endswith(b"1999\r\n2000\r\n")


# --- many, and garbage ---


def test_sixty_four_at_once(guest):
    sessions = [guest.run("/bin/cat") for _ in range(64)]
    for i, session in enumerate(sessions):
        session.send(b"%d" % i).wait_for(b"%d" % i)
    assert guest.run("/bin/true").end().refusal.startswith("the node has too many sessions")
    for i, session in enumerate(sessions):
        assert session.eof().end().output == b"%d" % i
    assert guest.run("/bin/true").end().status == 0


@pytest.mark.parametrize("kind", ["", "root", "exe", "execute"])
def test_unknown_kind(guest, kind):
    assert guest.open(kind).end().refusal == "the guest program knows no such sessions"


def test_open_that_makes_no_sense(guest):
    assert guest.open("exec", "arg=/bin/true", "nonsense").end().refusal


@pytest.mark.parametrize("garbage", [os.urandom(100_000), bytes(50_000), b"\xff" * 20_000, b"GET / HTTP/1.1\r\n\r\n",
                                     b"\0\0\0\1\0\3\x20\0half a frame"], ids=["random", "zeros", "ones", "http", "half"])
def test_sync_after_garbage(guests, garbage):
    guest = guests()
    guest.sync(garbage + b"\xff" * 8200)
    assert guest.shell("echo fine").end().output == b"fine\n"


def test_sync_ends_the_sessions_before(guest):
    pid = int(guest.shell("echo $$; exec sleep 1000").wait_for(b"\n").output)
    guest.run("/usr/bin/yes", listens=False)
    guest.sync()
    until_gone(guest, pid)
    assert guest.shell("echo fine").end().output == b"fine\n"


def test_frames_without_a_sync_are_dropped(guests):
    guest = guests()
    marker = guest.root / "touched"
    guest.send(frame(1, OPEN, b"exec\0arg=/usr/bin/touch\0arg=" + str(marker).encode() + b"\0"))
    guest.sync()
    assert guest.run("/bin/true").end().status == 0
    assert not marker.exists()


def test_frames_for_nobody_are_ignored(guest):
    guest.send(frame(99, DATA, b"x") + frame(99, CLOSE) + frame(0, DATA, b"y") + frame(99, SIGNAL, b"\0\0\0\x09"))
    assert guest.shell("echo fine").end().output == b"fine\n"
