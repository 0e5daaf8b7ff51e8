"""The libvirt driver passes the suite that every hypervisor driver must pass, on real libvirtd and QEMU."""

from harness.weft import build_folder

SUITE = "tests/contract/contract-hypervisor-libvirt"
SUITE_SECONDS = 300


def test_contract(hosts):
    uris = " ".join(f"{name}=qemu+tcp://10.77.0.{11 + number}/system" for number, name in enumerate(hosts.hosts))
    done = hosts.lab("exec", "switch", "--", "env", f"WEFT_LAB_URIS={uris}", build_folder().resolve() / SUITE,
                     check=False, timeout=SUITE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "/hypervisor/libvirt/lost-host" in done.stdout
    assert "lost-host # SKIP" not in done.stdout
