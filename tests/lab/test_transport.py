"""weftd reaches hosts as docs/hosts.md says: over TLS, with the page's own commands, and over ssh. Who is not let in, or not
answered, reads why."""

import re
import subprocess
import time

import pytest
import yaml

from harness.cloud import CONTROL, Cloud
from harness.lab import SWITCH
from harness.wait import until
from harness.weft import SOURCE

DIAL_LIMIT = 3
ADDRESS = {"h1": "10.77.0.11", "h2": "10.77.0.12"}
OTHER_ADDRESS = "10.77.0.111"  # of h1 too, but not in its certificate
SILENT_PORTS = (16600, 16601, 16602)
# What a host has whose libvirt is reached over TLS, or over ssh by a user of its group.
TLS_CONF = """
listen_tls = 1
listen_tcp = 0
ca_file = "{pki}/CA/cacert.pem"
cert_file = "{pki}/libvirt/servercert.pem"
key_file = "{pki}/libvirt/private/serverkey.pem"
"""
SSH_CONF = """
listen_tcp = 0
unix_sock_group = "libvirt"
unix_sock_rw_perms = "0770"
"""
# There is no systemd, and a lab's host has no root account of its own: the user's home is below the /var that it has.
SSH_HOST = """
set -e
echo libvirt:x:64056:weft >> /etc/group
echo weft:x:64057:64056::/var/lib/weft:/bin/sh >> /etc/passwd
mkdir -p -m 700 /var/lib/weft/.ssh
cat > /var/lib/weft/.ssh/authorized_keys
chown -R weft /var/lib/weft
dropbearkey -t ed25519 -f /var/hostkey >/dev/null
dropbear -s -r /var/hostkey -p 22 -P /run/dropbear.pid
"""
LISTENER = """
import signal, socket, sys
listeners = [socket.create_server(("10.77.0.1", int(port)), backlog=128) for port in sys.argv[1:]]
print("listens", flush=True)
signal.pause()
"""


def page_ssh():
    """What the page has ssh know of its time limit."""
    page = (SOURCE / "docs/hosts.md").read_text(encoding="utf-8").split("### or over ssh")[1]
    return re.search(r"^Host .*\n    ConnectTimeout .*\n", page, re.MULTILINE).group()


def page_commands():
    """The blocks of the page's section on TLS, in their order: the authority, a host, weftd, on the host."""
    page = (SOURCE / "docs/hosts.md").read_text(encoding="utf-8")
    section = page.split("## 4. libvirt over TLS")[1].split("### or over ssh")[0]
    allowed = re.search(r"^tls_allowed_dn_list.*$", section, re.MULTILINE).group()
    return re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[:4], allowed


def sh(script, **names):
    for name, value in names.items():
        script = script.replace(name, value)
    subprocess.run(["sh", "-e", "-c", script], check=True, capture_output=True, text=True)


