"""What becomes of a device when its node is gone, and what nobody gets any more: each step of each kind of device fails in turn."""

import json
import os
import shutil
import stat
import subprocess

import pytest
from host import EIO, MLX4, MLX5, PATIENCE, Host, device, domain
from test_real import GUID, VFS
from test_scrub import Disks

GPU = "0000:81:00.0"
GPU_FOLDER = f"/devices/pci0000:80/{GPU}"
OTHER = "0000:82:00.0"
WHOLE = device(vf=-1) | {"vf": None, "guid": None, "pci": "0000:41:00.0"}
MLX5_FOLDER = "/devices/pci0000:00/0000:41:00.0"
PORTS = ["mlx5 mlx5_6 0000:61:00.0 2 vendor", "mlx5 mlx5_7 0000:61:00.3 0 vendor"]  # two of one card
CANARY = 0xA5


def gpu_mark(pci=GPU):
    return f"<weft:gpu name='{pci}'/>"


class Board(Host):
    """With an adapter of each driver, a GPU, and the vendors' tools, which tell what is in their files."""

    def __init__(self, folder):
        super().__init__(folder, [MLX5, MLX4, *PORTS])
        self.add(GPU)
        self.add(OTHER)
        (folder / "usr/bin").mkdir(parents=True)
        self.tool("mstflint", "FW Version: 16.35")
        self.tool("nvidia-smi", "vbios 94.02")

    def add(self, pci, kind="0x030200"):
        folder = f"/devices/pci0000:80/{pci}"
        self.order(f"link /bus/pci/devices/{pci} ../../..{folder}")
        self.order(f"file {folder}/class {kind}")
        self.order(f"file {folder}/reset 0")

    def tool(self, name, text, script='cat "$0.says"'):
        path = self.root / "usr/bin" / name
        path.with_name(f"{name}.says").write_text(text, encoding="utf-8")
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def without_tools(self):
        shutil.rmtree(self.root / "usr/bin")

    def ask(self, op, node, *devices, gpus=(), **environment):
        text = domain(node, devices=devices, extra="".join(map(gpu_mark, gpus)))
        command = self.command("qemu", f"weft-{node}", op, environment=environment)
        return subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *command], input=text, capture_output=True, text=True, check=False,
                              timeout=PATIENCE)

    def report(self):
        answer = self.hook("network", "weft-probe", "start", "<hookData/>")
        return json.loads(answer.stderr.split("\n")[1])

    def quarantine(self):
        return {item["pci"]: item["why"] for item in self.report()["quarantine"]}

    def unclean(self):
        return self.report()["unclean"]

    def reboot(self):
        shutil.rmtree(self.root / "run/weft-hook")


@pytest.fixture
def board(tmp_path):
    made = Board(tmp_path / "host")
    yield made
    made.close()


@pytest.fixture
def disks(tmp_path):
    made = Disks(tmp_path / "host")
    yield made
    made.close()


def fine(answer):
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


def refused(answer, *words):
    assert answer.returncode == 1
    for word in words:
        assert word in answer.stderr


def whole(board, op, node):
    return board.ask(op, node, WHOLE)


def gpu(board, op, node):
    return board.ask(op, node, gpus=[GPU])


def function(board, op, node):
    guid = int.from_bytes(node.encode(), "big")
    return board.ask(op, node, device(vf=0, guid=GUID + guid))


# --- what is done ---


def test_a_whole_adapter_is_reset_without_its_driver(board):
    """Which comes back to it, and makes as many functions as there were."""
    fine(whole(board, "prepare", "a-1"))
    board.forget()
    fine(whole(board, "release", "a-1"))
    written = [(path.rpartition("/")[2], value) for path, value in board.written()]
    assert written == [("unbind", "0000:41:00.0"), ("reset", "1"), ("drivers_probe", "0000:41:00.0"), ("sriov_numvfs", "8")]
    assert board.link("/bus/pci/devices/0000:41:00.0/driver") == "mlx5_core" and board.quarantine() == {}


def test_a_gpu_is_reset(board):
    """Also one that is only plugged later, which the domain's own devices do not show."""
    fine(gpu(board, "prepare", "a-1"))
    fine(gpu(board, "release", "a-1"))
    assert (f"{GPU_FOLDER}/reset", "1") in board.written() and board.quarantine() == {} and board.records() == []


