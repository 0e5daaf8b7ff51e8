"""The verbs of weft lab."""

import argparse
import dataclasses
import json
import os
import sys

from . import tools
from .lab import Lab, say
from .plan import METAL, Plan, folder_of, parse_size
from .process import LabError

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130
SWITCH = "switch"

USAGE = """
export WEFT_URL={url}
weft hosts
weft lab status{which}
weft lab exec{which} h1 -- virsh list
weft lab down{which}"""

USAGE_WITHOUT = """
weft lab exec{which} switch -- virsh -c qemu+tcp://10.77.0.11/system list
weft lab weftd{which} start
weft lab down{which}"""


ABOUT = """A whole HPC cloud on one machine: hosts as namespaces, each with its own libvirtd and described hardware, or as emulated
machines with an IOMMU and virtual functions, on a simulated InfiniBand fabric. weft-lab(1) tells more."""

NUMBERS = {
    "hosts": "hosts (4; 2 with --metal)",
    "sockets": "sockets of a host, each a NUMA node (2)",
    "cores": "cores of a socket (8; 4 with --metal)",
    "threads": "hardware threads of a core (1)",
    "pages": "huge pages of 2M on each NUMA node (three quarters of its memory; half with --metal)",
    "leaves": "leaf switches (2)",
}


def make_parser():
    parser = argparse.ArgumentParser(prog="weft lab", description=ABOUT)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, (text, run, add_arguments) in VERBS.items():
        verb = verbs.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        verb.add_argument("--name", default="lab", help="name of the lab (lab)")
        verb.add_argument("--dir", help="its folder (/var/lib/weft-lab/NAME)")
        add_arguments(verb)
        verb.set_defaults(run=run)
    return parser


def no_arguments(_):
    pass


def up_arguments(verb):
    for name, text in NUMBERS.items():
        verb.add_argument(f"--{name}", type=int, metavar="N", help=text)
    verb.add_argument("--memory", metavar="SIZE", help="memory of a host (8G; 3G with --metal)")
    verb.add_argument("--metal", action="store_true", default=None, help="emulated hosts, with IOMMU and virtual functions")
    verb.add_argument("--confined", action="store_true", default=None,
                      help="emulated hosts with systemd, AppArmor, and QEMU as a user of its own")
    verb.add_argument("--no-iommu", action="store_false", dest="iommu", default=None, help="emulated hosts without an IOMMU")
    verb.add_argument("--hook", metavar="PATH", help="weft-hook to install on the hosts (the build's)")
    verb.add_argument("--no-weftd", action="store_true", help="start no weftd")


def status_arguments(verb):
    verb.add_argument("--json", action="store_true", help="as JSON")


def host_argument(verb):
    verb.add_argument("host", metavar="HOST")


def switch_argument(verb):
    verb.add_argument("what", choices=("stop", "start"), metavar="stop|start")


def libvirtd_arguments(verb):
    host_argument(verb)
    switch_argument(verb)


def exec_arguments(verb):
    host_argument(verb)
    verb.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")


def lab_of(options, hook=None):
    return Lab(folder_of(options.name, options.dir), tools.find(hook))


def plan_of(options, present):
    """The given options over those of the lab that is there, which cannot change."""
    given = {field.name: getattr(options, field.name) for field in dataclasses.fields(Plan)
             if getattr(options, field.name, None) is not None}
    if "memory" in given:
        given["memory"] = parse_size(given["memory"])
    if "hook" in given:
        given["hook"] = os.path.abspath(given["hook"])
    if present is None:
        return Plan(**((METAL if given.get("metal") else {}) | given)).check()
    for field, value in given.items():
        if getattr(present, field) != value:
            there = getattr(present, field)
            raise LabError(f"the lab is there with {field} {there}, not {value}; remove it first with weft lab down")
    return present


