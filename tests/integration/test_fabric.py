"""weft fabric: what a fabric looks like, who is in what, maps from files, and a topology.conf that Slurm takes."""

import contextlib
import json
import os
import shutil
import subprocess

import pytest
from harness.slurm import Slurm
from harness.wait import PATIENCE, until
from harness.weft import SOURCE, Weft, host

RAW = {"Content-Type": "application/octet-stream"}
STRANGER = 0x0002C90300009001


def port_guid(number):
    """As harness.weft.host() describes it."""
    return 0x0002C90300000000 + number


def net(hosts, leaves=2, stranger=False, cables=2):
    """A tree of so many leaves below one spine, in the words of ibnetdiscover: n1 and n2 hang on leaf1, n3 and n4 on leaf2."""
    lines = []
    adapters = {f"n{i + 1}": (port_guid(i + 1), i * leaves // hosts, i % (hosts // leaves) + 1) for i in range(hosts)}
    if stranger:
        adapters["MT4119 ConnectX5   Mellanox Technologies"] = (STRANGER, 0, 30)

    def adapter_id(guid):
        return f"H-{guid ^ 0xf000000000000000:016x}"

    for leaf in range(leaves):
        lines += ["", f"switchguid=0x{0xa1 + leaf:x}", f'Switch 36 "S-{0xa1 + leaf:016x}" # "leaf{leaf + 1}" base port 0 lid {leaf + 1} lmc 0']
        for name, (guid, where, port) in adapters.items():
            if where == leaf:
                lines.append(f'[{port}] "{adapter_id(guid)}"[1]({guid:x}) # "{name} mlx5_0" lid 9 4xEDR')
        lines += [f'[{32 + c}] "S-{0xb1:016x}"[{leaf * cables + c + 1}] # "spine1" lid 20 4xHDR' for c in range(cables)]
    lines += ["", "switchguid=0xb1", f'Switch 36 "S-{0xb1:016x}" # "spine1" base port 0 lid 20 lmc 0']
    lines += [f'[{leaf * cables + c + 1}] "S-{0xa1 + leaf:016x}"[{32 + c}] # "leaf" lid {leaf + 1} 4xHDR'
              for leaf in range(leaves) for c in range(cables)]
    for name, (guid, leaf, port) in adapters.items():
        lines += ["", f"caguid=0x{guid ^ 0xf000000000000000:x}", f'Ca 1 "{adapter_id(guid)}" # "{name} mlx5_0"',
                  f'[1]({guid:x}) "S-{0xa1 + leaf:016x}"[{port}] # lid 9 lmc 0 "leaf" lid 1 4xEDR']
    return "\n".join(lines[1:]) + "\n"


def write_map(weft, text):
    """What the fake manager says when it is asked for its map."""
    weft.world.fabric.mkdir(parents=True, exist_ok=True)
    folder = weft.world._fabric_folders()
    for each in folder:
        (each / "map").write_text(text, encoding="utf-8")


def names(switches):
    return [each["name"] for each in switches]


# --- show ---


def test_shows_the_tree(weft):
    write_map(weft, net(4, stranger=True))
    report = weft.client.get("/v1/fabrics/ib0")
    assert (report["fabric"], report["source"], report["trouble"]) == ("ib0", "manager", None)
    assert report["manager"]["way"] == "fake" and report["manager"]["master"]
    assert names(report["switches"]) == ["leaf1", "leaf2", "spine1"]
    leaf = report["switches"][0]
    assert [(a["port"], a["host"], a["hca"]) for a in leaf["adapters"]] == [(1, "n1", "mlx5_0"), (2, "n2", "mlx5_0"), (30, None, None)]
    assert leaf["adapters"][0] == {"port": 1, "host": "n1", "hca": "mlx5_0", "guid": f"0x{port_guid(1):016x}", "description": "n1 mlx5_0",
                                   "lid": 9, "rate": 100_000_000_000, "active": True, "pkeys": 0}
    assert leaf["links"] == [{"switch": "spine1", "cables": 2, "rate": 400_000_000_000}]
    assert report["no_port"] == [] and len(report["no_host"]) == 1
    assert f"0x{STRANGER:016x}" in report["no_host"][0] and "leaf1 port 30" in report["no_host"][0]

    text = weft.cli("fabric", "show").stdout
    assert text.startswith("fabric ib0: ") and "master" in text.splitlines()[0]
    rows = [line.split() for line in text.splitlines()]
    assert ["leaf1", "1", "n1", "mlx5_0", f"0x{port_guid(1):016x}", "100G", "up"] in rows
    assert ["2", "cables", "switch", "spine1", "-", "-", "400G", "-"] in rows
    assert "Ports that are no host's:" in text and "MT4119" in text


def test_tells_what_is_not_on_the_fabric(weft):
    write_map(weft, net(4).replace(f"{port_guid(3):x}", f"{port_guid(0x33):x}"))
    report = weft.client.get("/v1/fabrics/ib0")
    assert len(report["no_port"]) == 1 and report["no_port"][0].startswith("n3 mlx5_0: no port of the fabric has its GUID")
    assert f"0x{port_guid(0x33):016x}" in report["no_port"][0], "the adapter of that name is named"
    assert "n3 mlx5_0" in weft.cli("fabric", "show").stdout


def test_a_manager_that_does_not_answer(weft):
    weft.world.fabric_fault("fail greet 0 nobody there", "fail map 0 nobody there")
    report = weft.client.get("/v1/fabrics/ib0")
    assert report["manager"] is None and report["source"] is None and "nobody there" in report["trouble"]
    assert "no manager answers" in weft.cli("fabric", "show").stdout
    weft.world.fabric_fault("fail list 0 nobody there")
    answer = weft.client.request("GET", "/v1/fabrics/ib0/partitions")
    assert answer.status == 503 and "nobody there" in answer.text
    weft.world.fabric_fault()


def test_a_manager_that_hangs_is_given_up(weft):
    weft.world.fabric_fault("hang greet", "hang map")
    report = weft.client.get("/v1/fabrics/ib0")
    assert report["manager"] is None and report["trouble"]
    weft.world.fabric_fault()
    assert weft.client.get("/v1/fabrics/ib0")["manager"]


def test_stops_while_somebody_waits(site):
    weft = site(changes={"control": {"list_deadline": "20s"}})
    weft.world.fabric_fault("hang map")
    with contextlib.closing(weft.client.connect()) as connection:
        connection.request("GET", "/v1/fabrics/ib0/topology")
        assert weft.client.get("/v1/fabrics")["items"], "others are served meanwhile"
        weft.stop()


def test_an_unknown_fabric(weft):
    for path in ("", "/partitions", "/tables", "/topology"):
        answer = weft.client.request("GET", f"/v1/fabrics/ib7{path}")
        assert answer.status == 404 and "ib7" in answer.text
    done = weft.cli("fabric", "show", "--fabric", "ib7", check=False)
    assert done.returncode != 0 and "ib7" in done.stderr


# --- partitions ---


def test_shows_who_is_in_what(weft):
    weft.client.create("cfd", 2)
    weft.client.wait_phase("cfd", "ready")
    weft.world.add_foreign_partition(0x7001, "storage")
    cluster = weft.client.cluster("cfd")
    partitions = {p["pkey"]: p for p in weft.client.get("/v1/fabrics/ib0/partitions")["partitions"]}
    ours = partitions[cluster["partition"]]
    assert (ours["ours"], ours["tenant"], ours["cluster"]) == (True, "acme", "cfd")
    nodes = {(f"cfd[{n['rank']}]", n["host"]) for n in weft.client.nodes("cfd")}
    assert {(m["node"], m["host"]) for m in ours["members"]} == nodes
    assert all(m["membership"] == "full" and m["virtual_guid"] for m in ours["members"])
    site = partitions["0x7001"]
    assert (site["ours"], site["tenant"], site["cluster"], site["name"]) == (False, None, None, "storage")
    text = weft.cli("fabric", "partitions").stdout
    assert "acme/cfd" in text and "the site's own" in text and "cfd[0] on " in text


def differences(weft):
    return {port["host"]: port["differences"] for port in weft.client.get("/v1/fabrics/ib0/tables")["ports"] if port["differences"]}


def test_reads_the_tables_back(site):
    weft = site(changes={"control": {"scan_interval": "1h", "patrol_interval": "1h"}})
    weft.client.create("cfd", 2, cores=6)
    weft.client.wait_phase("cfd", "ready")
    weft.world.add_foreign_partition(0x7001, "storage")
    key = int(weft.client.cluster("cfd")["partition"], 16)
    ports = {port["host"]: port for port in weft.client.get("/v1/fabrics/ib0/tables")["ports"]}
    assert sorted(ports) == ["n1", "n2", "n3", "n4"] and not any(port["differences"] for port in ports.values())
    inside = sorted(node["host"] for node in weft.client.nodes("cfd"))
    outside = sorted(set(ports) - set(inside))
    assert ports[inside[0]]["pkeys"] == ports[inside[0]]["enforced"] == ["0x7fff", f"0x{key | 0x8000:04x}"]
    assert ports[outside[0]]["pkeys"] == ["0x7fff"]
    done = weft.cli("fabric", "partitions", "--verify")
    assert done.returncode == 0 and done.stdout.count("as the manager says") == 4

    def guid(name):
        return int(ports[name]["guid"], 16)

    weft.world.port_table(guid(inside[0]), 0x7FFF)
    weft.world.port_table(guid(inside[1]))
    weft.world.port_table(guid(outside[0]), 0x7FFF, 0, key | 0x8000)
    weft.world.port_table(guid(outside[1]), 0x7FFF, 0x9234, 0xF001)
    assert differences(weft) == {
        inside[0]: [f"has no P_Key 0x{key | 0x8000:04x}"],
        inside[1]: ["does not answer"],
        outside[0]: [f"has P_Key 0x{key | 0x8000:04x} of weft-{weft.client.cluster('cfd')['id']}, in which it is not"],
        outside[1]: ["has P_Key 0x9234, which the manager does not know"]}, "a key of the site's may be there"
    done = weft.cli("fabric", "partitions", "--verify", check=False)
    assert done.returncode == 1 and "does not answer" in done.stdout and "0x7fff,0x0000" in done.stdout
    assert weft.cli("fabric", "partitions", "--verify", "--json", check=False).returncode == 1
    weft.world.fabric_fault("fail verify 0 nobody there")
    answer = weft.client.request("GET", "/v1/fabrics/ib0/tables")
    assert answer.status == 503 and "nobody there" in answer.text
    weft.world.fabric_fault()
    for name in ports:
        weft.world.port_is_well(guid(name))


def test_reads_many_tables_in_parts(site):
    weft = site(hosts=150)
    ports = weft.client.get("/v1/fabrics/ib0/tables")["ports"]
    assert len({port["guid"] for port in ports}) == len(ports) == 150 and not any(port["differences"] for port in ports)


# --- import ---


def test_imports_a_map_where_the_manager_has_none(weft, tmp_path):
    file = tmp_path / "ib0.net"
    file.write_text(net(4), encoding="utf-8")
    assert weft.client.get("/v1/fabrics/ib0")["switches"] == []
    assert "switches 3, adapters 4" in weft.cli("fabric", "import", str(file)).stdout
    report = weft.client.get("/v1/fabrics/ib0")
    assert report["source"] == "import" and names(report["switches"]) == ["leaf1", "leaf2", "spine1"]
    assert any(event["type"] == "map-imported" for event in weft.client.events())

    weft.kill()
    weft.start()
    assert weft.client.get("/v1/fabrics/ib0/topology")["source"] == "import", "it is kept"

    write_map(weft, net(4, stranger=True))
    assert weft.client.get("/v1/fabrics/ib0")["source"] == "manager", "what the manager tells goes before it"
    write_map(weft, "")
    weft.cli("fabric", "import", "--clear")
    assert weft.client.get("/v1/fabrics/ib0")["switches"] == []
    done = weft.cli("fabric", "import", "--clear", check=False)
    assert done.returncode != 0 and "no map was imported" in done.stderr


@pytest.mark.parametrize("content, said", [
    (b'Switch 8 "leaf0"\n[1] "H-h0"[1]\n', "line 2"),
    (b"\0\0\0", "zero bytes"),
    (b"\xff\xfe garbage\n", "line 1"),
    (b"", "ibnetdiscover"),
    (b'Switch 8 "' + b"x" * 5000 + b'"\n', "line 1"),
], ids=["cut", "binary", "garbage", "empty", "long"])
def test_refuses_what_is_no_map(weft, content, said):
    answer = weft.client.request("POST", "/v1/fabrics/ib0/map", content, RAW)
    assert answer.status == 400 and said in answer.json["detail"], answer.text
    assert weft.client.get("/v1/fabrics/ib0")["source"] != "import"


def test_imports_large_files_up_to_a_limit(weft, tmp_path):
    """Remarks count, too."""
    file = tmp_path / "ib0.net"
    file.write_text("# padding\n" * (5 << 20 >> 3) + net(4), encoding="utf-8")
    assert file.stat().st_size > 6 << 20
    assert "adapters 4" in weft.cli("fabric", "import", str(file)).stdout
    answer = weft.client.request("POST", "/v1/fabrics/ib0/map", b"#" * ((16 << 20) + 1), RAW)
    assert answer.status == 413 and str(16 << 20) in answer.text
    done = weft.cli("fabric", "import", "/dev/zero", check=False)
    assert done.returncode != 0 and str(16 << 20) in done.stderr


def test_import_says_how_it_is_used(weft, tmp_path):
    for arguments in ([], [str(tmp_path / "x"), "--clear"]):
        done = weft.cli("fabric", "import", *arguments, check=False)
        assert done.returncode == 2 and "--clear" in done.stderr
    done = weft.cli("fabric", "import", str(tmp_path / "missing"), check=False)
    assert done.returncode != 0 and "missing" in done.stderr


# --- topology ---


def test_shows_leaves_and_distances(weft):
    done = weft.cli("fabric", "topology", check=False)
    assert done.returncode != 0 and "weft fabric import" in done.stderr
    write_map(weft, net(4))
    leaves = weft.client.get("/v1/fabrics/ib0/topology")["leaves"]
    assert leaves == [{"switch": "leaf1", "hosts": ["n1", "n2"], "distances": [0, 2]},
                      {"switch": "leaf2", "hosts": ["n3", "n4"], "distances": [2, 0]}]
    assert ["leaf2", "n3,n4", "2", "0"] in [line.split() for line in weft.cli("fabric", "topology").stdout.splitlines()]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("slurmctld"), reason="takes root and the package slurmctld")
def test_slurm_takes_the_topology(site, tmp_path):
    weft = site(hosts=16)
    write_map(weft, net(16, leaves=4))
    topology = weft.cli("fabric", "topology", "--slurm").stdout
    with Slurm(tmp_path, topology, 16) as slurm:
        said = slurm.run("scontrol", "show", "topology")
        assert "lack access" not in slurm.log() and "no switch can reach all nodes" not in slurm.log(), slurm.log()
        lines = {line.split()[0]: line for line in said.splitlines()}
        assert len(lines) == 5
        assert "Level=1" in lines["SwitchName=spine1"] and "Nodes=n[1-16]" in lines["SwitchName=spine1"]
        assert lines["SwitchName=leaf1"].endswith("Nodes=n1,n2,n3,n4")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("slurmctld"), reason="takes root and the package slurmctld")
