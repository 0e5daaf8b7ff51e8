"""Checkpoints: made of whole clusters, restored from, taken elsewhere; what fails leaves all as it was."""

import hashlib
import json
import tarfile

from harness.wait import until
from test_templates import SHAPE, add_image, messages

COLD = SHAPE | {"start": "cold"}


def create(weft, name="cfd", count=3, **spec):
    weft.client.create(name, count, **COLD | spec)
    weft.client.wait_phase(name, "ready")


def ask(weft, cluster="cfd", status=201, **body):
    return weft.client.expect(status, "POST", f"/v1/clusters/{cluster}/checkpoints?tenant=acme", body)


def checkpoint(weft, name):
    return weft.client.get(f"/v1/checkpoints/{name}", tenant="acme")


def made(weft, name, state="complete"):
    until(lambda: checkpoint(weft, name)["state"] == state, lambda: f"{name} is {state}: {checkpoint(weft, name)}\n{weft.log_tail()}")
    return checkpoint(weft, name)


def take(weft, cluster="cfd", **body):
    one = made(weft, ask(weft, cluster, **body)["name"])
    weft.client.wait_phase(cluster, "ready")
    return one


def remove(weft, name="cfd"):
    weft.client.delete(name)
    weft.client.wait_gone(name)


def restore(weft, name, status=201, **body):
    return weft.client.expect(status, "POST", f"/v1/checkpoints/{name}/restore?tenant=acme", body)


def nodes(weft, cluster):
    return sorted((n for n in weft.dump().values("node").values() if n["cluster_name"] == cluster), key=lambda n: n["rank"])


def paused(weft):
    return [path.name for path in weft.world.hosts.glob("*/domains/*.paused")]


def saved(weft):
    return [path.name for suffix in ("saved", "layer") for path in weft.world.hosts.glob(f"*/pool/*.{suffix}")]


def files(weft):
    return {path.name for path in (weft.root / "images").iterdir()}


def is_well(weft, cluster="cfd"):
    weft.client.wait_phase(cluster, "ready")
    assert not paused(weft) and not saved(weft)


def test_checkpoint_goes_on(weft):
    add_image(weft)
    create(weft)
    before = files(weft)
    one = take(weft)
    assert (one["name"], one["nodes"], one["cluster_name"]) == ("cfd-1", 3, "cfd")
    assert one["size"] > 0 and one["skew_ms"] >= 0
    is_well(weft)
    assert len(files(weft) - before) == 3
    assert [m for m in messages(weft, "checkpoint-completed") if m.startswith("cfd-1: 3 nodes in ")]
    two = take(weft, name="later")
    assert two["name"] == "later"
    for name in ("cfd-1", "later"):
        weft.client.expect(204, "DELETE", f"/v1/checkpoints/{name}?tenant=acme")
    until(lambda: files(weft) == before, "the files are gone")


def test_restored_elsewhere(weft):
    add_image(weft)
    create(weft, count=2)
    old = nodes(weft, "cfd")
    take(weft, name="before")
    assert "remove that cluster first: weft rm cfd" in restore(weft, "before", 409, **{"as": "again"})["detail"]
    remove(weft)
    for node in old:
        weft.client.expect(200, "POST", f"/v1/hosts/{node['host']}/drain", {})
    restore(weft, "before", **{"as": "again"})
    weft.client.wait_phase("again", "ready")
    new = nodes(weft, "again")
    assert [n["mac"] for n in new] == [n["mac"] for n in old]
    assert [n["hostname"] for n in new] == ["cfd-0", "cfd-1"]
    assert not {n["host"] for n in new} & {n["host"] for n in old}
    assert not {n["id"] for n in new} & {n["id"] for n in old}
    is_well(weft, "again")
    assert messages(weft, "cluster-restored") == ["its nodes go on from checkpoint before"]
    # What was brought for it goes from the hosts; the checkpoint stays.
    digests = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (weft.root / "images").iterdir()} & files(weft)
    assert len(digests) == 4
    weft.client.expect(204, "DELETE", "/v1/checkpoints/before?tenant=acme")


def test_node_that_is_lost_later_boots(weft):
    add_image(weft)
    create(weft, count=2)
    take(weft, name="before")
    remove(weft)
    restore(weft, "before")
    weft.client.wait_phase("cfd", "ready")
    node = nodes(weft, "cfd")[1]
    weft.client.expect(204, "DELETE", "/v1/checkpoints/before?tenant=acme")
    weft.world.end_domain(node["host"], f"weft-{node['id']}")
    until(lambda: any(m.startswith("cfd[1]") for m in messages(weft, "node-failed")), "it is missed")
    is_well(weft)


