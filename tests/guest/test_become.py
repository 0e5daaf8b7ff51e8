"""Nodes that did not boot with their identity: forks of a template, and copies of running nodes."""

import base64
import os
import subprocess
import time

import pytest
from guest import Guest

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")

NODE = """hostname {cluster}-{rank}
rank {rank}
cluster {cluster}
id {id}
machine {machine}
mac 02:00:00:00:00:{rank:02x} 10.64.0.{address}/16 1450
pkey 0x8012
sl 0
path bridge
slots 4
login ssh-ed25519 AAAA {cluster}
"""
MACHINE = "0123456789ab4def8123456789abcdef"
FILES = {"ssh/id_ed25519": (0o600, b"private\n"), "ssh/id_ed25519.pub": (0o644, b"ssh-ed25519 AAAA cfd\n"),
         "ssh/host_dropbear": (0o600, b"\0dropbear\0"), "ssh/host_ed25519": (0o600, b"host\n"), "ssh/host_ed25519.pub": (0o644, b"ssh-ed25519 BBBB cfd\n"),
         "munge.key": (0o600, bytes(range(128)))}


def node_text(rank=3, cluster="cfd", node_id=None):
    return NODE.format(rank=rank, cluster=cluster, id=node_id or f"{cluster}-id-{rank}", machine=MACHINE, address=rank + 1)


def identity(node, files=None, was=None, random=bytes(64)):
    lines = [f"random {random.hex()}", "node " + base64.b64encode(node.encode()).decode()]
    lines += [f"file {path} {mode:o} {base64.b64encode(content).decode()}" for path, (mode, content) in (FILES if files is None else files).items()]
    lines += [f"was {was}"] if was else []
    return ("\n".join(lines) + "\n").encode()


def ask(guest, kind, text=b""):
    return guest.open(kind, f"now={time.time_ns() // 1000}").send(text).eof().end()


@pytest.fixture
def template(guests):
    guest = guests(node="template 1\n", alone=True)
    (guest.root / "root").mkdir()
    return guest.sync()


# --- settle ---


def test_template_tells_what_it_is(template, guests):
    assert template.facts["template"] == "1"
    assert guests("other", node=node_text()).sync().facts["template"] == "0"


def test_template_settles(template):
    session = ask(template, "settle")
    assert (session.status, session.output) == (0, b"settled\n")


def test_node_with_an_identity_does_not_settle(guests):
    assert ask(guests(node=node_text()).sync(), "settle").refusal == "the node has an identity already"


@pytest.mark.parametrize("folder, why", [("run/cloud-init", "cloud-init"), ("run/systemd/system", "systemd")])
def test_image_that_cannot_be_captured_says_so(template, folder, why):
    (template.root / folder).mkdir(parents=True)
    assert why in ask(template, "settle").refusal


def test_nothing_of_a_user_runs_in_a_template(template):
    assert template.run("/bin/true").end().refusal == "the node has no identity yet"
    assert ask(template, "meet").refusal == "the node does not know who it is"
    assert ask(template, "quiesce").refusal == "the node does not know who it is"


# --- become ---


def test_template_becomes_a_node(template):
    session = ask(template, "become", identity(node_text()))
    assert (session.status, session.output) == (0, b"became cfd-3\n")
    root = template.root
    assert (root / "run/weft/node").read_text() == node_text()
    assert (root / "etc/hostname").read_text() == "cfd-3\n"
    assert (root / "etc/machine-id").read_text() == MACHINE + "\n"
    assert "10.64.0.4 cfd-3" in (root / "etc/hosts").read_text()
    assert (root / "etc/weft/ssh_host_ed25519_key").read_bytes() == b"host\n"
    assert (root / "etc/weft/ssh_host_ed25519_key").stat().st_mode & 0o777 == 0o600
    assert (root / "run/weft/files/munge.key").read_bytes() == bytes(range(128))
    assert "cfd-3 ssh-ed25519 BBBB\n" in (root / "etc/ssh/ssh_known_hosts").read_text()
    assert "OMPI_ALLOW_RUN_AS_ROOT=1" in (root / "etc/environment").read_text()
    assert template.run("/bin/true").end().status == 0
    roster = b"generation 1\nself 3\nnode 3 cfd-3 10.64.0.4 4\nnode 4 cfd-4 10.64.0.5 4\n"
    assert ask(template, "meet", roster).status == 0
    assert template.sync().facts["template"] == "0"


