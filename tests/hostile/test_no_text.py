"""A host says what it likes, and not always in UTF-8: weftd writes it down all the same, and goes on."""

import os

from harness.wait import until

GARBAGE = b"\xff\xfe"


def plant(weft, host, folder, name, content=b"<domain/>"):
    path = os.path.join(os.fsencode(weft.root / "hosts" / host), folder)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, name), "wb") as file:
        file.write(content)


def messages(weft, kind):
    return [event["message"] for event in weft.client.events() if event["type"] == kind]


def test_names(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    for name in (b"mail" + GARBAGE, b"weft-" + GARBAGE):
        plant(weft, "n2", b"domains", name + b".xml")
    plant(weft, "n2", b"primed", GARBAGE)
    plant(weft, "n2", b"files", b"weft-" + GARBAGE + b".1site0000000.1stay0000000.mark")
    until(lambda: len(messages(weft, "foreign-domain")) == 2, lambda: f"they are told as nobody's: {messages(weft, 'foreign-domain')}")
    assert all("�" in message for message in messages(weft, "foreign-domain"))
    assert weft.client.get("/v1/hosts/n2")["state"] == "up" and not weft.client.items("/v1/site")
    weft.client.create("other", 2, layout="spread")
    weft.client.wait_phase("other", "ready")


def test_errors(weft):
    (weft.root / "hosts" / "faults").write_bytes(b"broken start no such file: " + GARBAGE + b"\n")
    weft.client.create("cfd", 1)
    until(lambda: any("no such file: �" in (node.get("detail") or "") for node in weft.client.nodes("cfd")), lambda: f"{weft.client.nodes('cfd')}")
    weft.world.fault()
    weft.client.wait_phase("cfd", "ready")


def test_a_host_that_cannot_be_reached(weft):
    weft.client.create("cfd", 1)
    weft.client.wait_phase("cfd", "ready")
    (weft.root / "hosts" / "n2").mkdir(exist_ok=True)
    (weft.root / "hosts" / "n2" / "faults").write_bytes(b"broken list " + GARBAGE + b"\nbroken inspect " + GARBAGE + b"\n")
    until(lambda: weft.client.get("/v1/hosts/n2")["state"] == "lost", lambda: f"it is lost: {weft.client.get('/v1/hosts/n2')}")
    assert any(check["state"] == "fail" for check in weft.client.get("/v1/hosts/n2/doctor")["checks"])
