"""Nodes that are to stand still, and to go on: the user's hooks, and what is told of them."""

import os
import time

import pytest
from guest import Guest

NODE = "hostname cfd-3\nrank 3\ncluster cfd\nid cfd-id-3\n"


@pytest.fixture
def node(guests):
    return guests(node=NODE, alone=True)


def hook(node, name, script, mode=0o755):
    path = node.root / "etc/weft/quiesce.d" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(mode)


def recorder(node, *names):
    for name in names:
        hook(node, name, f"echo {name} $1 >>{node.root}/log")


def log(node):
    path = node.root / "log"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def ask(node, kind, text=b""):
    return node.open(kind, f"now={time.time_ns() // 1000}").send(text).eof().end()


def test_without_hooks(node):
    assert node.sync().facts["hooks"] == "0"
    session = ask(node, "quiesce")
    assert session.status == 0 and session.output.startswith(b"hooks 0\n")
    assert ask(node, "resume").status == 0


def test_it_goes_on_as_another_node(node):
    """What was saved of one node is restored as another, which can be copied itself."""
    assert ask(node.sync(), "resume", b"node cfd-id-9\nwithin 20\n").status == 0
    assert (node.root / "run/weft/identity").read_text(encoding="ascii") == "cfd-id-9\n"


def test_hooks_that_are_needed_and_not_there(node):
    session = ask(node.sync(), "quiesce", b"hooks needed\n")
    assert (session.status, session.output) == (1, b"hooks 0\nthere is no hook in /etc/weft/quiesce.d\n")


def test_hooks_run_in_order_and_back(node):
    recorder(node, "10-mpi", "20-files")
    hook(node, "README", "exit 1", mode=0o644)
    hook(node, "10-mpi~", "exit 1")
    hook(node, ".hidden", "exit 1")
    assert node.sync().facts["hooks"] == "2"
    session = ask(node, "quiesce", b"hooks needed\nwithin 20\n")
    assert session.status == 0 and session.output.startswith(b"hooks 2\n"), session.output
    assert log(node) == ["10-mpi quiesce", "20-files quiesce"]
    assert ask(node, "quiesce").status == 0 and len(log(node)) == 2, "it is quiet already"
    assert ask(node, "resume").status == 0
    assert log(node)[2:] == ["20-files resume", "10-mpi resume"]
    assert ask(node, "resume").status == 0 and len(log(node)) == 4, "it goes on already"


def test_hook_that_fails_undoes_the_others(node):
    recorder(node, "10-mpi", "30-never")
    hook(node, "20-files", f"echo 20-files $1 >>{node.root}/log; [ $1 = resume ] || {{ echo some; echo 'disk is busy' >&2; exit 3; }}")
    session = ask(node.sync(), "quiesce")
    assert session.status == 1
    assert session.output.decode().splitlines()[-1] == "hook 20-files quiesce: ended with status 3: some disk is busy"
    assert log(node) == ["10-mpi quiesce", "20-files quiesce", "20-files resume", "10-mpi resume"]
    assert ask(node, "resume").status == 0 and len(log(node)) == 4


def test_hook_that_does_not_end(node):
    hook(node, "10-hangs", f"[ $1 = resume ] || {{ echo $$ >{node.root}/pid; echo waiting; sleep 1000; }}")
    session = ask(node.sync(), "quiesce", b"within 3\n")
    assert session.status == 1
    assert session.output.endswith(b"hook 10-hangs quiesce: did not end in time: waiting\n")
    assert not os.path.exists(f"/proc/{(node.root / 'pid').read_text().strip()}")


def test_hook_may_leave_something_running(node):
    hook(node, "10-leaves", f"sleep 1000 & echo $! >>{node.root}/pids")
    try:
        assert ask(node.sync(), "quiesce").status == 0
    finally:
        for pid in (node.root / "pids").read_text().split():
            os.kill(int(pid), 9)


def test_hook_that_fails_to_go_on_is_told(node):
    recorder(node, "10-mpi")
    hook(node, "20-files", "[ $1 = quiesce ] || { echo gone; kill -9 $$; }")
    assert ask(node.sync(), "quiesce").status == 0
    session = ask(node, "resume")
    assert (session.status, session.output) == (1, b"hook 20-files resume: was ended by signal 9: gone\n")
    assert log(node) == ["10-mpi quiesce", "10-mpi resume"]


def test_what_weftd_left_by_half_is_undone(node):
    """Hooks may have been told when it died."""
    recorder(node, "10-mpi")
    (node.root / "run/weft/quiesced").write_text("begun", encoding="utf-8")
    assert ask(node.sync(), "resume").status == 0
    assert log(node) == ["10-mpi resume"]