def test_slurm_takes_an_irregular_one(site, tmp_path):
    """As ibnetdiscover wrote it, with a host on the spine, which gets a switch of its own there."""
    weft = site(changes={"hosts": [host(f"n{i}", hcas=[{"name": "mlx5_0", "port_guid": f"0x{guid:x}", "vfs": 4}])
                                   for i, guid in ((1, 0x2C90300000011), (2, 0x2C90300000021), (3, 0x2C90300000032))]})
    write_map(weft, (SOURCE / "tests/golden/topology/real.net").read_text(encoding="utf-8"))
    topology = weft.cli("fabric", "topology", "--slurm").stdout
    with Slurm(tmp_path, topology, 3) as slurm:
        said = slurm.run("scontrol", "show", "topology")
        assert "lack access" not in slurm.log() and "no switch can reach all nodes" not in slurm.log(), slurm.log()
        assert "SwitchName=spine-hosts Level=0 LinkSpeed=1 Nodes=n3" in said
        assert any(line.startswith("SwitchName=spine Level=1") and "Nodes=n[1-3]" in line for line in said.splitlines()), said


# --- doctor ---


def fabric_checks(weft):
    site = next(each for each in weft.client.get("/v1/doctor")["items"] if each["host"] is None)
    return [check for check in site["checks"] if check["check"] == "manager of ib0"]


