"""Whoever fills disks fills their own: quotas of bytes, bounds on what is kept of a tenant, and what still works when a disk is full."""

import contextlib
import ctypes
import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time

import pytest
from harness.wait import until
from harness.weft import Client, UnixConnection
from test_checkpoints import ask, checkpoint, create, files, made, remove, take
from test_templates import SHAPE, add_image, messages, templates
from test_wrong_store import put_store_back, running, state

GIB = 1 << 30
LIMITED = {"tenants": [{"name": "acme", "quota": {"storage": "1G"}}, {"name": "umbrella"}]}


def used(weft, word="storage", tenant="acme"):
    return weft.client.get(f"/v1/tenants/{tenant}")["used"][word]


def refused(weft, status=409, tenant="acme", **spec):
    """What weftd says to a cluster that it does not take."""
    answer = weft.client.request("POST", f"/v1/clusters?tenant={tenant}", {"name": "big", "count": 1, "cores": 1, "memory": "256M", "image": "mpi"} | spec)
    assert answer.status == status, answer.text
    return answer.json["detail"]


# --- quotas ---


def test_a_disk_of_4t_under_a_quota_of_1g(site):
    weft = site(changes=LIMITED)
    assert "quota of tenant acme: storage 0 of 1G in use, 4T more asked for" in refused(weft, disk="4T")
    weft.client.create("fits", 1, disk="1G")
    assert used(weft) == GIB
    assert "1G of 1G in use" in refused(weft, disk="1M")
    assert weft.client.request("PATCH", "/v1/clusters/fits?tenant=acme", {"count": 2}).status == 409
    weft.client.create("theirs", 1, tenant="umbrella", disk="2T")
    remove(weft, "fits")
    assert used(weft) == 0


def test_new_tenants_have_quotas(site):
    weft = site()
    made_now = weft.client.expect(201, "POST", "/v1/tenants", {"name": "new", "quota": {"gpus": None}})
    assert made_now["quota"]["gpus"] is None, "no limit is said aloud"
    assert all(made_now["quota"][word] for word in made_now["quota"] if word != "gpus")
    assert "storage" in refused(weft, tenant="new", count=5, disk="1T")


def test_the_sites_own_defaults(site):
    weft = site(changes={"tenant_defaults": {"storage": "2G", "nodes": None}})
    assert weft.client.get("/v1/tenants/acme")["quota"]["storage"] == 2 * GIB
    assert weft.client.expect(201, "POST", "/v1/tenants", {"name": "new"})["quota"]["nodes"] is None
    assert "storage 0 of 2G in use" in refused(weft, disk="4T")


def test_shared_memory_is_memory(site):
    weft = site(changes={"tenants": [{"name": "acme", "quota": {"memory": "1G"}}, {"name": "umbrella"}]})
    assert "memory 0 of 1G in use" in refused(weft, count=3, shm="256M", path="bridge")
    weft.client.create("fits", 2, shm="256M", path="bridge")
    assert used(weft, "memory") == GIB


def test_own_disks_are_counted_by_their_images(site):
    """Who names no size has a disk as large as the image, and pays for that."""
    weft = site(changes=LIMITED)
    add_image(weft, "own", form="raw")
    weft.client.create("cfd", 4, image="own", start="cold", path="bridge")
    assert used(weft) == 4 << 20
    add_image(weft, "shared", form="readonly", seed=2)
    weft.client.create("none", 1, image="shared", start="cold", disk="4T", path="bridge")
    assert used(weft) == 4 << 20, "who shares one has none of their own"


def test_checkpoints_end_at_the_quota(site):
    """Each is counted with the most that it may take before it begins, and with what it takes when it is there."""
    weft = site(changes=LIMITED)
    add_image(weft)
    create(weft)
    one = take(weft)
    assert used(weft) == one["size"]
    create(weft, "wide", 4)
    answer = weft.client.request("POST", "/v1/clusters/wide/checkpoints?tenant=acme", {})
    assert answer.status == 409 and "storage" in answer.json["detail"], answer.text
    assert used(weft) == one["size"]
    weft.client.expect(204, "DELETE", f"/v1/checkpoints/{one['name']}?tenant=acme")
    assert used(weft) == 0


