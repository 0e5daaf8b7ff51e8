"""Images: sent in pieces whatever happens on the way, kept by their digest, gone with the last that names them."""

import contextlib
import hashlib
import json
import os
import random
import struct
import subprocess
import time

import pytest
from harness.files import INITRD, KERNEL
from harness.wait import PATIENCE, until
from harness.weft import UnixConnection, build_folder

MIB = 1 << 20
RAW = {"Content-Type": "application/octet-stream"}


def content(size=3 * MIB, seed=1):
    return random.Random(seed).randbytes(size)


def qcow2(version=3, backing=0, clusters=16, size=1 << 30, encryption=0, entries=2, table=3 << 16, features=0):
    """The beginning of such a file, as long as its tables need it."""
    header = struct.pack(">4sIQIIQIIQQIIQQQQII", b"QFI\xfb", version, backing, 0, clusters, size, encryption, entries, table, 1 << 16, 1, 0,
                         0, features, 0, 0, 4, 104)
    return header.ljust(4 << 16, b"\0")


def digest_of(data):
    return hashlib.sha256(data).hexdigest()


def send(client, data, offset=0, end=None, digest=None, total=None):
    path = f"/v1/blobs/{digest or digest_of(data)}?offset={offset}&size={total or len(data)}"
    return client.request("PATCH", path, data[offset:end], RAW)


def state(client, data):
    blob = client.get(f"/v1/blobs/{digest_of(data)}")
    return blob["size"], blob["complete"]


def upload(client, data, piece=MIB):
    for offset in range(0, len(data), piece):
        answer = send(client, data, offset, offset + piece)
        assert answer.status == 200, answer.text
    assert answer.json == {"digest": digest_of(data), "size": len(data), "complete": True}


def image(name, data, **parts):
    return {"name": name, "disk": {"digest": digest_of(data), "size": len(data), "format": "raw"}} | parts


def files(weft):
    return {path.name for path in (weft.root / "images").iterdir()}


def add(weft, name, data):
    upload(weft.client, data)
    return weft.client.expect(201, "POST", "/v1/images", image(name, data))


# --- the API ---


def test_upload_in_pieces(weft):
    data = content()
    assert state(weft.client, data) == (0, False)
    assert send(weft.client, data, 0, MIB).json == {"digest": digest_of(data), "size": MIB, "complete": False}
    assert state(weft.client, data) == (MIB, False)
    assert send(weft.client, data, MIB).json["complete"]
    assert state(weft.client, data) == (len(data), True)
    kept = weft.root / "images" / digest_of(data)
    assert kept.read_bytes() == data and kept.stat().st_mode & 0o777 == 0o600, "a checkpoint's memory comes the same way"
    assert files(weft) == {digest_of(data)}
    assert send(weft.client, data, 0, MIB).json["complete"], "what is there already needs nothing more"


def test_pieces_that_do_not_continue_are_told_where_to(weft):
    data = content()
    send(weft.client, data, 0, MIB)
    for offset in (0, MIB - 1, 2 * MIB):
        answer = send(weft.client, data, offset, offset + 10)
        assert answer.status == 409
        assert f"of which {MIB} bytes are here" in answer.json["detail"]
    assert state(weft.client, data) == (MIB, False)


def test_wrong_content_is_removed(weft):
    data, wrong = content(), content(seed=2)
    send(weft.client, data, 0, MIB)
    answer = send(weft.client, wrong, MIB, digest=digest_of(data))
    assert answer.status == 400
    assert "was removed" in answer.json["detail"]
    assert state(weft.client, data) == (0, False)
    assert files(weft) == set()
    upload(weft.client, data)


@pytest.mark.parametrize("path, problem", [
    ("/v1/blobs/xyz?offset=0&size=1", "is no SHA-256 digest"),
    ("/v1/blobs/..%2F..%2Fetc%2Fpasswd?offset=0&size=1", "is no SHA-256 digest"),
    ("/v1/blobs/" + "a" * 64 + "?size=1", "offset: must be a number of bytes"),
    ("/v1/blobs/" + "a" * 64 + "?offset=0", "size: must be a number of bytes"),
    ("/v1/blobs/" + "a" * 64 + "?offset=-1&size=3", "offset: must be a number of bytes"),
    ("/v1/blobs/" + "a" * 64 + "?offset=0&size=99999999999999999999", "size: must be a number of bytes"),
    ("/v1/blobs/" + "a" * 64 + "?offset=0&size=2", "size: 2 bytes are too few"),
])
def test_wrong_pieces_are_refused(weft, path, problem):
    answer = weft.client.request("PATCH", path, b"123", RAW)
    assert answer.status == 400
    assert problem in answer.json["detail"]
    assert files(weft) == set()


