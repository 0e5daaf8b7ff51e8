"""A real opensm with the options that weft fabric harden writes: it rules, and all that weft itself sends carries the M_Key. The simulator
neither asks for the key nor keeps it: so opensm finds none on the ports, and what the plugin sends by its means shows nothing here."""

import subprocess

import pytest
from harness.plugin import Plugin
from harness.weft import build_folder
from weftsite import Site
from wish import Wish

GET, PKEY_TABLE = 1, 0x16
LANES = "1:40"


@pytest.fixture
def weft():
    return build_folder().resolve() / "src/cli/weft"


@pytest.fixture
def options(weft, tmp_path):
    file = tmp_path / "opensm.conf"
    subprocess.run([weft, "fabric", "harden", "--file", file, "--way", "file", "--qos", "--write"], check=True, capture_output=True)
    return dict(line.split(None, 1) for line in file.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")


@pytest.fixture
def tap(tmp_path, monkeypatch):
    """Gives what programs that are started later have sent since it was last asked: {(method, attribute): M_Keys}."""
    file = tmp_path / "tap"
    monkeypatch.setenv("WEFT_TAP", str(file))

    def sent():
        found = {}
        for line in file.read_text(encoding="ascii").splitlines():
            method, attribute, key = (int(word, 16) for word in line.split())
            found.setdefault((method, attribute), set()).add(key)
        file.unlink()
        return found

    return sent


def test_partitions_on_a_hardened_opensm(new_fabric, options):
    fabric = new_fabric()
    manager, wish = fabric.manager(plugin=True, options=options).start(), Wish(fabric)
    with Plugin(manager.socket) as plugin:
        plugin.apply([wish.set(1, ("h1", "h5")), wish.set(2, ("h1", "h6"), "both")])
        wish.check(manager)
        assert {pkey for pkey in plugin.verify(*wish.guids("h1"))[wish.guids("h1")[0]]["pkeys"] if pkey} == {0x7FFF, 0x8001, 0x8002, 2}


def test_weftd_carries_the_key_where_there_is_no_plugin(new_fabric, options, monkeypatch, tmp_path, tap):
    fabric = new_fabric()
    monkeypatch.delenv("WEFT_TAP")
    fabric.manager(options=options).start()
    monkeypatch.setenv("WEFT_TAP", str(tmp_path / "tap"))
    key = tmp_path / "m_key"
    key.write_text(options["m_key"] + "\n", encoding="ascii")
    site = Site(fabric, "file")
    site.config["fabrics"][0]["manager"]["m_key_file"] = str(key)
    site.start()
    try:
        site.make("cfd", 3, cores=4)
        site.stop()
    finally:
        site.remove()
    sent = tap()
    assert (GET, PKEY_TABLE) in sent
    assert set().union(*sent.values()) == {int(options["m_key"], 16)}


def test_reading_the_lanes_carries_the_key(new_fabric, options, weft, tap):
    fabric = new_fabric()
    manager = fabric.manager(options=options).start()
    tap()
    fabric.run(weft, "fabric", "qos", "--check", "--lanes", LANES, "--file", manager.folder / "opensm.conf", check=False)
    sent = tap()
    assert sent and set().union(*sent.values()) == {int(options["m_key"], 16)}
