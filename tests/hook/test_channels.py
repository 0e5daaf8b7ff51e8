"""The host's ends of a node's serial ports: QEMU's user, which all nodes of a host share, has no way into those of another node."""

import os
import stat

import pytest
from host import domain

QEMU = 64055
TARGET = "/var/lib/libvirt/qemu/channel/target/domain-1-weft-a-1"
PORTS = (f"<channel type='unix'><source mode='bind' path='{TARGET}/dev.weft.guest.0'/><target type='virtio' name='dev.weft.guest.0'/></channel>"
         "<serial type='pty'><source path='/dev/pts/3'/></serial><console type='pty' tty='/dev/pts/3'><source path='/dev/pts/3'/></console>"
         f"<channel type='unix'><source mode='bind' path='{TARGET}/link'/></channel><channel type='unix'><source mode='bind' path='/gone'/></channel>"
         "<channel type='spicevmc'/>")


def owner(path):
    found = path.lstat()
    return found.st_uid, found.st_gid


@pytest.mark.parametrize("op", ["started", "reconnect"])
def test_a_nodes_serial_ports_are_roots(make, op):
    host = make()
    folder, terminal = host.root / TARGET.lstrip("/"), host.root / "dev/pts/3"
    folder.mkdir(parents=True)
    terminal.parent.mkdir(parents=True)
    os.mknod(terminal, stat.S_IFCHR | 0o620, os.makedev(1, 3))
    other = host.root / "other"
    other.touch()
    (folder / "link").symlink_to(other)
    os.mknod(folder / "dev.weft.guest.0", stat.S_IFSOCK | 0o775)
    for path in (folder, *folder.iterdir(), terminal, other):
        os.chown(path, QEMU, QEMU, follow_symlinks=False)
    assert host.hook("qemu", "weft-a-1", "prepare", domain("a-1", ports=PORTS)).returncode == 0
    assert owner(terminal) == (QEMU, QEMU), "QEMU is still to open it"
    done = host.hook("qemu", "weft-a-1", op, domain("a-1", ports=PORTS))
    assert done.returncode == 0, done.stderr
    assert owner(folder / "dev.weft.guest.0") == owner(terminal) == (0, 0)
    assert owner(other) == owner(folder / "link") == owner(folder) == (QEMU, QEMU), "only ends change hands"
