"""weft against a running weftd."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.wait import PATIENCE, until
from harness.weft import SOURCE, beside, build_folder

SHAPE = ("--cores", "1", "--memory", "256M", "--image", "mpi")
MANY = ("-n", "900", *SHAPE)  # more than fits


@pytest.fixture
def acme(weft):
    """weft for the tenant acme."""

    def run(*arguments, code=0, **options):
        done = weft.cli(*arguments, check=False, env={"WEFT_TENANT": "acme"}, **options)
        assert done.returncode == code, f"weft {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    return run


def started(weft, *arguments, **streams):
    """weft of acme, beside us."""
    environment = os.environ | {"WEFT_URL": f"unix://{weft.socket}", "WEFT_TENANT": "acme"}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | streams
    return beside(arguments, environment, text=True, **pipes)


def read_until(stream, wanted):
    """Lines of a pipe up to the one that has the wanted text."""
    seen = []
    for line in iter(stream.readline, ""):
        seen.append(line)
        if wanted in line:
            return seen
    raise AssertionError(f"no {wanted!r} in {seen}")


def in_terminal(weft, *arguments, answer="", term="xterm", colour=True, columns=0):
    """Runs weft in a terminal; gives its exit status and all that it wrote there."""
    environment = os.environ | {"WEFT_URL": f"unix://{weft.socket}", "WEFT_TENANT": "acme", "TERM": term, "NO_COLOR": "" if colour else "1"}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 0, columns, 0, 0))
    with subprocess.Popen([build_folder() / "src/cli/weft", *arguments], stdin=slave, stdout=slave, stderr=slave, env=environment) as process:
        os.close(slave)
        os.write(master, answer.encode())
        text = b""
        with contextlib.suppress(OSError):  # how the end of a terminal's other side is told
            while select.select([master], [], [], PATIENCE)[0]:
                text += os.read(master, 65536)
        os.close(master)
        return process.wait(PATIENCE), text.decode()


def test_what_is_long_is_filled_in_a_terminal(weft, acme):
    """Below where it began; elsewhere lines are as long as they are."""
    code, shown = in_terminal(weft, "doctor", "n1", columns=80, colour=False)
    lines = shown.splitlines()
    assert code == 1 and max(map(len, lines)) <= 80
    begin = lines[0].index("FOUND")
    first = next(number for number, line in enumerate(lines) if line[begin:].startswith("remedy: install weft-hook"))
    assert lines[first + 1][:begin].isspace() and lines[first + 1][begin] != " "
    assert any(len(line) > 80 and "remedy: install weft-hook" in line for line in acme("doctor", "n1", code=1).stdout.splitlines())


def test_life_of_a_cluster(acme):
    done = acme("create", "cfd", "-n", "2", *SHAPE)
    assert re.fullmatch(r"cluster cfd is ready: 2 nodes in \d+\.\d s\n", done.stdout)
    assert re.search(r"^cfd +ready +2/2 +ib0 +0x[0-9a-f]{4} ", acme("ls").stdout, re.M)
    shown = acme("show", "cfd").stdout
    assert re.search(r"^  group +nodes: 2 nodes of 1 core, 256M; path auto; image mpi$", shown, re.M)
    assert re.search(r"^cfd\[1\] +cfd-1 +nodes +ready ", shown, re.M)
    assert acme("scale", "cfd", "4").stdout == "cluster cfd is ready: 4 nodes\n"
    assert acme("scale", "cfd", "-1").stdout == "cluster cfd is ready: 3 nodes\n"
    assert acme("scale", "cfd", "+1").stdout == "cluster cfd is ready: 4 nodes\n"
    assert "cluster-ready" in acme("events", "cfd").stdout
    assert acme("rm", "cfd").stdout == "cluster cfd is removed\n"
    assert acme("ls").stdout.splitlines()[1:] == []


def test_show_tells_who_gets_in(acme, tmp_path):
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    fingerprint = subprocess.run(["ssh-keygen", "-lf", key], check=True, capture_output=True, text=True).stdout.split()[1]
    (tmp_path / "secret").write_text("#cloud-config\n", encoding="utf-8")
    acme("create", "cfd", "-n", "1", *SHAPE, "--ssh-key", f"{key}.pub", "--user-data", str(tmp_path / "secret"), "--slurm")
    shown = json.loads(acme("show", "cfd", "--json").stdout)
    assert (shown["ssh_keys"], shown["user_data"], shown["slurm"]) == ([fingerprint], True, True)
    assert re.findall(r"^  (ssh key|user-data|Slurm) +(\S+)$", acme("show", "cfd").stdout, re.M) == [
        ("ssh key", fingerprint), ("user-data", "yes"), ("Slurm", "yes")]
    acme("create", "bare", "-n", "1", *SHAPE, "--ssh-key", "none")
    shown = json.loads(acme("show", "bare", "--json").stdout)
    assert (shown["ssh_keys"], shown["user_data"], shown["slurm"]) == ([], False, False)
    assert not re.search("ssh key|user-data|Slurm", acme("show", "bare").stdout)


def test_json(acme):
    created = json.loads(acme("create", "cfd", "-n", "2", *SHAPE, "--json").stdout)
    assert (created["phase"], created["ready"], created["tenant"]) == ("ready", 2, "acme")
    assert [cluster["id"] for cluster in json.loads(acme("ls", "--json").stdout)] == [created["id"]]
    shown = json.loads(acme("show", "cfd", "--json").stdout)
    assert [node["rank"] for node in shown["members"]] == [0, 1]
    assert [node["rank"] for node in json.loads(acme("show", "cfd[1]", "--json").stdout)] == [1]
    assert [host["name"] for host in json.loads(acme("hosts", "--json").stdout)] == ["n1", "n2", "n3", "n4"]
    events = json.loads(acme("events", "cfd", "--json").stdout)
    assert events[0]["type"] == "cluster-created" and events == sorted(events, key=lambda event: event["id"])
    assert json.loads(acme("events", "--since", "2999-01-01", "--json").stdout) == []
    assert json.loads(acme("usage", "--json").stdout)["tenants"][0]["tenant"] == "acme"
    assert json.loads(acme("rm", "cfd", "--json").stdout)[0]["deleting"] is True


def test_lists_have_all_pages(acme, weft):
    for number in range(1, 8):
        weft.client.expect(201, "POST", "/v1/tenants", {"name": f"t{number}"})
    names = {tenant["name"] for tenant in json.loads(acme("tenant", "ls", "--json").stdout)}
    assert names >= {f"t{number}" for number in range(1, 8)} | {"acme", "umbrella"}


def test_specification_from_a_file(acme, tmp_path):
    path = tmp_path / "cfd.yaml"
    path.write_text("name: cfd\ncount: 1\ncores: 1\nmemory: 256M\nimage: mpi\n", encoding="utf-8")
    created = json.loads(acme("create", "-f", str(path), "-n", "2", "--no-wait", "--json").stdout)
    assert (created["name"], created["count"]) == ("cfd", 2)
    named = json.loads(acme("create", "other", "-f", "-", "--no-wait", "--json", text=path.read_text(encoding="utf-8")).stdout)
    assert (named["name"], named["count"]) == ("other", 1)
    groups = "name: two\ngroups:\n- {name: a, count: 1, cores: 1, memory: 256M, image: mpi}\n- {name: b, count: 1, cores: 1, memory: 256M, image: mpi}\n"
    acme("create", "-f", "-", text=groups)
    assert "name one with --group" in acme("scale", "two", "+1", code=2).stderr
    scaled = json.loads(acme("scale", "two", "--group", "b", "+1", "--json").stdout)
    assert [group["count"] for group in scaled["groups"]] == [1, 2]


def test_relative_changes_add_up(acme):
    acme("create", "cfd", "-n", "1", *SHAPE)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: acme("scale", "cfd", "+1", "--no-wait"), range(8)))
    acme("wait", "cfd")
    assert json.loads(acme("show", "cfd", "--json").stdout)["count"] == 9


@pytest.mark.parametrize("code, arguments, message", [
    (2, ["create", "cfd", "-n", "0", *SHAPE], "weft: cluster cfd: count: must be 1 to 1024, is 0"),
    (2, ["create", "CFD", "-n", "1", *SHAPE], 'weft: name: cluster name "CFD" is not allowed'),
    (4, ["show", "none"], "weft: cluster none: not found"),
    (4, ["wait", "none"], "weft: cluster none: not found"),
    (4, ["events", "none"], "weft: cluster none: not found"),
    (4, ["events", "none", "--follow"], "weft: cluster none: not found"),
    (4, ["rm", "none"], "weft: cluster none: not found"),
    (4, ["scale", "none", "+1"], "weft: cluster none: not found"),
    (4, ["host", "show", "none"], "weft: host none: not found"),
    (4, ["tenant", "show", "none"], "weft: tenant none: not found"),
    (5, ["host", "rm", "n1"], "weft: host n1: is described in weft.yaml"),
    (5, ["tenant", "add", "acme"], "weft: tenant acme"),
    (4, ["user", "rm", "none"], "weft: user none: not found"),
    (4, ["token", "create", "--user", "none"], "weft: user none: not found"),
    (2, ["token", "create"], "weft: token create: whose token?"),
])
def test_errors(acme, code, arguments, message):
    assert acme(*arguments, code=code).stderr.startswith(message)


def test_wrong_name_does_not_keep_others(acme):
    acme("create", "run1", "-n", "1", *SHAPE)
    done = acme("rm", "run[0-1]", code=4)
    assert done.stdout == "cluster run1 is removed\n"
    assert done.stderr.endswith("weft: cluster run0: not found\nhint: 'weft ls' lists the clusters that you may see\n")


def test_operators_have_no_tenant(acme):
    acme("user", "add", "oscar", "--role", "operator")
    assert "belongs to no tenant" in acme("user", "add", "ada", "--role", "admin", "--tenant", "umbrella", code=2).stderr


def test_operator_is_told_to_name_a_tenant(weft):
    done = weft.cli("create", "cfd", "-n", "1", *SHAPE, check=False)
    assert done.returncode == 2
    assert "--tenant NAME" in done.stderr


def test_quota_exhausted(acme):
    acme("tenant", "add", "lab", "--nodes", "1")
    done = acme("--tenant", "lab", "create", "cfd", "-n", "2", *SHAPE, code=6)
    assert "weft tenant show" in done.stderr
    acme("tenant", "set", "lab", "--nodes", "none")
    acme("--tenant", "lab", "create", "cfd", "-n", "2", *SHAPE)
    assert re.search(r"nodes +2/-", acme("tenant", "show", "lab").stdout)


def test_no_room_is_told_and_ends_in_time(weft, acme):
    assert acme("create", "big", *MANY, "--timeout", "300ms", code=9).stdout == ""
    until(lambda: weft.client.cluster("big")["reason"], "it was looked at")
    done = acme("wait", "big", "--timeout", "300ms", code=9)
    assert "no room for 900 nodes" in done.stderr and done.stdout == ""
    assert acme("wait", "big", "--for", "deleted", "--timeout", "100ms", code=9)
    acme("rm", "big")
    assert acme("wait", "big", "--for", "deleted").stdout == "cluster big is gone\n"


def test_interrupt_ends_only_the_waiting(weft):
    with started(weft, "create", "big", *MANY) as process:
        read_until(process.stderr, "no room")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors == "weft: cluster big: stopped waiting; it goes on being created\n"
    assert weft.client.cluster("big")["deleting"] is False


def test_waits_across_a_restart(weft):
    weft.world.fault("fail start 0 not yet")
    with started(weft, "create", "cfd", "-n", "2", *SHAPE) as process:
        read_until(process.stderr, "its host cannot be reached")
        weft.kill()
        read_until(process.stderr, "does not answer")
        weft.world.fault()
        weft.start()
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert output.startswith("cluster cfd is ready: 2 nodes")


def test_lost_answer_creates_once(site):
    weft = site()
    weft.kill()
    weft.start(failpoint="cluster-created")
    with started(weft, "create", "cfd", "-n", "2", *SHAPE) as process:
        until(weft.died, "weftd dies after the commit")
        weft.start()
        output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert [cluster["name"] for cluster in weft.client.items("/v1/clusters")] == ["cfd"]


def test_events_follow_across_a_restart(weft, acme):
    with started(weft, "events", "--follow") as process:
        acme("create", "one", "-n", "1", *SHAPE)
        first = read_until(process.stdout, "cluster-ready")
        weft.kill()
        weft.start()
        acme("create", "two", "-n", "1", *SHAPE)
        second = read_until(process.stdout, "cluster-ready")
        assert any("one" in line for line in first)
        assert "two" in second[-1] and not any(line in first for line in second)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == -signal.SIGINT


def test_live_line_in_a_terminal(weft):
    weft.world.fault("slow start 1200")
    code, text = in_terminal(weft, "create", "cfd", "-n", "2", *SHAPE)
    assert code == 0
    live, last = text.rsplit("\r\x1b[K", 1)
    assert re.search(r"\rcluster cfd: \w+, 0 of 2 nodes ready \(1 s\)\x1b\[K\r", live) and "\n" not in live
    assert re.fullmatch(r"cluster cfd is ready: 2 nodes in \S+ s\r\n", last)


def test_plain_lines_in_a_dumb_terminal(weft):
    code, text = in_terminal(weft, "create", "cfd", "-n", "2", *SHAPE, term="dumb")
    assert code == 0 and "\x1b" not in text


def test_colours(weft, acme):
    acme("create", "cfd", "-n", "1", *SHAPE)
    assert "\x1b[32mready\x1b[0m" in in_terminal(weft, "ls")[1]
    assert "\x1b" not in in_terminal(weft, "ls", colour=False)[1]
    assert "\x1b" not in acme("ls").stdout


def test_rm_asks_in_a_terminal(weft, acme):
    acme("create", "run1", "-n", "1", *SHAPE)
    acme("create", "run2", "-n", "1", *SHAPE)
    code, text = in_terminal(weft, "rm", "run[1-2]", answer="n\n")
    assert code == 1 and "remove 2 clusters, run[1-2]? [y/N]" in text
    assert len(weft.client.items("/v1/clusters")) == 2
    code, text = in_terminal(weft, "rm", "run[1-2]", answer="y\n")
    assert code == 0 and "cluster run2 is removed" in text
    assert weft.client.items("/v1/clusters") == []


def test_hosts(weft, acme):
    acme("create", "cfd", "-n", "3", *SHAPE)
    used = {host["name"] for host in weft.client.items("/v1/hosts") if host["nodes"]}
    done = acme("host", "drain", *used, "--evict", "--wait")
    assert all(f"host {name} is empty\n" in done.stdout for name in used)
    assert re.search(rf"^{min(used)} +up .* evicting ", acme("hosts").stdout, re.M)
    acme("host", "undrain", *used)
    acme("wait", "cfd")
    acme("host", "add", "h8", "--fabric", "ib0", "--leaf", "leaf9", "--cores", "4", "--numa", "2", "--pages", "2M=64", "--uri", "fake://h8/",
         "--hca", "mlx5_0,driver=mlx5,port_guid=0x0002c903000000ff,vfs=4", "--label", "rack=r8")
    added = json.loads(acme("host", "show", "h8", "--json").stdout)
    assert added["labels"] == {"rack": "r8"} and added["hcas"][0]["vfs"] == 4 and len(added["numa"]) == 2
    assert added["numa"][1]["pages"] == {"2M": 64}
    shown = acme("host", "show", "h8").stdout
    assert "4 cores, 64 pages of 2M" in shown and "mlx5_0: port 0x0002c903000000ff, 4 VFs" in shown and "rack=r8" in shown
    text = "[{name: h9, fabric: ib0, leaf: leaf9, uri: 'fake://h9/', numa: [{cores: 2, pages: {2M: 8}}]}]"
    assert acme("host", "add", "-f", "-", text=text).stdout == "host h9 is added\n"
    assert acme("host", "add", "h7", "--fabric", "ib0", "--leaf", "leaf9", "--uri", "fake://h7/").stdout == "host h7 is added\n"
    until(lambda: json.loads(acme("host", "show", "h7", "--json").stdout).get("discovered"), "its hardware is read from the host")
    assert acme("host", "rm", "h[7-9]").stdout == "host h7 is removed\nhost h8 is removed\nhost h9 is removed\n"


def test_usage_of_tenants(weft, acme):
    acme("create", "cfd", "-n", "2", *SHAPE)
    acme("rm", "-y", "cfd")
    sums = json.loads(weft.cli("usage", "--json").stdout)["tenants"]
    mine = next(tenant for tenant in sums if tenant["tenant"] == "acme")
    assert mine["nodes"] == 2 and mine["node_seconds"] > 0 and mine["core_seconds"] == mine["node_seconds"]
    header, *rows = weft.cli("usage").stdout.splitlines()
    assert header.split()[:2] == ["TENANT", "NODES"]
    assert [row.split()[:2] for row in rows if row.startswith("acme")] == [["acme", "2"]]
    assert json.loads(acme("usage", "--from", "2020-01-01", "--to", "2020-02-01", "--json").stdout)["tenants"][0]["node_seconds"] == 0


def test_token_over_tls(site, certificate, tmp_path):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    weft.cli("user", "add", "bob", "--tenant", "acme")
    made = weft.cli("token", "create", "--user", "bob", "--note", "for the tests", "--expires", "1d")
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(made.stdout, encoding="utf-8")
    url = f"https://127.0.0.1:{weft.tcp_port()}"
    remote = {"WEFT_URL": url, "WEFT_CA": certificate["certificate"], "WEFT_TOKEN_FILE": str(path)}

    assert weft.cli("whoami", env=remote).stdout == "bob: member of tenant acme\n"
    assert "ready" in weft.cli("create", "cfd", "-n", "1", *SHAPE, env=remote).stdout
    assert weft.cli("hosts", check=False, env=remote).returncode == 3
    nobody = weft.cli("ls", check=False, env=remote | {"WEFT_TOKEN_FILE": "", "WEFT_TOKEN": "weft_0_wrong"})
    assert nobody.returncode == 3 and "--token-file" in nobody.stderr
    stranger = weft.cli("ls", check=False, env=remote | {"WEFT_CA": ""})
    assert stranger.returncode == 8 and "--ca FILE" in stranger.stderr

    weft.cli("token", "revoke", json.loads(weft.cli("token", "ls", "--json").stdout)[0]["id"])
    assert weft.cli("whoami", check=False, env=remote).returncode == 3
    assert weft.cli("user", "rm", "bob").stdout == "user bob and its tokens are removed\n"


def test_completion_knows_names(weft, acme):
    acme("create", "run1", "-n", "1", *SHAPE)
    acme("create", "cfd", "-n", "1", *SHAPE)
    assert acme("__complete", "show", "r").stdout == "run1\n"
    assert acme("__complete", "host", "drain", "").stdout == "n1\nn2\nn3\nn4\n"
    assert acme("__complete", "ls", "--tenant", "u").stdout == "umbrella\n"
    script = f"source {SOURCE}/completions/weft.bash; COMP_WORDS=(weft rm ''); COMP_CWORD=2; _weft; echo ${{COMPREPLY[@]}}"
    environment = os.environ | {"PATH": f"{build_folder() / 'src/cli'}:{os.environ['PATH']}", "WEFT_URL": f"unix://{weft.socket}"}
    assert subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True).stdout == "cfd run1\n"


def test_token_counts_before_the_user(weft):
    """Who runs with a viewer's token is no admin because the shell is root's."""
    token = {"WEFT_TOKEN": weft.token("acme-viewer")}
    assert weft.cli("whoami", env=token).stdout.startswith("acme-viewer: viewer")
    assert weft.cli("tenant", "add", "mine", env=token, check=False).returncode == 3
    assert weft.cli("whoami", env={"WEFT_TOKEN": "weft_1_wrong"}, check=False).returncode == 3