@pytest.mark.parametrize("methods", [None, "pm", "pm bus", "acpi"])
@pytest.mark.parametrize(("who", "folder"), [(whole, MLX5_FOLDER), (gpu, GPU_FOLDER)], ids=["adapter", "gpu"])
def test_what_cannot_be_reset_is_given_to_nobody(board, who, folder, methods):
    """Which power management alone is not: what the kernel uses is the first."""
    board.order(f"drop {folder}/reset" if methods is None else f"file {folder}/reset_method {methods}")
    refused(who(board, "prepare", "a-1"), "may not be given to a node: nothing lets it be reset")
    assert board.records() == [] and board.quarantine() == {}


@pytest.mark.parametrize("methods", ["flr", "bus pm", "device_specific flr pm"])
def test_what_is_reset_as_a_whole_is_given(board, methods):
    board.order(f"file {GPU_FOLDER}/reset_method {methods}")
    fine(gpu(board, "prepare", "a-1"))
    fine(gpu(board, "release", "a-1"))


def test_without_tools_nothing_is_compared(board):
    answer = board.hook("network", "weft-probe", "start", "<hookData/>")
    assert json.loads(answer.stderr.split("\n")[1])["firmware_tools"] == {"mstflint": True, "nvidia-smi": True}
    board.without_tools()
    for who in (whole, gpu):
        fine(who(board, "prepare", "a-1"))
        fine(who(board, "release", "a-1"))
    answer = board.hook("network", "weft-probe", "start", "<hookData/>")
    assert json.loads(answer.stderr.split("\n")[1])["firmware_tools"] == {"mstflint": False, "nvidia-smi": False}


@pytest.mark.parametrize(("who", "tool"), [(whole, "mstflint"), (gpu, "nvidia-smi")], ids=["adapter", "gpu"])
def test_a_tool_that_cannot_tell_beforehand_is_as_none(board, who, tool):
    """As nvidia-smi is where its driver is not loaded."""
    board.tool(tool, "", "exit 9")
    fine(who(board, "prepare", "a-1"))
    board.tool(tool, "FW Version: 1")
    fine(who(board, "release", "a-1"))


def test_a_gpu_that_is_in_use_is_left_alone(board):
    group = "/kernel/iommu_groups/77"
    board.order(f"link {GPU_FOLDER}/driver ../../../bus/pci/drivers/vfio-pci")
    board.order(f"link {GPU_FOLDER}/iommu_group ../../..{group}")
    file = board.root / "dev/vfio/77"
    file.touch()
    with open(file, encoding="utf-8"):
        refused(gpu(board, "prepare", "a-1"), f"{GPU} is in use by process {os.getpid()}")
    fine(gpu(board, "prepare", "a-1"))
    with open(file, encoding="utf-8"):
        board.forget()
        refused(gpu(board, "release", "a-1"), "is in use by process")
        assert board.written() == [] and board.quarantine() == {}, "it is not known to be broken"
    fine(gpu(board, "release", "a-1"))


# --- what fails ---

FAILURES = {  # kind, how its step fails, what is said of it, how it is repaired
    "function forgets": (function, "0000:41:00.1", lambda board: board.order(f"fail {MLX5_FOLDER}/sriov/0/policy {EIO}"), "Input/output error",
                         lambda board: board.order(f"mend {MLX5_FOLDER}/sriov/0/policy")),
    "function resets": (function, "0000:41:00.1", lambda board: (board.order("file /devices/pci0000:00/0000:41:00.1/reset 0"),
                                                                 board.order(f"fail /devices/pci0000:00/0000:41:00.1/reset {EIO}")),
                        "cannot be reset", lambda board: board.order("mend /devices/pci0000:00/0000:41:00.1/reset")),
    "adapter resets": (whole, "0000:41:00.0", lambda board: board.order(f"fail {MLX5_FOLDER}/reset {EIO}"), "cannot be reset",
                       lambda board: board.order(f"mend {MLX5_FOLDER}/reset")),
    "adapter's firmware": (whole, "0000:41:00.0", lambda board: board.tool("mstflint", "FW Version: evil"), "is not what it was",
                           lambda board: board.tool("mstflint", "FW Version: 16.35")),
    "adapter is mute": (whole, "0000:41:00.0", lambda board: board.tool("mstflint", "", "echo 'no answer' >&2; exit 1"), "no answer",
                        lambda board: board.tool("mstflint", "FW Version: 16.35")),
    "adapter's tool is gone": (whole, "0000:41:00.0", lambda board: board.without_tools(), "not installed any more",
                               lambda board: ((board.root / "usr/bin").mkdir(parents=True), board.tool("mstflint", "FW Version: 16.35"))),
    "gpu resets": (gpu, GPU, lambda board: board.order(f"fail {GPU_FOLDER}/reset {EIO}"), "cannot be reset",
                   lambda board: board.order(f"mend {GPU_FOLDER}/reset")),
    "gpu's firmware": (gpu, GPU, lambda board: board.tool("nvidia-smi", "vbios evil"), "is not what it was",
                       lambda board: board.tool("nvidia-smi", "vbios 94.02")),
}