def test_a_checkpoint_that_fails_frees_what_it_held(site):
    weft = site(changes=LIMITED)
    add_image(weft)
    create(weft)
    weft.world.fault("fail save 0 no")
    made(weft, ask(weft)["name"], "failed")
    assert used(weft) == 0


def test_a_host_that_sends_more_than_can_be(site):
    """What a host has put into its pool in place of a saved node is not taken beyond what such a file can have."""
    weft = site()
    add_image(weft)
    create(weft, count=1)
    before = files(weft)
    weft.world.fault("hang fetch")
    name = ask(weft)["name"]
    until(lambda: checkpoint(weft, name)["state"] == "saved", "it is saved")
    for path in weft.world.hosts.glob("*/pool/*.saved"):
        os.truncate(path, GIB)
    weft.world.fault()
    made(weft, name, "failed")
    assert files(weft) == before
    weft.client.wait_phase("cfd", "ready")


def test_clones_end_at_the_quota(site):
    weft = site(changes=LIMITED)
    add_image(weft)
    create(weft)
    body = {"name": "copy"}
    answer = weft.client.request("POST", "/v1/clusters/cfd/clone?tenant=acme", body)
    assert answer.status == 409 and "storage 0 of 1G in use" in answer.json["detail"], answer.text
    weft.client.expect(201, "POST", "/v1/clusters/cfd/clone?tenant=acme", body | {"rank": 0})
    weft.client.wait_phase("copy", "ready")
    until(lambda: used(weft) == 0, "what it was made of is gone")


def test_templates_of_many_shapes(site):
    """One template for each shape that a tenant names, until its quota of them is met; its nodes boot then."""
    quota = {"templates": "2G"}  # three of 256M nodes, which may take 580M each while they are made
    weft = site(changes={"tenants": [{"name": "acme", "quota": quota}, {"name": "umbrella"}]})
    add_image(weft)
    for i in range(8):
        weft.client.create(f"c{i}", 1, **SHAPE | {"memory": f"{256 + 2 * i}M"})
        weft.client.wait_phase(f"c{i}", "ready")
        assert used(weft, "templates") <= 2 * GIB
    until(lambda: all(t["state"] == "ready" for t in templates(weft)), lambda: f"they are made: {templates(weft)}")
    assert {t["tenant"] for t in templates(weft)} == {"acme"}
    assert used(weft, "templates") == sum(t["size"] for t in templates(weft))
    weft.client.create("theirs", 1, tenant="umbrella", **SHAPE | {"memory": "512M"})
    until(lambda: any(t["tenant"] == "umbrella" for t in templates(weft)), "the neighbour has one made")


def test_templates_used_least_go_first(site):
    """A tenant has so many at a time; one more pushes out the one that was not used for longest."""
    weft = site(changes={"control": {"template_retry": "1ms"}})
    add_image(weft)
    for i in range(18):
        weft.client.create("c", 1, **SHAPE | {"memory": f"{64 + 2 * i}M"})
        weft.client.wait_phase("c", "ready")
        until(lambda n=i: len(templates(weft)) == min(n + 1, 16) and all(t["state"] == "ready" for t in templates(weft)),
              lambda: f"all are made: {templates(weft)}")
        remove(weft, "c")
    assert {t["memory"] >> 20 for t in templates(weft)} == {64 + 2 * i for i in range(2, 18)}
    assert sum("its tenant has no room for as many" in m for m in messages(weft, "template-dropped")) == 2


def test_templates_go_with_their_tenant(site):
    weft = site()
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "new"})
    add_image(weft)
    weft.client.create("c", 1, tenant="new", **SHAPE)
    weft.client.wait_phase("c", "ready", tenant="new")
    until(lambda: [t["state"] for t in templates(weft)] == ["ready"], "it is made")
    weft.client.delete("c", tenant="new")
    weft.client.wait_gone("c", tenant="new")
    weft.client.expect(204, "DELETE", "/v1/tenants/new")
    until(lambda: not templates(weft), "it is gone")


