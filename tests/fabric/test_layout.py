"""A plugin that was made for an opensm with other structures: it says so, and touches nothing."""

import pytest
from harness.plugin import Plugin, Refused, partition
from wish import Wish


def test_a_plugin_for_another_build_of_opensm_refuses(new_fabric, monkeypatch):
    fabric = new_fabric()
    manager = fabric.manager(plugin=True, options={"event_plugin_name": "weftosm-misfit"})
    monkeypatch.setenv("WEFT_OPENSM_SOCKET", str(manager.socket))
    manager.start()
    with Plugin(manager.socket) as plugin:
        for deed in ("hello", "list", "topology"):
            with pytest.raises(Refused, match="laid out") as refused:
                plugin.ask(deed)
            assert refused.value.kind == "unavailable"
        with pytest.raises(Refused, match="laid out"):
            plugin.ask("apply", generation=1, set=[partition(1, Wish(fabric).guids("h1"))])
    manager.sweep()
    assert not list(Wish(fabric).differences())
    assert "weft" not in manager.partitions.read_text()