def test_doctor_tells_what_the_manager_lacks(weft):
    assert [check["state"] for check in fabric_checks(weft)] == ["ok"]
    for folder in weft.world._fabric_folders():
        (folder / "manager").write_text(json.dumps({"enforces": False, "keeps_indices": False, "virtualization": False}), encoding="utf-8")
    checks = fabric_checks(weft)
    assert [check["state"] for check in checks] == ["fail", "fail", "warn"]
    assert ["part_enforce both" in checks[0]["remedy"], "keep_pkey_indexes TRUE" in checks[1]["remedy"]] == [True, True]
    assert "mlx5" in checks[2]["found"]
    assert weft.cli("doctor", check=False).returncode == 1

    weft.world.fabric_fault("fail greet 0 nobody there")
    checks = fabric_checks(weft)
    assert [check["state"] for check in checks] == ["fail"] and "nobody there" in checks[0]["found"]
    weft.world.fabric_fault()


HARD = {"m_key": "0x1122334455667788", "m_key_lease_period": "0", "m_key_protection_level": "2", "sm_key": "0x2233445566778899",
        "sa_key": "0x33445566778899aa", "sm_priority": "14", "ignore_other_sm": "FALSE", "part_enforce": "both",
        "no_partition_enforcement": "FALSE", "keep_pkey_indexes": "TRUE", "allow_both_pkeys": "TRUE", "qos": "TRUE"}