@pytest.mark.parametrize("case", FAILURES)
def test_a_step_that_fails_leads_to_quarantine(board, case):
    """Through a reboot of the host, until an operator says that it is repaired. Nobody touches it before."""
    who, pci, break_it, why, repair = FAILURES[case]
    fine(who(board, "prepare", "a-1"))
    break_it(board)
    refused(who(board, "release", "a-1"), why)
    board.forget()
    assert why in board.quarantine()[pci]
    refused(who(board, "prepare", "b-1"), f"{pci} is in quarantine since", why, f"weft-hook readmit {pci}")
    assert board.written() == [] and board.unclean() == []
    board.reboot()
    assert list(board.quarantine()) == [pci] and why in board.quarantine()[pci]
    refused(who(board, "prepare", "b-1"), f"{pci} is in quarantine since", why, f"weft-hook readmit {pci}")
    assert list(board.quarantine()) == [pci]
    if "firmware" not in case and "mute" not in case and "tool" not in case and "forgets" not in case:  # what readmitting tries again
        refused(board.readmit(pci), why)
        assert list(board.quarantine()) == [pci], "it is not repaired"
    repair(board)
    refused(who(board, "prepare", "b-1"), "is in quarantine")  # nobody has said so
    fine(board.readmit(pci))
    assert board.quarantine() == {}
    fine(who(board, "prepare", "b-1"))
    fine(who(board, "release", "b-1"))


@pytest.mark.parametrize("case", FAILURES)
def test_readmitting_takes_back_what_the_node_had(board, case):
    """While the host still knows whose it was, these are all of the steps."""
    who, pci, break_it, why, repair = FAILURES[case]
    fine(who(board, "prepare", "a-1"))
    break_it(board)
    assert who(board, "release", "a-1").returncode == 1 and list(board.quarantine()) == [pci]
    if "forgets" in case or "resets" in case:
        refused(board.readmit(pci), why)
        assert board.records() == ["weft-a-1"]
    repair(board)
    assert list(board.quarantine()) == [pci], "nobody has said so"
    board.forget()
    fine(board.readmit(pci))
    assert board.quarantine() == {} and board.records() == [] and board.links() == []
    assert who is not function or board.value(f"{MLX5_FOLDER}/sriov/0/policy") == "Down"
    fine(who(board, "prepare", "b-1"))
    fine(who(board, "release", "b-1"))


def two(board, op, node):
    return board.ask(op, node, gpus=[GPU, OTHER])


def other(board, op, node):
    return board.ask(op, node, gpus=[OTHER])


def test_a_sibling_of_what_failed_is_free_and_stays_its_next_nodes(board):
    """The next run of the hook does not reset it under that one, nor forgets what is to be compared."""
    fine(two(board, "prepare", "a-1"))
    board.order(f"fail {GPU_FOLDER}/reset {EIO}")
    refused(two(board, "release", "a-1"), "cannot be reset")
    with board.running("weft-b-1"):
        fine(other(board, "prepare", "b-1"))
        board.forget()
        assert list(board.quarantine()) == [GPU] and board.written() == []
        assert (board.root / "var/lib/weft/firmware" / OTHER).exists()
        board.order(f"mend {GPU_FOLDER}/reset")
        fine(board.readmit(GPU))
        assert [path for path, _ in board.written() if path.endswith("reset")] == [f"{GPU_FOLDER}/reset"] and board.records() == ["weft-b-1"]
    fine(other(board, "release", "b-1"))
    fine(two(board, "prepare", "c-1"))