class Reached(Cloud):
    """h1 over TLS, h2 over ssh."""

    def up(self, weftd=True):
        super().up(weftd=False)
        self.pki = self.root / "pki"
        self.keys = self.root / "ssh"
        self._tls_host()
        self._ssh_host()
        self._room()
        uris = {"h1": self.tls(), "h2": self.ssh()}
        hosts = yaml.safe_load((self.site / "weft.yaml").read_text(encoding="utf-8"))["hosts"]
        self.changes["hosts"] = [host | {"uri": uris[host["name"]]} for host in hosts]
        self.start_weftd()
        self.add_image("tiny")
        return self

    def _tls_host(self):
        blocks, allowed = page_commands()
        names = {"/root/weft-pki": str(self.pki)}
        for block in blocks[:3]:
            sh(block, **names, **{"host=n1": "host=h1", "10.0.0.11": ADDRESS["h1"]})
        etc = self.folder / "hosts/h1/pki"
        sh(f"cd {self.pki}\n" + blocks[3], **{"/etc/pki": str(etc), "n1.": "h1."})
        self.client_folder("weftd")
        self._configure("h1", TLS_CONF.format(pki=etc) + allowed)
        self.exec("h1", "ip", "addr", "add", f"{OTHER_ADDRESS}/24", "dev", "eth0")

    def client_folder(self, name, authority="ca"):
        """What ?pkipath= names: the certificate of `name`."""
        folder = self.root / f"client-{name}-{authority}"
        folder.mkdir()
        for file, place in ((f"{authority}.crt", "cacert.pem"), (f"{name}.crt", "clientcert.pem"), (f"{name}.key", "clientkey.pem")):
            (folder / place).write_bytes((self.pki / file).read_bytes())
        return folder

    def _ssh_host(self):
        self.keys.mkdir()
        for name in ("id_ed25519", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.keys / name], check=True)
        self.exec("h1", "sh", "-c", SSH_HOST, text="")
        self.exec("h2", "sh", "-c", SSH_HOST, text=(self.keys / "id_ed25519.pub").read_text(encoding="ascii"))
        self._configure("h2", SSH_CONF)

    def _room(self):
        """The /etc/ssh of weftd's machine, which knows h2."""
        etc = self.root / "etc-ssh"
        etc.mkdir()
        key = until(lambda: self.exec(SWITCH, "ssh-keyscan", "-t", "ed25519", ADDRESS["h2"]), "h2's sshd answers")
        (etc / "ssh_known_hosts").write_text(key, encoding="ascii")
        (etc / "ssh_config").write_text(page_ssh(), encoding="ascii")
        self.exec(SWITCH, "mount", "--bind", etc, "/etc/ssh")

    def _configure(self, host, text):
        changed = re.findall(r"^(\w+) =", text, re.MULTILINE)
        file = self.folder / f"hosts/{host}/libvirt/libvirtd.conf"
        kept = [line for line in file.read_text(encoding="utf-8").splitlines() if line.split(" =")[0] not in changed]
        file.write_text("\n".join(kept) + text, encoding="utf-8")
        self.stop_libvirtd(host)
        self.start_libvirtd(host)

    def tls(self, address=ADDRESS["h1"], client="weftd-ca"):
        return f"qemu+tls://{address}/system?pkipath={self.root}/client-{client}"

    def ssh(self, address=f"weft@{ADDRESS['h2']}", key="id_ed25519"):
        return f"qemu+ssh://{address}/system?keyfile={self.keys}/{key}"


@pytest.fixture(scope="module")
def cloud(module_lab):
    changes = {"control": CONTROL | {"list_deadline": "10s"}, "hypervisor": {"dial_limit": f"{DIAL_LIMIT}s"}}
    return module_lab(Reached, hosts=2, changes=changes).up()


@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_cluster_over(cloud, host):
    cloud.only(host)
    cloud.make("cfd")
    cloud.check()
    assert cloud.nodes("cfd")[0]["host"] == host
    assert cloud.run("cfd", "cat", text="hello").stdout == "hello"
    size = 3 << 20
    assert len(cloud.run("cfd", "sh", "-c", f"head -c {size} /dev/zero | tr '\\0' x").stdout) == size
    cloud.remove_all()


# --- not let in ---

@pytest.fixture(scope="module")
def strangers(cloud):
    """Certificates that h1 does not take: of another authority, and of somebody whom libvirtd.conf does not name."""
    blocks, _ = page_commands()
    other = cloud.root / "other"
    sh(blocks[0] + blocks[2], **{"/root/weft-pki": str(other)})
    sh(blocks[2], **{"/root/weft-pki": str(cloud.pki), "weftd": "mallory"})
    for file in ("ca.crt", "weftd.crt", "weftd.key"):
        (cloud.pki / file.replace("ca.", "other-ca.").replace("weftd.", "other.")).write_bytes((other / file).read_bytes())
    cloud.client_folder("mallory")
    cloud.client_folder("other")
    cloud.client_folder("weftd", "other-ca")


