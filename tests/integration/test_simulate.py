"""weft simulate: traces and made-up loads, its table, JSON and plot."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from harness.weft import build_folder

SMALL = ["--generate", "--hosts", "16", "--leaf-hosts", "4", "--cores", "8", "--jobs", "400", "--load", "0.9"]
THREE = """; MaxNodes: 2
; MaxProcs: 8
1 0 -1 100 -1 -1 -1 4 100 -1 1 1 1 -1 1 1 -1 -1
2 10 -1 50 -1 -1 -1 8 60 -1 1 2 1 -1 1 1 -1 -1
3 20 -1 30 -1 -1 -1 4 40 -1 1 3 1 -1 1 1 -1 -1
"""


def simulate(*arguments, text="", code=0):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = subprocess.run([build_folder() / "src/cli/weft", "simulate", *arguments], capture_output=True, text=True, input=text, check=False,
                          timeout=300, env=plain | {"WEFT_URL": "unix:///nonexistent/weft.sock"})
    assert done.returncode == code, done.stderr
    return done


def figures(*arguments, text=""):
    done = simulate(*arguments, "--json", text=text)
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_three_jobs_by_hand():
    """The first has one of two hosts, the second waits for both, the third fits in before it."""
    got = figures("--trace", "-", "--policy", "fifo", "--leaf-hosts", "1", text=THREE)
    assert got["jobs"] == {"submitted": 3, "impossible": 0, "started": 3, "ended": 3, "waiting": 0, "cut": 0, "preempted": 0,
                           "backfilled": 1, "promised": 1, "late": 0}
    assert (got["submitting"], got["span"], got["cores"]) == (20, 150, 8)
    assert got["utilisation"] == pytest.approx(920 / 1200, abs=1e-5)
    assert got["utilisation_submitting"] == 0.5
    assert got["wait"] == {"mean": 30, "median": 0, "p95": 90, "max": 90}
    assert got["bounded_slowdown"] == {"mean": 1.6, "median": 1, "p95": 2.8, "max": 2.8}
    assert got["leaves"] == {"mean": pytest.approx(4 / 3, abs=1e-5), "median": 1, "p95": 2, "max": 2}
    assert got["leaves_over_least"]["max"] == 1
    assert got["queue"] == {"mean": 0.6, "max": 1}
    assert got["series"]["step"] == 1
    assert got["series"]["utilisation"] == [0.5] * 20 + [1] * 30 + [0.5] * 50 + [1] * 50
    assert got["series"]["queue"] == [0] * 10 + [1] * 90 + [0] * 50


def test_table():
    done = simulate("--trace", "-", "--policy", "fifo", text=THREE)
    lines = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    assert lines[:3] == [["3 jobs of standard input"], ["2 hosts with 4 cores on 1 leaf"],
                         ["queue fifo to a depth of 64, nodes compact, of up to 4 cores"]]
    rows = {line[0]: line[1:] for line in lines if len(line) > 1}
    assert rows["jobs ended"] == ["3", "of 3 submitted"]
    assert rows["utilisation"][0] == "50.0 %"
    assert rows["wait"] == ["30 s", "0 s", "1.5 m", "1.5 m"]
    assert rows["bounded slowdown"] == ["1.60", "1.00", "2.80", "2.80"]
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_json_is_complete():
    got = figures(*SMALL)
    assert set(got) == {"jobs", "submitting", "span", "cores", "offered", "utilisation", "utilisation_submitting", "fragmentation", "wait",
                        "bounded_slowdown", "leaves", "leaves_over_least", "queue", "nodes", "series"}
    for spread in ("wait", "bounded_slowdown", "leaves", "leaves_over_least"):
        assert got[spread]["median"] <= got[spread]["p95"] <= got[spread]["max"], spread
        assert got[spread]["mean"] <= got[spread]["max"], spread
    assert 0.5 < got["utilisation_submitting"] <= 1 and 0 <= got["fragmentation"] <= 1
    assert got["cores"] == 128 and got["jobs"]["ended"] == 400
    series = got["series"]
    n = len(series["utilisation"])
    assert len(series["queue"]) == len(series["fragmentation"]) == n and (n - 1) * series["step"] < got["span"] <= n * series["step"]
    assert sum(series["utilisation"]) / n == pytest.approx(got["utilisation"], rel=0.02)


@pytest.mark.parametrize("more", [[], ["--policy", "fifo"], ["--layout", "spread"], ["--depth", "1"], ["--gpu-share", "0.3", "--gpus", "2"],
                                  ["--preemptible-share", "0.3"], ["--levels", "3", "--radix", "2"], ["--vfs", "0"]], ids=" ".join)
def test_same_seed_same_output(tmp_path, more):
    plots = [tmp_path / "a.svg", tmp_path / "b.svg"]
    outputs = [simulate(*SMALL, *more, "--seed", "7", "--svg", plot).stdout for plot in plots]
    assert outputs[0] == outputs[1]
    assert plots[0].read_bytes() == plots[1].read_bytes()
    assert simulate(*SMALL, *more, "--seed", "8").stdout != outputs[0].replace("seed 7", "seed 8")


def test_promises_are_kept_in_order():
    got = figures(*SMALL, "--policy", "fifo", "--depth", "1000", "--load", "1.5")
    assert got["jobs"]["promised"] > 50 and got["jobs"]["late"] == 0


def test_spread_has_more_leaves():
    assert figures(*SMALL, "--layout", "spread")["leaves"]["mean"] > figures(*SMALL)["leaves"]["mean"]


def test_preemptible_jobs_give_way():
    got = figures(*SMALL, "--preemptible-share", "0.5", "--load", "1.5")
    assert got["jobs"]["preempted"] > 0 and got["jobs"]["ended"] == 400


def test_written_trace_gives_the_same(tmp_path):
    trace = tmp_path / "load.swf"
    made = simulate(*SMALL, "--gpus", "2", "--gpu-share", "0.3", "--preemptible-share", "0.3", "--write-trace", trace, "--json").stdout
    assert simulate("--trace", trace, "--leaf-hosts", "4", "--gpus", "2", "--json").stdout == made
    again = tmp_path / "again.swf"
    simulate("--trace", trace, "--leaf-hosts", "4", "--gpus", "2", "--write-trace", again)
    jobs = [[line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(";")] for path in (trace, again)]
    assert len(jobs[0]) == 400 and jobs[0] == jobs[1]


def test_plot(tmp_path):
    simulate(*SMALL, "--svg", tmp_path / "plot.svg")
    root = ElementTree.parse(tmp_path / "plot.svg").getroot()
    name = "{http://www.w3.org/2000/svg}"
    assert root.tag == name + "svg"
    curves = {path.get("class"): path.get("d") for path in root.iter(name + "path")}
    assert {"u line", "q line", "u area", "q area"} == set(curves)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    for curve in curves.values():
        points = [tuple(map(float, point)) for point in re.findall(r"[ML](\S+) ([\d.]+)", curve)]
        assert len(points) > 100 and all(0 <= x <= width and 0 <= y <= height for x, y in points)
    texts = [text.text for text in root.iter(name + "text")]
    assert {"Utilisation", "Jobs that wait", "100 %", "0", "time since the first submission"} <= set(texts)
    assert any(re.fullmatch(r"\d+ (h|d)", text) for text in texts)
    assert "prefers-color-scheme: dark" in root.find(name + "style").text


def test_hosts_of_a_map(tmp_path):
    """Sixteen hosts on four leaves below one spine, as ibnetdiscover writes them."""
    text = "".join(f'Switch 8 "S-{leaf}" # "leaf{leaf}"\n' +
                   "".join(f'[{port}] "H-{leaf}{port}"[1]\n' for port in range(1, 5)) + f'[8] "S-9"[{leaf}]\n\n' for leaf in range(1, 5))
    text += 'Switch 8 "S-9" # "spine"\n' + "".join(f'[{leaf}] "S-{leaf}"[8]\n' for leaf in range(1, 5)) + "\n"
    text += "".join(f'Ca 1 "H-{leaf}{port}" # "n{leaf}{port} mlx5_0"\n[1] "S-{leaf}"[{port}]\n\n' for leaf in range(1, 5) for port in range(1, 5))
    (tmp_path / "fabric.net").write_text(text, encoding="utf-8")
    load = ["--generate", "--cores", "8", "--jobs", "400", "--load", "0.9"]
    done = simulate(*load, "--fabric", tmp_path / "fabric.net")
    assert "16 hosts with 8 cores on 4 leaves" in done.stdout
    tree = simulate(*load, "--hosts", "16", "--leaf-hosts", "4", "--json")
    assert simulate(*load, "--fabric", tmp_path / "fabric.net", "--json").stdout == tree.stdout


def test_18000_jobs(tmp_path):
    trace = tmp_path / "load.swf"
    done = simulate("--generate", "--jobs", "18000", "--hosts", "128", "--write-trace", trace, "--timing", "--json")
    assert re.fullmatch(r"took \d+\.\d{3} s\n", done.stderr)
    got = figures("--trace", trace)
    assert got["jobs"]["ended"] == 18000 and got["jobs"]["waiting"] == 0
    assert got == json.loads(done.stdout)


WRONG = [
    ([], "give a trace with --trace FILE, or --generate a load; one of them"),
    (["--trace", "-", "--generate"], "one of them"),
    (["--trace", "/nonexistent/log.swf"], "cannot open /nonexistent/log.swf: No such file or directory"),
    (["--generate", "--hosts", "many"], "--hosts many: write a whole number from 1 to 100000"),
    (["--generate", "--hosts", "2.5"], "--hosts 2.5: write a whole number from 1 to 100000"),
    (["--generate", "--load", "0"], "--load 0: write a number from 0.001 to 100"),
    (["--generate", "--load", "nan"], "--load nan: write a number from 0.001 to 100"),
    (["--generate", "--memory", "lots"], '--memory: size "lots" is not understood'),
    (["--generate", "--memory", "1G"], "--memory 1G: write from 64M for each of the host's 32 cores up to 64T"),
    (["--generate", "--sockets", "4", "--cores", "2"], "--sockets 4: a host has 2 cores; write at most as many"),
    (["--generate", "--cores-per-node", "64"], "--cores-per-node 64: a host has 32 cores; write at most as many"),
    (["--generate", "--policy", "lifo"], "--policy lifo: write fair or fifo"),
    (["--generate", "--layout", "dense"], "--layout dense: write compact or spread"),
    (["--generate", "--share-by", "queue"], "--share-by queue: write user or group"),
    (["--generate", "--fabric", "/nonexistent/net"], "cannot open /nonexistent/net: No such file or directory"),
    (["--generate", "--fabric", "/dev/null", "--hosts", "3"], "--hosts has no use with --fabric, which says what is there; leave it out"),
    (["--trace", "-", "--seed", "3"], "--seed has no use with --trace, which says what is there; leave it out"),
    (["--generate", "--jobs", "1", "--svg", "/nonexistent/plot.svg"], "cannot write /nonexistent/plot.svg: No such file or directory"),
    (["--generate", "--largest", "1", "--hosts", "10000", "--days", "3660"], "more than 2000000 jobs; ask for fewer days, less load or larger jobs"),
    (["surplus", "--generate"], "'surplus' is one argument too many"),
]


@pytest.mark.parametrize("arguments, message", WRONG, ids=[" ".join(arguments) or "nothing" for arguments, _ in WRONG])
def test_wrong_usage(arguments, message):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    done = subprocess.run([build_folder() / "src/cli/weft", "simulate", *arguments], capture_output=True, text=True, input="", check=False,
                          timeout=60, env=plain)
    assert done.returncode != 0 and done.stdout == "" and message in done.stderr


@pytest.mark.parametrize("text, message", [
    ("", "standard input: no job in it can be replayed: of 0, none has both a run time and processors"),
    (THREE + "4 20 -1 30\n", "standard input: line 6: has 4 fields; a job has 18"),
    (THREE.replace("50", "soon"), 'standard input: line 4: field 4, the run time, is "soon"; write a number up to'),
    ("1 0 -1 -1 -1 -1 -1 4 100 -1 5 1 1 -1 1 1 -1 -1\n", "of 1, none has both a run time and processors"),
])
def test_wrong_traces(text, message):
    done = simulate("--trace", "-", text=text, code=2)
    assert done.stdout == "" and message in done.stderr
