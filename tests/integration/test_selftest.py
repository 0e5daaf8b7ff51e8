"""weft doctor --selftest on a fake site whose nodes look, from inside, like those with the devices that they were given."""

import json
import os
import re
import signal
import subprocess
import threading

import pytest

from harness.invariants import converged, ledger
from harness.wait import until
from harness.weft import SOURCE, beside, build_folder, host

CHECKS = ["create", "device", "pkeys", "fabric", "shape", "hugepages", "reach", "second", "apart", "delete", "swap", "fork", "move", "clean"]
SMALL = ("--memory", "256M", "--image", "mpi")


@pytest.fixture
def inside(site, monkeypatch):
    """Makes a site with such nodes; words are files that say what is wrong with it. Where ports are not what nodes were promised, these are
    never ready, unless their hosts are said to have stand-ins: then the test goes on, and finds it."""
    monkeypatch.setenv("WEFT_BUILD", str(build_folder().resolve()))

    def make(*words, **changes):
        if {"nvme", "mixed-up"} & set(words):
            changes.setdefault("hosts", [host(f"n{i + 1}", verify="ethernet") for i in range(4)])
        weft = site(changes={"hypervisor": {"run_guests": True}, "guest": str(SOURCE / "tests/harness/inside")} | changes)
        for word in words:
            (weft.world.hosts / word).touch()
        all_up(weft)
        return weft

    return make


def all_up(weft):
    until(lambda: {each["state"] for each in weft.client.items("/v1/hosts")} == {"up"}, "all hosts are up")


def selftest(weft, *arguments, code=0, env=None):
    """{check: (state, found)}, after which nothing may be left."""
    before = tenants(weft)
    done = weft.cli("doctor", "--selftest", "--json", *SMALL, *arguments, check=False, env=env)
    assert done.returncode == code, f"{done.returncode}: {done.stdout}{done.stderr}"
    told = json.loads(done.stdout)
    left_nothing(weft, before)
    return {check["check"]: (check["state"], check["found"]) for check in told["checks"]}


def tenants(weft):
    return {tenant["name"] for tenant in weft.client.items("/v1/tenants")}


def left_nothing(weft, tenants_before=frozenset({"acme", "umbrella"})):
    assert tenants(weft) == set(tenants_before)
    assert weft.client.items("/v1/clusters") == [] and weft.client.items("/v1/templates") == []
    until(lambda: converged(weft, ()) == [], lambda: f"nothing is left: {converged(weft, ())}")
    assert ledger(weft.dump()) == []
    assert weft.dump().values("node") == {} and weft.world.domains() == {}


def states(told):
    return {check: state for check, (state, _) in told.items()}


def test_all_is_well(inside):
    weft = inside()
    told = selftest(weft)
    assert list(told) == CHECKS
    skipped = {check for check, state in states(told).items() if state == "skipped"}
    assert {check for check, state in states(told).items() if state == "failed"} == set(), told
    assert skipped == {"hugepages", "fork"}, told
    assert re.search(r"n1/mlx5_0/0 as 0x02c901\w+, n2/mlx5_0/0 as 0x02c901", told["device"][1])
    assert "at index 0" in told["pkeys"][1] and "3 functions that the other one had" in told["swap"][1]
    assert told["apart"][1] == "selftest-b[0] reaches 0 of 1 addresses at which selftest-a[0] reaches its own cluster"


def test_it_is_a_calm_table(inside):
    weft = inside()
    done = weft.cli("doctor", "--selftest", *SMALL, "--skip", "fork", "--hosts", "n[2-3]")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["CHECK", "STATE", "FOUND"] and len({line.index(line.split()[1]) for line in lines[:-1]}) == 1
    assert [line.split()[0] for line in lines[1:-1]] == CHECKS
    assert lines[-1] == "12 ok, 0 failed, 2 skipped"
    assert "as wished (--skip)" in done.stdout and "n2/mlx5_0/0" in done.stdout and "n3/mlx5_0/0" in done.stdout
    left_nothing(weft)


