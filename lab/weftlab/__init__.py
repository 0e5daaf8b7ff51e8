"""The lab: hosts as namespaces, each with its own libvirtd and described hardware, on a simulated fabric.

cli       the verbs
lab       the whole: up, down, status, cut, heal, kill
host      one host: its files, namespaces and libvirtd
metal     the same as an emulated machine
hardware  the sysfs and procfs files that describe a host
fabric    ibsim and opensm
site      weft.yaml and weftd
plan      what the lab consists of: names, addresses, sizes; kept in lab.json
process   processes in namespaces, known by pid files that cannot lie
"""