def run_up(options):
    lab = lab_of(options)
    with lab.locked():
        plan = plan_of(options, lab.plan)
        if plan.hook and not os.access(plan.hook, os.X_OK):
            raise LabError(f"--hook {plan.hook}: no such program")
        lab.tools = tools.find(plan.hook)
        lab.up(plan, weftd=not options.no_weftd)
    which = f" --dir {options.dir}" if options.dir else f" --name {options.name}" if options.name != "lab" else ""
    print((USAGE if lab.site.weftd.pid else USAGE_WITHOUT).format(url=lab.site.url, which=which))
    return 0


def run_down(options):
    lab = lab_of(options)
    with lab.locked():
        say(f"lab in {lab.folder}: " + ("removed" if lab.down() else "there is none"))
    return 0


def run_status(options):
    status = lab_of(options).status()
    if options.json:
        print(json.dumps(status, indent=2))
        return 0
    print_status(status)
    return 0


def print_status(status):
    row = "{:6}{:7}{:14}{:8}{:10}{}"
    print(f"lab {status['name']} in {status['folder']}: {'running' if status['running'] else 'not running'}\n")
    print(row.format("HOST", "STATE", "ADDRESS", "LEAF", "LIBVIRTD", "DOMAINS"))
    for host in status["hosts"]:
        answers = "answers" if host["libvirtd"] else "silent"
        domains = " ".join(sorted(host["domains"])) or "-"
        print(row.format(host["name"], host["state"], host["address"], host["leaf"], answers, domains))
    fabric, weftd = status["fabric"], status["weftd"]
    print(f"\nfabric {fabric['state']}: {len(fabric['active'])} of {len(status['hosts'])} hosts' ports active")
    print(f"weftd {'runs' if weftd['running'] else 'does not run'}: {weftd['url']}")


def with_host(action, done):
    """done: what is said afterwards of the host."""
    def run(options):
        lab = lab_of(options)
        with lab.locked():
            action(lab.running().host(options.host), options)
        say(f"host {options.host}: {done(options)}")
        return 0

    return run


def _heal(host, _):
    host.heal()
    host.await_libvirtd()


def _libvirtd(host, options):
    if options.what == "stop":
        host.stop_libvirtd()
    else:
        host.start_libvirtd()
        host.await_libvirtd()


run_cut = with_host(lambda host, _: host.cut(), lambda _: "its cable is unplugged; weft lab heal plugs it in again")
run_heal = with_host(_heal, lambda _: "it is up, and its libvirtd answers")
run_kill = with_host(lambda host, _: host.kill(), lambda _: "its power is gone; weft lab heal boots it again")
run_libvirtd = with_host(_libvirtd, lambda options: f"libvirtd {'is stopped' if options.what == 'stop' else 'answers'}")


def run_weftd(options):
    lab = lab_of(options)
    with lab.locked():
        site = lab.running().site
        if options.what == "stop":
            site.weftd.kill()
        else:
            site.write()
            site.start()
    return 0


def run_exec(options):
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise LabError("exec: which command? weft lab exec HOST -- CMD …")
    lab = lab_of(options).running()
    (lab if options.host == SWITCH else lab.host(options.host)).execute(command)


VERBS = {
    "up": ("make a lab, or complete one that is there", run_up, up_arguments),
    "down": ("remove a lab and everything that belongs to it", run_down, no_arguments),
    "status": ("show the hosts, the fabric and weftd", run_status, status_arguments),
    "cut": ("unplug a host's cable", run_cut, host_argument),
    "heal": ("plug it in again; boot the host if it is dead", run_heal, host_argument),
    "kill": ("take a host's power away: everything on it ends at once, its files stay", run_kill, host_argument),
    "libvirtd": ("stop or start libvirtd on a host; its guests live on", run_libvirtd, libvirtd_arguments),
    "weftd": ("stop or start the lab's weftd", run_weftd, switch_argument),
    "exec": ("run a command on a host, or on the switch", run_exec, exec_arguments),
}


def main(arguments):
    options = make_parser().parse_args(arguments)
    if os.geteuid() != 0:
        print("weft lab: it makes namespaces, which takes root; run it with sudo", file=sys.stderr)
        return EXIT_FAILED
    try:
        return options.run(options)
    except LabError as error:
        print(f"weft lab: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
