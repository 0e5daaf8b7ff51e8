"""Who speaks to the plugin: clients that vanish, that ask for more than it can do and go, and that ask while opensm ends; and
whose a partition is."""

import signal
from contextlib import suppress
from threading import Event, Thread

import pytest
from harness.fabric import PARTITIONS
from harness.plugin import Plugin, Refused
from harness.wait import until
from wish import Wish

PLACES = 16  # for clients
PENDING = 8  # requests of one that are taken at once


@pytest.fixture
def wish(fabric, manager):
    return Wish(fabric)


def test_who_vanished_makes_room(manager, wish):
    """A machine that lost its power does not hang up. Others still find a place, and who speaks keeps its own."""
    vanished = []
    with Plugin(manager.socket) as speaker:
        for _ in range(3 * PLACES):
            vanished.append(Plugin(manager.socket))
            assert vanished[-1].hello()["master"] and speaker.hello()["master"]
        speaker.apply([wish.set(1, ("h1", "h2"))])
    for plugin in vanished:
        plugin.close()
    wish.check(manager)


def test_who_asks_and_goes_heaps_nothing_up(fabric, manager, wish):
    guid = wish.guids("h3")[0]

    def is_refused():
        with Plugin(manager.socket) as plugin:
            asked = [plugin.begin("verify", ports=[f"0x{guid:016x}"]) for _ in range(PENDING)]
            plugin.begin("hello")  # is not read before one of them is answered, or refused
            message = plugin.receive()
            return message["id"] in asked and message.get("error", {}).get("kind") == "unavailable"

    def ask_and_go():
        with Plugin(manager.socket) as plugin:
            for _ in range(PENDING - 1):
                plugin.begin("verify", ports=[f"0x{guid:016x}"])
            plugin.hello()  # is answered at once: they have been read

    with fabric.held():
        for _ in range(3 * PLACES):
            ask_and_go()
        assert is_refused()

    def reads():
        with Plugin(manager.socket) as plugin:
            try:
                return plugin.verify(guid)[guid]["pkeys"]
            except Refused:
                return None
    until(reads, "what was heaped up is done")
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h3"))])
    wish.check(manager)


def test_opensm_ends_while_clients_ask(manager):
    """In order, as far as can be seen: what it made for them is gone."""
    flooded, over = Event(), Event()

    def flood():
        with suppress(OSError), Plugin(manager.socket) as plugin:
            reader = Thread(target=drain, args=(plugin,))
            reader.start()
            for number in range(1 << 30):
                plugin.begin(("hello", "list", "topology")[number % 3])
                if number == 10 * PENDING:
                    flooded.set()
                if over.is_set():
                    break
            reader.join()

    def drain(plugin):
        with suppress(OSError):
            while True:
                plugin.receive()

    clients = [Thread(target=flood) for _ in range(PLACES // 2)]
    for client in clients:
        client.start()
    try:
        assert flooded.wait(30)
        manager.kill(signal.SIGTERM)
        assert not manager.socket.exists()
    finally:
        over.set()
        for client in clients:
            client.join()


def test_a_partition_of_the_sites_that_is_called_like_wefts(new_fabric):
    """Where it stands in the file tells whose it is."""
    fabric = new_fabric()
    wish = Wish(fabric)
    (guid,) = wish.guids("h8")
    site = PARTITIONS + f"weft-0aaaaaaaaaaa=0x0101 : 0x{guid:016x}=full ;\n"
    manager = fabric.manager(plugin=True, partitions=site).start()
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h7", "h8"))])
    wish.partitions[0x101] = {guid: "full"}
    assert not list(wish.differences())
