"""What a node leaves in a function is gone before anybody else has it: on a device whose functions have disks (nvme-sim.c)."""

import json
import os
import subprocess

import pytest
from host import BUILD, PATIENCE, device, domain
from test_real import ABOVE, GUID, PF, REAL, VFS, Machine, usable

FUNCTION = 1  # of which there are two, and its namespace is the second one
OWN = 1 << (FUNCTION + 1)
ALONE = [1 << 1, OWN, 1 << 3, 1 << 4, 0b11111, 1]  # which controllers have each namespace: the functions' own, everybody's, the host's
KILLED = 128 + 9
POINTS = {"scrub-noted": OWN, "scrub-taken": 1, "scrub-formatted": 1, "scrub-erased": OWN}  # and who has the namespace then


class Disks(Machine):
    def __init__(self, folder):
        super().__init__(folder, REAL)
        (self.root / "dev/nvme0").touch()
        self.file = self.root / "nvme-state"
        self.environment = {"LD_PRELOAD": BUILD / "tests/hook/nvme-sim.so", "NVME_SIM": self.file,
                            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}

    def call(self, op, node, vf=FUNCTION, guid=GUID, **environment):
        """By a libvirtd that is gone afterwards."""
        command = self.command("qemu", f"weft-{node}", op, environment=self.environment | environment)
        text = domain(node, devices=[device("mlx4_0", "mlx4", PF, vf, guid, pkey=1)])
        return subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", *command], input=text, capture_output=True, text=True, check=False, timeout=PATIENCE)

    def report(self, **environment):
        answer = self.hook("network", "weft-probe", "start", "<hookData/>", self.environment | environment)
        return json.loads(answer.stderr.split("\n")[1])

    @property
    def attached(self):
        return list(self.file.read_bytes()[30:36])

    @property
    def data(self):
        return list(self.file.read_bytes()[36:42])

    def write(self, value=7):
        """As if each disk had been used."""
        self.file.write_bytes(self.file.read_bytes()[:36] + bytes([value] * 6))

    def is_reset(self):
        return (self.real.folder / ABOVE / VFS[FUNCTION] / "reset").read_text(encoding="utf-8") == "1"


@pytest.fixture
def disks(tmp_path):
    made = Disks(tmp_path / "host")
    yield made
    made.close()


def erased(value=7):
    return [value, 0, value, value, value, value]


def test_a_function_comes_clean_and_goes_clean(disks):
    """What is there before the first node is of one that the host lost its power with."""
    assert disks.call("prepare", "a-1").returncode == 0
    assert disks.data == erased(1) and disks.attached == ALONE and not disks.is_reset()
    disks.write()
    done = disks.call("release", "a-1")
    assert done.returncode == 0, done.stderr
    assert disks.data == erased() and disks.attached == ALONE and disks.is_reset() and disks.records() == []
    disks.write()
    assert disks.call("release", "a-1").returncode == 0
    assert disks.data == [7] * 6, "nobody's, and left alone"


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("op", ["prepare", "release"])
def test_killed_anywhere_it_is_clean_before_somebody_else_has_it(disks, point, op):
    if op == "release":
        assert disks.call("prepare", "a-1").returncode == 0
        disks.write()
    killed = disks.call(op, "a-1", WEFT_FAILPOINT=point)
    assert killed.returncode == KILLED and disks.attached[FUNCTION] == POINTS[point]
    assert disks.call("prepare", "b-1", guid=GUID + 1).returncode == 0
    assert disks.data == erased(7 if op == "release" else 1) and disks.attached == ALONE
    assert usable(disks, VFS[FUNCTION])[0] == GUID + 1


def test_what_was_left_is_erased_when_the_host_is_asked(disks):
    assert disks.call("prepare", "a-1").returncode == 0
    disks.write()
    assert disks.call("release", "a-1", WEFT_FAILPOINT="scrub-taken").returncode == KILLED
    assert disks.report()["unclean"] == [] and disks.data == erased() and disks.attached == ALONE and disks.records() == []


REFUSALS = {"format": {"NVME_SIM_REFUSE": "0x80"}, "attach": {"NVME_SIM_REFUSE": "0x15"}, "identify": {"NVME_SIM_REFUSE": "0x06"},
            "formats all at once": {"NVME_SIM_FNA": "1"}, "erases all at once": {"NVME_SIM_FNA": "2"}}


@pytest.mark.parametrize("why", REFUSALS)
def test_what_cannot_be_erased_nobody_gets(disks, why):
    assert disks.call("prepare", "a-1").returncode == 0
    disks.write()
    answer = disks.call("release", "a-1", **REFUSALS[why])
    assert answer.returncode == 1 and "virtual function 1 of 0000:01:00.0" in answer.stderr and disks.data == [7] * 6
    [told] = disks.report(**REFUSALS[why])["quarantine"]
    assert told["pci"] == VFS[FUNCTION] and answer.stderr.strip().endswith(told["why"])
    answer = disks.call("prepare", "b-1", guid=GUID + 1, **REFUSALS[why])
    assert answer.returncode == 1 and "is in quarantine since" in answer.stderr and told["why"] in answer.stderr
    assert disks.call("prepare", "c-1", vf=0, guid=GUID + 2, NVME_SIM_REFUSE="0x00").returncode == 0 or why == "identify", "another is nobody's trouble"
    assert disks.call("prepare", "b-1", guid=GUID + 1).returncode == 1, "nobody has said that it can be"
    assert disks.readmit(VFS[FUNCTION], disks.environment).returncode == 0
    assert disks.data[FUNCTION] == 0 and disks.attached == ALONE and disks.records() == []
    assert disks.call("prepare", "b-1", guid=GUID + 1).returncode == 0


def test_what_cannot_be_reset_nobody_gets(disks):
    path = f"/{ABOVE}/{VFS[FUNCTION]}/reset"
    assert disks.call("prepare", "a-1").returncode == 0
    disks.order(f"file {path} 0")
    disks.order(f"fail {path} 25")
    answer = disks.call("release", "a-1")
    assert answer.returncode == 1 and f"{VFS[FUNCTION]} cannot be reset" in answer.stderr
    assert usable(disks, VFS[FUNCTION])[2] == {}, "it reaches nobody"
    assert "cannot be reset" in disks.call("prepare", "b-1", guid=GUID + 1).stderr
    disks.order(f"drop {path}")
    assert disks.readmit(VFS[FUNCTION], disks.environment).returncode == 0
    assert disks.call("prepare", "b-1", guid=GUID + 1).returncode == 0


def test_a_function_that_a_driver_of_the_host_has_is_not_reset(disks):
    assert disks.call("prepare", "a-1").returncode == 0
    (disks.real.folder / ABOVE / VFS[FUNCTION] / "driver").symlink_to("../../../../bus/pci/drivers/nvme")
    assert disks.call("release", "a-1").returncode == 0 and not disks.is_reset()
