"""What weft says without a weftd: help, wrong usage, the manual, and the completion."""

import json
import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from harness.weft import SOURCE, build_folder

GOLDEN = SOURCE / "tests/golden/cli"
MANUAL = SOURCE / "docs/man"
NOWHERE = "unix:///nonexistent/weft.sock"


def run(*arguments, text="", **environment):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("WEFT_")}
    return subprocess.run([build_folder() / "src/cli/weft", *arguments], capture_output=True, text=True, input=text, check=False,
                          timeout=30, env=plain | {"WEFT_URL": NOWHERE} | environment)


def candidates(*words):
    return run("__complete", *words).stdout.split()


def all_verbs():
    """Every verb, and every subverb as two words."""
    for verb in candidates(""):
        subverbs = candidates(verb, "")
        yield from ([verb, subverb] for subverb in subverbs) if subverbs else [[verb]]


def golden(name, text):
    path = GOLDEN / name
    if os.environ.get("WEFT_GOLDEN_REWRITE"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing; WEFT_GOLDEN_REWRITE=1 writes it"
    assert text == path.read_text(encoding="utf-8")


def test_help_of_all():
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    golden("help.txt", done.stdout)


def test_help_of_each_verb():
    verbs = [verb for verb in all_verbs() if verb != ["lab"]]
    assert ["create"] in verbs and ["host", "drain"] in verbs
    for verb in verbs:
        done = run(*verb, "--help")
        assert (done.returncode, done.stderr) == (0, ""), verb
        examples = done.stdout.split("Examples:\n")[1].splitlines()
        assert len(examples) == 2 and all(example.startswith("  weft " + " ".join(verb)) for example in examples), verb
        golden(f"help-{'-'.join(verb)}.txt", done.stdout)
        told = done.stdout.split("Examples:\n")[0]
        assert all(len(line) <= 80 for line in told.splitlines()), verb
        assert ("--json" in told.split("Options of every verb:")[1]) == (verb[0] not in ("run", "ssh", "console")), verb
        assert run("help", *verb).stdout == done.stdout
    assert {path.name for path in GOLDEN.glob("help-*.txt")} == {f"help-{'-'.join(verb)}.txt" for verb in verbs}


def test_help_of_a_program_of_its_own():
    done = run("lab", "--help")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("usage: weft lab ")
    assert run("help", "lab").stdout == done.stdout


def test_help_of_groups():
    for group in ("host", "tenant", "user", "token"):
        done = run(group, "--help")
        assert done.returncode == 0
        assert re.findall(rf"^  {group} (\w+)", done.stdout, re.M) == candidates(group, "")


PLACE = ["n1", "--fabric", "ib0", "--leaf", "leaf1"]

WRONG = [
    [],
    ["crate"],
    ["frobnicate"],
    ["delete", "cfd"],
    ["exec", "cfd", "--", "hostname"],
    ["host", "ls"],
    ["tenant", "create", "acme"],
    ["token", "rm", "x"],
    ["help", "frobnicate"],
    ["host", "delete", "n1"],
    ["host"],
    ["host", "dran", "n1"],
    ["--frob", "ls"],
    ["ls", "--frob"],
    ["ls", "-q"],
    ["create", "cfd", "--core", "4"],
    ["run", "cfd", "hostname"],
    ["ssh", "cfd", "ls", "-l"],
    ["ls", "cfd"],
    ["show"],
    ["--url", "http://localhost:80", "ls"],
    ["--url", "unix:weft.sock", "ls"],
    ["--url"],
    ["--token-file", "/nonexistent/token", "ls"],
    ["create"],
    ["create", "cfd"],
    ["create", "cfd", "-n", "many"],
    ["create", "cfd", "-n", "2", "--memory", "8", "GB"],
    ["create", "cfd", "-n", "2", "--time", "12"],
    ["create", "cfd", "-n", "2", "--priority", "high"],
    ["create", "cfd", "-n", "2", "--group", "gpu:4"],
    ["create", "cfd", "--group", "gpu"],
    ["create", "cfd", "--group", "gpu:four"],
    ["create", "cfd", "--group", ":4"],
    ["create", "cfd", "--group", "gpu:4,cores"],
    ["create", "cfd", "--group", "gpu:4,cores=many"],
    ["create", "cfd", "--group", "gpu:4,memory=8Q"],
    ["create", "cfd", "--group", "gpu:4,count=5"],
    ["tenant", "add", "acme", "--share", "much"],
    ["tenant", "set", "acme", "--priority-max", "1.5"],
    ["create", "cfd", "-n", "2", "--memory", "8Q"],
    ["create", "cfd", "-n", "2", "--memory", "1.0000001K"],
    ["create", "cfd", "-n", "2", "--pages", "big"],
    ["create", "cfd", "-n", "2", "--label", "rack"],
    ["create", "cfd", "-n", "2", "--timeout", "soon"],
    ["create", "cfd", "-f", "/nonexistent/cfd.yaml"],
    ["create", "cfd", "-n", "2", "--ssh-key", "/nonexistent/key.pub"],
    ["create", "cfd", "-n", "2", "--user-data", "/nonexistent/user-data"],
    ["image", "add", "mpi", "--disk", "/nonexistent/disk"],
    ["hostfile", "cfd[0]"],
    ["scale", "cfd[0-3]", "8"],
    ["events", "cfd[0"],
    ["run", "--json", "cfd", "--", "hostname"],
    ["console", "cfd", "--json"],
    ["scale", "cfd", "many"],
    ["scale", "cfd", "--2"],
    ["rm", "run[3-1]"],
    ["rm", "run[0-9999999]"],
    ["wait", "cfd", "--for", "godot"],
    ["wait", "cfd", "--timeout", "never"],
    ["events", "--since", "yesterday"],
    ["usage", "--from", "2026-02-30"],
    ["host", "add"],
    ["host", "add", "n1"],
    ["host", "add", *PLACE, "--pages", "2M=4"],
    ["host", "add", *PLACE, "--cores", "4", "--pages", "1024"],
    ["host", "add", *PLACE, "--cores", "4", "--pages", "2Q=4"],
    ["host", "add", *PLACE, "--cores", "4", "--hca", "mlx5_0,vfs"],
    ["tenant", "set", "acme"],
    ["tenant", "add", "acme", "--nodes", "lots"],
    ["tenant", "add", "acme", "--memory", "lots"],
    ["token", "create", "--expires", "30"],
    ["ls"],
    ["version"],
]

WRONG_FILES = [
    ("- a\n- b\n", []),
    ("name: cfd\ncount: [\n", []),
    ("count: 2\n", []),
    ("name: cfd\n", []),
    ("name: cfd\ngroups: [{name: a, count: 1}, {name: b, count: 2}]\n", ["--cores", "4"]),
    ("name: cfd\ngroups: [{name: a, count: 1}]\n", ["-n", "4"]),
]


def test_wrong_usage():
    transcript = ""
    for arguments in WRONG:
        done = run(*arguments)
        assert done.returncode in (2, 4, 8, 255) and not done.stdout.replace("weft 0.1.0\n", ""), arguments
        transcript += f"$ weft {' '.join(arguments)}\n{done.stderr}exit {done.returncode}\n\n"
    golden("wrong-usage.txt", transcript)


def test_wrong_files():
    transcript = ""
    for text, arguments in WRONG_FILES:
        done = run("create", "-f", "-", *arguments, text=text)
        assert (done.returncode, done.stdout) == (2, ""), text
        transcript += f"$ weft create -f - {' '.join(arguments)}\n{text}---\n{done.stderr}exit {done.returncode}\n\n"
    golden("wrong-files.txt", transcript)


def test_arguments_are_utf8():
    done = run("host", "add", b"n\xff1", "--cores", "4")
    assert done.returncode == 2 and done.stderr.startswith("weft: host add: argument 1 is not UTF-8\n")


def test_token_is_one_word():
    done = run("ls", WEFT_URL="https://localhost:1", WEFT_TOKEN="weft_a_b\r\nX-Evil: yes")
    assert done.returncode == 2
    assert done.stderr == "weft: WEFT_TOKEN: a token is one word, weft_ID_SECRET\n"


def test_full_disk_is_told(tmp_path):
    """A limit on files stands for the disk: there need not be a /dev/full, and opening it for writing would then make one."""

    def allow_nothing():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    with open(tmp_path / "full", "w", encoding="utf-8") as full:
        done = subprocess.run([build_folder() / "src/cli/weft", "--help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                              preexec_fn=allow_nothing)
    assert done.returncode == 1
    assert done.stderr.startswith("weft: cannot write the output: ")


def test_reader_that_goes_away_is_no_complaint():
    done = subprocess.run(["bash", "-c", 'for i in {1..50}; do "$0" --help | true || exit 1; done', build_folder() / "src/cli/weft"],
                          capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_verb_has_its_page():
    pages = {path.name for path in MANUAL.glob("weft-*.1")}
    assert pages == {f"weft-{verb}.1" for verb in candidates("")}


def test_every_page_is_installed():
    plan = subprocess.run(["meson", "introspect", "--installed", build_folder()], capture_output=True, text=True, check=True).stdout
    installed = {Path(path).name for path in json.loads(plan)}
    assert {path.name for path in MANUAL.iterdir()} | {"weft.yaml.example", "weft.bash"} <= installed


def test_page_tells_every_option():
    for verb in all_verbs():
        page = (MANUAL / f"weft-{verb[0]}.1").read_text(encoding="utf-8")
        help_text = run(*verb, "--help").stdout.split("Options of every verb:")[0]
        for option in re.findall(r" --([a-z-]+)", help_text.split("\nOptions:\n")[-1] if "\nOptions:\n" in help_text else ""):
            assert re.search(rf" -{option}\b", page), f"weft-{verb[0]}.1: --{option}"


@pytest.mark.parametrize("path", sorted(MANUAL.glob("weft*.[0-9]")), ids=lambda path: path.name)
def test_page_is_clean(path):
    done = subprocess.run(["mandoc", "-Tlint", "-W", "warning", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    page = path.read_text(encoding="utf-8")
    assert ".Sh EXAMPLES" in page or path.suffix == ".5"
    for name, section in re.findall(r"^\.Xr (weft\S*) (\d)", page, re.M):
        assert (MANUAL / f"{name}.{section}").exists(), f"{path.name}: {name}({section})"


def complete_in_bash(*words):
    """What bash offers for these words, of which the last is begun."""
    script = f"""
        source {SOURCE}/completions/weft.bash
        COMP_WORDS=(weft "$@"); COMP_CWORD=$#
        _weft
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    path = f"{build_folder() / 'src/cli'}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True,
                          env=os.environ | {"PATH": path, "WEFT_URL": NOWHERE})
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("words, offered", [
    (["sca"], ["scale"]),
    (["--tenant", "acme", "sca"], ["scale"]),
    (["host", "u"], ["undrain"]),
    (["--url", "x", "host", "--json", "d"], ["drain"]),
    (["create", "--ga"], []),
    (["create", "--gp"], ["--gpus"]),
    (["create", "--path", "b"], ["bridge"]),
    (["wait", "--for", ""], ["ready", "deleted"]),
    (["ls", "--to"], ["--token-file"]),
    (["show", ""], []),
])
def test_completion(words, offered):
    assert complete_in_bash(*words) == offered


def test_completion_offers_all_verbs():
    assert complete_in_bash("") == candidates("")
    assert "create" in candidates("")
