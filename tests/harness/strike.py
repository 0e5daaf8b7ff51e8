"""Strikes at a chosen phase of a move: looks at both hosts' libvirtds a hundred times a second, not by programs that take longer than
the phase does."""

import json

import libvirt

from .wait import until

RUNNING, PAUSED = libvirt.VIR_DOMAIN_RUNNING, libvirt.VIR_DOMAIN_PAUSED
PHASES = ("before", "copy", "switch", "post-copy")
# By which the memory goes in each: with post-copy there is next to no time before the switch.
METHODS = {"before": "auto", "copy": "pre-copy", "switch": "post-copy", "post-copy": "post-copy"}

libvirt.registerErrorHandler(lambda *_: None, None)


class Eye:
    """On one domain of one host of a lab."""

    def __init__(self, lab, host, domain):
        pid = json.loads((lab.folder / "hosts" / host / "init.pid").read_text(encoding="ascii"))
        pid = pid["pid"] if isinstance(pid, dict) else pid
        self.connection = libvirt.open(f"qemu:///system?socket=/proc/{pid}/root/run/libvirt/libvirt-sock")
        self.domain = domain

    def state(self):
        """None: it is not there."""
        try:
            return self.connection.lookupByName(self.domain).state()[0]
        except libvirt.libvirtError:
            return None

    def close(self):
        self.connection.close()


def wait_phase(lab, domain, source, target, phase, timeout=60.0):
    """Returns as soon as the domain's move is in that phase."""
    if phase == "before":
        return
    here, there = Eye(lab, source, domain), Eye(lab, target, domain)
    checks = {
        "copy": lambda: there.state() is not None,
        "switch": lambda: here.state() == PAUSED or there.state() == RUNNING,
        "post-copy": lambda: there.state() == RUNNING,
    }
    try:
        until(checks[phase], lambda: f"phase {phase}: here {here.state()}, there {there.state()}", timeout)
    finally:
        here.close()
        there.close()
