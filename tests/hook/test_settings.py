"""What a site should have looked at on its hosts: each setting as a host has it, what is said of it, and that nothing fails for it."""

import json

import pytest

CPU = "sys/devices/system/cpu"
MITIGATED = {"mds": "Mitigation: Clear CPU buffers; SMT disabled", "meltdown": "Not affected", "spectre_v2": "Mitigation: Retpolines"}


def interrupt(number, handler, processors, allowed="0-31"):
    files = {"effective_affinity_list": processors, "smp_affinity_list": allowed} | ({f"{handler}/x": ""} if handler else {})
    return {f"proc/irq/{number}/{name}": text for name, text in files.items()}


# A host that is as it should be: of its interrupts on cores of nodes one is a node's own, one a queue of that processor's, and one
# nobody has.
RIGHT = {
    f"{CPU}/smt/control": "off",
    "etc/libvirt/qemu.conf": '# sched_core = "none"\nuser = "libvirt-qemu"\n',
    "sys/kernel/mm/ksm/run": "0",
    "sys/kernel/mm/ksm/pages_sharing": "0",
    **{f"{CPU}/vulnerabilities/{name}": text for name, text in MITIGATED.items()},
    "proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
    "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
    f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
    f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
    f"{CPU}/isolated": "1-15,17-31",
    "proc/irq/default_smp_affinity": "00010001",
    **interrupt(24, "eth0", "0"),
    **interrupt(25, "vfio-msix[0](0000:41:00.1)", "5"),
    **interrupt(26, "nvme0q7", "6"),
    **interrupt(27, None, "7"),
}
NAMES = ["smt", "core-scheduling", "ksm", "mitigations", "swap", "thp", "governor", "isolation", "irqs"]


def check(host, changes=()):
    """The checks of settings by name, as weft host prepare prints them."""
    for path, text in (RIGHT | dict(changes)).items():
        file = host.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_text(f"{text}\n", encoding="utf-8")
    (host.root / "etc/weft").mkdir(exist_ok=True)
    (host.root / "etc/weft/host.yaml").write_text("pages: {}\n", encoding="utf-8")
    answer = host.prepare("--json")
    assert answer.returncode == 0, "a setting is never a failure"
    return {found["check"]: found for found in json.loads(answer.stdout)["checks"] if found["check"] in NAMES}


def test_as_it_should_be(make):
    found = check(make())
    assert list(found) == NAMES
    assert all(one["state"] == "ok" and one["remedy"] is None and "why" not in one for one in found.values()), found
    assert found["core-scheduling"]["found"] == "not needed without SMT" and found["irqs"]["found"] == "new ones go to processors 0,16"


LEAKY = {f"{CPU}/smt/control": "on", f"{CPU}/vulnerabilities/mds": "Mitigation: Clear CPU buffers; SMT vulnerable"}
FULL = {"etc/libvirt/qemu.conf": 'sched_core = "none"\n sched_core="full"\n'.split("\n", 1)[1]}


