"""Small doors: what somebody who is let in a little could use to get further."""

import datetime
import grp
import os
import re
import shutil
import stat
import subprocess

import pytest
from harness.weft import SOURCE, Weft


@pytest.fixture
def stopped():
    weft = Weft()
    yield weft
    weft.remove()


# --- the socket's group ---


def test_own_group_is_refused_for_the_socket(stopped):
    """Files that only weftd may read are readable by its group."""
    own = grp.getgrgid(os.getegid()).gr_name
    stopped.config["api"]["group"] = own
    said = stopped.run_refused()
    assert f'api.group: "{own}" is weftd\'s own group' in said and "name a group that is for clients only" in said
    assert not stopped.socket.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to a group that it is not in")
def test_socket_belongs_to_the_group(site):
    weft = site(changes={"api": {"group": "nogroup"}})
    found = weft.socket.stat()
    assert grp.getgrgid(found.st_gid).gr_name == "nogroup" and stat.S_IMODE(found.st_mode) == 0o660
    assert weft.client.get("/v1/whoami")["role"] == "admin"


@pytest.mark.skipif(not shutil.which("systemd-sysusers"), reason="without systemd")
def test_keys_have_a_group_that_the_socket_has_not(tmp_path):
    """As it is installed, and as docs/hosts.md tells to give the key away."""
    (tmp_path / "etc").mkdir()
    subprocess.run(["systemd-sysusers", f"--root={tmp_path}", "-"], input=(SOURCE / "dist/weft.sysusers").read_text(encoding="utf-8"),
                   text=True, check=True, capture_output=True)
    users = [line.split(":") for line in (tmp_path / "etc/passwd").read_text(encoding="utf-8").splitlines()]
    groups = {line.split(":")[0]: line.split(":") for line in (tmp_path / "etc/group").read_text(encoding="utf-8").splitlines()}
    own = next(user for user in users if user[0] == "weft")[3]
    assert groups["weft"][2] == own and not groups["weft"][3]
    assert groups["weft-keys"][3] == "weft" and groups["weft-users"][3] == "weft"
    hosts = (SOURCE / "docs/hosts.md").read_text(encoding="utf-8")
    assert re.findall(r"-g (\S+) .*(?:weftd\.key|libvirt/private)", hosts) == ["weft-keys", "weft-keys"]


# --- tokens ---


def life_of(token):
    made, end = (datetime.datetime.fromisoformat(token[name]) for name in ("created", "expires"))
    return end - made


def test_token_ends_by_itself(weft):
    made = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member"})
    assert made["expires"] and life_of(made) == datetime.timedelta(days=90)
    assert weft.client.items("/v1/tokens")[0]["expires"] == made["expires"]


def test_site_says_how_long_tokens_last(site, certificate):
    weft = site(changes={"api": {"token_lifetime": "2d", "token_lifetime_max": "10d", "tcp": "127.0.0.1:0",
                                 "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})
    assert life_of(weft.client.expect(201, "POST", "/v1/tokens", {"principal": "ada"})) == datetime.timedelta(days=2)
    longest = weft.client.expect(201, "POST", "/v1/tokens", {"principal": "acme-member", "expires_in": "10d"})
    assert life_of(longest) == datetime.timedelta(days=10)
    member = weft.tls_client(longest["token"], certificate["certificate"])
    for who in (weft.client, member):
        refused = who.expect(400, "POST", "/v1/tokens", {"principal": "acme-member", "expires_in": "11d"})
        assert refused["detail"].startswith("expires_in: 11d must be") and "at most 10 d" in refused["detail"], refused


def test_only_operators_say_never(site, certificate):
    weft = site(changes={"api": {"tcp": "127.0.0.1:0", "tls_certificate": certificate["certificate"], "tls_key": certificate["key"]}})

    def own(principal):
        return weft.tls_client(weft.token(principal), certificate["certificate"])

    refused = own("acme-member").expect(400, "POST", "/v1/tokens", {"expires_in": "never"})
    assert refused["detail"] == 'expires_in: "never" is for operators and admins; name a duration of at most 365 d'
    for principal in ("olga", "ada"):
        assert own(principal).expect(201, "POST", "/v1/tokens", {"expires_in": "never"})["expires"] is None


def test_weft_tells_when_a_token_ends(weft):
    made = weft.cli("token", "create", "--user", "acme-member", "--expires", "3d")
    end = weft.client.items("/v1/tokens")[0]["expires"]
    assert end in made.stderr and made.stdout.startswith("weft_") and len(made.stdout.split()) == 1
    assert "expires: never" in weft.cli("token", "create", "--user", "olga", "--expires", "never").stderr
    rows = weft.cli("token", "ls").stdout.splitlines()[1:]
    assert sorted(row.split()[4] for row in rows) == sorted([end, "never"])


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o660])
def test_token_file_that_others_may_read_is_not_used(weft, tmp_path, mode):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(weft.token("acme-member"), encoding="utf-8")
    assert weft.cli("--token-file", path, "whoami").stdout == "acme-member: member of tenant acme\n"
    path.chmod(mode)
    refused = weft.cli("--token-file", path, "whoami", check=False)
    assert refused.returncode == 2 and f"{path}: others may read it (mode {mode:04o}): chmod go= '{path}'" in refused.stderr
    assert weft.cli("whoami", check=False, env={"WEFT_TOKEN_FILE": str(path)}).returncode == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file away")
def test_token_file_of_another_may_be_for_a_group(weft, tmp_path):
    path = tmp_path / "token"
    path.touch(0o600)
    path.write_text(weft.token("acme-member"), encoding="utf-8")
    path.chmod(0o640)
    os.chown(path, 1, 0)
    assert weft.cli("--token-file", path, "whoami").stdout == "acme-member: member of tenant acme\n"
    path.chmod(0o644)
    assert weft.cli("--token-file", path, "whoami", check=False).returncode == 2


def test_token_may_come_through_a_pipe(weft):
    reader, writer = os.pipe()
    os.write(writer, weft.token("acme-member").encode())
    os.close(writer)
    assert weft.cli("--token-file", f"/proc/{os.getpid()}/fd/{reader}", "whoami").stdout.startswith("acme-member")
    os.close(reader)