def test_refused(weft):
    add_image(weft)
    create(weft)
    assert "checkpoint name" in ask(weft, "cfd", 400, name="Upper")["detail"]
    assert "for itself" in ask(weft, "cfd", 400, name="preempted-x")["detail"]
    weft.world.fault("hang save")
    ask(weft, name="slow")
    weft.client.wait_phase("cfd", "checkpointing")
    assert "is being made of it" in ask(weft, "cfd", 409)["detail"]
    assert "is being made" in weft.client.expect(409, "DELETE", "/v1/checkpoints/slow?tenant=acme")["detail"]
    assert "still being made" in restore(weft, "slow", 409)["detail"]
    weft.world.fault()
    until(lambda: checkpoint(weft, "slow")["state"] in ("complete", "failed"), "it ends")


def fails(weft, *faults, name="bad"):
    weft.world.fault(*faults)
    ask(weft, name=name)
    one = made(weft, name, "failed")
    weft.world.fault()
    is_well(weft)
    return one


def test_what_fails_leaves_it_as_it_was(weft):
    add_image(weft)
    create(weft)
    before = files(weft)
    for i, op in enumerate(("quiesce", "pause", "save", "fetch")):
        one = fails(weft, f"fail {op} 9 No space left on device", name=f"bad-{i}")
        assert one["reason"].startswith("cfd["), one
        until(lambda: files(weft) == before, lambda: f"nothing is left of it: {files(weft) - before}")
    assert "No space left on device" in checkpoint(weft, "bad-2")["detail"]
    assert "nothing can be restored" in restore(weft, "bad-2", 409)["detail"]
    take(weft, name="good")


def begin_late(weft):
    """A checkpoint "late" of a cluster, which hangs until there is no fault any more."""
    add_image(weft)
    create(weft)
    weft.world.fault("hang save")
    ask(weft, name="late")
    weft.client.wait_phase("cfd", "checkpointing")


def test_deleted_meanwhile(weft):
    begin_late(weft)
    weft.client.delete("cfd")
    weft.world.fault()
    weft.client.wait_gone("cfd")
    assert made(weft, "late", "failed")["reason"] == "the cluster was removed meanwhile"
    assert not paused(weft) and not saved(weft)


def test_scaled_meanwhile(weft):
    begin_late(weft)
    weft.client.scale("cfd", 2)
    weft.world.fault()
    until(lambda: checkpoint(weft, "late")["state"] in ("complete", "failed"), "it ends")
    weft.client.wait_phase("cfd", "ready", ready=2)
    is_well(weft)


def test_reboots_meanwhile(weft):
    """It is let go on, though it is not as ready any more as it was when it was stopped."""
    begin_late(weft)
    node = nodes(weft, "cfd")[1]
    until(lambda: len(paused(weft)) == 3, "they stand still")
    weft.world.reboot(node["host"], f"weft-{node['id']}")
    until(lambda: messages(weft, "node-rebooted"), "that is seen")
    weft.world.fault()
    made(weft, "late", "failed")
    weft.client.wait_phase("cfd", "ready", ready=3)
    assert not paused(weft)


def test_host_tells_late_what_it_is(weft):
    """weftd begins with a node whose devices are to be plugged, and does not know yet what its host is able to."""
    create(weft, count=1, path="sriov")
    weft.world.fault("hang plug")
    ask(weft, name="late", disrupt=True)
    until(lambda: weft.dump().values("checkpoint")["acme/late"]["state"] == "saved", "it is saved")
    until(lambda: not paused(weft), "it goes on")
    weft.kill()
    weft.world.fault("slow inspect 500")
    weft.start()
    made(weft, "late")
    is_well(weft)
    assert all(not any(alias.startswith("-") for alias in plugged) for plugged, _ in devices(weft, "cfd"))


def test_restored_in_vain(weft):
    """What was brought to hosts goes with the cluster, although the checkpoint stays."""
    add_image(weft)
    create(weft, count=1)
    take(weft, name="before")
    remove(weft)
    saved = {node["saved"]["digest"] for node in weft.dump().values("checkpoint")["acme/before"]["nodes"]}
    found = lambda: saved & set().union(*weft.world.images().values())  # noqa: E731
    weft.world.fault("hang start")
    restore(weft, "before")
    until(found, "it is brought")
    weft.client.delete("cfd")
    weft.world.fault()
    weft.client.wait_gone("cfd")
    until(lambda: not found(), lambda: f"nothing is left of it: {weft.world.images()}")