def test_a_piece_is_limited_and_raw(weft):
    data = content(4 * MIB + 1)
    assert send(weft.client, data).status == 413
    path = f"/v1/blobs/{digest_of(data)}?offset=0&size={len(data)}"
    assert weft.client.request("PATCH", path, {"a": 1}).status == 415
    assert weft.client.request("POST", "/v1/tenants", b"x" * (2 * MIB)).status == 413, "the limit is that of the route"
    assert files(weft) == set()


def test_upload_goes_on_after_a_kill(weft):
    data = content()
    send(weft.client, data, 0, 2 * MIB)
    weft.kill()
    weft.start()
    assert state(weft.client, data) == (2 * MIB, False)
    assert send(weft.client, data, 2 * MIB).json["complete"], "what came before the kill was summed up again"


def test_upload_of_which_a_power_cut_took_some_begins_anew(weft):
    """Its sender is not told that it has sent something else: weft sends it once more by itself."""
    data = content()
    send(weft.client, data, 0, 2 * MIB)
    weft.kill()
    with (weft.root / "images" / (digest_of(data) + ".part")).open("r+b") as part:
        part.write(bytes(4096))
    weft.start()
    answer = send(weft.client, data, 2 * MIB)
    assert answer.status == 503 and "power cut" in answer.json["detail"], answer.text
    assert state(weft.client, data) == (0, False)
    upload(weft.client, data)


def test_upload_that_was_only_not_checked_ends(weft):
    """Killed between the last byte and the check: nothing is left to send."""
    data = content()
    part = weft.root / "images" / (digest_of(data) + ".part")
    part.write_bytes(data)
    assert state(weft.client, data) == (len(data), False)
    assert send(weft.client, data, len(data)).json["complete"]
    assert files(weft) == {digest_of(data)}


def test_upload_that_is_too_long_begins_anew(weft):
    data = content()
    (weft.root / "images" / (digest_of(data) + ".part")).write_bytes(data + b"more")
    assert send(weft.client, data, 0, MIB).json["size"] == MIB
    assert send(weft.client, data, MIB).json["complete"]