# --- full disks ---

MIB = 1 << 20


CLONE_NEWNS = 0x00020000


@pytest.fixture(scope="module")
def own_mounts():
    """From here on this process has mounts that nobody else sees."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        pytest.skip(f"no mount namespace: {os.strerror(ctypes.get_errno())}")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


@pytest.fixture
def small_disk(own_mounts, tmp_path):
    """Makes a folder on a disk of so many MiB."""
    made_now = []

    def make(size):
        folder = tmp_path / f"disk{len(made_now)}"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}M", "none", folder], check=True)
        made_now.append(folder)
        return folder

    yield make
    for folder in made_now:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder, leave=0):
    """Leaves so many bytes on the disk, at most."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (MIB, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
        file.truncate(max(0, file.tell() - leave))
    return filler


def member(weft, name="acme-member"):
    return Client(lambda: UnixConnection(weft.socket), weft.token(name))


def event_types(weft):
    return [event["type"] for event in weft.client.events()]


def ask_for_clusters(client, weft, name="flood"):
    """Asks until weftd takes no more; its answer then."""
    for i in range(2000):
        spec = {"name": f"{name}{i}", "count": 1, "cores": 1, "memory": "64M", "image": "mpi", "user_data": "x" * 30000}
        answer = client.request("POST", "/v1/clusters", spec)
        if answer.status != 201:
            return answer
    raise AssertionError(f"the disk was never full\n{weft.log_tail()}")


def test_a_full_store_takes_removals_and_admins(small_disk, site):
    disk = small_disk(48)
    weft = site(hosts=1, changes={"store": {"path": str(disk / "weft.db"), "reserve": "8M"}})
    alice = member(weft)
    mine = alice.expect(201, "POST", "/v1/tokens", {"note": "lost"})
    weft.client.create("old", 1)
    weft.client.wait_phase("old", "ready")
    filler = fill(disk)

    answer = ask_for_clusters(alice, weft)
    assert answer.status == 507 and answer.json["code"] == "exhausted" and "full" in answer.json["detail"], answer.text
    assert alice.request("PATCH", "/v1/clusters/old", {"count": 2}).status == 507
    alice.expect(204, "DELETE", f"/v1/tokens/{mine['id']}")
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "new"})
    weft.client.delete("old")
    weft.client.wait_gone("old")
    assert "store-full" in event_types(weft)
    report = weft.client.get("/v1/doctor")["items"][0]
    assert [check["state"] for check in report["checks"] if check["check"] == "store"] == ["fail"]

    filler.unlink()
    until(lambda: "store-has-room" in event_types(weft), lambda: f"there is room again\n{weft.log_tail()}")
    assert sum(path.stat().st_blocks * 512 for path in disk.glob("weft.db*")) >= 8 * MIB
    alice.expect(201, "POST", "/v1/tokens", {"note": "another"})


@contextlib.contextmanager
def flooded(disk):
    """Somebody else writes to that disk as much as there is room for, and takes what becomes free at once."""
    program = "import sys\nwith open(sys.argv[1], 'ab', buffering=0) as file:\n while True:\n  try: file.write(bytes(4096))\n  except OSError: pass\n"
    filler = disk / "flood"
    process = subprocess.Popen([sys.executable, "-c", program, filler])
    try:
        until(lambda: os.statvfs(disk).f_bavail == 0, "the disk is full")
        yield
    finally:
        process.kill()
        process.wait()
        filler.unlink()