WRONG = [("m_key", "0x0", "fail"), ("m_key_lease_period", "60", "fail"), ("m_key_protection_level", "1", "fail"), ("sm_key", "1", "fail"),
         ("sa_key", "1", "fail"), ("sm_priority", "0", "fail"), ("ignore_other_sm", "TRUE", "fail"), ("part_enforce", "off", "fail"),
         ("no_partition_enforcement", "TRUE", "fail"), ("keep_pkey_indexes", "FALSE", "fail"), ("allow_both_pkeys", "FALSE", "warn"),
         ("qos", "FALSE", "warn")]


def option_checks(weft):
    site = next(each for each in weft.client.get("/v1/doctor")["items"] if each["host"] is None)
    return [check for check in site["checks"] if check["check"] == "options of ib0"]


def test_doctor_looks_at_opensms_options(site, tmp_path):
    file = tmp_path / "opensm.conf"
    fabrics = [{"name": "ib0", "qos": {"lanes": [{"sl": 1, "share": 40}]},
                "manager": {"driver": "fake", "world": str(tmp_path / "world"), "options_file": str(file)}}]
    weft = site(changes={"fabrics": fabrics})
    [check] = option_checks(weft)
    assert check["state"] == "warn" and str(file) in check["found"] and "weftd's user" in check["remedy"]

    def write(**changes):
        file.write_text("".join(f"{name} {value}\n" for name, value in (HARD | changes).items()), encoding="utf-8")

    write()
    assert [(check["state"], check["remedy"]) for check in option_checks(weft)] == [("ok", None)]
    for name, value, state in WRONG:
        write(**{name: value})
        [check] = option_checks(weft)
        assert check["state"] == state and check["found"].startswith(f"{name} "), check
        assert check["remedy"].startswith(f"{name} ") and str(file) in check["remedy"], check
        assert value not in check["found"] or not name.endswith("_key"), "a key is not for everybody's eyes"
    file.write_text("part_enforce both\n", encoding="utf-8")
    assert {check["found"].split()[0] for check in option_checks(weft)} == {
        "m_key", "m_key_protection_level", "sm_key", "sa_key", "sm_priority", "allow_both_pkeys", "qos"}, "what is not there counts"
    assert f"allow_both_pkeys TRUE in {file}" in weft.cli("doctor", check=False).stdout