def test_dropbear_has_the_key_in_its_own_format(template):
    (template.root / "etc/dropbear").mkdir(parents=True)
    assert ask(template, "become", identity(node_text())).status == 0
    key = template.root / "etc/dropbear/dropbear_ed25519_host_key"
    assert key.read_bytes() == b"\0dropbear\0" and key.stat().st_mode & 0o777 == 0o600


def test_becoming_twice_is_once(template):
    assert ask(template, "become", identity(node_text())).status == 0
    before = texts(template.root)
    assert ask(template, "become", identity(node_text(), random=os.urandom(64))).status == 0
    assert texts(template.root) == before


def test_becoming_another_is_refused(template):
    assert ask(template, "become", identity(node_text())).status == 0
    before = texts(template.root)
    for was in (None, "somebody"):
        session = ask(template, "become", identity(node_text(5), was=was))
        assert (session.status, session.output) == (1, b"the node is cfd-id-3 already, and cannot become cfd-id-5\n")
    assert texts(template.root) == before


def test_identity_that_was_begun_is_kept(template):
    """weftd died, and another one has other plans."""
    (template.root / "run/weft/identity").write_text("cfd-id-3\n")
    assert b"is cfd-id-3 already" in ask(template, "become", identity(node_text(5))).output
    assert ask(template, "become", identity(node_text())).status == 0


def test_node_that_booted_with_its_identity_stays(guests):
    guest = guests(node=node_text(), alone=True).sync()
    assert ask(guest, "become", identity(node_text())).status == 0
    assert ask(guest, "become", identity(node_text(4))).status == 1


SENSELESS = {"empty": b"", "noise": os.urandom(100_000), "no node": b"random " + b"00" * 64 + b"\n", "little entropy": identity(node_text(), random=bytes(63)),
             "odd": identity(node_text()).replace(b"random ", b"random x"), "no base64": identity(node_text()).replace(b"node ", b"node *"),
             "no identity": identity("template 1\n"), "no id": identity("hostname cfd-3\n"), "line": identity("hostname cfd-3\nid a\nmac nonsense\n"),
             "upwards": identity(node_text(), {"../../etc/shadow": (0o600, b"x")}), "absolute": identity(node_text(), {"/etc/shadow": (0o600, b"x")}),
             "too many": identity(node_text(), {f"file{i}": (0o600, b"x") for i in range(100)})}


@pytest.mark.parametrize("text", SENSELESS.values(), ids=SENSELESS.keys())
def test_identity_that_makes_no_sense(template, text):
    session = ask(template, "become", text)
    assert (session.status, session.output) == (1, b"the identity makes no sense\n")
    assert not (template.root / "etc").exists() and (template.root / "run/weft/node").read_text() == "template 1\n"
    assert ask(template, "become", identity(node_text())).status == 0


def test_lines_of_a_newer_weftd_are_ignored(template):
    assert ask(template, "become", identity(node_text()) + b"colour green\n\n").status == 0


def test_large_identity(template):
    """More than a window holds."""
    assert ask(template, "become", identity(node_text(), {"large": (0o600, os.urandom(200_000))})).status == 0
    assert (template.root / "run/weft/files/large").stat().st_size == 200_000


def test_copy_has_a_machine_id_of_its_own(guests):
    """Also where systemd made the one before: it is not to be met twice."""
    guest = guests(node=node_text(0), alone=True)
    (guest.root / "run/systemd/system").mkdir(parents=True)
    (guest.root / "etc").mkdir()
    (guest.root / "etc/machine-id").write_text("made by systemd\n")
    guest.sync()
    assert ask(guest, "become", identity(node_text(0))).status == 0
    assert (guest.root / "etc/machine-id").read_text() == "made by systemd\n"
    assert ask(guest, "become", identity(node_text(1, "sweep"), was="cfd-id-0")).status == 0
    assert (guest.root / "etc/machine-id").read_text() == MACHINE + "\n"