def test_nobody_else_takes_the_reserve(small_disk, site):
    """What the store keeps is its own: an admin can remove and revoke for as long as somebody floods the disk."""
    disk = small_disk(48)
    weft = site(hosts=1, changes={"store": {"path": str(disk / "weft.db"), "reserve": "8M"}})
    alice = member(weft)
    weft.client.create("old", 1)
    weft.client.wait_phase("old", "ready")
    with flooded(disk):
        assert ask_for_clusters(alice, weft).status == 507
        for i in range(300):
            assert os.statvfs(disk).f_bavail == 0
            token = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member", "note": f"{i} " + "x" * 100})
            weft.client.expect(204, "DELETE", f"/v1/tokens/{token['id']}")
        weft.client.delete("old")
        weft.client.wait_gone("old")
        assert alice.request("PATCH", "/v1/clusters/flood0", {"count": 2}).status == 507
    until(lambda: alice.request("POST", "/v1/tokens", {"note": "more"}).status == 201, lambda: f"there is room\n{weft.log_tail()}")


def test_a_store_that_is_full_from_the_start(small_disk, site):
    """Killed on the full disk, it starts there, too, and says so."""
    disk = small_disk(48)
    weft = site(hosts=1, changes={"store": {"path": str(disk / "weft.db"), "reserve": "8M"}})
    alice = member(weft)
    weft.client.create("old", 1)
    filler = fill(disk)
    ask_for_clusters(alice, weft)
    weft.kill()
    assert weft.start()
    assert ask_for_clusters(alice, weft, "again").status == 507
    alice.expect(202, "DELETE", "/v1/clusters/old")
    filler.unlink()
    until(lambda: alice.request("POST", "/v1/tokens", {"note": "more"}).status == 201, lambda: f"there is room\n{weft.log_tail()}")


def test_the_disk_of_the_store_itself(small_disk, site):
    """Not that of a link to it, which may be smaller."""
    links, disk = small_disk(1), small_disk(48)
    (links / "weft.db").symlink_to(disk / "weft.db")
    weft = site(hosts=1, changes={"store": {"path": str(links / "weft.db"), "reserve": "8M"}})
    member(weft).expect(201, "POST", "/v1/tokens", {"note": "mine"})
    assert sum(path.stat().st_blocks * 512 for path in disk.glob("weft.db*")) >= 8 * MIB


def test_uploads_leave_the_reserve(small_disk, site):
    disk = small_disk(48)
    weft = site(hosts=1, changes={"store": {"path": str(disk / "weft.db"), "reserve": "8M"}})
    digest = "a" * 64
    answer = weft.client.request("PATCH", f"/v1/blobs/{digest}?offset=0&size={36 * MIB}", bytes(4 * MIB), {"Content-Type": "application/octet-stream"})
    assert answer.status == 409 and answer.json["code"] == "exhausted" and "to stay free" in answer.json["detail"], answer.text
    weft.client.create("others", 1)
    weft.client.wait_phase("others", "ready")


def test_an_upload_that_meets_a_full_disk_leaves_nothing(small_disk, site):
    disk = small_disk(48)
    weft = site(hosts=1, changes={"store": {"path": str(disk / "weft.db"), "reserve": "0"}})
    digest, octets = "a" * 64, {"Content-Type": "application/octet-stream"}
    weft.client.expect(200, "PATCH", f"/v1/blobs/{digest}?offset=0&size={8 * MIB}", bytes(4 * MIB), octets)
    fill(disk)
    assert weft.client.request("PATCH", f"/v1/blobs/{digest}?offset={4 * MIB}&size={8 * MIB}", bytes(4 * MIB), octets).status == 409
    assert weft.client.get("/v1/whoami")["role"] == "admin"


