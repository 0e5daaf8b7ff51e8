"""What the kernel of a host that is like a site's has denied, and what somebody may open there who broke out of a node's guest."""

import re
import shlex

from .cloud import POOL
from .metal import BOOT
from .wait import until

QEMU = "64055"  # libvirt-qemu, on Debian
MEMORY = "/dev/hugepages/weft-memory"
SHARED = "/dev/shm"
# With the rights of a node's QEMU and no others. Its arguments are pairs: how to open something, and its path.
AS_QEMU = f"setpriv --reuid {QEMU} --regid {QEMU} --clear-groups"
OPEN = """while (my ($how, $path) = splice(@ARGV, 0, 2)) {
    my $file;
    my $opened = $how eq "connect" ? socket($file, 1, 1, 0) && connect($file, pack("S a108", 1, $path)) : sysopen($file, $path, $how eq "write");
    print $opened ? "opened" : "denied", "\\n";
}"""


def denials(site, host):
    """Lines of the kernel's log: (of all but the attack, of the attack)."""
    lines = site.shell(host, "journalctl -k -o cat --no-pager | grep 'apparmor=\"DENIED\"' || true").splitlines()
    attack = [line for line in lines if 'comm="perl"' in line]
    return [line for line in lines if line not in attack], attack


def none(site):
    assert [denials(site, host)[0] for host in site.hosts] == [[] for _ in site.hosts]


def attempt(site, host, ways, profile=None):
    """Which of these (how, path) are opened by somebody with the user of all QEMUs of a host, and the profile of one of them."""
    within = f"{AS_QEMU} aa-exec -p libvirt-{profile} --" if profile else AS_QEMU
    done = site.shell(host, f"{within} perl -e {shlex.quote(OPEN)} {' '.join(word for way in ways for word in way)}").split()
    assert len(done) == len(ways)
    return [way for way, result in zip(ways, done) if result == "opened"]


def process_of(site, node):
    return site.shell(node["host"], f"cat /run/libvirt/qemu/weft-{node['id']}.pid").strip()


def shared_by(node):
    """The file of the memory that the nodes of its cluster on one host share, where they do."""
    return f"{SHARED}/weft-{node['id'].rpartition('-')[0]}"


def images_of(site, node):
    """What it boots, and what its own disk lies upon: others' nodes read that, too."""
    definition = site.virsh(node["host"], "dumpxml", f"weft-{node['id']}")
    return sorted(set(re.findall(rf"{POOL}/image-[0-9a-f]+", definition)))


def wanted(site, node):
    """What somebody may want of a node: what its QEMU's user could open, and what is root's alone."""
    host, name = node["host"], f"weft-{node['id']}"
    process = process_of(site, node)
    [folder] = site.shell(host, f"ls -d /var/lib/libvirt/qemu/domain-*-{name}").split()
    channels = f"/var/lib/libvirt/qemu/channel/target/{folder.rpartition('/')[2]}"
    terminal = site.virsh(host, "ttyconsole", name).strip()
    files = site.shell(host, f"ls -d {MEMORY}/* {POOL}/{name}.disk {shared_by(node)} 2>/dev/null || true").split()
    saved = site.shell(host, "ls /run/weft-fork/*.state 2>/dev/null || true").split()
    users = [(how, path) for path in [*files, f"{POOL}/{name}.seed", f"{folder}/master-key.aes", f"/proc/{process}/mem"] for how in ("read", "write")]
    roots = [(how, path) for path in [*saved, terminal, f"/run/weft-hook/domains/{name}"] for how in ("read", "write")]
    sockets = [f"{channels}/dev.weft.guest.0", f"{channels}/org.qemu.guest_agent.0", f"{folder}/monitor.sock"]
    return [*users, *(("write", image) for image in images_of(site, node))], [*roots, *(("connect", path) for path in sockets)]


def attack(site, own, victim):
    """Whoever broke out of the guest of the first opens nothing of the second, which is on the same host. Returns what was tried."""
    host = own["host"]
    profile = site.virsh(host, "domuuid", f"weft-{own['id']}").strip()
    users, roots = wanted(site, victim)
    users = [way for way in users if way[1] != shared_by(own)]
    guarded = {path for _, path in users if path.startswith((MEMORY, SHARED)) or path.endswith(".disk")}
    memory = [way for way in users if MEMORY in way[1]]
    assert attempt(site, host, memory) == [], "it lies in a folder that is root's alone"
    if memory:
        site.shell(host, f"chmod 711 {MEMORY}")  # so that the profile has to hold by itself
    assert attempt(site, host, users) == users, "by its user alone it could"
    assert attempt(site, host, roots) == []
    assert attempt(site, host, users + roots, profile) == []
    if memory:
        site.shell(host, f"chmod 700 {MEMORY}")
    assert attempt(site, host, [("read", f"{POOL}/weft-{own['id']}.seed")], profile), "its own it may read"
    told = lambda: denials(site, host)[1]  # noqa: E731
    until(lambda: all(any(f'"libvirt-{profile}"' in line and path in line for line in told()) for path in guarded),
          lambda: f"the kernel's log has each attempt on {guarded}: {told()}", BOOT)
    refused = site.shell(host, f"{AS_QEMU} virsh -c qemu:///system list >/dev/null 2>&1 && echo opened || echo denied").strip()
    assert refused == "denied", "libvirtd is root's"
    return {path for _, path in users + roots}
