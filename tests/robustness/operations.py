"""What the failpoint suite does to weftd while it is killed: each operation prepares a site, acts, and knows how it must end."""

import contextlib
import hashlib
import shutil
import sqlite3
from dataclasses import dataclass, field
from typing import Callable

from harness.files import DISK, KERNEL
from harness.weft import host


def nothing(_site):
    pass


@dataclass
class Operation:
    name: str
    act: Callable
    prepare: Callable = nothing  # with a running weftd, before any kill
    check: Callable = nothing  # after convergence
    before: Callable = nothing  # to the stopped site, before weftd starts to be killed
    changes: dict = field(default_factory=dict)
    fresh: bool = False  # begins without a store


def spec(name, count, **more):
    return {"name": name, "count": count, "cores": 1, "memory": "256M", "image": "mpi"} | more


def with_cluster(count):
    def prepare(site):
        site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", count))
        site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")

    return prepare


def remove_when_full(site):
    """What goes on where there is no room for the store's reserve."""
    site.until(lambda: any(event["type"] == "store-full" for event in site.client.events()), "the store is full")
    delete(site)


def has_nodes(count):
    def check(site):
        cluster = site.cluster("cfd")
        assert (cluster["phase"], cluster["ready"], len(site.nodes("cfd"))) == ("ready", count, count), cluster

    return check


def is_gone(site):
    assert site.cluster("cfd") is None
    assert not any(site.world.domains().values()) and not site.world.partitions() and not site.world.networks()


# --- clusters ---


def create(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 3))


def scale_to(count):
    return lambda site: site.call("PATCH", "/v1/clusters/cfd?tenant=acme", {"count": count})


def delete(site):
    site.call("DELETE", "/v1/clusters/cfd?tenant=acme")


def delete_while_hanging(site):
    site.world.fault("hang start")
    create(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "starting", "cfd is starting")
    delete(site)
    site.until(lambda: site.client.cluster("cfd") is None, "cfd is gone")
    site.world.fault()


def heal(site):
    first, second = site.nodes("cfd")[:2]
    site.world.end_domain(first["host"], f"weft-{first['id']}")
    site.world.remove_domain(second["host"], f"weft-{second['id']}")


def failing_start(site):
    site.world.fault("fail start 6 out of order")
    create(site)


def failing_fabric(site):
    site.world.fabric_fault("fail apply 2 busy")
    scale_to(3)(site)


def failing_talks(site):
    site.world.fault("fail open 2 no stream", "fail sync 1 no answer", "fail meet 3 nobody there", "fail connect 2 no bridge")
    create(site)


# --- the queue ---


def ready(name):
    return lambda site: (site.client.cluster(name) or {}).get("phase") == "ready"


def tells(kind):
    return lambda site: any(event["type"] == kind for event in site.client.events())


def expire(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 2, walltime="2s"))
    site.until(lambda: site.client.cluster("cfd") is None, "cfd is gone")


def has_expired(site):
    is_gone(site)
    site.until(lambda: tells("cluster-expired")(site), "that is told")


def back_up(site):
    site.call("POST", "/v1/backup", {"passphrase": "for a test only"})


def with_walltime(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 2, walltime="1h"))
    site.until(lambda: ready("cfd")(site), "cfd is ready")


def jump(site):
    """The clock is set a day ahead, and an admin says that this is right."""
    site.weft.set_clock(86400)
    clock = lambda: site.alive(lambda: site.client.get("/v1/clock"))  # noqa: E731
    site.until(lambda: clock()["state"] == "jumped" and tells("clock-jumped")(site), "the jump is noticed")
    site.call("POST", "/v1/clock/accept", {"wall": clock()["wall"]})
    site.until(lambda: tells("clock-accepted")(site), "the clock is accepted")


def keeps_walltime(site):
    has_nodes(2)(site)
    assert site.client.get("/v1/clock")["state"] == "trusted" and not tells("cluster-expired")(site)


def with_yielding(site):
    """It has all there is, and gives way."""
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 4, cores=6, preemptible=True))
    site.until(lambda: ready("cfd")(site), "cfd is ready")


def preempt(site):
    site.call("POST", "/v1/clusters?tenant=umbrella", spec("urgent", 1, cores=6, priority=10))
    site.until(lambda: (site.client.cluster("urgent", "umbrella") or {}).get("phase") == "ready", "urgent is ready")
    site.call("DELETE", "/v1/clusters/urgent?tenant=umbrella")


def came_back(site):
    """Where it was put aside."""
    has_nodes(4)(site)
    site.until(lambda: tells("cluster-restored")(site), "that it goes on is told")
    assert not site.weft.dump().values("checkpoint") and is_loose(site)
    site.until(lambda: tells("cluster-preempted")(site), "that it gave way is told")
    assert site.alive(lambda: site.client.cluster("urgent", "umbrella")) is None


