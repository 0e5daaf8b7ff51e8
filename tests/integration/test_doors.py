"""Small doors: what somebody who is let in a little could use to get further."""

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