@needs_root
def test_copy_of_a_running_node(guests, tmp_path):
    """It is told whose copy it is, and forgets the other cluster's names and keys."""
    guest = guests(node=node_text(0), alone=True)
    root = guest.root
    for folder in ("root", "etc/weft/become.d"):
        (root / folder).mkdir(parents=True)
    hook = root / "etc/weft/become.d/ssh"
    hook.write_text(f"#!/bin/sh\necho $1 >{tmp_path}/told\n")
    hook.chmod(0o755)
    guest.sync()
    assert ask(guest, "become", identity(node_text(0))).status == 0
    assert not (tmp_path / "told").exists()
    roster = b"generation 9\nself 0\nnode 0 cfd-0 10.64.0.1 4\nnode 1 cfd-1 10.64.0.2 4\n"
    assert ask(guest, "meet", roster).status == 0
    (root / "root/.ssh/authorized_keys").open("a").write("ssh-ed25519 CCCC alice\n")

    files = {**FILES, "ssh/id_ed25519": (0o600, b"another\n")}
    assert ask(guest, "become", identity(node_text(2, "sweep"), files, was="cfd-id-0")).status == 0
    assert (tmp_path / "told").read_text() == "become\n"
    hosts = (root / "etc/hosts").read_text()
    assert "cfd" not in hosts and "sweep-2" in hosts
    assert (root / "etc/weft/hostfile").read_text() == "sweep-2 slots=4\n"
    assert (root / "root/.ssh/id_ed25519").read_bytes() == b"another\n"
    logins = (root / "root/.ssh/authorized_keys").read_text()
    assert logins == "ssh-ed25519 CCCC alice\nssh-ed25519 AAAA sweep\n"
    roster = b"generation 1\nself 2\nnode 2 sweep-2 10.64.0.3 4\n"
    assert ask(guest, "meet", roster).status == 0, "the generations of another cluster do not count"
    assert ask(guest, "become", identity(node_text(0), was="cfd-id-0")).status == 1, "it is nobody's copy any more"


# --- in a root of its own ---


@needs_root
def test_boot_waits_for_the_identity(machine):
    """What the image starts afterwards never runs without one. The network comes later, and is set up when it does."""
    start = subprocess.Popen([*machine.enter, "/seed/weft/guest", "start", "/seed"], stderr=subprocess.PIPE)
    machine.run("/bin/sh", "-c", "until [ -e /run/weft/rxe-modules ]; do /bin/busybox usleep 20000; done")
    assert start.poll() is None
    boot = machine.run("/bin/busybox", "cat", "/proc/sys/kernel/random/boot_id")
    guest = Guest("/", prefix=machine.enter, path="/seed/weft/guest")
    try:
        assert guest.sync().facts["template"] == "1" and guest.facts["boot"] == boot.strip()
        assert ask(guest, "become", identity(node_text())).status == 0
        assert start.wait(30) == 0, start.stderr.read()
        assert machine.run("/bin/busybox", "hostname") == "cfd-3\n"
        renewed = machine.run("/bin/busybox", "cat", "/proc/sys/kernel/random/boot_id")
        assert renewed != boot and len(renewed) == len(boot)
        assert guest.sync().facts["boot"] == boot.strip(), "weftd does not take it for a reboot"

        meeting = guest.open("meet").send(b"generation 1\nself 3\nwithin 20\nnode 3 cfd-3 10.64.0.4 4\n").eof()
        machine.plug("late0", "02:00:00:00:00:03")
        assert meeting.end().status == 0
        assert machine.has_address("late0", "10.64.0.4/16")
    finally:
        guest.stop()
        start.stderr.close()


def texts(root):
    return {path: path.read_bytes() for path in sorted((root / "etc").rglob("*")) if path.is_file()}