@pytest.mark.parametrize(("changes", "name", "state", "said", "mends"), [
    (LEAKY, "smt", "warn", "on, and this processor leaks between the threads of a core: mds", "nosmt"),
    (LEAKY | {f"{CPU}/vulnerabilities/mds": "Not affected"}, "smt", "ok", "on; a node has all threads of its cores", None),
    (LEAKY, "core-scheduling", "warn", 'sched_core is "none"', 'sched_core = "full"'),
    (LEAKY | FULL, "core-scheduling", "ok", 'sched_core is "full"', None),
    ({"sys/kernel/mm/ksm/run": "1"}, "ksm", "warn", "on", "echo 2 > /sys/kernel/mm/ksm/run"),
    ({"sys/kernel/mm/ksm/pages_sharing": "70"}, "ksm", "warn", "off, and 70 pages are merged still", "echo 2 > /sys/kernel/mm/ksm/run"),
    ({f"{CPU}/vulnerabilities/{name}": "Vulnerable" for name in ("a", "b")}, "mitigations", "warn", "not in place for a, b", "mitigations=off"),
    ({f"{CPU}/vulnerabilities/{name}": "Vulnerable" for name in "abcdef"}, "mitigations", "warn", "not in place for a, b, c, d and 2 more", "microcode"),
    ({f"{CPU}/vulnerabilities/itlb_multihit": "KVM: Vulnerable"}, "mitigations", "warn", "not in place for itlb_multihit", "microcode"),
    ({"proc/swaps": "Filename\tType\n/dev/sda2 partition 1 0 -2\n/swap file 1 0 -3"}, "swap", "advice", "on, at /dev/sda2 and elsewhere", "swapoff -a"),
    ({"sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never"}, "thp", "advice", "always", "transparent_hugepage=madvise"),
    ({"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}, "thp", "advice", "never", "transparent_hugepage=madvise"),
    ({f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"}, "governor", "advice", "powersave on 1 of 2 processors", "tuned-adm"),
    ({f"{CPU}/isolated": ""}, "isolation", "advice", "no processor is isolated", "isolcpus=managed_irq,domain,CORES-OF-NODES"),
    ({"proc/irq/default_smp_affinity": "ffffffff"}, "irqs", "advice", "new ones may go to processors 1-15,17-31, which are for nodes", "irqaffinity="),
    (interrupt(40, "mlx5_comp1", "3") | interrupt(41, "nvme0q0", "5"), "irqs", "advice", "some go to processors 3,5, which are for nodes", "irqbalance"),
    (interrupt(40, "mlx5_comp1", None, "0,8-9"), "irqs", "advice", "some go to processors 8-9, which are for nodes", "irqbalance"),
    (interrupt(40, "eth1", "2") | {"proc/irq/default_smp_affinity": "5"}, "irqs", "advice",
     "new ones may go to processors 2, which are for nodes; others go already to 2", "irqaffinity="),
])
def test_what_is_not(make, changes, name, state, said, mends):
    found = check(make(), changes)[name]
    assert (found["state"], found["found"]) == (state, said)
    if mends:
        assert mends in found["remedy"] and found["why"]


def test_what_a_host_does_not_have_is_not_spoken_of(make):
    gone = {path: None for path in RIGHT}
    assert check(make(), gone) == {}
    assert list(check(make(), gone | {f"{CPU}/isolated": ""})) == ["isolation"], "without isolated cores it cannot say whose interrupts are"


def test_the_hook_reports_them(make):
    host = make()
    check(host, LEAKY)
    report = json.loads(host.hook("network", "weft-probe", "start", "<hookData/>").stderr.split("\n")[1])["settings"]
    assert report["smt"] == "on" and report["governor"] == {"performance": 2} and report["swap"] == []
    assert report["mitigations"]["mds"].endswith("SMT vulnerable") and report["core-scheduling"] == "none"


def test_a_host_that_forgets_is_told_of(make):
    """Which has its root in memory: what is in quarantine there is free after a reboot."""
    host = make()
    folder = host.root / "var/lib/weft"
    folder.mkdir(parents=True)
    for mounted in (False, True):
        if mounted:
            host.run("mount", "-t", "tmpfs", "tmpfs", folder)
        report = json.loads(host.hook("network", "weft-probe", "start", "<hookData/>").stderr.split("\n")[1])
        assert report["volatile"] == ("tmpfs" if mounted else None)
    (host.root / "etc/weft").mkdir(parents=True)
    (host.root / "etc/weft/host.yaml").write_text("pages: {}\n", encoding="utf-8")
    checks = json.loads(host.prepare("--json").stdout)["checks"]
    [told] = [one for one in checks if one["check"] == "/var/lib/weft"]
    assert told["state"] == "warn" and "a reboot empties" in told["found"] and "mount a disk" in told["remedy"]


def test_people_are_told_why(make):
    host = make()
    check(host, {"sys/kernel/mm/ksm/run": "1"})
    lines = [line.strip() for line in host.prepare().stdout.splitlines()]
    at = next(number for number, line in enumerate(lines) if line.split() == ["ksm", "warn", "on"])
    assert lines[at + 1].startswith("why: pages that are equal") and lines[at + 2].startswith("remedy: echo 2 >")