def test_restored_together(weft):
    add_image(weft)
    create(weft)
    take(weft, name="before")
    remove(weft)
    weft.world.fault("fail start 2 out of order", "fail resume 1 no answer")
    restore(weft, "before")
    weft.client.wait_phase("cfd", "ready")
    is_well(weft)


def test_damaged_file(weft):
    add_image(weft)
    create(weft, count=1)
    before = files(weft)
    take(weft, name="before")
    remove(weft)
    (path,) = [weft.root / "images" / name for name in files(weft) - before]
    path.write_bytes(path.read_bytes()[::-1])
    restore(weft, "before")
    until(lambda: weft.client.cluster("cfd")["reason"], "it says what is wrong")
    assert checkpoint(weft, "before")["state"] == "complete"


def test_preempted_comes_back_where_it_was(weft):
    add_image(weft)
    create(weft, count=4, exclusive=True, layout="spread", preemptible=True)
    macs = [n["mac"] for n in nodes(weft, "cfd")]
    weft.client.create("urgent", 1, tenant="umbrella", **COLD | {"priority": 10})
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")
    assert not weft.client.items("/v1/checkpoints", tenant="acme")
    assert any(m.startswith("it is put aside: 4 nodes") for m in messages(weft, "checkpoint-completed"))
    weft.client.delete("urgent", tenant="umbrella")
    weft.client.wait_phase("cfd", "ready")
    assert [n["mac"] for n in nodes(weft, "cfd")] == macs
    assert any("where they were put aside" in m for m in messages(weft, "cluster-restored"))
    assert not weft.dump().values("checkpoint")
    is_well(weft)


# --- disks of their own ---


def disk(weft, cluster, rank=0):
    """As the fake keeps it: what a test has its guest write is behind what it is laid over."""
    node = nodes(weft, cluster)[rank]
    return weft.world.hosts / node["host"] / "pool" / f"weft-{node['id']}.disk"


def write(weft, text, cluster="cfd"):
    for rank in range(len(nodes(weft, cluster))):
        with disk(weft, cluster, rank).open("a", encoding="ascii") as file:
            file.write(f"{text} {rank}\n")


def written(weft, cluster="cfd"):
    return [disk(weft, cluster, rank).read_text(encoding="ascii").split("\n", 2)[2] for rank in range(len(nodes(weft, cluster)))]


def own_disks(weft, count=2, **spec):
    add_image(weft, "own", 2, "raw")
    create(weft, count=count, image="own", **spec)
    write(weft, "early")


def test_own_disks_come_back(weft):
    own_disks(weft)
    before = files(weft)
    take(weft, name="before")
    assert len(files(weft) - before) == 4
    is_well(weft)
    write(weft, "late")
    assert written(weft) == [f"early {rank}\nlate {rank}\n" for rank in range(2)]
    for node in nodes(weft, "cfd"):
        weft.client.expect(200, "POST", f"/v1/hosts/{node['host']}/drain", {})
    remove(weft)
    restore(weft, "before")
    is_well(weft)
    assert written(weft) == [f"early {rank}\n" for rank in range(2)]
    take(weft, name="again")
    for name in ("before", "again"):
        weft.client.expect(204, "DELETE", f"/v1/checkpoints/{name}?tenant=acme")
    until(lambda: files(weft) == before, "the files are gone")


def test_own_disks_stay_where_it_fails(weft):
    own_disks(weft)
    before = files(weft)
    for i, op in enumerate(("save", "fetch")):
        one = fails(weft, f"fail {op} 9 No space left on device", name=f"bad-{i}")
        assert one["reason"].startswith("cfd[") and "No space left on device" in one["detail"], one
        assert files(weft) == before
    weft.world.fault("fail discard 1 no room")
    take(weft, name="good")
    is_well(weft)
    assert written(weft) == [f"early {rank}\n" for rank in range(2)]


def test_preempted_with_own_disks(weft):
    own_disks(weft, 4, exclusive=True, layout="spread", preemptible=True)
    give_way(weft)
    weft.client.delete("urgent", tenant="umbrella")
    weft.client.wait_phase("cfd", "ready")
    assert written(weft) == [f"early {rank}\n" for rank in range(4)]
    is_well(weft)