def test_a_full_pool_stops_nobody_else(small_disk, site):
    """A host whose pool is full starts no node that needs room there; it is placed elsewhere, and who needs none stays."""
    weft = site(hosts=2)
    add_image(weft, "own", form="raw")
    pool = weft.world.hosts / "n1" / "pool"
    pool.mkdir(parents=True, exist_ok=True)
    disk = small_disk(1)
    subprocess.run(["mount", "--bind", disk, pool], check=True)
    try:
        fill(disk)
        weft.client.create("wide", 4, image="own", start="cold", path="bridge", cores=1)
        weft.client.create("theirs", 1, tenant="umbrella")
        weft.client.wait_phase("theirs", "ready", tenant="umbrella")
        weft.client.wait_phase("wide", "ready")
        assert {node["host"] for node in weft.client.nodes("wide")} == {"n2"}
        told = [event["message"] for event in weft.client.events(tenant="acme") if event["type"] == "node-failed"]
        assert all("a disk has no room" in message for message in told), told
        weft.client.delete("wide")
        weft.client.wait_gone("wide")
    finally:
        subprocess.run(["umount", "--lazy", pool], check=True)


# --- records ---


def test_a_flood_of_events_pushes_out_its_own(site):
    """Who has many things told loses the oldest of their own; others keep theirs."""
    weft = site(changes={"control": {"events_per_tenant": 100, "event_age": "1h", "request_age": "1h", "pkey_rest": "200ms"}})
    weft.client.create("theirs", 1, tenant="umbrella")
    weft.client.wait_phase("theirs", "ready", tenant="umbrella")
    before = [event["id"] for event in weft.client.events(tenant="umbrella")]
    alice = member(weft)
    alice.expect(201, "POST", "/v1/clusters", {"name": "noise", "count": 1, "cores": 1, "memory": "64M", "image": "mpi"})
    for i in range(300):
        alice.expect(200, "PATCH", "/v1/clusters/noise", {"count": 1 + (i + 1) % 2})
    until(lambda: len(weft.client.events(tenant="acme")) <= 100, lambda: f"{len(weft.client.events(tenant='acme'))} events\n{weft.log_tail()}")
    assert [event["id"] for event in weft.client.events(tenant="umbrella")][:len(before)] == before


def test_a_flood_of_tokens_pushes_out_its_own(site):
    """What operators are told of a member's tokens is bounded by itself: they keep the events of the site."""
    weft = site(changes={"control": {"events_per_tenant": 100, "event_age": "1h", "request_age": "1h", "pkey_rest": "200ms"}})
    alice = member(weft)
    alice.expect(201, "POST", "/v1/clusters", {"name": "mine", "count": 1, "cores": 1, "memory": "64M", "image": "mpi"})
    weft.client.wait_phase("mine", "ready")
    before = [event["id"] for event in weft.client.events() if not event["type"].startswith("token-")]
    for _ in range(100):
        made = alice.expect(201, "POST", "/v1/tokens", {"note": "noise"})
        alice.expect(204, "DELETE", f"/v1/tokens/{made['id']}")
    told = lambda: [event for event in weft.client.events() if event["type"].startswith("token-")]  # noqa: E731
    until(lambda: len(told()) <= 110, lambda: f"{len(told())} events\n{weft.log_tail()}")
    assert [event["id"] for event in weft.client.events() if not event["type"].startswith("token-")][:len(before)] == before
    assert not any(event["type"].startswith("token-") for event in weft.client.events(tenant="acme")), "its tenant is not told"


def test_answers_under_keys_are_bounded(site):
    """A new key with each request: what is kept of the answers ends at a bound, and the neighbour's keys work."""
    weft = site()
    alice = member(weft)
    spec = {"name": "noise", "count": 1, "cores": 1, "memory": "64M", "image": "mpi"}
    kept = lambda tenant: weft.dump().meters.get(f"tenant/{tenant}/answers", 0)  # noqa: E731
    alice.expect(201, "POST", "/v1/clusters", spec, {"Idempotency-Key": "one"})
    assert 1024 < kept("acme") < 64 * MIB
    assert kept("umbrella") == 0
    again = alice.request("POST", "/v1/clusters", spec, {"Idempotency-Key": "one"})
    assert again.status == 201 and again.headers["Idempotent-Replayed"] == "true"


# --- records of what has ended ---

OFTEN = {"control": {"pkey_rest": "300ms", "templates": False}}  # old records are looked for twice as often as that


def ended(weft, *things):
    return {key for key in weft.dump().values("ended") if key.split("/")[0] in things}


