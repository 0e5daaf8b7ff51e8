"""Nodes that meet: what they write down, and whom they reach. Each node is a network namespace on one bridge."""

import os
import subprocess

import pytest
from guest import PATIENCE, Guest, Machine

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces are root's")


def node_text(rank, slots=4, extra=""):
    return (f"hostname cfd-{rank}\nrank {rank}\ncluster cfd\nmac 02:00:00:00:00:{rank:02x} 10.64.0.{rank + 1}/16 1450\n"
            f"pkey 0x8012\nsl 0\npath bridge\nslots {slots}\nlogin ssh-ed25519 AAAA cfd\n{extra}")


def roster(self_rank, ranks, generation=1, within=10, extra=""):
    lines = [f"generation {generation}", f"self {self_rank}", f"within {within}"]
    lines += [f"node {rank} cfd-{rank} 10.64.0.{rank + 1} 4" for rank in ranks]
    lines += [f"leaf {rank} leaf{rank % 2}" for rank in ranks]
    return ("\n".join(lines) + "\n" + extra).encode()


def meet(guest, text):
    return guest.open("meet").send(text).eof()


# --- what is written ---


@pytest.fixture
def alone(guests):
    return guests(node=node_text(0), alone=True).sync()


def test_hosts_and_hostfile(alone):
    (alone.root / "etc").mkdir()
    (alone.root / "etc/hosts").write_text("127.0.0.1 localhost\n192.0.2.1 mine\n")
    assert meet(alone, roster(0, range(3), extra="ipoib 1 0 10.65.0.2\n")).end().status == 0
    hosts = (alone.root / "etc/hosts").read_text()
    assert hosts == ("# weft: begin\n10.64.0.1 cfd-0\n10.64.0.2 cfd-1\n10.65.0.2 cfd-1-ib0\n10.64.0.3 cfd-2\n# weft: end\n"
                     "127.0.0.1 localhost\n192.0.2.1 mine\n")
    assert (alone.root / "etc/weft/hostfile").read_text() == "cfd-0 slots=4\ncfd-1 slots=4\ncfd-2 slots=4\n"

    # Fewer nodes: what was written before is replaced, what others wrote stays.
    assert meet(alone, roster(0, range(2), generation=2)).end().status == 0
    hosts = (alone.root / "etc/hosts").read_text()
    assert "cfd-2" not in hosts and hosts.count("# weft: begin") == 1 and hosts.endswith("127.0.0.1 localhost\n192.0.2.1 mine\n")


def test_known_hosts_follow_the_roster(alone):
    """A node that was replaced has another key, and is the only one by its name."""
    (alone.root / "etc/ssh").mkdir(parents=True)
    (alone.root / "etc/ssh/ssh_known_hosts").write_text("license ssh-rsa AAAA\n")
    keys = "hostkey 0 ssh-ed25519 AAAA0\nhostkey 1 ssh-ed25519 AAAA1\n"
    assert meet(alone, roster(0, range(3), extra="ipoib 1 0 10.65.0.2\n" + keys)).end().status == 0
    known = alone.root / "etc/ssh/ssh_known_hosts"
    assert known.read_text() == ("license ssh-rsa AAAA\n# weft: begin\ncfd-0,10.64.0.1 ssh-ed25519 AAAA0\n"
                                 "cfd-1,10.64.0.2,cfd-1-ib0,10.65.0.2 ssh-ed25519 AAAA1\n# weft: end\n")
    assert meet(alone, roster(0, range(2), generation=2, extra=keys.replace("AAAA1", "BBBB1"))).end().status == 0
    assert "AAAA1" not in known.read_text() and "cfd-1,10.64.0.2 ssh-ed25519 BBBB1\n" in known.read_text()


def test_older_roster_changes_nothing(alone):
    assert meet(alone, roster(0, range(3), generation=5)).end().status == 0
    session = meet(alone, roster(0, range(2), generation=4)).end()
    assert session.status == 1 and b"newer" in session.output
    assert "cfd-2" in (alone.root / "etc/weft/hostfile").read_text()