# --- harden ---


def harden(weft, file, *arguments, check=False):
    return weft.cli("fabric", "harden", "--file", str(file), *arguments, check=check)


@pytest.fixture
def nobody():
    """A site whose weftd does not run: harden asks nobody."""
    weft = Weft()
    yield weft
    weft.remove()


def test_harden_tells_and_writes(nobody, tmp_path):
    file = tmp_path / "opensm.conf"
    file.write_text("# the site's own\nlmc 0\npart_enforce off\nm_key 0x00000000deadbeef\n", encoding="utf-8")
    told = harden(nobody, file)
    assert told.returncode == 1
    for line in ("-part_enforce off", "+part_enforce both", "+m_key_protection_level 2", "+event_plugin_name weftosm"):
        assert line in told.stdout.splitlines()
    assert "deadbeef" not in told.stdout, "a key is not for everybody's eyes"
    assert "part_enforce off" in file.read_text(encoding="utf-8"), "nothing is written unless asked for"

    harden(nobody, file, "--write", check=True)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# the site's own\nlmc 0\npart_enforce both\nm_key 0x") and "deadbeef" not in text
    assert file.stat().st_mode & 0o777 == 0o600
    assert "part_enforce off" in (tmp_path / "opensm.conf.before-weft").read_text(encoding="utf-8")
    again = harden(nobody, file)
    assert again.returncode == 0 and "nothing to change" in again.stdout

    assert harden(nobody, file, "--qos", "--write").returncode == 0
    assert "qos TRUE" in file.read_text(encoding="utf-8")
    assert (tmp_path / "opensm.conf.before-weft.2").exists(), "the first copy stays"


