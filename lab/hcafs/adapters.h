/* Adapters as Linux and their drivers show them, from a line each:
 *
 *     mlx5 NAME PCI FUNCTIONS [vendor] …      the vendor's driver, with files for GUIDs and policy; without: the kernel's own,
 *                                             with an IPoIB interface
 *     mlx4 NAME PCI FUNCTIONS [KEY,KEY,…] …   with these keys in its port's table, where no fabric tells
 *     fabric SOCKET                           who knows the tables of all ports (see ports.h)
 *     sys FOLDER                              a real /sys: all that is not of adapters is passed through to it
 *     real NAME PCI …                         a real device there, of whatever kind, that looks as if mlx4's driver had it
 *
 * and of each, where it differs: total=FUNCTIONS (that there can be; as many as there are), guid=GUID (of its port), ports=1 (2
 * of mlx4), numa=NODE (0).
 *
 * What they do as the kernel does (drivers/pci/iov.c, drivers/base/bus.c, mlx4 and mlx5 of Linux 6.1, mlx5 of the vendor's):
 *
 *     sriov_numvfs      makes and removes functions. Garbage is EINVAL, more than sriov_totalvfs ERANGE, another number than 0
 *                       while there are some EBUSY, without a driver that can (mlx4 takes a module option) ENOENT; the same
 *                       number changes nothing
 *     sriov_drivers_autoprobe   0: new functions get no driver
 *     driver_override, drivers_probe, bind, unbind   ENODEV where driver and device do not belong together, EBUSY where it has
 *                       one. A physical function without its driver has no functions and no HCA
 *     sriov/N/          GUIDs and policy of mlx5, which survive the function
 *     iov/…/pkey_idx    of mlx4: at first a function has the port's first key and no other; the map of the physical function
 *                       cannot be changed
 *
 * A real device's functions are those that the kernel has made of it, with their own drivers, IOMMU groups and resets; this
 * adds what is mlx4's: the HCA, its port, GUIDs and maps of P_Keys. They come and go with the functions, and all of it with the
 * physical function's own driver. Other adapters than real ones cannot be there beside.
 *
 * Beside what the kernel has, .functions/PCI tells what whoever has this function can do on the fabric, now:
 *
 *     guid 0x0277650000000001
 *     link up                                 "down": a policy, or no manager knows its virtual port
 *     0 0x8001                                a P_Key that it can use, by its own index; 0x0000: whatever will be there
 *
 * Functions of mlx5 by the kernel's own driver have none: netlink, not files, sets them. */
#pragma once

#include <glib.h>

void adapters_init(void);
void adapters_free(void);
/* FALSE: it is no such line. */
gboolean adapters_add(const char *line);
/* Looks which functions real devices have now. */
void adapters_follow(void);
