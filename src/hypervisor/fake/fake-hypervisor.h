/* A hypervisor whose world is a folder, so that it survives weftd as real hosts do:
 *
 *     WORLD/HOST/domains/NAME.xml      a running domain
 *     WORLD/HOST/domains/NAME.off      a stopped one
 *     WORLD/HOST/pool/NAME.seed        the size of its seed
 *     WORLD/HOST/pool/NAME.disk        the base and the size of its disk, and what a test has its guest write there
 *     WORLD/HOST/pool/NAME.layer       … and what it writes since it was saved, where that is there
 *     WORLD/HOST/pool/image-DIGEST     an image's file; image-DIGEST.part while it is being brought
 *     WORLD/HOST/pool/NAME.saved       a domain that was put aside: its name and its definition
 *     WORLD/HOST/primed/ID             memory to fork from: the digest of the saved file that it is made of
 *     WORLD/HOST/domains/NAME.blank    its guest was forked, and does not know yet who it is
 *     WORLD/HOST/domains/NAME.plugged  what was plugged into it ("+ALIAS") or unplugged ("-ALIAS"), a line each
 *     WORLD/HOST/domains/NAME.paused   its processors stand still
 *     WORLD/HOST/domains/NAME.rate     bytes a second that it is said to write to
 *     WORLD/HOST/domains/NAME.out, .in a domain that stands still between two hosts, the one it leaves and the one it goes to
 *     WORLD/HOST/networks/VXLAN        a network: the cluster, then its peers, a line each
 *     WORLD/HOST/inventory.json        what inspect() says, where it is to say something else than of other hosts:
 *                                      { "hardware": a host as in host.h, "kvm": …, the other fields of WeftInventory }
 *     WORLD/HOST/faults                what goes wrong there, a line each (see faults.h)
 *     WORLD/faults                     … on every host
 *     WORLD/reboots                    guests that rebooted, a line "HOST DOMAIN" each time, and hosts whose devices
 *                                      changed, a line "HOST"; told when the file is written
 *     WORLD/hookless                   guests have no hooks that they run before they come to rest
 *     WORLD/apart                      hosts whose guests do not reach each other, a line "HOST HOST" each
 *     WORLD/ports, WORLD/HOST/ports    what guests say of their ports where it is not that they work, a line "RAIL ANSWER"
 *                                      each (see "meet" of protocol.h); a line "well": … and that all is well nevertheless;
 *                                      "older": they say nothing of ports, as a guest program that knows none
 *     WORLD/answer                     what all guests answer to "meet", as it is, instead of all that, and that they failed
 *     WORLD/HOST/owner                 whose the host is (see owner.h)
 *     WORLD/HOST/root                  the root of the host's files, where a hook is used: its /sys and /run
 *
 * Hosts need not be prepared: a folder appears with the first domain. Two nodes that use the same core, VF or GUID of a host
 * are refused at start, whatever weft believes: so that a test finds out.
 *
 * Faults have the names of the operations, and: bring-half (an image breaks off in the middle), sync (the guest program
 * answers late or never), greeted (it ends its stream after its welcome), meet (it says that it cannot reach the others, and
 * why), settle and become (it cannot, and why), quiesce and resume (likewise), plug-hostdev (only devices of hosts), post-copy
 * (of the host that it moves to: the move breaks, and the domain stands still), rdma (likewise: it goes over TCP).
 *
 * Its guests welcome weftd, meet each other, and run nothing; its consoles say what they are told. */
#pragma once

#include "hypervisor.h"

WeftHypervisor *weft_hypervisor_fake_new(const char *world, GError **error);
/* Has each guest answered by the guest program, a process on this machine whose files are below WORLD/HOST/guests/NAME: it runs
 * what it is told, and meets nobody. */
void weft_hypervisor_fake_use_guest(WeftHypervisor *hv, const char *program);
/* Has the hook run for each domain that starts or stops, and for each inspection, as libvirt runs it, with WEFT_HOOK_ROOT as
 * WORLD/HOST/root; not for moves, plugging and networks. A domain's process there is one that always runs. */
void weft_hypervisor_fake_use_hook(WeftHypervisor *hv, const char *program);