def test_what_cannot_be_put_into_quarantine_is_nobodys_either(board):
    """Where there is no room for the entry the node's record keeps it from others, and each run tries again."""
    fine(gpu(board, "prepare", "a-1"))
    board.order(f"fail {GPU_FOLDER}/reset {EIO}")
    (board.root / "var/lib/weft/quarantine").write_text("", encoding="utf-8")
    refused(gpu(board, "release", "a-1"), "cannot be reset", "nor can it be put into quarantine")
    refused(gpu(board, "prepare", "b-1"), "could not be taken back", "cannot be reset")
    assert [item["domain"] for item in board.unclean()] == ["weft-a-1"]
    (board.root / "var/lib/weft/quarantine").unlink()
    assert list(board.quarantine()) == [GPU]


def test_a_gpu_is_one_nodes(board):
    with board.running("weft-a-1"):
        fine(gpu(board, "prepare", "a-1"))
        refused(gpu(board, "prepare", "b-1"), f"node b-1 may not have {GPU}: it is node a-1's")


@pytest.mark.parametrize("point", ["hook-quarantined", "hook-released"])
def test_killed_on_the_way_it_ends_there(board, point):
    """In quarantine where a step failed, else out of it: the next run finds either."""
    fine(gpu(board, "prepare", "a-1"))
    board.order(f"fail {GPU_FOLDER}/reset {EIO}")
    if point == "hook-released":
        board.order(f"mend {GPU_FOLDER}/reset")
    assert board.ask("release", "a-1", gpus=[GPU], WEFT_FAILPOINT=point).returncode == 128 + 9
    assert list(board.quarantine()) == ([GPU] if point == "hook-quarantined" else [])
    board.order(f"mend {GPU_FOLDER}/reset")
    if point == "hook-quarantined":
        fine(board.readmit(GPU))
    fine(gpu(board, "prepare", "b-1"))


def test_why_is_told_whatever_a_tool_says(board):
    """Bytes that are no text, cut within a character, and what would steer an operator's terminal."""
    fine(whole(board, "prepare", "a-1"))
    board.tool("mstflint", "", r"printf '\377\033[2Jé%.0s' $(seq 199) >&2; exit 1")
    assert whole(board, "release", "a-1").returncode == 1
    why = board.quarantine()["0000:41:00.0"]
    assert "\ufffd [2Jé" in why and why.isprintable(), why
    entry = board.root / "var/lib/weft/quarantine/0000:41:00.0"
    entry.write_bytes(entry.read_bytes() + b"\xff")
    assert list(board.quarantine()) == ["0000:41:00.0"]
    entry.write_bytes(b"\xff" * 100000)
    assert board.quarantine() == {"0000:41:00.0": "its entry cannot be read"}


def test_killed_between_an_adapters_drivers(board):
    """The next run gives it its driver again, and its functions."""
    fine(whole(board, "prepare", "a-1"))
    assert board.ask("release", "a-1", WHOLE, WEFT_FAILPOINT="hook-unbound").returncode == 128 + 9
    assert board.link("/bus/pci/devices/0000:41:00.0/driver") is None
    assert board.quarantine() == {} and board.records() == [] and board.records("unbound") == []
    assert board.link("/bus/pci/devices/0000:41:00.0/driver") == "mlx5_core"
    assert board.value(f"{MLX5_FOLDER}/sriov_numvfs") == "8"


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("broken", [True, False])
def test_killed_between_a_gpus_drivers(board, tools, broken):
    """The next run gives it its driver again, or an operator where that could not."""
    for file in ("drivers/nvidia/unbind", "drivers_probe"):  # the simulated ones know of adapters only
        board.order(f"file /bus/pci/{file} 0")
    board.order(f"link {GPU_FOLDER}/driver ../../../bus/pci/drivers/nvidia")
    if not tools:
        board.without_tools()
    fine(gpu(board, "prepare", "a-1"))
    assert board.ask("release", "a-1", gpus=[GPU], WEFT_FAILPOINT="hook-unbound").returncode == 128 + 9
    board.order(f"drop {GPU_FOLDER}/driver")
    if broken:
        board.order(f"fail {GPU_FOLDER}/reset {EIO}")
        board.order(f"fail /bus/pci/drivers_probe {EIO}")
    assert list(board.quarantine()) == ([GPU] if broken else [])
    if broken:
        board.order(f"mend {GPU_FOLDER}/reset")
        board.order("mend /bus/pci/drivers_probe")
        fine(board.readmit(GPU))
    assert board.written()[-2:] == [(f"{GPU_FOLDER}/reset", "1"), ("/bus/pci/drivers_probe", GPU)]
    assert board.records() == board.records("unbound") == []


