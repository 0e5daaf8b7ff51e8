"""Places in the P_Key tables: what opensm's own rules make of a table in its next sweep, the plugin makes of it at once."""

import pytest
from harness.plugin import Refused, partition
from harness.wait import until
from wish import DEFAULT, FULL, Wish

BLOCK = 32


@pytest.fixture(scope="module")
def fabric(ruled_fabric):
    return ruled_fabric()


@pytest.fixture
def guid(fabric):
    return fabric.net.port_guid("h1")


def places(fabric, guid):
    """{P_Key: index}"""
    table = fabric.tables(guid)[guid]
    return {pkey: index for index, pkey in enumerate(table.own) if pkey}


def first(number, guid):
    """A partition that has index 0 of the port."""
    entry = partition(number, [guid])
    entry["members"][0]["index0"] = True
    return entry


def settle(fabric, manager, guid):
    """What a sweep leaves; nothing may have moved."""
    before = fabric.tables(guid)[guid]
    manager.sweep()
    assert fabric.tables(guid)[guid] == before
    return places(fabric, guid)


def test_a_key_that_comes_back_gets_its_place_back(fabric, manager, plugin, guid):
    plugin.apply([partition(1, [guid]), partition(2, [guid]), partition(3, [guid])])
    before = places(fabric, guid)
    plugin.apply(removed=[2])
    plugin.apply([partition(4, [guid])])
    assert places(fabric, guid)[FULL | 4] not in before.values()
    plugin.apply([partition(2, [guid])])
    assert settle(fabric, manager, guid) == before | {FULL | 4: places(fabric, guid)[FULL | 4]}


def test_another_membership_stays_in_its_place(fabric, manager, plugin, guid):
    plugin.apply([partition(1, [guid]), partition(2, [guid])])
    before = places(fabric, guid)
    assert plugin.apply([partition(1, [guid], "limited")])["blocks"] == 2
    after = settle(fabric, manager, guid)
    assert after[1] == before[FULL | 1] and FULL | 1 not in after
    assert after[FULL | 2] == before[FULL | 2]


def test_index_0_for_a_whole_adapter(fabric, manager, plugin, guid):
    plugin.apply([partition(1, [guid])])
    plugin.apply([first(7, guid)])
    table = settle(fabric, manager, guid)
    assert table[FULL | 7] == 0 and table[DEFAULT] > 0
    assert plugin.list()[0][7]["members"][0]["index0"]
    with pytest.raises(Refused, match="index 0") as refused:
        plugin.apply([first(8, guid)])
    assert refused.value.kind == "conflict"
    assert places(fabric, guid) == table
    plugin.apply(removed=[7])
    assert settle(fabric, manager, guid)[DEFAULT] == 0


def test_index_0_is_given_up_and_taken_in_one_change(fabric, manager, plugin, guid):
    plugin.apply([first(7, guid)])
    plugin.apply([first(8, guid)], removed=[7])
    table = settle(fabric, manager, guid)
    assert table[FULL | 8] == 0 and FULL | 7 not in table
    plugin.apply([partition(8, [guid])])
    table = settle(fabric, manager, guid)
    assert table[DEFAULT] == 0 and table[FULL | 8] > 0


def test_free_places_are_used_when_the_end_is_reached(fabric, manager, plugin, guid):
    for number in range(1, 100):
        plugin.apply([partition(number, [guid])], removed=[number - 3] if number > 3 else [])
        if number % 9 == 0:
            assert len(places(fabric, guid)) == 3 + 1
    settle(fabric, manager, guid)


def test_a_switch_forgets_keys_behind_a_block_that_became_full(fabric, plugin, guid):
    """opensm itself leaves the last block of what a switch enforces as it was when the keys end with the block before."""
    plugin.apply([partition(number, [guid]) for number in range(1, BLOCK + 1)])
    assert len(fabric.tables(guid)[guid].enforced_keys) == BLOCK + 1
    plugin.apply(removed=[5])
    table = fabric.tables(guid)[guid]
    assert table.enforced_keys == table.keys and len(table.keys) == BLOCK


def test_who_is_not_there_yet_gets_its_key_when_it_comes(fabric, manager, plugin):
    wish = Wish(fabric)
    manager.sweep()
    plugin.listen()
    fabric.unlink("h3")
    plugin.event("ports")
    until(lambda: not any(int(node["guid"], 16) == fabric.net.nodes["h3"].guid for node in plugin.map()["nodes"]), "h3 is gone")
    answer = plugin.apply([wish.set(1, ("h1", "h3"))])
    assert answer["absent"] == [f"0x{wish.guids('h3')[0]:016x}"]
    assert len(plugin.list()[0][1]["members"]) == 2
    fabric.relink("h3")
    wish.wait()
