"""What goes wrong on real hosts: each time the cluster ends ready elsewhere or says why it is not, and nothing stays behind."""

import concurrent.futures
import contextlib
import json

import pytest

from harness.cloud import BOOT, CONTROL, POOL, TENANTS, Cloud
from harness.lab import SWITCH
from harness.wait import until
from harness.weft import build_folder

HOOK = "/etc/libvirt/hooks/qemu.d/weft"

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=3).up()


def host_of(cloud, name, rank=0):
    return cloud.nodes(name)[rank]["host"]


@contextlib.contextmanager
def control(cloud, **changes):
    """weftd with other times than those that suit most of these tests."""
    cloud.stop_weftd()
    cloud.changes["control"] = CONTROL | changes
    cloud.start_weftd()
    try:
        yield
    finally:
        cloud.stop_weftd()
        cloud.changes["control"] = CONTROL
        cloud.start_weftd()


def host_state(cloud, host):
    return cloud.client.get(f"/v1/hosts/{host}")["state"]


def test_libvirtd_killed_and_back(cloud):
    """Its guests live on, and so does the cluster: nothing is replaced within the grace time."""
    with control(cloud, host_grace=f"{BOOT:g}s"):
        cloud.make("cfd", 2)
        before = [node["id"] for node in cloud.nodes("cfd")]
        host = host_of(cloud, "cfd")
        cloud.stop_libvirtd(host)
        cloud.start_libvirtd(host)
        until(lambda: cloud.run("cfd", "hostname", check=False).returncode == 0, "the node answers again", BOOT)
        assert [node["id"] for node in cloud.nodes("cfd")] == before
        cloud.ready("cfd", ready=2)
        cloud.check()


def test_a_hook_answers_whoever_else_asks(cloud):
    """It is also asked when nodes end: two networks of one name libvirt would not have, and refuse one before the hook hears of it."""
    cloud.virsh("h1", "net-define", "/dev/stdin", text="<network><name>weft-probe</name><forward mode='bridge'/><bridge name='weft-probe'/></network>")
    try:
        (hook,) = [check for check in cloud.client.get("/v1/hosts/h1/doctor")["checks"] if check["check"] == "hook"]
        assert hook["state"] == "ok", hook
    finally:
        cloud.virsh("h1", "net-undefine", "weft-probe")


def test_host_cut_and_back_with_its_nodes_running(cloud):
    """It is lost, its node is replaced, and when it returns its old domain is destroyed before it takes nodes again."""
    cloud.make("cfd", 2)
    old = cloud.nodes("cfd")[0]
    cloud.cut(old["host"])
    until(lambda: host_state(cloud, old["host"]) == "lost", "the host is lost", BOOT)
    cloud.ready_without(old["host"], "cfd", ready=2)
    new = cloud.nodes("cfd")[0]
    assert new["host"] != old["host"] and new["mac"] != old["mac"]
    assert f"weft-{old['id']}" in cloud.virsh(old["host"], "list", "--name").split()
    cloud.heal(old["host"])
    until(lambda: host_state(cloud, old["host"]) == "up", "the host is back", BOOT)
    assert f"weft-{old['id']}" not in cloud.virsh(old["host"], "list", "--name").split()
    cloud.check()


def test_host_dies_while_a_node_is_created_on_it(cloud):
    cloud.create("cfd", 2)
    until(lambda: any(node["host"] for node in cloud.client.nodes("cfd")) and cloud.domains(), "something runs", BOOT)
    host = host_of(cloud, "cfd")
    cloud.kill(host)
    cloud.ready_without(host, "cfd", ready=2)
    assert all(node["host"] != host for node in cloud.nodes("cfd"))
    cloud.check()
    cloud.heal(host)
    until(lambda: host_state(cloud, host) == "up", "the host is back", BOOT)


def test_guest_that_never_boots(cloud, tmp_path):
    """The reason says so in weft's words, and deleting it leaves nothing."""
    tiny = build_folder() / "images/tiny"
    cloud.weft("image", "add", "dead", "--kernel", str(tiny / "kernel"), "--initrd", str(tiny / "initrd"), "--cmdline",
               "rdinit=/nothing panic=0")
    with control(cloud, await_deadline="4s"):
        cloud.create("cfd", 1, image="dead")
        shown = until(lambda: (c := cloud.client.cluster("cfd")) and c["reason"] and "answer" in c["reason"] and c, "a reason is told", BOOT)
        assert shown["phase"] != "ready" and "4 s" in shown["reason"]
        cloud.remove_all()