def test_functions_of_an_adapter_in_quarantine_are_nobodys(board):
    """Its firmware is theirs."""
    fine(whole(board, "prepare", "a-1"))
    board.tool("mstflint", "FW Version: evil")
    refused(whole(board, "release", "a-1"), "is not what it was")
    board.reboot()
    refused(function(board, "prepare", "b-1"), "0000:41:00.0 is in quarantine since")
    fine(board.readmit("0000:41:00.0"))
    fine(function(board, "prepare", "b-1"))


def port(number):
    name, pci = PORTS[number].split()[1:3]
    return WHOLE | {"hca": name, "pf": pci, "pci": pci}


def test_the_other_port_of_a_card_in_quarantine_is_nobodys(board):
    """Nor are its functions: they have one firmware."""
    fine(board.ask("prepare", "a-1", port(1)))
    board.order("fail /devices/pci0000:00/0000:61:00.3/reset 5")
    refused(board.ask("release", "a-1", port(1)), "cannot be reset")
    for wanted in (port(0), device("mlx5_6", pf="0000:61:00.0")):
        answer = board.ask("prepare", "b-1", wanted)
        refused(answer, "0000:61:00.0 has its firmware in common", "0000:61:00.3 is in quarantine since", "weft-hook readmit 0000:61:00.3")
    fine(whole(board, "prepare", "c-1"))
    board.order("mend /devices/pci0000:00/0000:61:00.3/reset")
    fine(board.readmit("0000:61:00.3"))
    fine(board.ask("prepare", "b-1", port(0)))


def test_a_function_in_quarantine_keeps_no_other_from_nodes(board):
    """Its guest cannot write the firmware."""
    fine(board.ask("prepare", "a-1", device("mlx5_6", pf="0000:61:00.0")))
    board.order("fail /devices/pci0000:00/0000:61:00.0/sriov/0/policy 5")
    assert board.ask("release", "a-1", device("mlx5_6", pf="0000:61:00.0")).returncode == 1
    assert {item["pci"]: item["whole"] for item in board.report()["quarantine"]} == {"0000:61:00.1": False}
    fine(board.ask("prepare", "b-1", device("mlx5_6", pf="0000:61:00.0", vf=1, guid=GUID + 1)))
    fine(board.ask("prepare", "c-1", port(1)))


def test_firmware_is_compared_for_all_ports_of_a_card(board):
    """The node that has one of them may have written what the next node gets with the other."""
    with board.running("weft-a-1"):
        fine(board.ask("prepare", "a-1", port(0)))
        board.tool("mstflint", "FW Version: evil")
        refused(board.ask("prepare", "b-1", port(1)), "the firmware of 0000:61:00.3 is not what it was before a node had 0000:61:00.0")
        assert list(board.quarantine()) == ["0000:61:00.3"]
        board.tool("mstflint", "FW Version: 16.36")  # an operator writes it again, a newer one, while the first node still runs
        fine(board.readmit("0000:61:00.3"))
        fine(board.ask("prepare", "b-1", port(1)))
    fine(board.ask("release", "a-1", port(0)))


def test_functions_that_other_tools_know_of_are_not_compared(board):
    """As a GPU's and the sound's beside it."""
    sound = GPU.replace(".0", ".1")
    board.add(sound, "0x040300")
    board.tool("mstflint", "", "exit 1")
    fine(board.ask("prepare", "a-1", gpus=[GPU, sound]))
    fine(board.ask("release", "a-1", gpus=[sound, GPU]))


def test_firmware_is_compared_after_the_host_lost_its_power(board):
    """Nobody released the node: the next one's start finds it."""
    fine(whole(board, "prepare", "a-1"))
    board.reboot()
    board.tool("mstflint", "FW Version: evil")
    refused(whole(board, "prepare", "b-1"), "is not what it was")
    assert list(board.quarantine()) == ["0000:41:00.0"]
    fine(board.readmit("0000:41:00.0"))
    fine(whole(board, "prepare", "b-1"))


def test_firmware_that_an_operator_wrote_is_nobodys_fault(board):
    """Between nodes nothing is remembered."""
    fine(whole(board, "prepare", "a-1"))
    fine(whole(board, "release", "a-1"))
    board.tool("mstflint", "FW Version: 16.36")
    fine(whole(board, "prepare", "b-1"))