def reserve(site):
    """One begins, sends away who gives way, and is over; another is called off."""
    site.call("POST", "/v1/reservations", {"name": "firmware", "hosts": "n[1-2]", "duration": "2s"})
    site.call("POST", "/v1/reservations", {"name": "course", "hosts": "n3", "duration": "1h", "tenant": "acme"})
    site.call("DELETE", "/v1/reservations/course")
    site.until(lambda: not site.client.items("/v1/reservations"), "both are over")


def is_unreserved(site):
    has_nodes(4)(site)
    assert not site.weft.dump().values("reservation")
    site.until(lambda: tells("reservation-ended")(site), "that is told")


# --- images ---

DIGEST = hashlib.sha256(DISK).hexdigest()


def send_blob(site, data, piece):
    """Goes on where the file ends, as weft image add does."""
    path = f"/v1/blobs/{hashlib.sha256(data).hexdigest()}"

    def step():
        blob = site.client.get(path)
        if not blob["complete"]:
            begin = blob["size"]
            answer = site.client.request("PATCH", f"{path}?offset={begin}&size={len(data)}", data[begin:begin + piece],
                                         {"Content-Type": "application/octet-stream"})
            assert answer.status == 200 or site.passes(answer), answer.text
        return blob["complete"]

    site.until(step, "the blob is complete")
    return {"digest": path.rsplit("/", 1)[1], "size": len(data)}


def add_image(site):
    site.call("POST", "/v1/images", {"name": "own", "disk": send_blob(site, DISK, len(DISK))})


def create_from_image(site):
    add_image(site)
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 3, image="own", path="bridge"))


def has_image(site):
    has_nodes(3)(site)
    assert all(DIGEST in site.world.images()[node["host"]] for node in site.nodes("cfd"))


def with_spare_image(site):
    create_from_image(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")
    delete(site)
    site.until(lambda: site.client.cluster("cfd") is None, "cfd is gone")


def remove_image(site):
    site.call("DELETE", "/v1/images/own")


def image_is_gone(site):
    site.until(lambda: not site.world.images(), "no host has it any more")


def open_session(site):
    """Its end is that of the connection, which http.client closes at once."""
    headers = {"Connection": "Upgrade", "Upgrade": "weft-session/1"}
    answer = site.alive(lambda: site.client.request("GET", "/v1/clusters/cfd/nodes/0/session?tenant=acme", headers=headers))
    assert answer.status == 101, answer.text


def create_among_bad_hosts(site):
    """One has no room for the image, one cannot run it, and one does not join the network."""
    for name, fault in (("n1", "fail bring 0 full"), ("n2", "invalid start 0 no such machine"), ("n3", "fail connect 0 no bridge")):
        site.world.fault(fault, host=name)
    create_from_image(site)


def is_on_the_good_one(site):
    has_nodes(3)(site)
    assert {node["host"] for node in site.nodes("cfd")} == {"n4"}


# --- templates ---


def add_settled_image(site, form="readonly"):
    """One that templates are made of."""
    disk, kernel = send_blob(site, DISK, len(DISK)), send_blob(site, KERNEL, len(KERNEL))
    site.call("POST", "/v1/images", {"name": "own", "kernel": kernel, "disk": disk | {"format": form}})


def create_settled(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 3, image="own", path="bridge"))


def capture(site):
    add_settled_image(site)
    create_settled(site)


def state_of_templates(site):
    return [template["state"] for template in site.client.items("/v1/templates")]


def templates_are(site, state):
    def told():
        return f"the template is {state}: {site.client.items('/v1/templates')}"

    site.until(lambda: state_of_templates(site) == [state], told)


def have_files(site, *digests):
    """Whole, under the names of their digests."""
    for digest in digests:
        assert hashlib.sha256((site.weft.blobs / digest).read_bytes()).hexdigest() == digest


def have_files_of_checkpoint(site, key):
    nodes = site.weft.dump().values("checkpoint")[key]["nodes"]
    have_files(site, *(node[part]["digest"] for node in nodes for part in ("saved", "disk")))


def has_template(site):
    has_nodes(3)(site)
    templates_are(site, "ready")
    have_files(site, *(template["digest"] for template in site.weft.dump().values("template").values()))


def with_template(site):
    capture(site)
    templates_are(site, "ready")
    delete(site)
    site.until(lambda: site.client.cluster("cfd") is None, "cfd is gone")


def is_forked(site):
    """All of it, whenever weftd died; and that it was used is known."""
    has_nodes(3)(site)
    assert all(node.get("template") for node in site.weft.dump().values("node").values())
    template = site.alive(lambda: site.client.items("/v1/templates"))[0]
    site.until(lambda: site.client.items("/v1/templates")[0]["used"] > template["captured"], "that it was used is written")


def fork_badly(site):
    site.world.fault("broken become 2", "broken prime 1")
    create_settled(site)


def fork_with_devices(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 3, image="own", path="bridge", gpus=1))


def have_devices(site):
    is_forked(site)
    for key, node in site.weft.dump().values("node").items():
        assert site.world.plugged(node["host"], f"weft-{key}") == {"+ua-gpu0"}, "whether or not it is known what that cost"


