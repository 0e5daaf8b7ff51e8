"""weft create --dry-run: places with their reasons, and refusals with what is scarcest, word by word."""

import json
import os
from datetime import datetime

import pytest

from harness.nets import HOST_GUID, STEP, Net
from harness.wait import until
from harness.weft import SOURCE, Weft, host

GOLDEN = SOURCE / "tests/golden/dry-run"
SHAPE = ("--memory", "256M", "--image", "mpi", "--ssh-key", "none")
# Three leaf switches of two hosts, each with 2 NUMA nodes of 3 cores for nodes and a GPU; the HCA is at the first of them.
HOSTS = [host(f"n{i + 1}", labels={"rack": f"r{i // 2}"},
              hcas=[{"name": "mlx5_0", "driver": "mlx5", "vfs": 4, "port_guid": f"0x{HOST_GUID + STEP * i + 1:016x}"}]) for i in range(6)]

EMPTY = {
    "compact": ["-n", "4"],
    "compact-two-leaves": ["-n", "6", "--cores", "5"],
    "spread": ["-n", "4", "--layout", "spread"],
    "exclusive": ["-n", "3", "--exclusive"],
    "exclusive-wide": ["-n", "8", "--cores", "3", "--exclusive"],
    "numa-split": ["-n", "2", "--cores", "4"],
    "numa-required": ["-n", "2", "--cores", "3", "--gpus", "1", "--numa", "required"],
    "gpus-near": ["-n", "4", "--gpus", "1"],
    "labels": ["-n", "2", "--label", "rack=r2"],
    "passthrough": ["-n", "2", "--path", "passthrough", "--cores", "2"],
    "pattern-on-one-host": ["-n", "4", "--pattern", "ring"],
    "pattern-between-hosts": ["-n", "8", "--cores", "3", "--pattern", "stencil2d"],
    "mixed": ["--group", "gpu:2,cores=2,gpus=1", "--group", "cpu:6,cores=3"],
    "never-cores": ["-n", "1", "--cores", "9"],
    "never-gpus": ["-n", "14", "--gpus", "1"],
    "never-functions": ["-n", "30", "--path", "sriov"],
    "never-memory": ["-n", "1", "--memory", "8G"],
    "never-numa": ["-n", "2", "--cores", "4", "--numa", "required"],
    "never-pages": ["-n", "1", "--memory", "1G", "--pages", "1G"],
    "never-passthrough": ["-n", "7", "--path", "passthrough"],
    "never-mixed": ["--group", "gpu:13,gpus=1", "--group", "cpu:2,cores=3"],
    "never-labels": ["-n", "1", "--label", "rack=r9"],
}

# … where a cluster has 2 cores and the GPU of each NUMA node.
BUSY = {
    "busy-fits": ["-n", "2"],
    "busy-numa-split": ["-n", "2", "--cores", "2"],
    "busy-numa-required": ["-n", "2", "--cores", "2", "--numa", "required"],
    "busy-gpus": ["-n", "1", "--gpus", "1"],
    "busy-cores": ["-n", "7", "--cores", "2"],
    "busy-exclusive": ["-n", "1", "--exclusive"],
    "busy-passthrough": ["-n", "1", "--path", "passthrough"],
    "busy-mixed": ["--group", "a:1,cores=1", "--group", "b:6,cores=2"],
}

# … and empty again, with a map of the fabric: the leaf switches hang on one spine.
MAPPED = {
    "mapped-one-leaf": ["-n", "2", "--cores", "5"],
    "mapped-two-leaves": ["-n", "3", "--cores", "3", "--gpus", "1", "--numa", "required"],
    "mapped-pattern": ["-n", "12", "--cores", "3", "--pattern", "ring"],
}


@pytest.fixture(scope="module")
def empty(request):
    weft = Weft(changes={"hosts": HOSTS})
    request.addfinalizer(weft.remove)
    weft.start()
    weft.client.wait_open(len(HOSTS))
    yield weft
    weft.stop()