FIRMWARE = """\
Image type:            FS4
FW Version:            20.31.1014
FW Release Date:       30.6.2021
Rom Info:              type=UEFI version=14.24.13 cpu=AMD64
                       type=PXE version=3.6.403 cpu=AMD64
Description:           UID                GuidsNumber
Base GUID:             b83fd203001ba0f4        8
Base MAC:              b83fd21ba0f4            8
PSID:                  MT_0000000223
Security Attributes:   N/A
"""


@pytest.mark.parametrize(("before", "after", "same"), [
    ("Description:", "Product Version:       20.31.1014\nDescription: ", True), (":   ", ": ", True), ("30.6.2021", "30.06.2021", True),
    ("20.31.1014", "20.31.1015", False), ("223", "224", False), ("1ba0f4        8", "1ba0f5        8", False), ("N/A", "secure-fw", False),
    ("3.6.403", "3.6.404", False), ("14.24.13", "14.24.14", False)])
def test_a_newer_tool_is_no_other_firmware(board, before, after, same):
    """It may tell more, and in another way."""
    board.tool("mstflint", FIRMWARE)
    fine(whole(board, "prepare", "a-1"))
    assert before in FIRMWARE
    board.tool("mstflint", FIRMWARE.replace(before, after))
    answer = whole(board, "release", "a-1")
    fine(answer) if same else refused(answer, "is not what it was")


def test_a_tool_that_names_no_firmware_has_told_nothing(board):
    fine(whole(board, "prepare", "a-1"))
    board.tool("mstflint", "-W- Running quick query\n")
    refused(whole(board, "release", "a-1"), "its answer has none of the fields that are known")


def test_others_are_nobodys_trouble(board):
    fine(function(board, "prepare", "a-1"))
    board.order(f"fail {MLX5_FOLDER}/sriov/0/policy {EIO}")
    assert function(board, "release", "a-1").returncode == 1
    fine(board.ask("prepare", "b-1", device(vf=1, guid=GUID + 1)))
    fine(gpu(board, "prepare", "c-1"))


def test_readmitting(board):
    answer = board.readmit("0000:41:00.0")
    assert answer.returncode != 0 and "0000:41:00.0 is not in quarantine" in answer.stderr
    answer = board.readmit("../../etc/passwd")
    assert answer.returncode == 2 and "is not a PCI address" in answer.stderr


def test_what_was_taken_out_may_go(board):
    """Another device comes in its place."""
    fine(gpu(board, "prepare", "a-1"))
    board.order(f"fail {GPU_FOLDER}/reset {EIO}")
    assert gpu(board, "release", "a-1").returncode == 1
    board.reboot()
    board.order(f"drop /bus/pci/devices/{GPU}")
    refused(gpu(board, "prepare", "b-1"), "there is no device")
    fine(board.readmit(GPU))
    assert board.quarantine() == {}


@pytest.mark.parametrize("name", ["0000:81:00", "0000:81:00.0/..", "", "0000:41:00.8"])
def test_a_gpu_without_an_address_is_refused(board, name):
    refused(board.ask("prepare", "a-1", gpus=[name]), "PCI address")


# --- what is on disks ---


def test_a_canary_is_not_found_by_the_next(disks):
    """Also where it could not be erased at once, and the host was rebooted meanwhile."""
    assert disks.call("prepare", "a-1").returncode == 0
    disks.write(CANARY)
    assert disks.call("release", "a-1", NVME_SIM_REFUSE="0x15").returncode == 1
    assert disks.data[1] == CANARY
    shutil.rmtree(disks.root / "run/weft-hook")
    [told] = disks.report()["quarantine"]
    assert told["pci"] == VFS[1] and "cannot be erased" in told["why"]
    answer = disks.call("prepare", "b-1", guid=GUID + 1)
    assert answer.returncode == 1 and "is in quarantine since" in answer.stderr
    answer = disks.readmit(VFS[1], disks.environment | {"NVME_SIM_REFUSE": "0x15"})
    assert answer.returncode != 0 and disks.data[1] == CANARY
    fine(disks.readmit(VFS[1], disks.environment))
    assert disks.data[1] == 0 and disks.report()["quarantine"] == [], "readmitting erases"
    disks.write(CANARY)
    assert disks.call("prepare", "b-1", guid=GUID + 1).returncode == 0
    assert disks.data[1] == 0 and disks.data[0] == CANARY