@pytest.mark.parametrize(("word", "check", "why"), [
    ("strange", "pkeys", "has P_Key 0x8666 at index 2, which is not its cluster's"),
    ("mixed-up", "device", "has a port with GUID 0x02c9010000009999, which was not given to it"),
    ("leaks", "apart", "of another cluster"),
])
def test_what_is_wrong_is_found(inside, word, check, why):
    told = selftest(inside(word), "--skip", "fork", "--skip", "move", code=1)
    assert told[check][0] == "failed" and why in told[check][1], told
    assert told["clean"][0] == "ok", "it tidies up all the same"


def test_data_is_not_left_to_the_next_one(inside):
    told = selftest(inside("nvme"), "--skip", "fork")
    assert told["pkeys"][0] == "skipped" and "no InfiniBand ports" in told["pkeys"][1]
    assert "data was left on 3 devices" in told["delete"][1] and told["swap"][0] == "ok", told
    told = selftest(inside("nvme", "unscrubbed"), "--skip", "fork", code=1)
    assert told["swap"][0] == "failed" and "reads on nvme0n1 what was written there before it" in told["swap"][1], told


def test_disks_that_are_not_empty_are_left_alone(inside):
    """Namespaces that several functions have are the site's."""
    weft = inside("nvme", "used", "unscrubbed")
    told = selftest(weft, "--skip", "fork", "--skip", "move")
    disks = [path for path in weft.world.hosts.glob("*/disks/*") if path.suffix != ".owner"]
    assert told["delete"][0] == "ok" and "data was left" not in told["delete"][1], told
    assert disks and {path.read_bytes().rstrip(b"\0") for path in disks} == {b"theirs"}


def test_hosts_without_functions(inside):
    bare = [host(f"n{i + 1}", hcas=[]) for i in range(2)]
    told = selftest(inside(hosts=bare), "--skip", "fork")
    assert [check for check, state in states(told).items() if state == "skipped"] == ["device", "pkeys", "fabric", "hugepages", "fork"]
    assert "no virtual functions" in told["device"][1] and told["move"][0] == "ok", told


class Pages(threading.Thread):
    """Hosts that tell how many of their pages are free: fewer for each node, and as many again when it has gone; unless "held"."""

    NODE = (256 << 20) // (2 << 20)

    def __init__(self, weft, held):
        super().__init__()
        self.weft, self.held, self.ended = weft, held, threading.Event()
        self.tell()

    def tell(self):
        for each in self.weft.config["hosts"]:
            nodes = 0 if self.held else len(list((self.weft.world.hosts / each["name"]).glob("domains/*.xml")))
            pages = [{"node": i, "size": 2 << 20, "total": 1024, "free": 1024 - nodes * self.NODE} for i in range(2)]
            told = {"hardware": {"numa": each["numa"]}, "kvm": True, "libvirt": "9.0.0", "qemu": "7.2.0", "machine": "pc-q35-7.2",
                    "cpu_model": "fake", "hook": {"version": "0.1.0", "hugepages": pages}}
            put(self.weft.world.hosts / each["name"] / "inventory.json", json.dumps(told))

    def run(self):
        while not self.ended.wait(0.02):
            self.tell()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(text, encoding="utf-8")
    path.with_suffix(".new").rename(path)


def test_huge_pages_are_counted(inside):
    weft = inside(hosts=[host(f"n{i + 1}", hcas=[], gpus=[]) for i in range(2)])
    with Pages(weft, held=False):
        told = selftest(weft, "--skip", "fork,move", "--skip", "swap")
    assert re.fullmatch(r"n1: 128 of 2M in NUMA node \d, n2: 128 of 2M in NUMA node \d", told["hugepages"][1]), told
    with Pages(weft, held=True):
        told = selftest(weft, "--skip", "fork", "--skip", "move", "--skip", "swap", code=1)
    assert told["hugepages"][0] == "failed" and "promised 128 pages of 2M, and 0 were taken" in told["hugepages"][1], told


def test_one_host(inside):
    told = selftest(inside(), "--skip", "fork", "--hosts", "n4")
    assert told["create"][0] == "ok" and told["move"] == ("skipped", "it takes two hosts")