def add_and_remove_image(weft):
    """Returns the digests of its files; hosts have had them."""
    before = files(weft)
    add_image(weft, "own", form="raw")
    digests = files(weft) - before
    weft.client.create("cfd", 2, image="own", start="cold", path="bridge", layout="spread")
    weft.client.wait_phase("cfd", "ready")
    remove(weft, "cfd")
    weft.client.expect(204, "DELETE", "/v1/images/own")
    return digests


def test_an_images_end_is_forgotten_with_its_file(site):
    """A digest may come back: that it ended once must not be believed for longer than there is something to remove."""
    weft = site(changes=OFTEN)
    digests = add_and_remove_image(weft)
    until(lambda: not ended(weft, "image"), lambda: f"forgotten: {ended(weft, 'image')} of {digests}\n{weft.log_tail()}")
    assert not files(weft) & digests and not weft.world.images()


def test_an_older_store_leaves_a_file_that_came_back(site):
    weft = site(changes=OFTEN)
    digests = add_and_remove_image(weft)
    until(lambda: not ended(weft, "image"), lambda: f"forgotten: {ended(weft, 'image')}")
    weft.stop()
    shutil.copy(weft.root / "weft.db", weft.root / "backup")
    weft.start()
    add_image(weft, "own", form="raw")
    weft.stop()
    put_store_back(weft)
    for digest in digests:
        os.utime(weft.root / "images" / digest, (time.time() - 2 * 86400,) * 2)
    weft.start()
    assert digests <= files(weft)


def test_an_end_is_no_proof_for_a_file_that_came_later(site):
    """The backup was made while the record was there; the file has been written since."""
    weft = site()
    digests = add_and_remove_image(weft)
    weft.stop()
    shutil.copy(weft.root / "weft.db", weft.root / "backup")
    with contextlib.closing(sqlite3.connect(weft.root / "backup")) as store, store:
        for digest in digests:
            store.execute("INSERT OR REPLACE INTO record (kind, key, scope, place, revision, value) VALUES ('ended', ?, '', '', 1, ?)",
                          (f"image/{digest}", json.dumps({"at": int(time.time() - 3 * 86400) * 1000000})))
    weft.start()
    add_image(weft, "own", form="raw")
    weft.stop()
    put_store_back(weft)
    for digest in digests:
        os.utime(weft.root / "images" / digest, (time.time() - 2 * 86400,) * 2)
    weft.start()
    assert digests <= files(weft)
    # One of before its end is swept, as it should.
    weft.stop()
    for digest in digests:
        os.utime(weft.root / "images" / digest, (time.time() - 4 * 86400,) * 2)
    weft.start()
    assert not digests & files(weft)


def test_an_images_end_is_known_until_all_hosts_have_answered(site):
    weft = site(hosts=2, changes=OFTEN)
    add_image(weft, "own", form="raw")
    weft.client.create("cfd", 2, image="own", start="cold", path="bridge", layout="spread")
    weft.client.wait_phase("cfd", "ready")
    remove(weft, "cfd")
    weft.world.lose("n2")
    until(lambda: state(weft, "n2") == "lost", "it is lost")
    weft.client.expect(204, "DELETE", "/v1/images/own")
    until(lambda: not weft.world.images().get("n1"), "the others have no file any more")
    # Records are looked at in between: those of numbers that rest are dropped.
    weft.client.create("other", 1, path="bridge")
    weft.client.wait_phase("other", "ready")
    remove(weft, "other")
    assert len(ended(weft, "image")) == 2 and weft.world.images()["n2"]
    weft.world.bring_back("n2")
    until(lambda: not weft.world.images(), "its file is removed, as it should")
    until(lambda: not ended(weft, "image"), "and that is forgotten")
    assert state(weft, "n2") == "up"