@pytest.mark.parametrize("text", [b"within 0\n", b"within soon\n", b"within 99999\n"])
@pytest.mark.parametrize("kind", ["quiesce", "resume"])
def test_question_that_makes_no_sense(node, kind, text):
    recorder(node, "10-mpi")
    assert ask(node.sync(), kind, text).output == b"the question makes no sense\n"
    assert log(node) == []


# --- devices, in a root of its own ---

RAILS = NODE + ("mac 02:00:00:00:00:03 10.64.0.4/16 1450\n"
                "ipoib 0 0x0002c90300000001 10.65.0.4/16\nipoib 1 0x0002c90300000002 10.66.0.4/16\n")


def plug_rail(machine, name, guid):
    """No machine without an adapter has such an interface: it is one of Ethernet, of which sysfs tells something else."""
    folder = f"{machine.root}/sys/class/net/{name}"
    address = ":".join(["00"] * 12 + [guid[i:i + 2] for i in range(0, 16, 2)])
    machine.tell("sh", "-c", f"mkdir -p {folder} && echo {address} >{folder}/address")
    machine.plug(name, "02:00:00:00:01:00")


@pytest.fixture
def rails(machine):
    """A node of two rails, of which one has no IPoIB, as where its function is no InfiniBand port. Its image knows such."""
    modules = machine.root / "lib/modules" / os.uname().release
    modules.mkdir(parents=True)
    (modules / "modules.dep").write_text("kernel/drivers/infiniband/ulp/ipoib/ib_ipoib.ko:\n", encoding="ascii")
    machine.tell("mount", "-t", "tmpfs", "net", f"{machine.root}/sys/class/net")
    machine.run("/bin/sh", "-c", f"/bin/busybox mkdir -p /run/weft && /bin/busybox printf '{RAILS}' >/run/weft/node")
    guest = Guest("/", prefix=machine.enter, path="/seed/weft/guest").sync()
    plug_rail(machine, "ib0", "0002c90300000001")
    machine.plug("eth0", "02:00:00:00:00:03")
    assert ask(guest, "resume").status == 0
    assert machine.has_address("eth0", "10.64.0.4/16") and machine.has_address("ib0", "10.65.0.4/16")
    yield guest
    guest.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")
def test_only_devices_that_were_there_are_waited_for(machine, rails):
    assert ask(rails, "quiesce").status == 0
    machine.unplug("ib0")
    machine.tell("rm", "-r", f"{machine.root}/sys/class/net/ib0")
    assert ask(rails, "quiesce").status == 0, "asked once more, it still knows what it had"
    session = ask(rails, "resume", b"within 1\n")
    assert (session.status, session.output) == (1, b"a network device did not come back\n")
    waiting = rails.open("resume").send(b"within 20\n").eof()
    plug_rail(machine, "ib0", "0002c90300000001")
    assert waiting.end().status == 0, "the other rail is not waited for"
    assert machine.has_address("ib0", "10.65.0.4/16")


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")
def test_a_whole_adapter_has_another_port_after_a_move(machine, rails):
    assert ask(rails, "quiesce").status == 0
    machine.unplug("ib0")
    plug_rail(machine, "ib0", "0002c90300000077")
    session = ask(rails, "resume", b"within 1\n")
    assert (session.status, session.output) == (1, b"a network device did not come back\n")
    assert ask(rails, "resume", b"within 20\nrail 0 0x0002c90300000077\nrail 1 0x0002c90300000078\n").status == 0
    assert machine.has_address("ib0", "10.65.0.4/16")


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces are root's")
def test_interfaces_of_other_keys_are_no_rails(machine, rails):
    """Users make such on their rail; they have its GUID, and which of all is found first is chance."""
    assert ask(rails, "quiesce").status == 0
    machine.unplug("ib0")
    machine.tell("rm", "-r", f"{machine.root}/sys/class/net/ib0")
    children = [f"ib0.800{number}" for number in range(1, 9)]
    for child in children:
        folder = f"{machine.root}/sys/class/net/{child}"
        machine.tell("sh", "-c", f"mkdir {folder} && echo ib0 >{folder}/parent")
        plug_rail(machine, child, "0002c90300000001")
    plug_rail(machine, "ib0", "0002c90300000001")
    assert ask(rails, "resume", b"within 20\n").status == 0
    assert machine.has_address("ib0", "10.65.0.4/16")
    assert not any(machine.has_address(child, "10.65.0.4/16") for child in children)