def test_nothing_of_others_is_touched(inside):
    weft = inside()
    weft.client.create("cfd", 3)
    weft.client.wait_phase("cfd", "ready")
    before, where = weft.client.nodes("cfd"), weft.world.domains()
    done = weft.cli("doctor", "--selftest", *SMALL, "--skip", "fork", "--hosts", "n[1-4]")
    assert "0 failed" in done.stdout, done.stdout
    assert weft.client.nodes("cfd") == before and weft.world.domains() == where
    assert weft.client.cluster("cfd")["phase"] == "ready"


def test_a_tenant_that_is_given(inside):
    """An operator cannot make tenants, and need not."""
    weft = inside()
    told = selftest(weft, "--tenant", "acme", "--skip", "fork", env={"WEFT_TOKEN": weft.token("olga")})
    assert "failed" not in states(told).values(), told
    assert "tenant acme" in told["create"][1] and "acme" in tenants(weft)


def test_no_room(inside):
    weft = inside()
    told = selftest(weft, "--hosts", "n1", "--memory", "64G", code=1)
    assert told["create"][0] == "failed" and "scarcest: memory" in told["create"][1], told
    assert told["device"] == ("skipped", "there is no cluster to look at")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(inside, number):
    weft = inside()
    environment = os.environ | {"WEFT_URL": f"unix://{weft.socket}"}
    with beside(["doctor", "--selftest", *SMALL], environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: weft.client.items("/v1/clusters"), "it has begun")
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    left_nothing(weft)


def test_one_that_was_killed(inside):
    """The next one refuses while its clusters are there, and takes its tenants over when they are gone."""
    weft = inside()
    environment = os.environ | {"WEFT_URL": f"unix://{weft.socket}"}
    only = ["doctor", "--selftest", *SMALL, "--skip", "second,apart"]  # it has no more than one cluster, whenever it is killed
    with beside(only, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        until(lambda: weft.client.items("/v1/clusters"), "it has begun")
        process.kill()
    [cluster] = weft.client.items("/v1/clusters")
    assert cluster["walltime"] == 3600 and cluster["preemptible"]
    refused = weft.cli("doctor", "--selftest", *SMALL, check=False)
    assert refused.returncode != 0 and "another self test runs, or was killed" in refused.stderr
    weft.client.delete("selftest-a", "selftest-a")
    weft.client.wait_gone("selftest-a", "selftest-a")
    weft.cli("doctor", "--selftest", *SMALL, "--skip", "fork", "--skip", "move", "--skip", "swap")
    left_nothing(weft)


def test_dry_run_makes_nothing(inside):
    weft = inside()
    before = weft.dump().values("event")
    done = weft.cli("doctor", "--selftest", "--dry-run", "--hosts", "n1")
    assert "on hosts n1, path sriov, nodes of 1G, tenants selftest-a and selftest-b" in done.stdout
    assert re.search(r"^move +skipped +it takes two hosts$", done.stdout, re.M)
    assert weft.dump().values("event") == before and weft.client.items("/v1/clusters") == []


@pytest.mark.parametrize(("arguments", "why"), [
    (["--hosts", "n1"], "--hosts is for --selftest"),
    (["--selftest", "n1"], "come after --hosts: weft doctor --selftest --hosts n1"),
    (["--selftest", "--hosts", "n9"], "there is no host n9"),
    (["--selftest", "--skip", "x"], "--skip x: there is no such check; there are create, device"),
    (["--selftest", "--memory", "much"], "--memory: "),
    (["--selftest", "--timeout", "soon"], "--timeout: "),
])
def test_wrong_usage(weft, arguments, why):
    refused = weft.cli("doctor", *arguments, check=False)
    assert refused.returncode != 0 and why in refused.stderr


def test_nobody_else_may(weft):
    all_up(weft)
    refused = weft.cli("doctor", "--selftest", env={"WEFT_TOKEN": weft.token("acme-member")}, check=False)
    assert refused.returncode != 0 and "role" in refused.stderr
    refused = weft.cli("doctor", "--selftest", env={"WEFT_TOKEN": weft.token("olga")}, check=False)
    assert refused.returncode != 0 and "selftest-a" in refused.stderr and weft.client.items("/v1/clusters") == []