def damage_template(weft):
    for template in weft.dump().values("template").values():
        (weft.blobs / template["digest"]).write_bytes(b"x" * template["size"])


def is_captured_anew(site):
    has_template(site)
    assert site.client.items("/v1/templates")[0]["generation"] == 2


def with_forks(site):
    with_template(site)
    create_settled(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")


def remove_template(site):
    for template in site.alive(lambda: site.client.items("/v1/templates")):
        site.call("DELETE", f"/v1/templates/{template['id']}")


def forks_go_on(site):
    has_nodes(3)(site)
    site.until(lambda: not site.client.items("/v1/templates") and not site.world.primed(), "nothing is left of it")


def capture_in_vain(site):
    site.world.fault("invalid settle 0 an image that does not")
    capture(site)


def has_no_template(site):
    has_nodes(3)(site)
    templates_are(site, "failed")


def remove_image_of_template(site):
    remove_image(site)
    site.until(lambda: not site.client.items("/v1/templates"), "its template goes with it")


def leave_memory(weft):
    weft.add_ended_memory("n1", "0zzzzzzzzzzz")


def memory_is_gone(site):
    site.until(lambda: site.client.items("/v1/templates") == [] and not site.world.primed(), "memory that has ended is gone")


# --- clones ---

COLD = {"image": "own", "path": "bridge", "start": "cold"}


def with_source(site, form="readonly"):
    add_settled_image(site, form)
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 2, **COLD))
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")


def clone(site):
    site.call("POST", "/v1/clusters/cfd/clone?tenant=acme", {"name": "sweep", "count": 3})


def is_cloned(site):
    """With the memory of the others, whenever weftd died."""
    has_nodes(2)(site)
    cluster = site.cluster("sweep")
    assert (cluster["phase"], cluster["ready"]) == ("ready", 3) and cluster["clone"]["done"], cluster
    assert all(node["template"] == f"{cluster['id']}-{node['rank'] % 2}" for node in site.weft.dump().values("node").values()
               if node["cluster_name"] == "sweep")
    site.until(lambda: not site.client.items("/v1/templates") and not site.world.primed(), "nothing is left of what it was made of")


def disks(site, cluster):
    """What the nodes have on disks of their own, as the fake keeps it: a test has them write behind what it is laid over."""
    return [site.world.hosts / node["host"] / "pool" / f"weft-{key}.disk" for key, node in site.weft.dump().values("node").items()
            if node["cluster_name"] == cluster]


def with_own_disks(site):
    with_source(site, "raw")
    for path in disks(site, "cfd"):
        path.write_text(path.read_text(encoding="ascii") + "written\n", encoding="ascii")


def have_disks(site, cluster, count):
    """All of it is there, and in one piece."""
    assert [path.read_text(encoding="ascii").split("\n", 2)[2] for path in disks(site, cluster)] == ["written\n"] * count
    assert not list(site.world.hosts.glob("*/pool/*.layer"))


def is_cloned_with_disks(site):
    is_cloned(site)
    have_disks(site, "cfd", 2)
    have_disks(site, "sweep", 3)


def clone_in_vain(site):
    site.world.fault("invalid save 0 a node that cannot be")
    clone(site)
    site.until(lambda: (site.client.cluster("sweep") or {}).get("phase") == "failed", "it fails, and does not boot")
    site.call("DELETE", "/v1/clusters/sweep?tenant=acme")


def is_not_cloned(site):
    has_nodes(2)(site)
    assert site.cluster("sweep") is None and not site.client.items("/v1/templates")


# --- checkpoints ---


def is_loose(site):
    return not [*site.world.hosts.glob("*/domains/*.paused"), *site.world.hosts.glob("*/pool/*.saved")]


def with_frozen_yielding(site):
    """It has all there is, gives way, and can be put aside."""
    add_settled_image(site)
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 4, exclusive=True, layout="spread", preemptible=True, **COLD))
    site.until(lambda: ready("cfd")(site), "cfd is ready")


def state_of(site, name):
    return {one["name"]: one["state"] for one in site.client.items("/v1/checkpoints", tenant="acme")}.get(name)


def freeze(site, name="before", state="complete"):
    site.call("POST", "/v1/clusters/cfd/checkpoints?tenant=acme", {"name": name})
    site.until(lambda: state_of(site, name) == state, f"{name} is {state}")


def is_frozen(site):
    has_nodes(2)(site)
    assert is_loose(site) and state_of(site, "before") == "complete"
    have_disks(site, "cfd", 2)
    have_files_of_checkpoint(site, "acme/before")
    assert site.call("GET", "/v1/checkpoints/before?tenant=acme").json["nodes"] == 2


def with_checkpoint(site):
    with_own_disks(site)
    freeze(site)


