"""weftd runs out of descriptors: it refuses or waits, does not end, and goes on when there are some again."""

import http.client
import os
import resource

import pytest
from faulty import Patient
from harness.weft import Client, UnixConnection, Weft
from operations import send_blob, spec

SPARE = (0, 1, 2, 3, 5, 8, 13)  # descriptors beyond those that it has
ANSWERS = set(range(200, 300)) | {409, 429, 500, 503, 507}


def limit(weft, spare):
    """To so many more than are open now; None: as it was."""
    hard = resource.prlimit(weft.process.pid, resource.RLIMIT_NOFILE)[1]
    used = max(int(name) for name in os.listdir(f"/proc/{weft.process.pid}/fd")) + 1
    resource.prlimit(weft.process.pid, resource.RLIMIT_NOFILE, (hard if spare is None else used + spare, hard))


def ask(client, method, path, body=None):
    """Its status; None: nobody answered in time, which is allowed."""
    try:
        return client.request(method, path, body).status
    except (OSError, http.client.HTTPException):
        return None


@pytest.mark.parametrize("spare", SPARE)
def test_descriptors_run_out(spare):
    weft = Weft(changes={"api": {"idle_timeout": "2s"}})
    try:
        site = Patient(weft)
        site.start()
        site.call("POST", "/v1/clusters?tenant=acme", spec("before", 2))
        site.settle()
        limit(weft, spare)
        hasty = Client(lambda: UnixConnection(weft.socket, timeout=2))  # who gets no descriptor is not answered
        answers = {ask(hasty, "POST", "/v1/clusters?tenant=acme", spec(f"c{i}", 1)) for i in range(3)}
        answers.add(ask(hasty, "GET", "/v1/clusters"))
        assert weft.process.poll() is None, f"weftd ended: {weft.log_tail()}"
        assert answers <= ANSWERS | {None}, answers
        limit(weft, None)
        send_blob(site, b"after" * 1000, 2500)
        site.call("POST", "/v1/clusters?tenant=acme", spec("after", 1))
        site.settle(lambda site: site.until(lambda: site.client.cluster("after")["phase"] == "ready", "after is ready"))
        weft.stop()
    finally:
        weft.remove()