def devices(weft, cluster):
    """What each node has of its host by now, and its GUIDs."""
    found = sorted(weft.client.nodes(cluster), key=lambda n: n["rank"])
    return [(weft.world.plugged(n["host"], f"weft-{n['id']}"), n["guids"]) for n in found]


def test_devices_leave_and_come_back(weft):
    create(weft, count=2, path="sriov")
    (weft.root / "hosts" / "hookless").touch()
    one = fails(weft, name="unsafe")
    assert "--disrupt" in one["reason"], one
    take(weft, name="before", disrupt=True)
    is_well(weft)
    old = devices(weft, "cfd")
    assert all(not any(alias.startswith("-") for alias in plugged) for plugged, _ in old), old
    remove(weft)
    restore(weft, "before")
    is_well(weft)
    new = devices(weft, "cfd")
    assert [guids for _, guids in new] == [guids for _, guids in old] and all(guids for _, guids in new)
    assert all(any(alias.startswith("+") for alias in plugged) for plugged, _ in new), new


def test_devices_that_do_not_come_back(weft):
    create(weft, count=2, path="sriov")
    take(weft, name="before")
    remove(weft)
    weft.world.fault("fail plug 2 no such function")
    restore(weft, "before")
    is_well(weft)


def give_way(weft):
    """For one that leaves no room: a NUMA node of each host for each of its nodes."""
    weft.client.create("urgent", 8, tenant="umbrella", **COLD | {"cores": 3, "priority": 10, "exclusive": True})
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")


def boots_anew(weft, why):
    weft.client.wait_phase("cfd", "ready")
    assert any(m.startswith("it begins anew") and why in m for m in messages(weft, "cluster-not-restored")), messages(weft, "cluster-not-restored")
    assert not weft.dump().values("checkpoint")
    is_well(weft)


def test_preempted_and_damaged_boots(weft):
    add_image(weft)
    create(weft, count=4, exclusive=True, layout="spread", preemptible=True)
    before = files(weft)
    give_way(weft)
    for name in files(weft) - before:
        path = weft.root / "images" / name
        path.write_bytes(b"x" * path.stat().st_size)
    weft.client.delete("urgent", tenant="umbrella")
    boots_anew(weft, "what was saved of it is damaged")
    until(lambda: files(weft) == before, "the files are gone")


def test_preempted_and_refused_boots(weft):
    add_image(weft)
    create(weft, count=4, exclusive=True, layout="spread", preemptible=True)
    give_way(weft)
    weft.world.fault("invalid start 1 another machine")
    weft.client.delete("urgent", tenant="umbrella")
    boots_anew(weft, "its host cannot let it go on from its checkpoint")


def test_preempted_without_being_saved(weft):
    add_image(weft)
    create(weft, count=4, exclusive=True, layout="spread", preemptible=True)
    weft.world.fault("fail save 99 No space left on device")
    weft.client.create("urgent", 1, tenant="umbrella", **COLD | {"priority": 10})
    weft.client.wait_phase("urgent", "ready", tenant="umbrella")
    weft.world.fault()
    assert any("could not be put aside" in m for m in messages(weft, "checkpoint-failed"))
    weft.client.delete("urgent", tenant="umbrella")
    weft.client.wait_phase("cfd", "ready")
    assert not weft.dump().values("checkpoint")


def test_own_disks_taken_elsewhere(site, tmp_path):
    here, there = site(), site()
    file = tmp_path / "before.weft"
    own_disks(here)
    here.cli("checkpoint", "cfd", "--name", "before", "--tenant", "acme")
    here.cli("checkpoints", "export", "before", str(file), "--tenant", "acme")
    with tarfile.open(file) as tar:
        assert len(tar.getnames()) == 5
    add_image(there, "own", 2, "raw")
    there.cli("checkpoints", "import", str(file), "--tenant", "acme")
    there.cli("restore", "before", "--tenant", "acme")
    assert written(there) == [f"early {rank}\n" for rank in range(2)]
    is_well(there)


