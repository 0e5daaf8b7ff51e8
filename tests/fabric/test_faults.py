"""What goes wrong around the plugin: each time the ports end as wished, or as they were, and the plugin says which and why."""

import json
import random
import socket
import struct
import time

import pytest
from harness.fabric import PKEYS, states
from harness.plugin import Plugin, Refused, partition
from harness.wait import until
from wish import Wish, in_file

PKEY_TABLE = 0x16
CAPACITY = 63  # of ibsim's ports: opensm leaves one of the 64 places at switches free
MARK = "# <<< weft <<<"


@pytest.fixture
def wish(fabric, manager):
    return Wish(fabric)


def test_opensm_killed_during_apply(fabric, manager, wish):
    chance = random.Random(4)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2", "h3", "h4"))])
    for number in range(2, 8):
        before = dict(wish.partitions)
        entry = wish.set(number, [f"h{1 + (number + k) % 8}" for k in range(4)])
        with Plugin(manager.socket) as plugin:
            generation = plugin.list()[1] + 1
            plugin.begin("apply", **plugin.change([entry], [(number - 1, f"weft-{number - 1:04x}")], generation))
            wish.remove(number - 1)
            time.sleep(chance.random() / 250)
            manager.kill()
        after, found = dict(wish.partitions), in_file(manager.partitions)
        assert found in (before, after), "half of a change"
        manager.start()
        wish.partitions = found
        wish.check(manager)
        wish.partitions = after
        with Plugin(manager.socket) as plugin:
            plugin.apply([entry], [number - 1], generation=max(generation, plugin.list()[1] + 1))
        wish.check(manager)


def test_opensm_killed_with_a_part_of_the_blocks_on_their_way(fabric, manager, wish):
    """Some of it reaches the ports, the rest is never sent; the file has all of the change, and so have the ports when it is back."""
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2", "h5", "h6"))])
        wish.remove(1)
        with fabric.held():
            plugin.begin("apply", **plugin.change([wish.set(2, ("h1", "h3", "h5", "h7"))], [(1, "weft-0001")], 2))
            until(lambda: in_file(manager.partitions) == wish.partitions and manager.mads_on_wire() > 0, "it is under way")
            until(lambda: states(manager.process.pid) == {"S"}, "what it counts is sent")
            pid = manager.inner_pid()
            manager.process.kill()
        fabric.forget(pid)
    tables = [table for host in fabric.tables().values() for table in (host.keys, host.enforced_keys)]
    assert {0x8001, 0x8002} <= set().union(*tables), "the ports have half of a change"
    manager.start()
    wish.check(manager)


def test_its_socket_is_gone(manager, wish):
    with Plugin(manager.socket) as plugin:
        manager.socket.unlink()
        plugin.apply([wish.set(1, ("h1", "h2"))])
        with pytest.raises(OSError):
            Plugin(manager.socket)
    manager.kill()
    manager.start()
    wish.check(manager)


@pytest.mark.parametrize("attribute", [PKEY_TABLE, None])
def test_a_port_never_answers(fabric, manager, wish, attribute):
    guid = wish.guids("h3")[0]
    entry = wish.set(1, ("h1", "h3"))
    fabric.drop("h3", 100, attribute=attribute)
    with Plugin(manager.socket) as plugin, Plugin(manager.socket) as other:
        asked = plugin.begin("apply", **plugin.change([entry], [], 1))
        assert other.hello()["master"]
        with pytest.raises(Refused, match=f"{guid:016x}"):
            plugin.end(asked)
        assert not list(wish.differences(["h1"]))
        told = plugin.verify(*wish.guids("h1", "h3"))
        assert "error" in told[guid] and "error" not in told[wish.guids("h1")[0]]
        fabric.drop("h3", 0)
        plugin.apply([entry])
    wish.check(manager)


def test_a_port_never_answered_and_a_sweep_comes(fabric, manager, wish):
    fabric.drop("h3", 100, attribute=PKEY_TABLE)
    with Plugin(manager.socket) as plugin:
        with pytest.raises(Refused):
            plugin.apply([wish.set(1, ("h1", "h3"))])
    fabric.drop("h3", 0)
    manager.sweep()
    wish.check(manager)