@pytest.fixture(scope="module")
def mapped(request):
    weft = Weft(changes={"hosts": HOSTS})
    request.addfinalizer(weft.remove)
    weft.start()
    weft.client.wait_open(len(HOSTS))
    net = Net().switch("spine1")
    for leaf in ("leaf1", "leaf2", "leaf3"):
        net.switch(leaf).link(leaf, "spine1")
    for each in HOSTS:
        net.host(each["name"]).link(each["name"], each["leaf"])
    weft.client.expect(201, "POST", "/v1/fabrics/ib0/map", net.text().encode(), {"Content-Type": "application/octet-stream"})
    wish = {"name": "far", "count": 6, "cores": 6, "memory": "256M", "image": "mpi"}
    until(lambda: weft.client.expect(200, "POST", "/v1/placements?tenant=acme", wish)["hops"] == 2, "distances are known")
    yield weft
    weft.stop()


@pytest.fixture(scope="module")
def busy(request):
    weft = Weft(changes={"hosts": HOSTS})
    request.addfinalizer(weft.remove)
    weft.start()
    weft.client.create("load", 12, cores=2, gpus=1, numa="required", path="bridge")
    weft.client.wait_phase("load", "ready")
    yield weft
    weft.stop()


def dry_run(weft, *arguments, **environment):
    return weft.cli("create", "cfd", *SHAPE, "--dry-run", *arguments, env={"WEFT_TENANT": "acme"} | environment, check=False)


def check(weft, name, arguments):
    done = dry_run(weft, *arguments)
    assert done.stderr == ""
    text = f"$ weft create cfd --dry-run {' '.join(arguments)}\n{done.stdout}exit {done.returncode}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("WEFT_GOLDEN_REWRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing; WEFT_GOLDEN_REWRITE=1 writes it"
    assert text == path.read_text(encoding="utf-8")
    assert done.returncode == (6 if name.startswith("never-") or ": no room now " in done.stdout else 0)
    assert ("would never start" in done.stdout) == name.startswith("never-")


@pytest.mark.parametrize("name", EMPTY)
def test_empty_site(empty, name):
    check(empty, name, EMPTY[name])


@pytest.mark.parametrize("name", BUSY)
def test_busy_site(busy, name):
    check(busy, name, BUSY[name])


@pytest.mark.parametrize("name", MAPPED)
def test_mapped_site(mapped, name):
    check(mapped, name, MAPPED[name])


def test_each_golden_file_is_checked():
    assert {path.stem for path in GOLDEN.glob("*.txt")} == EMPTY.keys() | BUSY.keys() | MAPPED.keys()


@pytest.mark.parametrize("name", [name for name in EMPTY if not name.startswith("never-")])
def test_it_is_placed_as_it_was_told(site, name):
    """On a site of its own, which is as empty: what the dry run tells is what is granted."""
    weft = site(changes={"hosts": HOSTS})
    weft.client.wait_open(len(HOSTS))
    told = json.loads(dry_run(weft, *EMPTY[name], "--json").stdout)["nodes"]
    weft.cli("create", "cfd", *SHAPE, *EMPTY[name], env={"WEFT_TENANT": "acme"})
    granted = {node["rank"]: node for node in weft.client.nodes("cfd")}
    assert granted.keys() == {node["rank"] for node in told}
    for node in told:
        real = granted[node["rank"]]
        for field in ("group", "host", "core_ids", "memory_nodes", "gpu_ids", "path"):
            assert node[field] == real[field], (field, node["rank"])
        assert [(d["rail"], d["hca"], d["vf"]) for d in node["devices"]] == [(d["rail"], d["hca"], d["vf"]) for d in real["devices"]]


def test_members_see_what_is_together(certificate, request):
    weft = Weft(changes={"hosts": HOSTS, "api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"],
                                                  "tls_key": certificate["key"]}})
    request.addfinalizer(weft.remove)
    weft.start()
    weft.client.wait_open(len(HOSTS))
    done = weft.cli("create", "cfd", *SHAPE, "-n", "3", "--cores", "4", "--dry-run",
                    env={"WEFT_URL": f"https://127.0.0.1:{weft.tcp_port()}", "WEFT_CA": certificate["certificate"],
                         "WEFT_TOKEN": weft.token("acme-member")})
    table = done.stdout[done.stdout.index("NODE"):].splitlines()
    assert table[0].split() == ["NODE", "GROUP", "HOST", "LEAF", "NUMA", "CORES", "MEMORY", "GPUS", "PATH"]
    assert [line.split() for line in table[1:]] == [
        ["cfd[0]", "nodes", "1", "1", "2", "4", "256M", "0", "sriov"], ["cfd[1]", "nodes", "2", "1", "2", "4", "256M", "0", "sriov"],
        ["cfd[2]", "nodes", "3", "2", "2", "4", "256M", "0", "sriov"]]
    weft.stop()