def test_broken_connection_leaves_whole_pieces(weft):
    """A piece that did not come whole is none."""
    data = content()
    send(weft.client, data, 0, MIB)
    with contextlib.closing(UnixConnection(weft.socket)) as connection:
        connection.putrequest("PATCH", f"/v1/blobs/{digest_of(data)}?offset={MIB}&size={len(data)}")
        connection.putheader("Content-Type", "application/octet-stream")
        connection.putheader("Content-Length", str(MIB))
        connection.endheaders()
        connection.send(data[MIB:MIB + MIB // 2])
    assert state(weft.client, data) == (MIB, False)
    assert send(weft.client, data, MIB).json["complete"]


def test_full_disk_is_told(weft):
    size = 1 << 42
    answer = weft.client.request("PATCH", f"/v1/blobs/{'a' * 64}?offset=0&size={size}", b"123", RAW)
    assert answer.status == 409, answer.text
    assert "are free in" in answer.json["detail"] and "make room" in answer.json["detail"]
    assert weft.client.get(f"/v1/blobs/{'a' * 64}")["size"] == 0


def test_image_needs_its_files(weft):
    data = content()
    answer = weft.client.request("POST", "/v1/images", image("mpi", data))
    assert answer.status == 400
    assert "send it first" in answer.json["detail"]
    send(weft.client, data, 0, MIB)
    assert weft.client.request("POST", "/v1/images", image("mpi", data)).status == 400
    send(weft.client, data, MIB)
    wrong = image("mpi", data)
    wrong["disk"]["size"] += 1
    assert "disk.size" in weft.client.request("POST", "/v1/images", wrong).json["detail"]
    kernel = image("mpi", data, kernel={"digest": "b" * 64, "size": 3})
    assert weft.client.request("POST", "/v1/images", kernel).json["detail"].startswith("kernel: blob bbb")
    made = weft.client.expect(201, "POST", "/v1/images", image("mpi", data))
    assert made["disk"] == {"digest": digest_of(data), "size": len(data), "format": "raw"}
    assert made["kernel"] is None and made["created"]
    assert weft.client.get("/v1/images/mpi") == made
    assert weft.client.items("/v1/images") == [made]


def test_image_that_is_there_already(weft):
    data, other = content(), content(seed=2)
    made = add(weft, "mpi", data)
    assert weft.client.expect(201, "POST", "/v1/images", image("mpi", data)) == made, "the same again is the same"
    upload(weft.client, other)
    assert weft.client.request("POST", "/v1/images", image("mpi", other)).status == 409


def test_files_go_with_the_last_image(weft):
    shared, own = content(), KERNEL
    add(weft, "one", shared)
    upload(weft.client, own)
    weft.client.expect(201, "POST", "/v1/images", image("two", shared, kernel={"digest": digest_of(own), "size": len(own)}))
    weft.client.expect(204, "DELETE", "/v1/images/two")
    until(lambda: files(weft) == {digest_of(shared)}, lambda: f"only what an image names: {files(weft)}")
    weft.client.expect(204, "DELETE", "/v1/images/one")
    until(lambda: files(weft) == set(), lambda: f"nothing: {files(weft)}")
    assert weft.client.request("DELETE", "/v1/images/one").status == 404


def test_image_that_is_added_again_at_once(weft):
    """What is about to be removed is not told to be there: whoever sends it again keeps it."""
    data = content()
    for _ in range(20):
        add(weft, "mpi", data)
        weft.client.expect(204, "DELETE", "/v1/images/mpi")
        assert state(weft.client, data) == (0, False)
    add(weft, "mpi", data)
    add(weft, "other", content(seed=2))
    weft.client.expect(204, "DELETE", "/v1/images/other")
    until(lambda: files(weft) == {digest_of(data)}, lambda: f"only what an image names: {files(weft)}")


def test_files_go_also_when_killed(weft):
    """The record goes first: what a crash leaves is swept at a start, once nobody can be sending it any more."""
    kept, gone, begun = content(), content(seed=2), content(seed=3)
    add(weft, "kept", kept)
    add(weft, "gone", gone)
    send(weft.client, begun, 0, MIB)
    weft.stop()
    weft.start(failpoint="image-removed")
    with contextlib.suppress(OSError):
        weft.client.request("DELETE", "/v1/images/gone")
    until(weft.died, lambda: "weftd dies")
    part = digest_of(begun) + ".part"
    assert files(weft) == {digest_of(kept), digest_of(gone), part}
    weft.start()
    assert [found["name"] for found in weft.client.items("/v1/images")] == ["kept"]
    assert files(weft) == {digest_of(kept), digest_of(gone), part}, "somebody may still be about to name it"
    weft.stop()
    yesterday = time.time() - 25 * 3600
    for name in files(weft):
        os.utime(weft.root / "images" / name, (yesterday, yesterday))
    (weft.root / "images" / "README").write_text("not weft's", encoding="utf-8")
    weft.start()
    assert files(weft) == {digest_of(kept), "README"}


def test_image_stays_while_a_cluster_boots_it(weft):
    data = content()
    add(weft, "mpi", data)
    weft.client.create("cfd", image="mpi")
    answer = weft.client.request("DELETE", "/v1/images/mpi")
    assert answer.status == 409
    assert "1 group of nodes boots it" in answer.json["detail"]
    weft.client.delete("cfd")
    weft.client.wait_gone("cfd")
    weft.client.expect(204, "DELETE", "/v1/images/mpi")


def test_default_image_is_written_down(site):
    weft = site(changes={"default_image": "mpi"})
    made = weft.client.expect(201, "POST", "/v1/clusters?tenant=acme", {"name": "cfd", "count": 1, "memory": "256M"})
    assert made["groups"][0]["image"] == "mpi"


def test_only_operators_add_and_remove(weft):
    data = content()
    add(weft, "mpi", data)
    tls = {role: weft.token(f"acme-{role}") for role in ("viewer", "member")}
    for token in tls.values():
        headers = {"Authorization": f"Bearer {token}"}
        ask = lambda method, path, body=None: weft.client.request(method, path, body, headers | RAW)  # noqa: E731, B023
        assert ask("GET", "/v1/images").json["items"][0]["name"] == "mpi"
        assert ask("GET", "/v1/images/mpi").status == 200
        assert ask("DELETE", "/v1/images/mpi").status == 403
        assert ask("POST", "/v1/images", b"{}").status == 403
        assert ask("GET", f"/v1/blobs/{digest_of(data)}").status == 403
        assert ask("PATCH", f"/v1/blobs/{digest_of(data)}?offset=0&size=3", b"abc").status == 403
    operator = {"Authorization": f"Bearer {weft.token('olga')}"}
    assert weft.client.request("DELETE", "/v1/images/mpi", headers=operator).status == 204


# --- the command line ---


def written(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize("start, kind", [(qcow2(), "qcow2"), (b"hsqs", "readonly"), (bytes(512), "raw")],
                         ids=["qcow2", "readonly", "raw"])
def test_add_sees_the_format(weft, tmp_path, start, kind):
    disk = written(tmp_path, "disk", start + content())
    made = json.loads(weft.cli("image", "add", "mpi", "--disk", disk, "--json").stdout)
    assert made["disk"]["format"] == kind


@pytest.mark.parametrize("kind, header, problem", [
    ("qcow2", {"backing": 104}, "disk: the image is a layer over another file"),
    ("qcow2", {"features": 4}, "disk: the image keeps its data in another file"),
    ("qcow2", {"features": 1 << 40}, "disk: the image has features that weft does not know (0x10000000000)"),
    ("qcow2", {"size": 1 << 60}, "disk: the image describes a disk of 1152921504606846976 bytes"),
    ("qcow2", {"table": 1 << 62}, "disk: the image's tables are not within its file"),
    ("qcow2", {"version": 9}, "disk: the file is no qcow2 of version 2 or 3"),
    ("raw", {"backing": 104}, "disk.format: is raw, and the file is a qcow2"),
    ("readonly", {"backing": 104}, "disk.format: is readonly, and the file is a qcow2"),
    ("qcow2", {"clusters": 12}, "disk: the image's tables cannot be"),
    ("qcow2", None, "disk.format: is qcow2, and the file is no qcow2"),
])
def test_disk_that_leads_elsewhere_or_is_not_what_it_says(weft, kind, header, problem):
    file = content(MIB) if header is None else qcow2(**header)
    upload(weft.client, file)
    answer = weft.client.request("POST", "/v1/images", {"name": "bad", "disk": {"digest": digest_of(file), "size": len(file), "format": kind}})
    assert answer.status == 400 and problem in answer.json["detail"], answer.text
    assert weft.client.get("/v1/images")["items"] == []


@pytest.mark.parametrize("part, file, problem", [
    ("disk", bytes(1000), "disk: has 1000 bytes, and a disk has whole sectors of 512"),
    ("kernel", b"#!/bin/sh\n", "kernel: the file begins with 23 21 2f 62, and a kernel is ELF (vmlinux) or a bzImage (vmlinuz)"),
    ("kernel", INITRD, "kernel: the file is a cpio archive, and a kernel is ELF"),
    ("kernel", KERNEL.replace(b"\2\0\x3e", b"\2\0\xb7"), "kernel: the file is ELF of machine 183"),
    ("initrd", KERNEL, "initrd: the file is ELF, and an initrd is a cpio archive"),
])
def test_file_that_nothing_boots(weft, tmp_path, part, file, problem):
    """weftd refuses it, whatever the client thinks, and there is no image."""
    parts = {"kernel": KERNEL} if part != "disk" else {}
    arguments = [word for name, data in (parts | {part: file}).items() for word in (f"--{name}", written(tmp_path, name, data))]
    done = weft.cli("image", "add", "bad", *arguments, check=False)
    assert done.returncode == 2 and f"image bad: {problem}" in done.stderr
    assert weft.client.get("/v1/images")["items"] == []


@pytest.mark.skipif(not os.path.exists("/usr/bin/qemu-img"), reason="needs qemu-img")
@pytest.mark.parametrize("options, problem", [
    (["disk", "64M"], None),
    (["-o", "compat=0.10", "disk", "64M"], None),
    (["-o", "extended_l2=on,cluster_size=128k,compression_type=zstd", "disk", "64M"], None),
    (["-b", "/etc/passwd", "-F", "raw", "disk", "64M"], "is a layer over another file"),
    (["-o", "data_file=other,data_file_raw=on", "disk", "64M"], "keeps its data in another file"),
    (["disk", "8T"], "describes a disk of 8796093022208 bytes"),
])
def test_disks_as_qemu_makes_them(weft, tmp_path, options, problem):
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options], cwd=tmp_path, check=True)
    done = weft.cli("image", "add", "made", "--disk", str(tmp_path / "disk"), check=False)
    if problem:
        assert done.returncode != 0 and problem in done.stderr
    else:
        assert done.returncode == 0, done.stderr


def test_add_list_and_remove(weft, tmp_path):
    disk, kernel = content(9 * MIB), KERNEL + content(MIB, 2)
    arguments = ["image", "add", "mpi", "--disk", written(tmp_path, "disk", disk), "--format", "readonly",
                 "--kernel", written(tmp_path, "kernel", kernel), "--cmdline", "quiet console=ttyS0"]
    done = weft.cli(*arguments)
    assert done.stdout == "image mpi is added\n"
    assert "disk: sending 9.0M" in done.stderr
    again = weft.cli(*arguments)
    assert "sending" not in again.stderr, "what is there is not sent"
    listed = weft.cli("image", "ls").stdout
    assert listed.splitlines()[0].split() == ["NAME", "BOOTS", "SIZE", "AGE"]
    assert listed.splitlines()[1].split()[:4] == ["mpi", "kernel,", "readonly", "10M"]
    made = json.loads(weft.cli("image", "ls", "--json").stdout)[0]
    assert made["cmdline"] == "quiet console=ttyS0" and made["kernel"]["digest"] == digest_of(kernel)
    assert weft.cli("image", "rm", "mpi").stdout == "image mpi is removed\n"
    until(lambda: files(weft) == set(), lambda: f"nothing: {files(weft)}")


def test_add_goes_on_after_a_kill_of_weftd(weft, tmp_path):
    """Killed again and again while weft sends, at last before the whole is checked: it waits, and goes on."""
    data = content(12 * MIB)
    arguments = [build_folder() / "src/cli/weft", "image", "add", "mpi", "--disk", written(tmp_path, "disk", data)]
    weft.stop()
    weft.start(failpoint="blob-written:1")
    with subprocess.Popen(arguments, env=os.environ | {"WEFT_URL": f"unix://{weft.socket}"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as adding:
        for failpoint in ("blob-written:1", "blob-written:1", None):
            until(lambda: weft.process is None or weft.died(), "weftd dies, perhaps before it was seen to serve")
            weft.start(failpoint=failpoint)
        output, _ = adding.communicate(timeout=PATIENCE)
    assert adding.returncode == 0, output
    assert (weft.root / "images" / digest_of(data)).read_bytes() == data


@pytest.mark.parametrize("arguments, problem", [
    (["--disk", "/nonexistent"], "/nonexistent: No such file or directory"),
    (["--disk", "/dev/null"], "/dev/null: is no file"),
    ([], "what is it made of?"),
    (["--disk", "/etc/hosts", "--initrd", "/etc/hosts"], "--initrd is the kernel's"),
    (["--kernel", "/etc/hosts", "--format", "raw"], "--format is the disk's"),
    (["--disk", "/etc/hosts", "--format", "vmdk"], "must be one of qcow2, raw, readonly"),
])
def test_add_refuses(weft, arguments, problem):
    done = weft.cli("image", "add", "mpi", *arguments, check=False)
    assert done.returncode != 0
    assert problem in done.stderr


def test_create_carries_keys_and_user_data(weft, tmp_path):
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    for name in ("id_ed25519", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", home / ".ssh" / name], check=True)
    user_data = tmp_path / "user-data"
    user_data.write_text("#cloud-config\npackages: [hpcc]\n", encoding="utf-8")
    other = str(home / ".ssh/other.pub")
    common = ["-n", "1", "--memory", "256M", "--no-wait", "--tenant", "acme"]
    weft.cli("create", "a", *common, "--slurm", "--user-data", str(user_data), env={"HOME": str(home)})
    weft.cli("create", "b", *common, "--ssh-key", other, "--pages", "transparent", env={"HOME": str(home)})
    weft.cli("create", "c", *common, "--ssh-key", "none", env={"HOME": str(home)})
    clusters = weft.dump().values("cluster")
    own = (home / ".ssh/id_ed25519.pub").read_text(encoding="utf-8").strip()
    assert clusters["acme/a"]["ssh_keys"] == [own]
    assert clusters["acme/a"]["user_data"] == user_data.read_text(encoding="utf-8")
    assert clusters["acme/a"]["slurm"] is True
    assert clusters["acme/b"]["ssh_keys"] == [(home / ".ssh/other.pub").read_text(encoding="utf-8").strip()]
    assert clusters["acme/b"]["groups"][0]["pages"] == 4096
    assert "ssh_keys" not in clusters["acme/c"] and "slurm" not in clusters["acme/c"]
    wrong = weft.cli("create", "d", *common, "--ssh-key", str(home / ".ssh/other"), check=False)
    assert wrong.returncode != 0
    assert "is no public key; give the line of a .pub file" in wrong.stderr