def test_half_of_the_answers_are_lost(fabric, manager, wish):
    """opensm asks again by itself; where that is not enough, the change fails and the same again completes it."""
    for host in ("h1", "h5"):
        fabric.drop(host, 50, attribute=PKEY_TABLE)
    with Plugin(manager.socket) as plugin:
        for number in range(1, 9):
            entry = wish.set(number, ("h1", "h5", "h6"))

            def applied(entry=entry):
                try:
                    return plugin.apply([entry])
                except Refused:
                    return None

            until(applied, f"partition {number}")
    for host in ("h1", "h5"):
        fabric.drop(host, 0)
    wish.check(manager)


def test_the_file_edited_by_hand_between_the_marks(manager, wish):
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
        text = manager.partitions.read_text()
        manager.write_partitions(text.replace(MARK, "foreign=0x0077 : 0x0002c90300100001=full ;\n" + MARK))
        manager.sweep()
        assert 0x8077 in wish.fabric.tables()[wish.guids("h1")[0]].keys
        plugin.apply(wish.all())
    manager.sweep()
    wish.check(manager)
    assert "foreign" not in manager.partitions.read_text()


def test_the_file_edited_by_hand_outside_the_marks(manager, wish):
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
        with manager.partitions.open("a") as file:
            file.write("own=0x0200 : 0x0002c90300100041=full ;\n")
        plugin.apply([wish.set(2, ("h1", "h5"))])
        manager.sweep()
        assert "own=0x0200" in manager.partitions.read_text()
        assert 0x8200 in wish.fabric.tables()[wish.guids("h5")[0]].keys
        plugin.apply(removed=[wish.remove(1)])
        with pytest.raises(Refused, match="0x0200") as refused:
            plugin.apply([partition(0x200, wish.guids("h1"))])
        assert refused.value.kind == "conflict"
    wish.partitions[0x200] = {wish.guids("h5")[0]: "full"}
    assert not list(wish.differences())


def test_a_mark_is_missing(manager, wish):
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
        text = manager.partitions.read_text()
        manager.write_partitions(text.replace(MARK, ""))
        with pytest.raises(Refused, match="mark"):
            plugin.apply([partition(2, wish.guids("h3"))])
        assert not list(wish.differences())
        manager.write_partitions(text)
        plugin.apply([wish.set(2, ("h3",))])
    wish.check(manager)


@pytest.mark.parametrize("options", ["remount,ro", "size=4k"])
def test_the_file_cannot_be_written(fabric, manager, wish, options):
    place = manager.partitions.parent
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
        if options == "remount,ro":
            fabric.run("mount", "--bind", place, place)
            fabric.run("mount", "-o", "remount,ro,bind", place)
        else:  # no room in it for a second one beside it
            text = manager.partitions.read_text()
            fabric.run("mount", "-t", "tmpfs", "-o", options, "tmpfs", place)
            fabric.run("sh", "-c", f"printf %s '{text}' >{manager.partitions}")
        with pytest.raises(Refused, match="partitions.conf") as refused:
            plugin.apply([partition(2, wish.guids("h3", "h4"))])
        assert refused.value.kind == "unavailable"
        assert not list(wish.differences())
        assert set(plugin.list()[0]) & {1, 2} == {1}
        fabric.run("umount", place)
        plugin.apply([wish.set(2, ("h3", "h4"))])
    wish.check(manager)


def test_a_ports_table_is_full(manager, wish):
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(number, ("h1",)) for number in range(1, CAPACITY)])
        with pytest.raises(Refused, match=f"{wish.guids('h1')[0]:016x}") as refused:
            plugin.apply([partition(100, wish.guids("h1", "h2"))])
        assert refused.value.kind == "exhausted"
        wish.check(manager)
        wish.remove(7)
        plugin.apply([wish.set(100, ("h1", "h2"))], removed=[7])
    wish.check(manager)