def test_records_of_what_has_ended_grow_old(site):
    weft = site(changes={"control": {"ended_age": "500ms"}})
    for _ in range(3):
        weft.client.create("cfd", 2)
        weft.client.wait_phase("cfd", "ready")
        remove(weft, "cfd")
    until(lambda: not ended(weft, "node", "network"), lambda: f"forgotten: {ended(weft, 'node', 'network')}")


def test_the_end_of_an_image_that_is_old_and_gone_is_forgotten(site):
    """Two reasons to drop a record do not get in each other's way: everything else that is old would stay, too."""
    weft = site(changes={"control": {"ended_age": "500ms", "event_age": "2s"}})
    before = files(weft)
    add_image(weft, "own", form="raw")
    digests = files(weft) - before
    weft.client.expect(204, "DELETE", "/v1/images/own")
    weft.kill()
    for digest in digests:
        (weft.root / "images" / digest).unlink(missing_ok=True)
    time.sleep(1)  # they grow old
    weft.start()
    until(lambda: not ended(weft, "image"), lambda: f"forgotten: {ended(weft, 'image')}")
    assert "cannot be written" not in weft.log.read_text(encoding="utf-8")


def test_what_comes_back_after_that_is_held(site):
    weft = site(hosts=2, changes={"control": {"ended_age": "500ms", "host_grace": "1s"}})
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    host = weft.client.nodes("cfd")[0]["host"]
    weft.world.lose(host)
    until(lambda: state(weft, host) == "lost", "it is lost")
    remove(weft, "cfd")
    until(lambda: not ended(weft, "node", "network"), lambda: f"forgotten: {ended(weft, 'node', 'network')}")
    before = running(weft)
    assert before[host]
    weft.world.bring_back(host)
    until(lambda: state(weft, host) == "held", lambda: f"{host} is {state(weft, host)}")
    assert running(weft) == before
    weft.cli("site", "remove", host, "--yes")
    until(lambda: state(weft, host) == "up", "an operator has decided")


# --- the audit trail ---


def exhaust_trail(weft, disk):
    """Changes until the room that the trail has is used up; the disk takes nothing more."""
    filler = fill(disk)
    answers = []
    for i in range(5000):
        answers.append(weft.client.request("POST", "/v1/tenants", {"name": f"t{i}"}))
        if "cannot write the audit trail" in weft.log.read_text(encoding="utf-8", errors="replace"):
            return filler, answers
    raise AssertionError(f"the disk was never full\n{weft.log_tail()}")


def entries(disk):
    return [json.loads(line) for line in (disk / "audit.log").read_text(encoding="utf-8").splitlines()]


def test_audit_entries_wait_for_room(small_disk, site):
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log")}})
    filler, answers = exhaust_trail(weft, disk)
    assert all(answer.status == 201 for answer in answers)
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "waits"})
    filler.unlink()
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "last"})
    weft.stop()
    found = entries(disk)
    assert [entry["sequence"] for entry in found] == list(range(1, len(found) + 1))
    assert [entry["target"] for entry in found if entry["kind"] == "request"] == ["/v1/tenants"] * (len(answers) + 2)
    assert found[-1]["kind"] == "stop"
    weft.cli("audit", "verify", disk / "audit.log")


def test_a_required_audit_trail_refuses_changes(small_disk, site):
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log"), "required": True}})
    filler, answers = exhaust_trail(weft, disk)
    assert [answer.status for answer in answers[:-1]] == [201] * (len(answers) - 1)
    assert answers[-1].status == 507 and "may have been done" in answers[-1].json["detail"]
    refused = weft.client.request("POST", "/v1/tenants", {"name": "never"})
    assert refused.status == 507 and "nothing was done" in refused.json["detail"]
    assert weft.client.request("GET", "/v1/tenants/never").status == 404
    filler.unlink()
    until(lambda: weft.client.request("POST", "/v1/tenants", {"name": "after"}).status == 201, "changes are taken again")
    weft.stop()
    weft.cli("audit", "verify", disk / "audit.log")


