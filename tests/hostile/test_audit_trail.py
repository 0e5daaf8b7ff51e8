"""The audit trail on a full disk."""

import json

from harness.wait import until
from test_bytes import fill, own_mounts, small_disk  # noqa: F401  (fixtures)


def exhaust(weft, disk):
    """Changes until the room that the trail has is used up; the disk takes nothing more."""
    filler = fill(disk)
    answers = []
    for i in range(5000):
        answers.append(weft.client.request("POST", "/v1/tenants", {"name": f"t{i}"}))
        if "cannot write the audit trail" in weft.log.read_text(encoding="utf-8", errors="replace"):
            return filler, answers
    raise AssertionError(f"the disk was never full\n{weft.log_tail()}")


def numbers(disk):
    return [json.loads(line)["sequence"] for line in (disk / "audit.log").read_text(encoding="utf-8").splitlines()]


def test_entries_wait_for_room(small_disk, site):  # noqa: F811
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log")}})
    filler, answers = exhaust(weft, disk)
    assert all(answer.status == 201 for answer in answers)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "waits"})
    filler.unlink()
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "last"})
    weft.stop()
    assert numbers(disk) == list(range(1, len(answers) + 5))
    weft.cli("audit", "verify", disk / "audit.log")


def test_what_is_required_is_refused(small_disk, site):  # noqa: F811
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log"), "required": True}})
    filler, answers = exhaust(weft, disk)
    assert [answer.status for answer in answers[:-1]] == [201] * (len(answers) - 1)
    assert answers[-1].status == 507 and "may have been done" in answers[-1].json["detail"]
    refused = weft.client.request("POST", "/v1/tenants", {"name": "never"})
    assert refused.status == 507 and "nothing was done" in refused.json["detail"]
    assert weft.client.request("GET", "/v1/tenants/never").status == 404
    filler.unlink()
    until(lambda: weft.client.request("POST", "/v1/tenants", {"name": "after"}).status == 201, "changes are taken again")
    weft.stop()
    weft.cli("audit", "verify", disk / "audit.log")