def test_harden_begins_a_file_that_is_not_there(nobody, tmp_path):
    file = tmp_path / "opensm.conf"
    harden(nobody, file, "--way", "file", "--write", check=True)
    text = file.read_text(encoding="utf-8")
    assert "m_key 0x" in text and "event_plugin_name" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["opensm.conf"]


def test_harden_refuses(nobody, tmp_path):
    done = harden(nobody, tmp_path / "x", "--way", "pigeon")
    assert done.returncode == 2 and "pigeon" in done.stderr
    assert harden(nobody, tmp_path / "x", "--json", "--write").returncode == 2
    (tmp_path / "long").write_text("lmc 0\n" + "x" * 2000, encoding="utf-8")
    done = harden(nobody, tmp_path / "long", "--write")
    assert done.returncode != 0 and "line 2" in done.stderr
    done = harden(nobody, tmp_path / "no/such/folder", "--write")
    assert done.returncode != 0 and "no/such/folder" in done.stderr


def test_harden_speaks_json(nobody, tmp_path):
    found = {each["option"]: each for each in json.loads(harden(nobody, tmp_path / "none", "--json").stdout)}
    assert found["m_key"]["severe"] and not found["m_key"]["right"] and found["m_key"]["found"] is None
    assert found["part_enforce"]["right"] and found["part_enforce"]["write"] is None


@pytest.mark.skipif(not shutil.which("opensm"), reason="takes the package opensm")
def test_opensm_reads_what_harden_writes(nobody, tmp_path):
    """Its own defaults are seen as they are, and what it makes of the written file is right."""
    def dump(*arguments):
        subprocess.run(["opensm", "-f", tmp_path / "log", "-c", tmp_path / "dump", *arguments], check=True, capture_output=True,
                       timeout=PATIENCE)
        return dict(line.split(None, 1) for line in (tmp_path / "dump").read_text().splitlines() if line and line[0] not in "#" and " " in line)

    before = dump("-F", tmp_path / "none")
    assert (before["m_key_protection_level"], before["keep_pkey_indexes"], before["part_enforce"]) == ("0", "TRUE", "both")
    told = [line[1:].split()[0] for line in harden(nobody, tmp_path / "dump").stdout.splitlines() if line.startswith("-")]
    assert told == ["m_key", "m_key_protection_level", "sm_key", "sa_key", "sm_priority", "allow_both_pkeys", "event_plugin_name"]
    harden(nobody, tmp_path / "hard", "--write", check=True)
    after = dump("-F", tmp_path / "hard")
    assert after["m_key_protection_level"] == "2" and int(after["m_key"], 16) > 1 << 32 and after["sm_priority"] == "14"
    assert harden(nobody, tmp_path / "dump").returncode == 0, "opensm has taken everything"


# --- hosts that leave their place to the map ---


def vague(name, **more):
    """A host that tells neither its leaf nor which port is its adapter's."""
    description = host(name, **more)
    del description["leaf"]
    for hca in description["hcas"]:
        del hca["port_guid"]
    return description


def port_of(weft, name, hca=0):
    return weft.client.get(f"/v1/hosts/{name}")["hcas"][hca].get("port_guid")


def map_checks(weft):
    site = next(each for each in weft.client.get("/v1/doctor")["items"] if each["host"] is None)
    return [(check["state"], check["found"]) for check in site["checks"] if check["check"] == "map of ib0"]