def test_a_weftd_with_an_older_store_is_the_one_that_knows(alone):
    """A site that was brought back from a backup counts from there; another conversation ended the one before it."""
    assert meet(alone, roster(0, range(3), generation=5)).end().status == 0
    assert meet(alone.sync(), roster(0, range(2), generation=4)).end().status == 0
    assert "cfd-2" not in (alone.root / "etc/weft/hostfile").read_text()
    assert meet(alone, roster(0, range(3), generation=3)).end().status == 1


# --- homes ---


@pytest.fixture
def homely(guests, tmp_path):
    """A node whose first user has a home, and keys to be installed there."""
    passwd = tmp_path / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n")
    within = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/passwd && exec "$@"', str(passwd)]
    node = guests(node=node_text(0), alone=True, prefix=within)
    for folder in ("root", "home/user", "run/weft/files/ssh"):
        (node.root / folder).mkdir(parents=True)
    (node.root / "run/weft/files/ssh/id_ed25519").write_text("private\n")
    (node.root / "run/weft/files/ssh/id_ed25519").chmod(0o600)
    os.chown(node.root / "home/user", 1000, 1000)
    for folder in node.root.parents:  # pytest's are root's alone
        if folder.stat().st_mode & 0o77 == 0:
            folder.chmod(0o711)
    return node.sync()


@needs_root
def test_users_have_keys(homely):
    assert meet(homely, roster(0, range(1))).end().status == 0
    for home, owner in (("root", 0), ("home/user", 1000)):
        folder = homely.root / home / ".ssh"
        assert (folder.stat().st_mode & 0o777, folder.stat().st_uid) == (0o700, owner)
        assert {file.name for file in folder.iterdir()} == {"id_ed25519", "authorized_keys", "config"}
        assert all((file.stat().st_mode & 0o777, file.stat().st_uid, file.stat().st_gid) == (0o600, owner, owner) for file in folder.iterdir())
        assert (folder / "id_ed25519").read_text() == "private\n" and (folder / "authorized_keys").read_text() == "ssh-ed25519 AAAA cfd\n"


@needs_root
def test_user_cannot_lead_root_elsewhere(homely):
    """Links in a home lead the guest program, which is root's, no further than the user gets."""
    user, root = homely.root / "home/user", homely.root / "root"
    root.chmod(0o700)
    (user / ".ssh").symlink_to(root / ".ssh")
    assert meet(homely, roster(0, range(1))).end().status == 0
    assert {file.stat().st_uid for file in (root / ".ssh").iterdir()} == {0}

    secret = root / "secret"
    secret.write_text("hidden\n")
    secret.chmod(0o600)
    (user / ".ssh").unlink()
    (user / ".ssh").mkdir()
    (user / ".ssh/config").symlink_to(secret)
    os.mkfifo(user / ".ssh/authorized_keys")
    os.chown(user / ".ssh", 1000, 1000)
    os.chown(user / ".ssh/authorized_keys", 1000, 1000)
    assert meet(homely, roster(0, range(1), generation=2)).end().status == 0, "nor does it wait for a pipe"
    assert secret.read_text() == "hidden\n" and "hidden" not in (user / ".ssh/config").read_text()


SENSELESS = {"empty": b"", "blank": b"\n", "short": b"node\n", "address": b"node 0 cfd-0 nowhere 4\n", "noise": os.urandom(200_000),
             "rail of nobody": b"node 0 cfd-0 10.64.0.1 4\nipoib 7 0 10.65.0.1\n",
             "key of nobody": b"node 0 cfd-0 10.64.0.1 4\nhostkey 1 ssh-ed25519 AAAA\n",
             "rail too large": b"node 0 cfd-0 10.64.0.1 4\nipoib 0 99 10.65.0.1\n", "no time": b"within 0\n"}


@pytest.mark.parametrize("text", SENSELESS.values(), ids=SENSELESS.keys())
def test_roster_that_makes_no_sense(alone, text):
    session = meet(alone, text).end()
    assert session.status == 1
    assert not (alone.root / "etc/weft/hostfile").exists()


def test_node_that_is_not_in_the_roster(alone):
    session = meet(alone, roster(7, range(3))).end()
    assert session.status == 1 and b"not in the roster" in session.output


