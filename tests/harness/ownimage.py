"""An image of which each node writes to a disk of its own: the tiny one, with an ext4 file system beside it."""

import re
import subprocess

from .weft import SOURCE, build_folder

MOUNT = "mkdir -p /mnt && mount -t ext4 /dev/vda /mnt"


def add_own(cloud, folder, name="own", size="64M"):
    images, raw, disk, initrd = build_folder() / "images", folder / "raw", folder / "disk", folder / "initrd"
    modules = re.search(r'^boot="(.*)"$', (SOURCE / "images/build").read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    for command in ([SOURCE / "images/initrd", images / "kernel", initrd, SOURCE / "images/stage1", *modules, "ext4"],
                    ["truncate", "-s", size, raw], ["mkfs.ext4", "-q", "-F", raw], ["qemu-img", "convert", "-O", "qcow2", raw, disk]):
        subprocess.run(command, check=True)
    cloud.weft("image", "add", name, "--kernel", images / "tiny/kernel", "--initrd", initrd, "--cmdline",
               (images / "tiny/cmdline").read_text(encoding="utf-8").strip(), "--disk", disk, "--format", "qcow2")


def fsck(cloud, host, node, folder):
    """What is wrong with the file system of a node that has unmounted it, as its host has it."""
    disk, raw = f"/var/lib/libvirt/images/weft/weft-{node}.disk", folder / "looked-at"
    return cloud.shell(host, f"qemu-img convert -U -O raw {disk} {raw} && e2fsck -fn {raw} > {raw}.told 2>&1 || cat {raw}.told; rm -f {raw}*")
