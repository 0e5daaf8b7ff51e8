"""A template that is damaged, or of another generation: nodes boot then, say why, and nothing of the wrong memory ever runs."""

import pytest

from harness.cloud import BOOT, PATIENT, POOL, Cloud
from harness.wait import until
from harness.weft import build_folder

NODES = {"path": "bridge", "memory": "256M", "image": "tiny"}
HOST = "h1"
FORKS = "/run/weft-fork"  # what the hook and the driver keep beside memory to fork from
RETRY = "2s"


@pytest.fixture(scope="module")
def cloud(module_lab):
    changes = {"control": PATIENT | {"templates": True, "template_retry": RETRY}}
    return module_lab(Cloud, hosts=1, cores=4, memory="2G", changes=changes).up()


@pytest.fixture(autouse=True)
def settled(cloud, watched):
    """Begins with a template that nodes are forked from; ends with the invariants, and no cluster."""
    forked(cloud, "before")
    yield
    cloud.check()
    cloud.remove_all()


def template(cloud):
    """That of the image as it is now."""
    return max(cloud.client.items("/v1/templates"), key=lambda found: found["generation"], default=None)


def ready_template(cloud, other=None):
    """other: id of one that it is not."""
    def found():
        made = template(cloud)
        return made if made and made["state"] == "ready" and made["id"] != other else None

    return until(found, lambda: f"a template is ready: {cloud.client.items('/v1/templates')}", BOOT)


def boots(cloud):
    """A node boots since its fork failed, and all of a cluster where nothing is there to fork them from."""
    return cloud.events("node-boots") + cloud.events("cluster-boots")


def make(cloud, name):
    """A cluster of one node; why that one booted, None where it was forked."""
    seen = {event["id"] for event in boots(cloud)}
    cloud.client.create(name, 1, **NODES)
    cloud.ready(name, ready=1)
    assert cloud.run(f"{name}[0]", "hostname").stdout.split() == [f"{name}-0"]
    told = [event["message"] for event in boots(cloud) if event["id"] not in seen and event["cluster_name"] == name]
    cloud.client.delete(name)
    cloud.client.wait_gone(name, timeout=BOOT)
    return told[-1] if told else None


def forked(cloud, name):
    """Sooner or later: what was given up is made again after a while."""
    if not cloud.client.items("/v1/templates"):
        make(cloud, f"{name}-first")
    ready_template(cloud)
    until(lambda: make(cloud, name) is None, lambda: f"a node is forked: {cloud.events('node-boots')[-1:]}", 2 * BOOT)


def spoil(cloud, path, offset=0, size=4096, host=HOST):
    cloud.shell(host, f"dd if=/dev/urandom of={path} bs={size} count=1 seek={offset} oflag=seek_bytes conv=notrunc status=none")


def primed(cloud):
    """The id of the memory that there is."""
    return cloud.client.get(f"/v1/templates/{ready_template(cloud)['id']}")["primed"][0]["id"]


def memory_file(cloud):
    return cloud.shell(HOST, f"find /dev -path '*/weft-memory/{primed(cloud)}'").strip()


def test_memory_is_damaged(cloud):
    """Any of it that the checksum looks at: 256 pieces, all over."""
    size = int(cloud.shell(HOST, f"stat -c %s {memory_file(cloud)}"))
    spoil(cloud, memory_file(cloud), size // 256 * 100, 256)
    why = make(cloud, "cfd")
    assert why and "fork" in why, why
    forked(cloud, "again")


def test_memory_is_of_another_generation(cloud):
    cloud.shell(HOST, f"sed -i 's/^generation .*/generation 0123456789abcdef/' {FORKS}/{primed(cloud)}.sum")
    why = make(cloud, "cfd")
    assert why and "fork" in why, why
    forked(cloud, "again")


def test_file_on_host_is_damaged(cloud):
    """Its head: libvirt refuses it. The host is brought it again."""
    digest, memory = cloud.dump().values("template")[ready_template(cloud)["id"]]["digest"], primed(cloud)
    cloud.stop_weftd()
    spoil(cloud, f"{POOL}/image-{digest}")
    cloud.shell(HOST, f"rm -f {FORKS}/{memory}* /dev/shm/weft-memory/{memory} /dev/hugepages/weft-memory/{memory}")
    cloud.start_weftd()
    why = make(cloud, "cfd")
    assert why and "fork" in why, why
    forked(cloud, "again")


def test_file_of_weftd_is_damaged(cloud):
    """No host has it any more: it is of no use, and another is made."""
    made = ready_template(cloud)
    digest, memory = cloud.dump().values("template")[made["id"]]["digest"], primed(cloud)
    cloud.stop_weftd()
    path = next(cloud.site.rglob(digest))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    cloud.shell(HOST, f"rm -f {POOL}/image-{digest}* {FORKS}/{memory}* /dev/shm/weft-memory/{memory} /dev/hugepages/weft-memory/{memory}")
    cloud.start_weftd()
    why = make(cloud, "cfd")
    assert why and "fork" in why, why
    forked(cloud, "again")  # it is a node that finds out, and the next that is forked
    assert ready_template(cloud)["generation"] > made["generation"]


def test_image_is_another(cloud, tmp_path):
    """What was captured of the old one is not forked from."""
    made, tiny = ready_template(cloud), build_folder() / "images/tiny"
    (tmp_path / "initrd").write_bytes((tiny / "initrd").read_bytes() + bytes(512))
    cloud.weft("image", "rm", "tiny")
    cloud.weft("image", "add", "tiny", "--kernel", str(tiny / "kernel"), "--initrd", str(tmp_path / "initrd"), "--cmdline",
               (tiny / "cmdline").read_text(encoding="utf-8").strip())
    assert make(cloud, "cfd"), "it boots"
    ready_template(cloud, other=made["id"])
    forked(cloud, "again")
    assert made["id"] not in [found["id"] for found in cloud.client.items("/v1/templates")]