@pytest.fixture(scope="module")
def silent(cloud):
    """Ports that take connections, and say nothing."""
    process = subprocess.Popen(cloud.command("exec", SWITCH, "--", "/usr/bin/python3", "-c", LISTENER, *SILENT_PORTS),
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "listens\n"
    yield
    process.terminate()
    process.wait()


# name: its URI, and what an operator reads
STRANGERS = {
    "disallowed": (lambda cloud: cloud.tls(client="mallory-ca"), "does not take this certificate"),
    "other-client": (lambda cloud: cloud.tls(client="other-ca"), "Our own certificate .* hasn't got a known issuer"),
    "other-name": (lambda cloud: cloud.tls(OTHER_ADDRESS), "lacks the name or address in the URI"),
    "no-files": (lambda cloud: cloud.tls(client="none"), "Cannot read CA certificate .*client-none/cacert.pem"),
    "no-tls": (lambda cloud: cloud.tls(ADDRESS["h2"]), "10.77.0.12 port 16514: .*Connection refused"),
    "wrong-key": (lambda cloud: cloud.ssh(key="stranger"), "weft@10.77.0.12: Permission denied \\(publickey\\)"),
    "no-key": (lambda cloud: cloud.ssh(key="none"), "ssh/none not accessible.*; weft@10.77.0.12: Permission denied"),
    "no-user": (lambda cloud: cloud.ssh(f"nobody@{ADDRESS['h2']}"), "nobody@10.77.0.12: Permission denied"),
    "unknown": (lambda cloud: cloud.ssh(f"weft@{ADDRESS['h1']}"), "Host key verification failed.* not in /etc/ssh/ssh_known_hosts"),
    "no-ssh": (lambda cloud: cloud.ssh("weft@10.77.0.1"), "10.77.0.1 port 22: Connection refused"),
    "no-name": (lambda cloud: cloud.ssh("weft@no-such-host"), "Could not resolve hostname no-such-host"),
}
SILENTS = {
    "mute-tls": lambda cloud: cloud.tls(f"10.77.0.1:{SILENT_PORTS[0]}"),
    "mute-tcp": lambda cloud: f"qemu+tcp://10.77.0.1:{SILENT_PORTS[1]}/system",
    "mute-ssh": lambda cloud: cloud.ssh(f"weft@10.77.0.1:{SILENT_PORTS[2]}"),
    "absent": lambda cloud: cloud.tls("10.77.0.99"),
}


def add_hosts(cloud, uris):
    for name, uri in uris.items():
        cloud.client.expect(201, "POST", "/v1/hosts", {"name": name, "fabric": "ib0", "leaf": "leaf1", "uri": uri(cloud)})


def reason(cloud, host):
    shown = cloud.client.get(f"/v1/hosts/{host}")
    return shown["state"] == "lost" and shown["reason"]


def remove_hosts(cloud, names):
    for name in names:
        cloud.client.expect(204, "DELETE", f"/v1/hosts/{name}")


def test_who_is_not_let_in_reads_why(cloud, strangers):
    add_hosts(cloud, {name: uri for name, (uri, _) in STRANGERS.items()})
    for name, (_, words) in STRANGERS.items():
        told = until(lambda n=name: reason(cloud, n), f"{name} is lost")
        assert re.search(words, told) and "\n" not in told, f"{name}: {told}"
    remove_hosts(cloud, STRANGERS)


def connections(cloud):
    """For each silent port, how many it has been given so far, and how many of them are still held."""
    queues = [int(cloud.exec(SWITCH, "ss", "-Hltn", f"sport = :{port}").split()[1]) for port in SILENT_PORTS]
    held = [len(cloud.exec(SWITCH, "ss", "-Htn", "state", "established", f"dport = :{port}").splitlines()) for port in SILENT_PORTS]
    return queues, held


def is_quick(cloud):
    """Whoever waited for a silent host would wait as long as it is dialled, each time; a busy machine is slow now and then."""
    began = time.monotonic()
    cloud.weft("doctor", "h1", check=False)
    return time.monotonic() - began < DIAL_LIMIT


def test_silence_is_given_up_and_delays_nobody(cloud, silent):
    """Again and again, and without keeping what was given up; other hosts take nodes meanwhile."""
    add_hosts(cloud, SILENTS)
    for name in SILENTS:
        told = until(lambda n=name: reason(cloud, n), f"{name} is lost")
        assert f"does not answer within {DIAL_LIMIT} s" in told or "timed out" in told, told
    until(lambda: is_quick(cloud), "who asks for another host does not wait for these")
    cloud.make("cfd", 2)
    until(lambda: min(connections(cloud)[0]) >= 5, lambda: f"they are dialled again and again, {connections(cloud)}", 90)
    until(lambda: max(connections(cloud)[1]) <= 2, lambda: f"what was given up is not kept, {connections(cloud)}")
    assert not [event for event in cloud.events("host-lost") if event["host"] in ("h1", "h2")]
    cloud.remove_all()
    remove_hosts(cloud, SILENTS)
