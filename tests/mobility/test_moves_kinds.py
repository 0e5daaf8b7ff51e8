"""Nodes of other kinds are moved by the driver, there and back: one that was forked, and one with a disk of its own."""

import os
import shutil

from harness.cloud import BOOT, CONTROL
from harness.mover import MIB, Mover
from harness.wait import until
from harness.weft import build_folder

TAIL = 4  # MiB of its own disk that a node writes to


def there_and_back(lab):
    """By two methods; weftd then finds the node where it left it."""
    lab.beat(16, 0)
    lab.leave()
    for method in ("hybrid", "post-copy"):
        moved = lab.move(method)
        assert moved["ok"], moved
        assert lab.hear(1)[-1].wrong == 0
    assert lab.host == "h1"
    lab.start_weftd()
    lab.ready(lab.name, ready=1)


def test_forked(new_lab):
    """Its memory is its own at the other end, and no longer shared with anybody."""
    lab = new_lab(kind=Mover, start="template", changes={"control": CONTROL | {"templates": True}})
    lab.up(renew=False)
    lab.make("first", 1, **lab.node)
    until(lambda: [t["state"] for t in lab.client.items("/v1/templates")] == ["ready"], "the template is ready", BOOT)
    lab.renew()
    assert not lab.events("node-boots"), "it was forked"
    there_and_back(lab)
    assert lab.run(f"{lab.name}[0]", "hostname").stdout.split()[-1] == f"{lab.name}-0"


def test_own_disk(new_lab, tmp_path):
    """What it wrote to its layer goes along."""
    lab = new_lab(kind=Mover, image="own").up(renew=False)
    image, disk = build_folder() / "images/mpi", tmp_path / "disk"
    shutil.copy(image / "disk", disk)
    os.truncate(disk, (disk.stat().st_size // MIB + 1 + TAIL) * MIB)
    lab.weft("image", "add", "own", "--kernel", image / "kernel", "--initrd", image / "initrd", "--cmdline",
             (image / "cmdline").read_text(encoding="utf-8").strip(), "--disk", disk, "--format", "raw")
    lab.renew()
    where = f"skip={disk.stat().st_size // MIB - TAIL}"
    look = ("sh", "-c", f"dd if=/dev/vda bs=1M {where} iflag=direct 2>/dev/null | sha256sum")
    empty = lab.run(f"{lab.name}[0]", *look).stdout
    lab.run(f"{lab.name}[0]", "sh", "-c", f"dd if=/dev/urandom of=/dev/vda bs=1M {where.replace('skip', 'seek')} count={TAIL} oflag=direct")
    written = lab.run(f"{lab.name}[0]", *look).stdout
    there_and_back(lab)
    assert lab.run(f"{lab.name}[0]", *look).stdout == written != empty
