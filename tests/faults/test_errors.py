"""The disk refuses a write, a sync or a name: weftd says so or gives up, and once the disk is well all is as it was asked for."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from faulty import FaultyWeft, chosen, run
from survivor import prepare

PLACES = int(os.environ.get("WEFT_FAULTS_PLACES", "0"))  # for each operation, kind of call and error; 0: each one
FAILURES = {
    "write": (("write", "truncate"), (errno.EIO, errno.ENOSPC)),
    "sync": (("sync", "sync-folder"), (errno.EIO,)),
    "name": (("create", "rename", "link", "unlink", "mkdir", "rmdir"), (errno.EIO, errno.ENOSPC)),
}
WORKERS = 4
# A template that could not be recorded is asked for by the next cluster that wants it: that is no state to come back to.
OPERATIONS = [operation for operation in chosen() if operation.name != "template"]


def places(count):
    wanted = min(PLACES or count, count)
    return sorted({1 + i * count // wanted for i in range(wanted)}) if wanted else ()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_disk_refuses(operation):
    base = prepare(operation, FaultyWeft(changes=operation.changes))
    try:
        done = run(operation, base)
        rules = [f"fail {kind} {place} {number}" for kind, (words, numbers) in FAILURES.items()
                 for place in places(sum(word in words for word in done)) for number in numbers]
        with ThreadPoolExecutor(WORKERS) as pool:
            list(pool.map(lambda rule: run(operation, base, (rule,), may_give_up=True), rules))
    finally:
        base.remove()