def test_hook_that_fails(cloud):
    """On one host: the node finds another. On all: the operator reads the hook's own words."""
    for host in cloud.hosts:
        cloud.shell(host, f"mv {HOOK} {HOOK}.away && printf '#!/bin/sh\\necho no such luck >&2\\nexit 1\\n' > {HOOK} && chmod 755 {HOOK}")
    try:
        cloud.create("cfd")
        shown = until(lambda: (c := cloud.client.cluster("cfd")) and c.get("detail") and "no such luck" in c["detail"] and c, "the hook's words", BOOT)
        assert "no such luck" not in (shown["reason"] or "")
        cloud.shell("h2", f"mv {HOOK}.away {HOOK}")
        cloud.ready("cfd", ready=1)
        assert host_of(cloud, "cfd") == "h2"
    finally:
        for host in cloud.hosts:
            cloud.shell(host, f"[ ! -e {HOOK}.away ] || mv {HOOK}.away {HOOK}")


def test_disk_full_on_a_host(cloud, tmp_path):
    """With an image that no host has yet."""
    tiny = build_folder() / "images/tiny"
    (tmp_path / "initrd").write_bytes((tiny / "initrd").read_bytes() + bytes(512))
    cloud.weft("image", "add", "fresh", "--kernel", str(tiny / "kernel"), "--initrd", str(tmp_path / "initrd"), "--cmdline",
               (tiny / "cmdline").read_text(encoding="utf-8").strip())
    for host in cloud.hosts:
        cloud.shell(host, f"mount -t tmpfs -o size=256k full {POOL}")
    try:
        cloud.create("cfd", image="fresh")
        until(lambda: (c := cloud.client.cluster("cfd")) and c.get("detail") and "space" in c["detail"].lower(), "the reason is told", BOOT)
    finally:
        for host in cloud.hosts:
            cloud.shell(host, f"umount -l {POOL}")
    cloud.ready("cfd", ready=1)
    cloud.check()


def slow(cloud, host, rate):
    """Narrows what the switch sends to a host; None: as it was."""
    words = ("add", "dev", host, "root", "tbf", "rate", rate, "burst", "64kb", "latency", "100ms") if rate else ("del", "dev", host, "root")
    cloud.exec(SWITCH, "tc", "qdisc", *words)


def received(cloud, host):
    return json.loads(cloud.exec(host, "ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]["rx"]["bytes"]


def size_of(path):
    try:
        return path.stat().st_size
    except FileNotFoundError:  # it has just got another name
        return 0


def test_image_upload_broken_halfway(cloud):
    """It goes on where it was, and what arrives is what was sent."""
    image = cloud.client.get("/v1/images/tiny")
    kernel = image["kernel"]
    for host in cloud.hosts:
        cloud.forget_images(host)
    cloud.only("h1")
    before = received(cloud, "h1")
    slow(cloud, "h1", "160mbit")
    try:
        cloud.create("cfd")

        def halfway():
            """Looked at from out here: a command on the host may take as long as half of the image."""
            return any(kernel["size"] // 4 < size_of(path) < kernel["size"] * 3 // 4 for path in cloud.folder.glob(f"hosts/h1{POOL}/image-*"))

        until(halfway, "the image is on its way", BOOT)
        cloud.stop_libvirtd("h1")
        cloud.start_libvirtd("h1")
    finally:
        slow(cloud, "h1", None)
        cloud.only(*cloud.hosts)
    cloud.ready("cfd", ready=1)
    assert received(cloud, "h1") - before < 1.2 * (kernel["size"] + image["initrd"]["size"])
    assert cloud.shell("h1", f"sha256sum {POOL}/image-{kernel['digest']}").split()[0] == kernel["digest"]
    cloud.check()


def test_two_clusters_on_one_host_at_the_same_instant(cloud):
    """Twenty times; the two are on the same host, and neither disturbs the other. Every fifth time until they are ready."""
    cloud.only("h1")
    try:
        for turn in range(20):
            with concurrent.futures.ThreadPoolExecutor(len(TENANTS)) as pool:
                list(pool.map(lambda tenant, name=f"t{turn}": cloud.create(name, 1, tenant), TENANTS))
            until(lambda: len(cloud.domains()) == 2, lambda: f"both run, but {cloud.domains()}", BOOT)
            assert {host for host, _domain in cloud.domains()} == {"h1"}
            assert len(cloud.network("h1")) == 4
            if turn % 5 == 4:
                for tenant in TENANTS:
                    cloud.ready(f"t{turn}", tenant)
                cloud.check()
            cloud.remove_all()
    finally:
        cloud.only(*cloud.hosts)


def test_switch_is_quiet(cloud):
    """weftd has no leg in a tenant's network, nor has a host."""
    cloud.make("cfd", 2)
    for place in (SWITCH, *cloud.hosts):
        assert "10.64." not in cloud.exec(place, "ip", "addr")
