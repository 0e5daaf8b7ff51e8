"""What breaks while a node is moved, in every phase: afterwards its cluster is ready, the node runs once, and the books are right."""

import time

import pytest

from harness.cloud import BOOT, CONTROL, Cloud
from harness.strike import METHODS, PHASES, wait_phase
from harness.wait import until

NAME = "cfd"
SOURCE, TARGET, OTHER = "h1", "h2", "h3"
GRACE = "6s"
SHORT = 2.0  # seconds, within the grace
# Slow enough to be struck: 256 MiB, of which a good part was never written to.
CHANGES = {"control": CONTROL | {"host_grace": GRACE, "migration_bandwidth": "8M", "start_deadline": "40s"}}
# Keeps the processor busy enough to be seen running, and counts.
COUNT = ("n=0; while :; do n=$((n+1)); echo $n > /tmp/count.new; mv /tmp/count.new /tmp/count; "
         "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; usleep 20000; done")
# Lets QEMU send a little now and then, for a good minute, or until it is gone.
SLOW = "p=$(pidof qemu-system-x86_64); for i in $(seq 45); do kill -STOP $p || break; sleep 1.5; kill -CONT $p; sleep 0.05; done; true"


@pytest.fixture(scope="module")
def cloud(module_lab):
    return module_lab(Cloud, hosts=3, memory="1G", changes=CHANGES).up()


class Node:
    """The one that is moved: cfd[0], on the source."""

    def __init__(self, cloud):
        self.cloud = cloud
        cloud.spread(NAME, [SOURCE, OTHER], memory="256M", path="bridge", start="cold")
        cloud.ready(NAME, ready=2)
        self.id = cloud.nodes(NAME)[0]["id"]
        self.domain = f"weft-{self.id}"
        cloud.run(f"{NAME}[0]", "sh", "-c", f"setsid sh -c '{COUNT}' > /dev/null 2>&1 < /dev/null &")
        until(lambda: self.count() > 5, "the node counts")

    def count(self):
        told = self.cloud.run(f"{NAME}[0]", "cat", "/tmp/count", check=False).stdout.split()
        return int(told[0]) if told and told[0].isdigit() else 0

    def move(self, phase):
        """Begins, and returns in that phase."""
        body = {"to": TARGET, "copy": METHODS[phase]}
        self.cloud.client.expect(202, "POST", f"/v1/clusters/{NAME}/nodes/0/move?tenant=acme", body)
        wait_phase(self.cloud, self.domain, SOURCE, TARGET, phase)

    def settled(self):
        """No wish is left, the cluster is ready, and what must be true is."""
        until(lambda: not self.cloud.dump().values("move"),
              lambda: f"the move has ended: {self.cloud.dump().values('move')}\n{self.cloud.log_tail()}", 2 * BOOT)
        self.cloud.heal_all()
        self.cloud.ready(NAME, timeout=2 * BOOT, ready=2)
        self.cloud.check(BOOT)

    def lives_on(self):
        """It is the same, and has not begun anew."""
        assert self.cloud.nodes(NAME)[0]["id"] == self.id, self.cloud.client.events()[-8:]
        before = self.count()
        assert before > 5, "it has begun anew"
        until(lambda: self.count() > before, "it still counts")


@pytest.fixture
def node(cloud, watched):
    """A new one for each test, with whatever the last one has left mended."""
    yield Node(cloud)
    if not cloud.weftd_runs():
        cloud.start_weftd()
    cloud.heal_all()
    cloud.remove_all()


@pytest.mark.parametrize("phase", PHASES)
def test_link_is_cut_for_a_moment(cloud, node, phase):
    """The move goes on, or is made again: the node lives on."""
    if phase == "before":
        cloud.cut(TARGET)
    node.move(phase)
    cloud.cut(TARGET)
    time.sleep(SHORT)
    cloud.heal(TARGET)
    node.settled()
    node.lives_on()


@pytest.mark.parametrize("phase", ("copy", "post-copy"))
def test_link_is_cut_for_long(cloud, node, phase):
    """The target is lost: what it had of the node goes when it is back."""
    node.move(phase)
    cloud.cut(TARGET)
    until(lambda: cloud.client.get(f"/v1/hosts/{TARGET}")["state"] == "lost", "the target is lost", BOOT)
    cloud.heal(TARGET)
    node.settled()
    if phase == "copy":
        node.lives_on()


def hang_target(cloud, node):
    """QEMU there waits for a page that it lacks, and so hears nobody, nor that the link broke."""
    node.move("post-copy")
    cloud.shell(TARGET, "kill -STOP $(pidof qemu-system-x86_64)")
    cloud.cut(TARGET)
    time.sleep(SHORT)
    cloud.heal(TARGET)


def test_target_hangs(cloud, node):
    """Nobody can let it go on: it is created anew."""
    hang_target(cloud, node)
    node.settled()


@pytest.mark.parametrize("libvirtd", (False, True))
def test_target_hangs_and_weftd_dies(cloud, node, libvirtd):
    """Whoever began the post-copy is gone. To the source's libvirtd it is broken then, unless that was gone first: it is the next weftd
    that breaks it off."""
    hang_target(cloud, node)
    if libvirtd:
        cloud.stop_libvirtd(SOURCE)
    cloud.stop_weftd()
    if libvirtd:
        cloud.start_libvirtd(SOURCE)
    cloud.start_weftd()
    node.settled()


def test_target_hangs_and_cluster_goes(cloud, node):
    hang_target(cloud, node)
    cloud.remove_all()


@pytest.mark.parametrize("phase", ("copy", "switch", "post-copy"))
def test_target_dies(cloud, node, phase):
    node.move(phase)
    cloud.kill(TARGET)
    node.settled()
    if phase == "copy":
        node.lives_on()


@pytest.mark.parametrize("phase", ("copy", "switch", "post-copy"))
def test_source_dies(cloud, node, phase):
    """What was not there yet is lost, and the node is created anew."""
    node.move(phase)
    cloud.kill(SOURCE)
    node.settled()


@pytest.mark.parametrize("phase", PHASES)
def test_weftd_dies(cloud, node, phase):
    """kill -9; another goes on with what it finds. In the moment of the switch the node may be lost (decision 21)."""
    node.move(phase)
    cloud.stop_weftd()
    cloud.start_weftd()
    node.settled()
    if phase != "switch":
        node.lives_on()


def test_weftd_dies_and_post_copy_is_slow(cloud, node):
    """It goes on for longer than one that hangs is waited for, and libvirt takes it for broken."""
    cloud.run(f"{NAME}[0]", "dd", "if=/dev/urandom", "of=/tmp/fill", "bs=1M", "count=80")
    node.move("post-copy")
    cloud.stop_weftd()
    cloud.start_weftd()
    cloud.exec(SOURCE, "sh", "-c", SLOW, timeout=2 * BOOT)
    node.settled()
    node.lives_on()


@pytest.mark.parametrize("phase, host", (("copy", SOURCE), ("post-copy", TARGET)))
def test_called_off(cloud, node, phase, host):
    """While it is copied it stays where it is; in post-copy it is too late, and it arrives."""
    node.move(phase)
    cloud.client.expect(202, "DELETE", f"/v1/clusters/{NAME}/nodes/0/move?tenant=acme")
    node.settled()
    node.lives_on()
    assert cloud.nodes(NAME)[0]["host"] == host
