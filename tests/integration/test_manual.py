"""weft.yaml(5), its example and the README against what is really there."""

import re
import subprocess
from collections import Counter

import pytest
import yaml

from harness.weft import SOURCE, build_folder

PAGE = (SOURCE / "docs/man/weft.yaml.5").read_text(encoding="utf-8")
EXAMPLE = SOURCE / "docs/weft.yaml.example"
FOR_TESTS = {"run_guests", "hook"}  # of no use in an example


def options():
    """Every option that config.c reads."""
    text = (SOURCE / "src/daemon/config.c").read_text(encoding="utf-8")
    table = re.findall(r'\{ "(\w+)",\s+AT\(', text)
    calls = re.findall(r'(?:read_(?:path|text|section|list)|weft_fields_\w+)\(&?\w+, "(\w+)"', text)
    assert len(table) > 20 and "socket" in calls
    return sorted(set(table) | set(calls))


@pytest.mark.parametrize("option", options())
def test_option_is_told(option):
    assert re.search(rf"^\.(It Cm|Ss|Cm)\b.*\b{option}\b", PAGE, re.M), "weft.yaml.5"
    assert option in FOR_TESTS or re.search(rf"\b{option}:", EXAMPLE.read_text(encoding="utf-8")), "weft.yaml.example"


def check(path):
    return subprocess.run([build_folder() / "src/daemon/weftd", "--check", "--config", path], capture_output=True, text=True, check=False)


def test_example_is_accepted():
    assert check(EXAMPLE).returncode == 0


def test_example_has_no_other_options():
    """Also those that are commented out."""
    with_all = re.sub(r"^(\s*)# (\w+: )", r"\1\2", EXAMPLE.read_text(encoding="utf-8"), flags=re.M)
    assert set(yaml.safe_load(with_all)["api"]) <= set(options())


def test_smallest_file_of_the_manual(tmp_path):
    text = re.search(r"^\.Bd -literal -offset indent\n(fabrics:.*?)\.Ed", PAGE, re.M | re.S)[1]
    (tmp_path / "weft.yaml").write_text(text, encoding="utf-8")
    done = check(tmp_path / "weft.yaml")
    assert (done.returncode, done.stderr) == (0, "")


def test_readme_names_every_folder():
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    architecture = (SOURCE / "docs/architecture.md").read_text(encoding="utf-8")
    for folder in sorted((SOURCE / "src").iterdir()):
        assert f"`src/{folder.name}`" in readme, "README.md"
        assert f"`{folder.name}`" in architecture, "docs/architecture.md"


@pytest.mark.parametrize("path", sorted(path for path in SOURCE.glob("**/*.md") if "build" not in path.parts[len(SOURCE.parts)]),
                         ids=lambda path: str(path.relative_to(SOURCE)))
def test_links_lead_somewhere(path):
    for link in re.findall(r"\]\((?!https?:)([^)#\s]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def promises_without_tests(text):
    """What docs/security.md names that is not there: files and, after them, tests in these; and promises beside which no test is named."""
    found, file = [], None
    for word in re.findall(r"`([^`\n]+)`|\n", text):
        if not word:
            file = None  # a name belongs to a file of its own line
        elif word.startswith("tests/"):
            file = SOURCE / word
            if not file.exists():
                found.append(word)
        elif re.fullmatch(r"test_\w+|check_\w+|/[a-z][a-z0-9/-]+/[a-z0-9/-]+", word):
            source = file.read_text(encoding="utf-8") if file and file.is_file() else ""
            pattern = rf"^def {word}\(" if file and file.suffix == ".py" else f'"{word}"' if word.startswith("/") else rf"^{word}\("
            if not re.search(pattern, source, re.M):
                found.append(word)
    rows = [line.split("|") for line in text.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]
    found += [row[1].strip() for row in rows if "`tests/" not in row[3]]
    return found + [number for number, times in Counter(row[1].strip() for row in rows).items() if times > 1]


def test_security_names_tests_that_are_there():
    text = (SOURCE / "docs/security.md").read_text(encoding="utf-8")
    assert promises_without_tests(text) == []
    assert len(re.findall(r"^\| [A-Z]\d+ \|", text, re.M)) > 50, "its tables were read"


@pytest.mark.parametrize("row, found", [
    ("| A1 | It is so. | `tests/integration/test_manual.py` (`test_security_names_tests_that_are_there`) | |", []),
    ("| A1 | It is so. | `tests/unit/test-link.c` (`/link/guest-misbehaves`) | |", []),
    ("| A1 | It is so. | `tests/integration/test_nothing.py` | |", ["tests/integration/test_nothing.py"]),
    ("| A1 | It is so. | `tests/integration/test_manual.py` (`test_security`) | |", ["test_security"]),
    ("| A1 | It is so. | `tests/unit/test-link.c` (`/link/guest`) | |", ["/link/guest"]),
    ("| A1 | It is so. | `tests/unit` (`test_security`) | |", ["test_security"]),
    ("`tests/integration/test_manual.py`\n`test_option_is_told`", ["test_option_is_told"]),
    ("| A1 | It is so, says `tests/unit`. | nobody | |", ["A1"]),
    ("| A1 | | `tests/unit` | |\n| A1 | | `tests/unit` | |", ["A1"]),
])
def test_promises_without_tests_are_found(row, found):
    assert promises_without_tests(row) == found
