"""A short walk on simulated adapters in each run of the tests; `make test-adapters SEED=… STEPS=…` takes longer ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import walk  # noqa: E402
from harness.wait import until  # noqa: E402
from sites import HOOK, site  # noqa: E402

SEED, STEPS = int(os.environ.get("SEED", 1)), int(os.environ.get("STEPS", 30))


@pytest.mark.parametrize("kind", walk.KINDS)
def test_functions_can_do_what_the_store_says(kind):
    assert os.geteuid() == 0, "hosts of their own need namespaces, which takes root"
    print(walk.walk(kind, SEED, STEPS))


@pytest.mark.parametrize("kind", walk.KINDS)
def test_what_a_killed_hook_left_is_given_back(kind):
    """At once: nobody else may come to that host for a long time, and weftd goes on."""
    with site(kind, hosts=4) as made:
        one = walk.Walk(made, SEED)
        made.start()
        for operation, point in walk.HOOK_POINTS:
            for how in (f"at {point}", "after 0.001"):
                made.trees.strike(f"{operation} {how}")
                one.create(most=1)
                one.look(strikes=True)
                one.delete()
                one.look(strikes=True)
                assert made.trees.is_struck(), "nobody was killed"
        made.stop()


@pytest.mark.parametrize("kind", walk.KINDS)
def test_a_report_that_is_killed_after_a_killed_release_is_asked_for_again(kind):
    """The node is gone, and was the last there: nobody else would have the hook give back what it had."""
    with site(kind, hosts=4) as made:
        one = walk.Walk(made, SEED)
        made.start()
        one.create(most=1)
        one.look()
        made.trees.strike("qemu-release at hook-cleared\nnetwork-start at hook-cleared")
        one.delete()
        one.look(strikes=True)
        assert made.trees.is_struck(), "nobody was killed"
        made.stop()


def prepare_and_die(made, host, domain, text):
    """As a weftd that is killed while it starts a node: whoever has the hook prepare its function is gone afterwards."""
    subprocess.run(["sh", "-c", '"$@"; true', "sh", HOOK, "qemu", domain, "prepare", "begin", "-"], input=text, text=True, check=True,
                   env=os.environ | {"WEFT_HOOK_ROOT": str(made.trees.world / host / "root")})
    assert (host, domain) in made.trees.records()


def test_a_killed_report_is_asked_for_again():
    """It would have given back what a killed weftd left: once weftd is there again, nobody else may come to that host for a long time."""
    with site("mlx5", hosts=2) as made:
        one = walk.Walk(made, SEED)
        made.start()
        one.create(most=1)
        one.look()
        (host, domain), = made.trees.records()
        text = made.world.definition(domain)
        one.delete()
        one.look()
        made.stop()
        prepare_and_die(made, host, domain, text)
        other, = made.trees.processes.keys() - {host}
        made.world.fault("fail inspect", host=other)
        made.trees.strike("network-start at hook-cleared")
        made.start()
        until(made.trees.is_struck, "the first report is killed")
        made.world.fault(host=other)
        one.look()
        made.stop()
