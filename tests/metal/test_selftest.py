"""weft doctor --selftest as a site runs it on its own hosts. The functions here hold data, and are no InfiniBand ports: what is in a port's own
table is skipped, with the reason."""

import json

import pytest

pytestmark = pytest.mark.usefixtures("clean")


def test_selftest(metal):
    done = metal.weft("doctor", "--selftest", "--json", "--image", "tiny", "--memory", "192M",
                      timeout=1200, check=False)
    told = {check["check"]: (check["state"], check["found"]) for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0, done.stdout
    assert {check for check, (state, _) in told.items() if state == "skipped"} == {"pkeys"}, told
    assert "data was left on 3 devices" in told["delete"][1] and "functions that the other one had: nothing of it is left" in told["swap"][1]