def test_32000_partitions(manager, wish):
    absent = (0x0002C90300900001, 0x0002C90300900002)
    entries = [partition(number, absent) for number in range(100, 32100)]
    with Plugin(manager.socket, timeout=120) as plugin:
        plugin.apply([*entries, wish.set(1, ("h1", "h2"))], whole=True, generation=1)
        assert not list(wish.differences())
        plugin.apply([wish.set(2, ("h1", "h8"))], generation=2)
        assert not list(wish.differences())
        manager.sweep()
        assert not list(wish.differences())
        assert len(plugin.list()[0]) == 32000 + 3
        plugin.apply(wish.all(), whole=True, generation=3)
    wish.check(manager)


def garbage():
    chance = random.Random(7)
    yield from (chance.randbytes(chance.randint(1, 4000)) for _ in range(20))
    yield struct.pack(">I", 0)
    yield struct.pack(">I", 0xFFFFFFFF) + b"{}"
    for text in (b"{", b"[]", b"7", b'{"id":1}', b'{"id":"x","do":"hello"}', b'{"do":["list"]}', b"[" * 100000,
                 b'{"id":1,"do":"apply","set":' + b"[" * 5000, b'{"id":1,"do":"verify","ports":["0x1"]}' + b"\0", b"\xff\xfe{}"):
        yield struct.pack(">I", len(text)) + text
    whole = b'{"id":1,"do":"hello"}'
    for cut in range(1, 4 + len(whole), 3):
        yield (struct.pack(">I", len(whole)) + whole)[:cut]


def test_garbage_and_truncated_frames(manager, wish):
    pid = manager.process.pid
    for bytes_ in garbage():
        with Plugin(manager.socket) as plugin:
            try:
                plugin.socket.sendall(bytes_)
                plugin.socket.shutdown(socket.SHUT_WR)
                while plugin.socket.recv(65536):
                    pass
            except OSError:
                pass  # it may hang up while we still speak
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h2"))])
    wish.check(manager)
    assert manager.process.pid == pid


def test_clients_that_hang_do_not_hold_others_up(manager, wish):
    half = struct.pack(">I", 1000) + b'{"id":'
    hung = []
    try:
        for _ in range(12):
            hung.append(Plugin(manager.socket))
            hung[-1].socket.sendall(half)
        deaf = Plugin(manager.socket)  # asks for much, and reads nothing of it
        hung.append(deaf)
        deaf.socket.settimeout(0.5)
        try:
            for number in range(5000):
                deaf.begin("list" if number % 2 else "topology")
        except OSError:
            pass
        with Plugin(manager.socket) as plugin:
            plugin.apply([wish.set(1, ("h1", "h2"))])
    finally:
        for plugin in hung:
            plugin.close()
    wish.check(manager)


HELLO = """
import socket, struct, sys
text = b'{"id":1,"do":"hello"}'
with socket.socket(socket.AF_UNIX) as door:
    door.connect(sys.argv[1])
    try:
        door.sendall(struct.pack(">I", len(text)) + text)
        sys.stdout.buffer.write(door.recv(65536)[4:])
    except ConnectionError:
        pass
"""


def test_strangers_are_turned_away(new_fabric):
    """Only the uid that was configured gives orders, and root: also where the socket's mode would let others in."""
    fabric = new_fabric()
    friend, stranger = 65533, 65534
    manager = fabric.manager(plugin=True, plugin_options=f"socket={fabric.folder / 'sm/weft.sock'},uid={friend},pkeys={PKEYS}").start()
    for folder in (fabric.folder, manager.folder):
        folder.chmod(0o755)

    def hello(uid):
        return fabric.run("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "/usr/bin/python3", "-c", HELLO, manager.socket,
                          check=False)

    assert "PermissionError" in hello(stranger).stderr
    manager.socket.chmod(0o777)
    for uid in (friend, 0):
        assert json.loads(hello(uid).stdout)["manager"]["master"]
    done = hello(stranger)
    assert (done.stdout, done.stderr) == ("", "")
    assert f"refused uid {stranger}" in manager.log()
