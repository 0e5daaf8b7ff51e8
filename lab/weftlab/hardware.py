"""The files that describe a host: what is bound over its /sys/devices/system/{cpu,node}, /sys/kernel/mm/hugepages and
/proc/meminfo, so that libvirt and libnuma see the described machine."""

import shutil
from pathlib import Path

from .plan import PAGE

DISTANCE_NEAR, DISTANCE_FAR = 10, 20


def _put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")


def cpu_mask(cpus):
    """As sysfs writes it: words of 32 bits, the highest first."""
    bits = sum(1 << cpu for cpu in cpus)
    words = [f"{bits >> shift & 0xFFFFFFFF:08x}" for shift in range(0, max(bits.bit_length(), 1), 32)]
    return ",".join(reversed(words))


def cpu_list(cpus):
    """"0-3,8"."""
    runs = []
    for cpu in sorted(cpus):
        if runs and runs[-1][1] == cpu - 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{first}-{last}" if last > first else str(first) for first, last in runs)


def _write_cpus(plan, folder):
    for name in ("present", "online", "possible"):
        _put(folder / name, cpu_list(range(plan.cpus)))
    _put(folder / "offline", "")
    _put(folder / "kernel_max", 8191)
    for socket in range(plan.sockets):
        package = [cpu for core in plan.node_cores(socket) for cpu in plan.core_cpus(core)]
        for core in plan.node_cores(socket):
            for cpu in plan.core_cpus(core):
                _write_cpu(plan, folder / f"cpu{cpu}", socket, core, package)


def _write_cpu(plan, folder, socket, core, package):
    siblings = plan.core_cpus(core)
    _put(folder / "online", 1)
    topology = {"core_id": core - socket * plan.cores, "physical_package_id": socket, "die_id": 0,
                "thread_siblings": cpu_mask(siblings), "core_cpus": cpu_mask(siblings),
                "thread_siblings_list": cpu_list(siblings), "core_cpus_list": cpu_list(siblings),
                "core_siblings": cpu_mask(package), "package_cpus": cpu_mask(package),
                "core_siblings_list": cpu_list(package), "package_cpus_list": cpu_list(package)}
    for name, value in topology.items():
        _put(folder / "topology" / name, value)


def _write_hugepages(folder, pages):
    for name in ("nr_hugepages", "free_hugepages"):
        _put(folder / "hugepages-2048kB" / name, pages)
    _put(folder / "hugepages-2048kB/surplus_hugepages", 0)


def _write_node(plan, folder, node):
    cpus = [cpu for core in plan.node_cores(node) for cpu in plan.core_cpus(core)]
    _put(folder / "cpumap", cpu_mask(cpus))
    _put(folder / "cpulist", cpu_list(cpus))
    _put(folder / "distance", " ".join(str(DISTANCE_NEAR if other == node else DISTANCE_FAR) for other in range(plan.sockets)))
    for cpu in cpus:
        (folder / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")
    total = plan.node_memory >> 10
    free = total - (plan.node_pages * PAGE >> 10)
    lines = {"MemTotal": total, "MemFree": free, "MemUsed": total - free}
    _put(folder / "meminfo", "\n".join(f"Node {node} {name + ':':15}{value:9} kB" for name, value in lines.items()))
    _write_hugepages(folder / "hugepages", plan.node_pages)


def _write_nodes(plan, folder):
    for name in ("online", "possible", "has_memory", "has_normal_memory", "has_cpu"):
        _put(folder / name, cpu_list(range(plan.sockets)))
    for node in range(plan.sockets):
        _write_node(plan, folder / f"node{node}", node)


def _write_meminfo(plan, path):
    """The machine's own, with the described sizes."""
    pages = plan.node_pages * plan.sockets
    total = plan.memory >> 10
    free = total - (pages * PAGE >> 10)
    told = {"MemTotal": total, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0, "SwapTotal": 0, "SwapFree": 0,
            "HugePages_Total": pages, "HugePages_Free": pages, "HugePages_Rsvd": 0, "Hugepagesize": PAGE >> 10,
            "Hugetlb": pages * PAGE >> 10}
    lines = []
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name = line.partition(":")[0]
        if name not in told:
            lines.append(line)
    for name, value in told.items():
        lines.append(f"{name + ':':15}{value:9}{'' if name.startswith('HugePages') else ' kB'}")
    _put(path, "\n".join(lines))


def describe_processors(plan, folder):
    """For an emulated host, whose memory is real: all its processors are one."""
    _write_cpus(plan, folder / "cpu")
    for node in range(plan.sockets):
        cpus = [cpu for core in plan.node_cores(node) for cpu in plan.core_cpus(core)]
        _put(folder / f"node/node{node}/cpumap", cpu_mask(cpus))
        _put(folder / f"node/node{node}/cpulist", cpu_list(cpus))
    _put(folder / "node/has_cpu", cpu_list(range(plan.sockets)))


def describe(plan, folder):
    """Writes them all anew: they are the same each time."""
    shutil.rmtree(folder, ignore_errors=True)
    _write_cpus(plan, folder / "cpu")
    _write_nodes(plan, folder / "node")
    _write_hugepages(folder / "hugepages", plan.node_pages * plan.sockets)
    _write_meminfo(plan, folder / "meminfo")
