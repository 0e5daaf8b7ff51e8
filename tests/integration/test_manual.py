"""weft.yaml(5), its example and the README against what is really there."""

import re
import subprocess

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