def test_hosts_find_their_place_by_the_map(site, settle):
    weft = site(changes={"hosts": [vague(f"n{i}") for i in range(1, 5)]})
    [(state, found)] = map_checks(weft)
    assert state == "warn" and "leaf" in found
    weft.client.create("cfd", 4, cores=6, path="sriov")
    until(lambda: "ports" in (weft.client.cluster("cfd")["reason"] or ""), "no port is known, and nobody gets one")
    text = net(4)
    assert weft.client.request("POST", "/v1/fabrics/ib0/map", text.encode(), RAW).status == 201
    weft.client.wait_phase("cfd", "ready")
    assert [port_of(weft, f"n{i}") for i in range(1, 5)] == [f"0x{port_guid(i):016x}" for i in range(1, 5)]
    [partition] = weft.world.partitions().values()
    assert {f"0x{member.port:016x}" for member in partition.members} == {f"0x{port_guid(i):016x}" for i in range(1, 5)}
    assert map_checks(weft) == [("ok", "all adapters of its hosts are on it; 0 ports are no host's")]
    settle(weft)

    # Whoever has an adapter can call it anything: what was found stays, over restarts as well.
    weft.cli("fabric", "import", "--clear")
    write_map(weft, text.replace('"n1 mlx5_0"', '"n2 mlx5_0"', 1).replace('"n2 mlx5_0"', '"n1 mlx5_0"'))
    weft.stop()
    weft.start()
    settle(weft)
    assert [port_of(weft, f"n{i}") for i in (1, 2)] == [f"0x{port_guid(i):016x}" for i in (1, 2)]
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")


def leaves_of(weft, cluster, leaf_of):
    return {leaf_of[node["host"]] for node in weft.client.nodes(cluster)}


def test_places_by_the_leaves_of_the_map(site):
    """n1 to n4 in their order would be two and two: the map has n1 and n3 on one leaf, n2 and n4 on the other."""
    weft = site(changes={"hosts": [vague(f"n{i}") for i in range(1, 5)]})
    on = {"n1": "leaf1", "n3": "leaf1", "n2": "leaf2", "n4": "leaf2"}
    text = net(4).replace('"n2 ', '"@ ').replace('"n3 ', '"n2 ').replace('"@ ', '"n3 ')
    assert weft.client.request("POST", "/v1/fabrics/ib0/map", text.encode(), RAW).status == 201
    until(lambda: all(each["state"] == "up" and each["hcas"][0].get("port_guid") for each in weft.client.items("/v1/hosts")),
          "all are up, and found on the map")
    for cluster in ("first", "second"):
        weft.client.create(cluster, 2, cores=6)
    for cluster in ("first", "second"):
        weft.client.wait_phase(cluster, "ready")
        assert len(leaves_of(weft, cluster, on)) == 1, weft.client.nodes(cluster)


def test_a_host_that_comes_later_is_found(site):
    weft = site(changes={"hosts": [vague("n1")]})
    write_map(weft, net(4))
    assert weft.client.request("POST", "/v1/hosts", vague("n3")).status == 201
    until(lambda: port_of(weft, "n3") == f"0x{port_guid(3):016x}", "its port is found")
    assert any(event["type"] == "host-port-found" and event["host"] == "n3" for event in weft.client.events())


def test_two_rails(site):
    """The second adapter of n1 hangs on the other leaf; each is found by its own name."""
    hosts = [vague("n1", hcas=[{"name": name, "driver": "mlx5", "port_guid": "", "vfs": 4} for name in ("mlx5_0", "mlx5_1")])]
    weft = site(changes={"hosts": hosts})
    write_map(weft, net(4).replace('"n3 mlx5_0"', '"n1 mlx5_1"'))
    weft.world.fabric_event("ports")
    weft.client.create("cfd", 1, rails=2, path="sriov")
    weft.client.wait_phase("cfd", "ready")
    assert [port_of(weft, "n1", hca) for hca in (0, 1)] == [f"0x{port_guid(i):016x}" for i in (1, 3)]
    [partition] = weft.world.partitions().values()
    assert {f"0x{member.port:016x}" for member in partition.members} == {f"0x{port_guid(i):016x}" for i in (1, 3)}