def test_clusters_that_keep_apart(site):
    """Whoever names the other: the dry run knows as the real one does."""
    weft = site(changes={"hosts": HOSTS})
    weft.client.wait_open(len(HOSTS))
    weft.client.create("db", 1)
    weft.client.create("web", 1, apart=["db", "cfd"])
    for name in ("db", "web"):
        weft.client.wait_phase(name, "ready")
    db, web = ({node["host"] for node in weft.client.nodes(name)} for name in ("db", "web"))
    assert not db & web

    def hosts(name, *arguments):
        done = weft.cli("create", name, *SHAPE, "--dry-run", "--json", *arguments, env={"WEFT_TENANT": "acme"})
        return {node["host"] for node in json.loads(done.stdout)["nodes"]}

    assert hosts("other", "-n", "22") >= db | web, "functions of all hosts are needed"
    assert not hosts("cfd", "-n", "19") & web
    assert not hosts("other", "-n", "16", "--apart", "db", "--apart", "web") & (db | web)


def told(weft, *arguments):
    done = weft.cli("create", "cfd", *SHAPE, "--dry-run", "--json", *arguments, env={"WEFT_TENANT": "acme"}, check=False)
    return json.loads(done.stdout)


def is_then(one, other):
    """The same time, but for the moment between two looks at the clock."""
    return one and other and abs((datetime.fromisoformat(one) - datetime.fromisoformat(other)).total_seconds()) < 60


def test_it_is_told_when_it_would_start(site):
    """36 cores: 24 are held for an hour. Somebody waits for 30 of them, and whoever comes later must not delay that."""
    weft = site(changes={"hosts": HOSTS})
    weft.client.wait_open(len(HOSTS))
    weft.client.create("load", 4, cores=6, exclusive=True, walltime="1h")
    ends = weft.client.wait_phase("load", "ready")["ends"]
    alone = told(weft, "-n", "5", "--cores", "6")
    assert (alone["fits"], alone["never"]) == (False, False) and is_then(alone["when"], ends)
    assert alone["reason"].startswith("no room now for 5 nodes of 6 cores")
    assert told(weft, "-n", "1", "--cores", "6")["fits"]

    weft.client.create("big", 5, cores=6)
    until(lambda: is_then(weft.client.get("/v1/queue")["items"][0]["when"], ends), "it is promised a time")
    before = weft.client.get("/v1/queue")["items"]
    late = told(weft, "-n", "2", "--cores", "6")
    assert (late["fits"], late["when"]) == (False, None), "it would be after big, of which nobody knows the end"
    assert late["reason"] == "there is room, which is promised to those before it, or kept by a reservation"
    assert told(weft, "-n", "2", "--cores", "6", "--time", "30m")["fits"], "it has gone before big comes"
    done = dry_run(weft, "-n", "6", "--cores", "6", "--time", "30m")
    assert (done.returncode, done.stdout.splitlines()[0]) == (6, "cluster cfd would wait: no room now for 6 nodes of 6 cores, 256M, "
                                                              "0 GPUs, path sriov; scarcest: cores")
    after = weft.client.get("/v1/queue")["items"]
    assert [(item["name"], item["when"], item["why"]) for item in after] == [(item["name"], item["when"], item["why"]) for item in before]


def test_reserved_hosts_are_not_told_to_others(site):
    weft = site(changes={"hosts": HOSTS})
    weft.client.wait_open(len(HOSTS))
    weft.cli("reservation", "add", "maintenance", "--hosts", "n[1-4]", "--start", "1h", "--for", "2h")
    assert {node["host"] for node in told(weft, "-n", "2", "--cores", "6")["nodes"]} == {"n5", "n6"}
    assert told(weft, "-n", "6", "--cores", "6", "--time", "30m")["fits"]
    kept = told(weft, "-n", "6", "--cores", "6", "--time", "2h")
    assert not kept["fits"] and is_then(kept["when"], weft.client.get("/v1/reservations")["items"][0]["end"])