def import_and_fail(site):
    """One comes back from elsewhere, the one that it was goes, and another cannot be made."""
    manifest = site.call("GET", "/v1/checkpoints/before/manifest?tenant=acme").json
    site.call("POST", "/v1/checkpoints?tenant=acme", manifest | {"name": "copy"})
    site.call("DELETE", "/v1/checkpoints/before?tenant=acme")
    site.world.fault("invalid save 0 no space")
    freeze(site, "bad", "failed")


def is_imported(site):
    has_nodes(2)(site)
    assert is_loose(site) and [state_of(site, name) for name in ("before", "copy", "bad")] == [None, "complete", "failed"]
    have_files_of_checkpoint(site, "acme/copy")
    have_disks(site, "cfd", 2)


def with_what_was(site):
    with_checkpoint(site)
    delete(site)
    site.until(lambda: site.client.cluster("cfd") is None, "cfd is gone")


def restore(site):
    """One of its hosts cannot start it: all are placed anew."""
    site.world.fault("fail start 0 out of order", host="n1")
    site.call("POST", "/v1/checkpoints/before/restore?tenant=acme", {})
    site.until(lambda: ready("cfd")(site), "cfd is ready")


def is_restored(site):
    is_frozen(site)
    macs = {node["mac"] for node in site.weft.dump().values("node").values()}
    assert macs == {node["mac"] for node in site.weft.dump().values("checkpoint")["acme/before"]["nodes"]}, "nobody booted"
    site.until(lambda: tells("cluster-restored")(site), "that is told")


# --- hosts ---


def mute_hosts(weft):
    for name in ("n1", "n2"):
        weft.world.fault("fail inspect 1 no capabilities", host=name)


def write_inventory(world, cores):
    hardware = {"numa": [{"cores": cores, "pages": {"2M": 1024}}], "hcas": [{"name": "mlx5_0", "vfs": 4, "port_guid": "0x0002c903000000ff"}]}
    world.set_inventory("n9", {"hardware": hardware, "kvm": True})


def discover(site):
    """A host that nobody described is read, and takes nodes."""
    write_inventory(site.world, 8)
    site.call("POST", "/v1/hosts", {"name": "n9", "fabric": "ib0", "leaf": "leaf9", "uri": "fake://n9/"})
    create(site)