def test_a_member_that_floods_a_full_disk_leaves_memory_to_operators(small_disk, site, tmp_path):
    """Its changes are real ones, with entries as long as they can be: what is lost is its own, and the system's log has that, too."""
    disk = small_disk(8)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as log:
        log.bind(str(tmp_path / "log"))
        log.setblocking(False)
        weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log"), "syslog": str(tmp_path / "log")}})
        alice, olga = member(weft), member(weft, "olga")
        name = "x" * 40
        weft.client.create(name, 1, memory="1T")  # which waits for room
        filler = fill(disk)
        told = []
        for i in range(10000):
            alice.expect(200, "PATCH", "/v1/clusters/" + "%78" * 40, {"count": 2 - i % 2})
            with contextlib.suppress(BlockingIOError):
                while True:
                    told.append(json.loads(log.recv(1 << 16).decode().split(": ", 1)[1]))
            if told[-1].get("lost"):
                break
        assert told[-1]["lost"] and told[-1]["principal"] == "acme-member" and "sequence" not in told[-1]
        olga.expect(202, "DELETE", f"/v1/clusters/{name}?tenant=acme")
    filler.unlink()
    weft.client.expect(201, "POST", "/v1/tenants", {"name": "last"})
    weft.stop()
    found = entries(disk)
    assert [entry["method"] for entry in found if entry.get("principal") == "olga"] == ["DELETE"]
    assert [entry for entry in found if entry["kind"] == "lost"]
    weft.cli("audit", "verify", disk / "audit.log")


def test_a_required_audit_trail_keeps_blocks_for_operators(small_disk, site):
    """A disk that is full takes removals for a while, and what operators and admins ask for: a token can be revoked."""
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log"), "required": True}})
    alice, mallory = member(weft), member(weft, "umbrella-member")
    mine = alice.expect(201, "POST", "/v1/tokens", {"note": "lost"})
    theirs = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "umbrella-member"})
    weft.client.create("flood", 1, tenant="umbrella", memory="1T")  # which waits for room
    scale = lambda: [mallory.request("PATCH", "/v1/clusters/flood", {"count": count}) for count in (2, 1)][1]  # noqa: E731
    filler = fill(disk)
    while scale().status == 200:
        pass
    size = (disk / "audit.log").stat().st_size
    for _ in range(300):
        refused = scale()
        assert refused.status == 507 and "only removals are taken" in refused.json["detail"], refused.text
    assert (disk / "audit.log").stat().st_size == size, "what is refused takes no room"
    alice.expect(204, "DELETE", f"/v1/tokens/{mine['id']}")
    weft.client.expect(204, "DELETE", f"/v1/tokens/{theirs['id']}")
    member(weft, "olga").expect(404, "DELETE", "/v1/images/none")
    spent = 0
    while weft.client.request("POST", "/v1/tenants", {"name": f"t{spent}"}).status == 201:
        spent += 1
    assert spent > 50
    assert "cannot be written" in weft.client.request("DELETE", "/v1/tenants/t0").json["detail"]
    filler.unlink()
    until(lambda: scale().status == 200, "changes are taken again")
    weft.stop()
    found = entries(disk)
    assert sum(entry["count"] for entry in found if entry["kind"] == "refusals" and entry["account"] == "umbrella/umbrella-member") >= 300
    weft.cli("audit", "verify", disk / "audit.log")


def test_a_required_audit_trail_comes_before_the_configuration(small_disk, site):
    """What the file changes is not done where its entry cannot be written, and is done once it can be."""
    disk = small_disk(1)
    weft = site(hosts=1, changes={"audit": {"path": str(disk / "audit.log"), "required": True}})
    filler, _ = exhaust_trail(weft, disk)
    weft.stop()
    weft.config["tenants"].append({"name": "late"})
    weft.write_config()
    assert "this site requires it: nothing of what the configuration changes was done" in weft.run_refused()
    assert "late" not in weft.dump().records["tenant"]
    filler.unlink()
    weft.start()
    assert weft.client.request("GET", "/v1/tenants/late").status == 200
    weft.stop()
    weft.cli("audit", "verify", disk / "audit.log")