def test_taken_elsewhere(site, tmp_path):
    here, there = site(), site()
    file = tmp_path / "before.weft"
    add_image(here)
    create(here, count=2)
    macs = [n["mac"] for n in nodes(here, "cfd")]
    told = here.cli("checkpoint", "cfd", "--name", "before", "--tenant", "acme")
    assert "checkpoint before is complete: 2 nodes" in told.stdout
    here.cli("checkpoints", "export", "before", str(file), "--tenant", "acme")
    with tarfile.open(file) as tar:
        assert len(tar.getnames()) == 3 and tar.getnames()[0] == "manifest.json"
    bring = ("checkpoints", "import", str(file), "--tenant", "acme")
    assert 'image "mpi" is not here' in there.cli(*bring, check=False).stderr
    add_image(there, seed=2)
    assert 'image "mpi" is another one here' in there.cli(*bring, check=False).stderr
    there.client.expect(204, "DELETE", "/v1/images/mpi")
    add_image(there)
    assert "weft restore before" in there.cli(*bring).stdout
    there.cli("restore", "before", "--tenant", "acme")
    assert [n["mac"] for n in nodes(there, "cfd")] == macs
    is_well(there)
    assert checkpoint(there, "before")["imported"]
    there.cli("checkpoints", "rm", "before", "--tenant", "acme")


def test_export_tells_no_secrets_and_no_hosts(site, tmp_path):
    """Who imports it gives the user-data again; hosts have other names there."""
    here, there = site(), site()
    file, text = tmp_path / "before.weft", tmp_path / "user-data"
    add_image(here)
    add_image(there)
    text.write_text("#cloud-config\npassword: opensesame\n", encoding="utf-8")
    hosts = ",".join(sorted(entry["name"] for entry in here.client.items("/v1/hosts")))
    here.client.create("cfd", 1, path="bridge", user_data=text.read_text(encoding="utf-8"), hosts=hosts)
    here.client.wait_phase("cfd", "ready")
    take(here, name="before")
    here.cli("checkpoints", "export", "before", str(file), "--tenant", "acme")
    with tarfile.open(file) as tar:
        manifest = tar.extractfile("manifest.json").read().decode()
    assert "opensesame" not in manifest and json.loads(manifest)["left_out"] == ["user_data"]
    wish = json.loads(manifest)["checkpoint"]["wish"]
    assert "hosts" not in wish and not any(f'"{name}"' in manifest for name in hosts.split(","))
    bring = ("checkpoints", "import", str(file), "--tenant", "acme")
    told = there.cli(*bring)
    assert "--user-data" in told.stderr
    there.cli(*bring, "--name", "whole", "--user-data", str(text))
    kept = there.dump().values("checkpoint")
    assert [kept[f"acme/{name}"]["wish"].get("user_data") for name in ("before", "whole")] == [None, text.read_text(encoding="utf-8")]
    manifest = json.loads(manifest) | {"name": "third"}
    refusal = there.client.expect(400, "POST", "/v1/checkpoints?tenant=acme", manifest | {"user_data": 7})
    assert "user_data: must be a text" in refusal["detail"]
    for unfit, words in (("", "user_data: is empty"), ("x" * (64 * 1024 + 1), "user_data: 65537 bytes; at most 65536 are allowed")):
        refusal = there.client.expect(400, "POST", "/v1/checkpoints?tenant=acme", manifest | {"user_data": unfit})
        assert words in refusal["detail"], "as for a new cluster"
    manifest["checkpoint"]["wish"]["hosts"] = hosts
    there.client.expect(201, "POST", "/v1/checkpoints?tenant=acme", manifest)
    assert "hosts" not in there.dump().values("checkpoint")["acme/third"]["wish"], "no other site says where nodes are to run"


def test_manifest_is_not_believed(weft):
    add_image(weft)
    create(weft, count=1)
    take(weft, name="before")
    manifest = weft.client.get("/v1/checkpoints/before/manifest", tenant="acme")
    bring = lambda body: weft.client.expect(400, "POST", "/v1/checkpoints?tenant=acme", body)["detail"]  # noqa: E731

    def changed(**changes):
        copy = json.loads(json.dumps(manifest)) | {"name": "other"}
        for key, value in changes.items():
            (copy["checkpoint"]["nodes"][0] if key in ("mac", "saved", "group", "memory", "hostname") else copy["checkpoint"])[key] = value
        return bring(copy)

    assert "format" in bring({})
    assert "none of weft's" in changed(mac="ff:ff:ff:ff:ff:ff")
    assert "is not here" in changed(saved={"digest": "ab" * 32, "size": 5})
    assert "as its group" in changed(memory=1)
    assert "hostname" in changed(hostname="../../etc")
    assert "not complete" in changed(state="saved")
    assert "wish" in changed(wish=manifest["checkpoint"]["wish"] | {"groups": []})
    assert "image" in bring(manifest | {"name": "other", "images": {"mpi": []}})