def discovered(site):
    discover(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")


def lose_cores(weft):
    write_inventory(weft.world, 2)


def keeps_cores(site):
    has_nodes(3)(site)
    site.until(lambda: any(event["type"] == "host-hardware-kept" for event in site.client.events()), "that is told")


def seclude_gpu(weft):
    described = next(host for host in weft.config["hosts"] if host["name"] == "n1")
    secluded = [{"pci": described["gpus"][0]["name"], "since": "2026-11-18T20:00:00Z", "why": "it cannot be reset"}]
    told = {"hardware": {key: described[key] for key in ("numa", "housekeeping", "hcas", "gpus")}, "kvm": True,
            "hook": {"iommu_groups": 9, "vfio": True, "quarantine": secluded}}
    weft.world.set_inventory("n1", told)


def tells_of_secluded(site):
    has_nodes(3)(site)
    site.until(lambda: any(event["type"] == "device-quarantined" for event in site.client.events()), "that is told")


def busy_host(site):
    return site.nodes("cfd")[0]["host"]


def lose_and_return(site):
    name = busy_host(site)
    site.world.lose(name)
    site.until(lambda: site.client.get(f"/v1/hosts/{name}")["state"] == "lost", f"{name} is lost")
    site.until(lambda: name not in {n["host"] for n in site.client.nodes("cfd")}, f"the nodes of {name} are elsewhere")
    site.world.bring_back(name)
    site.until(lambda: site.client.get(f"/v1/hosts/{name}")["state"] == "up", f"{name} is back")


def drain(site):
    site.call("POST", f"/v1/hosts/{busy_host(site)}/drain", {})


def evict(site):
    site.call("POST", f"/v1/hosts/{busy_host(site)}/drain", {"evict": True})


def is_evicted(site):
    has_nodes(3)(site)
    drained = [h["name"] for h in site.alive(lambda: site.client.items("/v1/hosts")) if h.get("evicting")]
    assert len(drained) == 1 and not site.world.domains().get(drained[0])
    assert drained[0] not in {node["host"] for node in site.nodes("cfd")}


def drained(site):
    with_cluster(3)(site)
    drain(site)


def undrain(site):
    for each in site.alive(lambda: site.client.items("/v1/hosts")):
        if each.get("draining"):
            site.call("POST", f"/v1/hosts/{each['name']}/undrain", {})


def is_undrained(site):
    assert not any(h.get("draining") for h in site.alive(lambda: site.client.items("/v1/hosts")))


# --- moves ---


def with_bridge(count):
    def prepare(site):
        site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", count, path="bridge"))
        site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")

    return prepare


def ask_to_move(site, rank, **wish):
    site.call("POST", f"/v1/clusters/cfd/nodes/{rank}/move?tenant=acme", wish)


def move(site):
    ask_to_move(site, 0)
    site.until(lambda: tells("node-moved")(site), "it has moved")


def move_with_device(site):
    ask_to_move(site, 1, disrupt=True)
    site.until(lambda: tells("node-moved")(site), "it has moved")


def has_moved(count):
    def check(site):
        has_nodes(count)(site)
        moved = sum(event["type"] == "node-moved" for event in site.alive(site.client.events))
        assert moved >= 1 and not site.weft.dump().values("move")
        assert {node["id"].rsplit("-", 1)[1] for node in site.nodes("cfd")} == {str(rank) for rank in range(count)}, "nobody was replaced"

    return check


def move_badly(site):
    """The hosts refuse, and there is no room in the end."""
    site.world.fault("invalid move 0 unsafe")
    ask_to_move(site, 0, copy="post-copy")
    site.until(lambda: tells("node-move-failed")(site), "it is not moved")
    site.world.fault()
    here = site.nodes("cfd")[0]["host"]
    for each in site.alive(lambda: site.client.items("/v1/hosts")):
        if each["name"] != here:
            site.call("POST", f"/v1/hosts/{each['name']}/drain", {})
    ask_to_move(site, 0)
    site.until(lambda: not site.client.items("/v1/clusters/cfd/nodes", tenant="acme")[0]["moving_to"] and not tells("node-moved")(site), "it stays")
    site.until(lambda: site.client.request("GET", "/v1/clusters/cfd/nodes/0/move?tenant=acme").status == 404, "there is no room")


def move_in_vain(site):
    """One waits for another that hangs, and fails meanwhile."""
    site.world.fault("hang move")
    ask_to_move(site, 0)
    site.until(lambda: site.client.nodes("cfd")[0]["moving_to"], "the first leaves")
    ask_to_move(site, 1)
    second = site.nodes("cfd")[1]
    site.world.remove_domain(second["host"], f"weft-{second['id']}")
    site.until(lambda: tells("node-move-failed")(site), "that wish is in vain")
    site.world.fault()
    site.until(lambda: tells("node-moved")(site), "the first has moved")


def call_move_off(site):
    site.world.fault("hang move")
    ask_to_move(site, 0)
    site.until(lambda: site.client.nodes("cfd")[0]["moving_to"], "it leaves")
    site.call("DELETE", "/v1/clusters/cfd/nodes/0/move?tenant=acme")
    site.until(lambda: tells("node-move-failed")(site), "it is not moved")
    site.world.fault()


def empty(site):
    site.call("POST", f"/v1/hosts/{busy_host(site)}/drain", {"move": True})
    site.until(lambda: all(not h["nodes"] for h in site.client.items("/v1/hosts") if h["moving"]), "it is empty")


def add_and_remove_host(site):
    site.call("POST", "/v1/hosts", host("n9"))
    site.until(lambda: site.client.get("/v1/hosts/n9")["state"] == "up", "n9 is up")
    site.call("DELETE", "/v1/hosts/n9")


def host_is_gone(site):
    assert "n9" not in {h["name"] for h in site.alive(lambda: site.client.items("/v1/hosts"))}


OTHER_OWNER = "9othersite00 9instance000 7 9run00000000"


def give_hosts_away(weft):
    """They are another site's."""
    for folder in (weft.root / "hosts").iterdir():
        (folder / "owner").write_text(OTHER_OWNER + "\n", encoding="utf-8")


def take_hosts(site):
    """The wish is of one run of weftd: after a restart the operator types it again."""
    def are_taken():
        left = [owner.parent.name for owner in (site.weft.root / "hosts").glob("*/owner") if OTHER_OWNER in owner.read_text(encoding="utf-8")]
        for name in left:
            site.call("POST", f"/v1/hosts/{name}/take", accept=(409,))
        return not left

    site.until(are_taken, "they are taken")


def has_no_wish(site):
    """But for what a run that was killed has left, which no other run heeds."""
    has_nodes(2)(site)
    runs = {owner.read_text(encoding="utf-8").split()[3] for owner in (site.weft.root / "hosts").glob("*/owner")}
    wishes = {key: wish for key, wish in site.weft.dump().values("meta").items() if key.startswith("take/")}
    assert not [key for key, wish in wishes.items() if wish["run"] in runs], (wishes, runs)


STRANGER = "0x0002c903000000f9 0x0000000000000000 full -1"


def number_of_cfd(weft):
    return next(status["pkey"] for key, status in weft.dump().values("cluster-status").items() if key == "acme/cfd")


def age_store(weft):
    """The store is older than the site, and a port of no host that it knows is in a partition."""
    with contextlib.closing(sqlite3.connect(weft.config["store"]["path"])) as store, store:
        store.execute("INSERT INTO record (kind, key, scope, place, revision, value) VALUES ('meta', 'aged', '', '', 1, '{}')")
    number = number_of_cfd(weft)
    members = [f"0x{m.port:016x} 0x{m.virtual:016x} {m.membership} {m.index}" for m in weft.world.partitions()[number].members]
    weft.world.change_partition(number, *members, STRANGER)


def release_stranger(site):
    """The word is of one run of weftd: after a restart the operator types it again."""
    number = number_of_cfd(site.weft)

    def is_out():
        partition = site.world.partitions()[number]
        if int(STRANGER.split()[0], 16) not in {member.port for member in partition.members}:
            return True
        site.call("DELETE", f"/v1/fabrics/ib0/partitions/0x{number:04x}?name={partition.name}")
        return False

    site.until(lambda: tells("partition-held")(site), "it is told")
    site.until(is_out, "its port is out")
    site.until(lambda: "aged" not in site.weft.dump().values("meta"), "the store is in doubt no longer")


# --- images ---


def images(site):
    disk, kernel = send_blob(site, DISK, 1500), send_blob(site, KERNEL, 6)
    site.call("POST", "/v1/images", {"name": "kept", "disk": disk})
    site.call("POST", "/v1/images", {"name": "gone", "disk": disk, "kernel": kernel})
    site.call("DELETE", "/v1/images/gone")


def one_image_is_left(site):
    """A file that a crash left behind is swept a day later; what an image names is always there."""
    kept = site.alive(lambda: site.client.items("/v1/images"))
    assert [image["name"] for image in kept] == ["kept"]
    assert (site.weft.blobs / kept[0]["disk"]["digest"]).read_bytes() == DISK


# --- fabrics ---

NET = b'Switch 36 "S-00000000000000a1" # "leaf1"\n[1] "H-00000000000000c1"[1]\n\nCa 1 "H-00000000000000c1" # "n1 mlx5_0"\n' \
      b'[1](2c90300000001) "S-00000000000000a1"[1]\n'


def import_map(site, text):
    headers = {"Content-Type": "application/octet-stream"}
    answer = site.alive(lambda: site.client.request("POST", "/v1/fabrics/ib0/map", text, headers))
    assert answer.status == 201, answer.text


def add_vague_host(site):
    """It does not tell which port is its own: its name on the fabric does."""
    vague = host("n9")
    del vague["leaf"], vague["hcas"][0]["port_guid"]
    import_map(site, NET.replace(b"n1 mlx5_0", b"n9 mlx5_0").replace(b"2c90300000001", b"2c90300000009"))
    site.call("POST", "/v1/hosts", vague)


def port_is_found(site):
    site.until(lambda: site.client.get("/v1/hosts/n9")["hcas"][0].get("port_guid") == "0x0002c90300000009", "its port is found")


def look_at_fabric(site):
    """A map comes and goes, and in between everything about the fabric is asked for."""
    import_map(site, NET)
    for path in ("", "/partitions", "/tables", "/topology"):
        site.call("GET", f"/v1/fabrics/ib0{path}")
    assert site.call("GET", "/v1/fabrics/ib0").json["source"] == "import"
    site.call("DELETE", "/v1/fabrics/ib0/map")


def map_is_gone(site):
    assert site.call("GET", "/v1/fabrics/ib0").json["source"] is None


# --- people ---


def people(site):
    site.call("POST", "/v1/tenants", {"name": "initech", "quota": {"nodes": 4}})
    site.call("PATCH", "/v1/tenants/initech", {"quota": {"nodes": 8}})
    site.call("POST", "/v1/principals", {"name": "peter", "tenant": "initech", "role": "member"})
    # The answer to a request that is repeated after a crash does not show the token again: it is refused, and another one is made.
    site.call("POST", "/v1/tokens", {"principal": "peter", "note": "laptop"}, accept=(409,))
    token = site.alive(lambda: site.client.items("/v1/tokens"))[0]
    site.call("DELETE", f"/v1/tokens/{token['id']}")
    site.call("POST", "/v1/tokens", {"principal": "peter"}, accept=(409,))
    site.call("DELETE", "/v1/principals/peter")
    site.call("DELETE", "/v1/tenants/initech")


def people_are_gone(site):
    dump = site.weft.dump()
    assert "initech" not in dump.values("tenant") and "peter" not in dump.values("principal")
    assert not dump.values("token")


# --- the world by itself ---


def garbage(site):
    node = site.nodes("cfd")[0]
    elsewhere = next(name for name in ("n1", "n2") if name != node["host"])
    site.weft.add_ended(elsewhere, "weft-0zzzzzzzzzzz-7", like=f"weft-{node['id']}")
    site.world.add_foreign("n3", "not-ours")
    site.world.add_foreign_partition(0x3321, "weft-0zzzzzzzzzzz")
    site.world.add_foreign_partition(0x3322, "storage")
    site.weft.add_ended_network("n4", 4711, "0yyyyyyyyyyy", "n1")
    site.weft.add_ended_image("n4", "0" * 64)
    site.until(lambda: any(event["type"] == "partition-held" for event in site.client.events()), "the stray partition is held")
    site.call("DELETE", "/v1/fabrics/ib0/partitions/0x3321?name=weft-0zzzzzzzzzzz")


def leave_unproved(weft):
    """What another site might have left."""
    weft.world.add_network("n4", 4711, "0zzzzzzzzzzz", "n1", site="9othersite00")


def held_keys(site):
    return [item["key"] for item in site.alive(lambda: site.client.items("/v1/site"))]


def remove_held(site):
    """Asked for again where weftd died, and has not looked at the host yet."""

    def is_gone_there():
        keys = held_keys(site)
        if keys:
            site.call("POST", "/v1/site/remove", {"host": "n4", "keys": keys}, accept=(409,))
        return ("n4", 4711) not in site.world.networks()

    site.until(is_gone_there, "it is removed once that was confirmed")


def held_is_gone(site):
    assert ("n4", 4711) not in site.world.networks() and site.host("n4")["state"] == "up"
    assert not [key for key in site.weft.dump().values("ended") if key.startswith("n4/")], "the confirmation ends with it"


def outgrow_backup(site):
    """A node that the copy of the store does not know of."""
    with_cluster(1)(site)
    site.settle()
    site.weft.stop()
    shutil.copy(site.weft.root / "weft.db", site.weft.root / "backup")
    site.weft.start()
    scale_to(2)(site)
    site.until(lambda: site.client.cluster("cfd")["ready"] == 2, "cfd has grown")


def return_backup(weft):
    for path in weft.root.glob("weft.db*"):
        path.unlink()
    (weft.root / "backup").rename(weft.root / "weft.db")


def adopt_held(site):
    def is_adopted():
        items = site.alive(lambda: site.client.items("/v1/site"))
        for item in items:
            site.call("POST", "/v1/site/adopt", {"host": item["host"], "keys": [item["key"]]}, accept=(409,))
        return len(site.nodes("cfd")) == 2

    site.until(is_adopted, "the node is adopted")


def garbage_is_gone(site):
    site.until(lambda: ("n4", 4711) not in site.world.networks(), "the stray network is gone")
    site.until(lambda: "n4" not in site.world.images(), "the stray image is gone")
    site.until(lambda: not site.world.where("weft-0zzzzzzzzzzz-7"), "the stray domain is gone")
    site.until(lambda: 0x3321 not in site.world.partitions(), "the stray partition is gone")
    assert site.world.where("not-ours") == ["n3"]
    assert 0x3322 in site.world.partitions()
    for name in ("not-ours", "storage"):
        site.until(lambda name=name: any(name in event["message"] for event in site.client.events()), f"{name} is told of")


# --- the fabric by itself ---

SHARED = [{"name": "storage", "pkey": "0x7001", "servers": ["0x0002c903000000f1"], "tenants": ["acme"]}]


def create_sharing(site):
    site.call("POST", "/v1/clusters?tenant=acme", spec("cfd", 3, path="sriov", shared=["storage"]))


def shares(site):
    has_nodes(3)(site)
    assert len(site.world.partitions()[0x7001].members) == 4


def sharing(site):
    create_sharing(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")


def shares_no_more(site):
    assert site.cluster("cfd") is None
    assert len(site.world.partitions()[0x7001].members) == 1


def drift(site):
    """Somebody takes the partition from the manager, and later the key from a port."""
    number = int(site.cluster("cfd")["partition"], 16)
    site.world.remove_partition(number)
    site.world.fabric_event("manager an older one took over")
    site.until(lambda: site.client.cluster("cfd") and number in site.world.partitions(), "the partition is there again")
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready again")
    guid = 0x0002C90300000000 + int(site.nodes("cfd")[0]["host"][1:])
    site.world.port_table(guid, 0x7FFF)
    site.world.fabric_event("swept")
    site.until(lambda: site.client.cluster("cfd") and not site.world.port_lies(guid), "the port was told again")


def is_repaired(site):
    has_nodes(3)(site)
    site.until(lambda: any(event["type"] == "partition-repaired" for event in site.client.events()), "that is told")


def oblivion(site):
    create(site)
    site.until(lambda: site.client.cluster("cfd")["phase"] == "ready", "cfd is ready")
    old = {event["id"] for event in site.alive(site.client.events)}
    site.until(lambda: not old & {event["id"] for event in site.client.events()}, "the old events are dropped")


def change_site(weft):
    """The configuration loses a host and a person, and changes a quota."""
    config = weft.config
    config["hosts"] = config["hosts"][:3]
    config["tenants"][1]["quota"] = {"nodes": 5}
    config["principals"] = [p for p in config["principals"] if p["name"] != "olga"]


def site_is_changed(site):
    dump = site.weft.dump()
    assert set(dump.values("host")) == {"n1", "n2", "n3"} and "olga" not in dump.values("principal")
    assert dump.values("tenant")["umbrella"]["quota"]["nodes"] == 5


OPERATIONS = [
    Operation("first-start", nothing, fresh=True),
    Operation("create", create, check=has_nodes(3)),
    Operation("scale-up", scale_to(4), with_cluster(2), has_nodes(4)),
    Operation("scale-down", scale_to(1), with_cluster(3), has_nodes(1)),
    Operation("delete", delete, with_cluster(2), is_gone),
    Operation("delete-while-hanging", delete_while_hanging, check=is_gone),
    Operation("heal", heal, with_cluster(3), has_nodes(3)),
    Operation("failing-start", failing_start, check=has_nodes(3)),
    Operation("failing-fabric", failing_fabric, with_cluster(2), has_nodes(3)),
    Operation("failing-talks", failing_talks, check=has_nodes(3)),
    Operation("expire", expire, check=has_expired, changes={"control": {"expiry_warning": "500ms"}}),
    Operation("backup", back_up, with_cluster(1), has_nodes(1)),
    Operation("clock", jump, with_walltime, keeps_walltime),
    Operation("preempt", preempt, with_frozen_yielding, came_back),
    Operation("reserve", reserve, with_yielding, is_unreserved, changes={"control": {"pkey_rest": "300ms"}}),
    Operation("image", create_from_image, check=has_image),
    Operation("bad-hosts", create_among_bad_hosts, check=is_on_the_good_one),
    Operation("mute-hosts", create, check=has_nodes(3), before=mute_hosts),
    Operation("image-rm", remove_image, with_spare_image, image_is_gone),
    Operation("template", capture, check=has_template),
    Operation("template-fails", capture_in_vain, check=has_no_template),
    Operation("fork", create_settled, with_template, is_forked),
    Operation("fork-fails", fork_badly, with_template, has_nodes(3)),
    Operation("fork-devices", fork_with_devices, with_template, have_devices),
    Operation("template-damaged", create_settled, with_template, is_captured_anew, before=damage_template),
    Operation("clone", clone, with_source, is_cloned),
    Operation("clone-disks", clone, with_own_disks, is_cloned_with_disks),
    Operation("clone-fails", clone_in_vain, with_source, is_not_cloned),
    Operation("checkpoint", freeze, with_own_disks, is_frozen),
    Operation("checkpoint-import", import_and_fail, with_checkpoint, is_imported),
    Operation("restore", restore, with_what_was, is_restored),
    Operation("template-rm", remove_template, with_forks, forks_go_on),
    Operation("template-dropped", remove_image_of_template, with_template, image_is_gone),
    Operation("stray-memory", nothing, before=leave_memory, check=memory_is_gone),
    Operation("full-store", remove_when_full, with_cluster(1), is_gone, changes={"store": {"reserve": "1T"}}),
    Operation("session", open_session, with_cluster(1), has_nodes(1)),
    Operation("discover", discover, check=has_nodes(3), changes={"hosts": []}),
    Operation("lost-cores", nothing, discovered, keeps_cores, before=lose_cores, changes={"hosts": []}),
    Operation("quarantine", create, check=tells_of_secluded, before=seclude_gpu),
    Operation("lose-host", lose_and_return, with_cluster(3), has_nodes(3)),
    Operation("drain", drain, with_cluster(3), has_nodes(3)),
    Operation("evict", evict, with_cluster(3), is_evicted),
    Operation("move", move, with_bridge(2), has_moved(2)),
    Operation("move-device", move_with_device, with_cluster(2), has_moved(2)),
    Operation("move-badly", move_badly, with_bridge(1), has_nodes(1)),
    Operation("move-in-vain", move_in_vain, with_bridge(2), has_moved(2)),
    Operation("move-called-off", call_move_off, with_bridge(2), has_nodes(2)),
    Operation("empty", empty, with_bridge(2), has_moved(2)),
    Operation("undrain", undrain, drained, is_undrained),
    Operation("take", take_hosts, with_cluster(2), has_no_wish, before=give_hosts_away),
    Operation("release-ports", release_stranger, with_cluster(2), has_nodes(2), before=age_store),
    Operation("host-add-rm", add_and_remove_host, check=host_is_gone),
    Operation("images", images, check=one_image_is_left),
    Operation("fabric", look_at_fabric, check=map_is_gone),
    Operation("vague-host", add_vague_host, check=port_is_found),
    Operation("people", people, check=people_are_gone),
    Operation("garbage", garbage, with_cluster(2), garbage_is_gone),
    Operation("remove-held", remove_held, before=leave_unproved, check=held_is_gone),
    Operation("adopt-held", adopt_held, outgrow_backup, has_nodes(2), before=return_backup),
    Operation("share", create_sharing, check=shares, changes={"shared": SHARED}),
    Operation("unshare", delete, sharing, shares_no_more, changes={"shared": SHARED}),
    Operation("drift", drift, with_cluster(3), is_repaired, changes={"control": {"patrol_interval": "200ms"}}),
    Operation("oblivion", oblivion, check=has_nodes(3), changes={"control": {"event_age": "300ms", "request_age": "300ms", "pkey_rest": "300ms"}}),
    Operation("changed-site", nothing, before=change_site, check=site_is_changed),
]