def test_large_roster(alone):
    """More than a window holds."""
    ranks = range(4000)
    text = "generation 1\nself 0\n" + "".join(f"node {r} cfd-{r} 10.64.{(r + 1) >> 8}.{(r + 1) & 255} 16\n" for r in ranks)
    assert meet(alone, text.encode()).end().status == 0
    assert len((alone.root / "etc/weft/hostfile").read_text().splitlines()) == 4000


def test_nobody_meets_without_knowing_who_it_is(guests):
    session = guests(alone=True).sync().open("meet").end()
    assert session.refusal == "the node does not know who it is"


def test_slurm_that_is_not_installed_harms_nothing(guests):
    guest = guests(node=node_text(0, extra="slurm 1\n"), alone=True).sync()
    assert meet(guest, roster(0, range(2))).end().status == 0
    assert not (guest.root / "etc/slurm").exists()


# --- who is reached ---


class Network:
    """A bridge and its nodes, in namespaces that end with their keepers."""

    def __init__(self):
        self.keepers = []
        self.hub = self.space()
        self.run(self.hub, "ip", "link", "add", "hub", "type", "bridge")
        self.run(self.hub, "ip", "link", "set", "hub", "up")

    def space(self):
        keeper = subprocess.Popen(["unshare", "--net", "--", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE)
        self.keepers.append(keeper)
        assert keeper.stdout.readline() == b"ready\n"
        return keeper

    def enter(self, keeper):
        return ["nsenter", "--net", "-t", str(keeper.pid), "--"]

    def run(self, keeper, *command):
        subprocess.run([*self.enter(keeper), *map(str, command)], check=True)

    def node(self, rank):
        space = self.space()
        self.run(space, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"port{rank}", "netns", self.hub.pid)
        self.run(self.hub, "ip", "link", "set", f"port{rank}", "master", "hub", "up")
        self.run(space, "ip", "address", "add", f"10.64.0.{rank + 1}/16", "dev", "eth0")
        self.run(space, "ip", "link", "set", "eth0", "up")
        return self.enter(space)

    def cut(self, rank):
        self.run(self.hub, "ip", "link", "set", f"port{rank}", "down")

    def heal(self, rank):
        self.run(self.hub, "ip", "link", "set", f"port{rank}", "up")

    def close(self):
        for keeper in self.keepers:
            keeper.stdin.close()
            keeper.wait(PATIENCE)
            keeper.stdout.close()


@pytest.fixture
def network():
    network = Network()
    yield network
    network.close()


@pytest.fixture
def three(network, guests):
    return [guests(f"node{rank}", node_text(rank), prefix=network.node(rank)).sync() for rank in range(3)]


@needs_root
def test_all_reach_each_other(three):
    sessions = [meet(guest, roster(rank, range(3))) for rank, guest in enumerate(three)]
    for session in sessions:
        assert session.end().status == 0, session.output
        assert session.output == b"reached 2 addresses of 2 other nodes\n"


@needs_root
def test_whoever_does_not_answer_is_named(network, three):
    network.cut(2)
    session = meet(three[0], roster(0, range(3), within=5)).end()
    assert session.status == 1
    lines = session.output.decode().splitlines()
    assert lines == ["unreached 2", "no answer on the partition within 5 s from cfd-2 (10.64.0.3)"]


@needs_root
def test_whoever_comes_later_is_reached(network, three):
    network.cut(2)
    session = meet(three[0], roster(0, range(3), within=20))
    assert meet(three[0], roster(0, range(2), within=20)).end().status == 0  # time enough to ask in vain
    network.heal(2)
    assert session.end().status == 0, session.output


@needs_root
def test_another_node_at_the_address_is_not_the_one(network, guests):
    """The answer tells who it is from."""
    first = guests("node0", node_text(0), prefix=network.node(0)).sync()
    guests("node5", node_text(5).replace("10.64.0.6", "10.64.0.2"), prefix=network.node(1)).sync()
    session = meet(first, roster(0, range(2), within=1)).end()
    assert session.status == 1 and b"cfd-1 (10.64.0.2)" in session.output


# --- the ports that a node was promised ---

GUID = 0x02C9010000000A00  # of rank 0's first rail; the others' follow


def guid_of(rank, rail=0):
    return GUID + 16 * rank + rail


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def interface_address(guid):
    """What IPoIB has for a hardware address: a queue pair, the subnet's prefix, and the GUID."""
    digits = f"{guid:016x}"
    return ":".join(["80", "00", "02", "08", "fe", "80", *["00"] * 6, *(digits[i:i + 2] for i in range(0, 16, 2))])


def adapter(root, guid, *, name="mlx5_0", port=1, state="4: ACTIVE", pkey="0x8012", interface=None):
    """A device as the kernel tells of it, and its IPoIB interface: these names are a distribution's, and mean nothing."""
    folder = root / f"sys/class/infiniband/{name}/ports/{port}"
    digits = f"{guid:016x}"
    put(folder / "gids/0", "fe80:0000:0000:0000:" + ":".join(digits[i:i + 4] for i in range(0, 16, 4)) + "\n")
    put(folder / "state", state + "\n")
    put(folder / "pkeys/0", pkey + "\n")
    if interface:
        put(root / f"sys/class/net/{interface}/address", interface_address(guid) + "\n")


def promises(rank, rails=1, pkey=0x8012):
    return "".join(f"port {rail} 0x{guid_of(rank, rail):016x} 0x{pkey:04x}\n" for rail in range(rails))


def promised(rank, ranks, rails=1, within=1, **keys):
    addresses = "".join(f"ipoib {other} {rail} 10.{65 + rail}.0.{other + 1}\n" for other in ranks for rail in range(rails))
    return roster(rank, ranks, within=within, extra=addresses + promises(rank, rails), **keys)


WRONG = {"missing": ({"guid": guid_of(7)}, "missing"), "down": ({"state": "1: DOWN"}, "state 1"), "init": ({"state": "2: INIT"}, "state 2"),
         "armed": ({"state": "3: ARMED"}, "state 3"), "other key": ({"pkey": "0x8011"}, "pkey 0x8011"),
         "limited": ({"pkey": "0x0012"}, "pkey 0x0012"), "no state": ({"state": ""}, "state 0")}


@pytest.mark.parametrize("changes, said", WRONG.values(), ids=WRONG.keys())
def test_port_that_is_not_as_promised(alone, changes, said):
    adapter(alone.root, **({"guid": guid_of(0)} | changes))
    session = meet(alone, promised(0, range(2))).end()
    assert session.status == 1 and f"port 0 {said}\n" in session.output.decode(), session.output
    assert session.output.endswith(b"not all ports that this node was promised work\n")


def test_no_device_at_all(alone):
    session = meet(alone, promised(0, range(1), rails=2)).end()
    assert session.status == 1 and b"port 0 missing\nport 1 missing\n" in session.output


def test_ports_are_found_by_their_guids(alone):
    """Two devices in another order than the rails, under a distribution's names, one with its port as the second."""
    adapter(alone.root, guid_of(0, 1), name="ibp65s0")
    adapter(alone.root, guid_of(0, 0), name="rocep1s0", port=2)
    adapter(alone.root, guid_of(5), name="mlx5_0", state="1: DOWN", pkey="0x7fff")
    session = meet(alone, promised(0, range(1), rails=2)).end()
    assert session.status == 0 and b"port 0 active\nport 1 active\n" in session.output


def test_a_node_without_promises_is_asked_nothing(alone):
    """As an older weftd does, and for stand-ins."""
    session = meet(alone, roster(0, range(2))).end()
    assert session.status == 0 and b"port" not in session.output


PORTS = {"short": "port 0 0x1\n", "far rail": "port 8 0x1 0x8012\n", "too many": "port 0 0x1 0x8012\n" * 9}


@pytest.mark.parametrize("lines", PORTS.values(), ids=PORTS.keys())
def test_promises_that_make_no_sense(alone, lines):
    assert meet(alone, roster(0, range(1), extra=lines)).end().status == 1


class Rails(Network):
    """Nodes with a second interface on a network of its own, as IPoIB has it, under a name that says nothing."""

    NAME = "ibp65s0"

    def __init__(self):
        super().__init__()
        self.run(self.hub, "ip", "link", "add", "rails", "type", "bridge")
        self.run(self.hub, "ip", "link", "set", "rails", "up")

    def node(self, rank):
        within = super().node(rank)
        space = self.keepers[-1]
        self.run(space, "ip", "link", "add", self.NAME, "type", "veth", "peer", "name", f"rail{rank}", "netns", self.hub.pid)
        self.run(self.hub, "ip", "link", "set", f"rail{rank}", "master", "rails", "up")
        self.run(space, "ip", "address", "add", f"10.65.0.{rank + 1}/16", "dev", self.NAME)
        self.run(space, "ip", "link", "set", self.NAME, "up")
        return within

    def cut_rail(self, rank):
        self.run(self.hub, "ip", "link", "set", f"rail{rank}", "down")


@pytest.fixture
def rails():
    rails = Rails()
    yield rails
    rails.close()


@pytest.fixture
def railed(rails, guests):
    made = []
    for rank in range(3):
        text = node_text(rank, extra=f"ipoib 0 0x{guid_of(rank):016x} 10.65.0.{rank + 1}/16\n")
        made.append(guests(f"node{rank}", text, prefix=rails.node(rank)))
        adapter(made[-1].root, guid_of(rank), name="ibp65s0", interface=Rails.NAME)
        made[-1].sync()
    return made


@needs_root
def test_all_reach_each_other_on_their_rails(railed):
    sessions = [meet(guest, promised(rank, range(3), within=20)) for rank, guest in enumerate(railed)]
    for session in sessions:
        assert session.end().status == 0, session.output
        assert session.output == b"port 0 active\nreached 4 addresses of 2 other nodes\n"


@needs_root
def test_a_rail_that_reaches_nobody(rails, railed):
    rails.cut_rail(2)
    session = meet(railed[0], promised(0, range(3), within=5)).end()
    assert session.status == 1
    assert session.output.decode().splitlines() == ["port 0 active", "unreached 2",
                                                    "no answer on the partition within 5 s from cfd-2 (10.65.0.3)"]


@needs_root
def test_a_rail_without_its_address(rails, railed):
    """What used to be passed over: the rail was simply not looked at."""
    rails.run(rails.keepers[1], "ip", "address", "flush", "dev", Rails.NAME)
    session = meet(railed[0], promised(0, range(3))).end()
    assert session.status == 1 and session.output.startswith(b"port 0 no-ipoib\n"), session.output


@needs_root
def test_an_address_on_another_interface_is_no_rail(rails, railed):
    """It has it, and may reach all others by it; but not through the port."""
    space = rails.keepers[1]
    rails.run(space, "ip", "link", "set", Rails.NAME, "down")
    rails.run(space, "ip", "link", "set", Rails.NAME, "name", "other0")
    rails.run(space, "ip", "link", "set", "other0", "up")
    adapter(railed[0].root, guid_of(0), interface="ibp65s0")
    session = meet(railed[0], promised(0, range(3), within=2)).end()
    assert session.status == 1 and session.output.startswith(b"port 0 no-ipoib\n"), session.output


@needs_root
def test_a_port_that_comes_up_later(railed):
    """The subnet manager may need a moment."""
    adapter(railed[0].root, guid_of(0), name="ibp65s0", state="2: INIT", interface=Rails.NAME)
    session = meet(railed[0], promised(0, range(3), within=30))
    assert meet(railed[1], promised(1, range(3), within=20)).end().status == 0  # time enough to look in vain
    adapter(railed[0].root, guid_of(0), name="ibp65s0", interface=Rails.NAME)
    assert session.end().status == 0, session.output


@needs_root
def test_rails_of_a_stand_in_are_reached_by_nobody(railed):
    """weftd lists no address of it there: it is met on the Ethernet alone."""
    text = roster(0, range(3), within=20, extra="ipoib 0 0 10.65.0.1\nipoib 1 0 10.65.0.2\n" + promises(0))
    session = meet(railed[0], text).end()
    assert session.status == 0 and session.output == b"port 0 active\nreached 3 addresses of 2 other nodes\n"


# --- several rails in one broadcast domain, as all IPoIB interfaces of a cluster are ---


class Twin:
    """A machine with two rails, which its guest program sets up itself, each on the bridge of all."""

    def __init__(self, network, root, rank):
        self.rank = rank
        self.machine = Machine(root)
        self.machine.tell("umount", f"{root}/sys", f"{root}/run")  # what is there is told by files
        for rail in range(2):
            adapter(root, guid_of(rank, rail), name=f"mlx5_{rail}", interface=f"ib{rail}")
        rails = "".join(f"ipoib {rail} 0x{guid_of(rank, rail):016x} 10.{65 + rail}.0.{rank + 1}/16\n" for rail in range(2))
        put(root / "run/weft/node", node_text(rank, extra=rails))
        self.guest = Guest("/", prefix=self.machine.enter, path="/seed/weft/guest").sync()
        for name, address in (("eth0", f"02:00:00:00:00:{rank:02x}"), ("ib0", self.mac(0)), ("ib1", self.mac(1))):
            network.plug(self.machine, name, address, f"{name}-{rank}")

    def set_up(self):
        session = self.guest.open("resume").send(b"within 20\n").eof().end()
        assert session.status == 0, session.output

    def mac(self, rail):
        return f"02:00:00:00:{rail + 1:02x}:{self.rank:02x}"

    def close(self):
        self.guest.stop()
        self.machine.close()


class Fabric(Network):
    """What comes to the bridge last is asked first."""

    def plug(self, machine, name, address, far):
        machine.tell("ip", "link", "add", name, "address", address, "type", "veth", "peer", "name", far, "netns", str(self.hub.pid))
        self.run(self.hub, "ip", "link", "set", far, "master", "hub", "up")


@pytest.fixture
def twins(tmp_path):
    fabric = Fabric()
    twins = [Twin(fabric, tmp_path / f"twin{rank}", rank) for rank in range(2)]
    yield twins
    for twin in twins:
        twin.close()
    fabric.close()


@needs_root
def test_rails_of_one_broadcast_domain_answer_for_themselves(twins):
    """Otherwise any of them answers for all, and what is sent to one arrives on another: the kernel doubts that after 5 s only."""
    for twin in twins:
        twin.set_up()
    sessions = [meet(twin.guest, promised(twin.rank, range(2), rails=2, within=4)) for twin in twins]
    for session in sessions:
        assert session.end().status == 0, session.output
        assert session.output == b"port 0 active\nport 1 active\nreached 3 addresses of 1 other nodes\n"
    known = twins[1].machine.tell("ip", "neigh")
    for rail in range(2):
        assert f"10.{65 + rail}.0.1 dev ib{rail} lladdr {twins[0].mac(rail)}" in known, known


@needs_root
def test_rails_that_are_mixed_up_are_not_ready(twins):
    """As where each is taken for the other: each address is there, but not on the interface of its port."""
    for twin in twins:
        twin.set_up()
    machine = twins[0].machine
    for rail in range(2):
        machine.tell("ip", "address", "flush", "dev", f"ib{rail}")
        machine.tell("ip", "address", "add", f"10.{66 - rail}.0.1/16", "dev", f"ib{rail}")
    session = meet(twins[0].guest, promised(0, range(2), rails=2, within=2)).end()
    assert session.status == 1 and session.output.startswith(b"port 0 no-ipoib\nport 1 no-ipoib\n"), session.output


@needs_root
def test_a_whole_adapter_of_another_host_is_found(twins):
    """A node that was moved and then booted by itself knows what its seed said where it was first."""
    root, machine = twins[0].machine.root, twins[0].machine
    adapter(root, guid_of(7), name="mlx5_0", interface="ib0")
    twins[0].set_up()
    assert not machine.has_address("ib0", "10.65.0.1/16") and machine.has_address("ib1", "10.66.0.1/16")
    twins[1].set_up()
    text = promised(0, range(2), rails=2, within=10).replace(f"{guid_of(0):016x}".encode(), f"{guid_of(7):016x}".encode())
    session = meet(twins[0].guest, text).end()
    assert session.status == 0 and session.output.startswith(b"port 0 active\nport 1 active\n"), session.output
    assert machine.has_address("ib0", "10.65.0.1/16")
