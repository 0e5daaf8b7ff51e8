"""Kills weftd with SIGKILL at every failpoint that each operation reaches, starts it again, and checks that it ends where it
would have ended."""

import os
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.weft import SOURCE, Weft
from operations import OPERATIONS
from survivor import Survivor, prepare
from tally import TALLY

WORKERS = 8  # most of the time they wait
AHEAD = 3  # operations at a time
TRIES = 3
CHECK = SOURCE / "tools/check-failpoints"
KILLS = not os.environ.get("WEFT_NO_KILLS")  # without them each operation runs once: for the sanitizers


def run(operation, base, failpoint=None, log=None):
    """One pass; whether the failpoint killed weftd."""
    weft = base.clone()
    try:
        operation.before(weft)
        site = Survivor(weft)
        site.start(failpoint, log)
        operation.act(site)
        site.settle(operation.check)
        if failpoint and not site.deaths and site.dies(timeout=1):
            site.settle(operation.check)
        if failpoint and not site.deaths:
            weft.stop_or_dead()  # what comes again and again may get there only now
            weft.check_log()
        else:
            weft.stop()
        return site.deaths == 1
    except Exception as error:
        raise AssertionError(f"operation {operation.name}, WEFT_FAILPOINT={failpoint}: {error}\n{weft.log_tail()}") from error
    finally:
        weft.remove()


def learn(operation, base):
    """Which failpoints the operation reaches, and how often."""
    log = base.root / "failpoints.log"
    run(operation, base, log=log)
    hits = Counter(log.read_text(encoding="utf-8").split())
    log.unlink()
    return hits


def places(hits):
    """NAME:N for each place to kill at: the first time, and one in the middle where there are more than two."""
    for name, count in sorted(hits.items()):
        yield name, f"{name}:1"
        if count > 2:
            yield name, f"{name}:{count // 2 + 1}"


def kill_at(operation, base, name, place):
    """What is committed together depends on timing: a place may be missed now and then. The last test sees to it that every
    failpoint killed in some operation."""
    for _ in range(TRIES):
        if run(operation, base, failpoint=place):
            TALLY.kills[operation.name, name] += 1
            return


def kill_everywhere(operation, pool):
    base = prepare(operation, Weft(changes=operation.changes))
    try:
        hits = learn(operation, base)
        assert hits, "no failpoint was reached"
        TALLY.reached |= hits.keys()
        for _ in pool.map(lambda place: kill_at(operation, base, *place), places(hits) if KILLS else ()):
            pass  # an error in a thread is raised here
    finally:
        base.remove()


@pytest.fixture(scope="module")
def ends(request):
    """How each operation ended, in the future: the next ones have begun when one is asked for, since the last kills of each leave the processors idle."""
    chosen = [item.callspec.params["operation"] for item in request.session.items if item.originalname == "test_killed_everywhere"]
    operations, kills = ThreadPoolExecutor(AHEAD), ThreadPoolExecutor(WORKERS)
    yield {operation.name: operations.submit(kill_everywhere, operation, kills) for operation in chosen}
    operations.shutdown(cancel_futures=True)
    kills.shutdown(cancel_futures=True)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_killed_everywhere(operation, ends):
    ends[operation.name].result()


def test_every_failpoint_was_reached():
    listed = subprocess.run([CHECK, "--list"], check=True, capture_output=True, text=True).stdout.split()
    missing = sorted(set(listed) - TALLY.reached)
    unlisted = sorted(TALLY.reached - set(listed))
    assert not missing, f"no operation reaches {missing}"
    spared = sorted(set(listed) - {name for _, name in TALLY.kills})
    assert not (KILLS and spared), f"nothing was killed at {spared}"
    assert not unlisted, f"tools/check-failpoints does not know {unlisted}"


def test_failpoints_are_everywhere():
    done = subprocess.run([CHECK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
