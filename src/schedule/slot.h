/* A slot: what is taken and free on one host, for placement only. One block of memory without pointers to what changes, but for
 * the list of clusters and promises, which is never changed but replaced, and counted: so a copy of the block and a count on
 * the list are a snapshot (weft_slot_save(), weft_fleet_begin()). */
#pragma once

#include "fleet.h"
#include "lane-choice.h"
#include "seat.h"
#include "shape.h"

typedef struct WeftSlot WeftSlot;

/* Nothing is taken; closed. host is borrowed, told as well. number: its own in the fleet. */
WeftSlot *weft_slot_new(guint number, const WeftHost *host, const WeftFleetFabric *told);
void weft_slot_free(WeftSlot *slot);
/* Bytes of the block. */
gsize weft_slot_size(const WeftSlot *slot);
/* A snapshot of weft_slot_size() bytes, aligned as for a guint64, made without allocating. It must be restored once, before the
 * slot is freed; host and told must be the same then. */
void weft_slot_save(const WeftSlot *slot, void *ret_copy);
void weft_slot_restore(WeftSlot *slot, const void *copy);
/* A copy that may be kept while the slot changes, and read on other threads, but for host and told; to weft_slot_free(). */
WeftSlot *weft_slot_copy(const WeftSlot *slot);
/* copy: of a slot with the same host; does the slot say the same? Then weft_slot_adopt() makes it so. */
gboolean weft_slot_equals(const WeftSlot *slot, const WeftSlot *copy);
void weft_slot_adopt(WeftSlot *slot, const WeftSlot *copy);
/* Carries over what is taken under an older description, by the names that nodes use, and whether it is open. */
void weft_slot_inherit(WeftSlot *slot, const WeftSlot *old);
void weft_slot_empty(WeftSlot *slot);
/* What the host has by its own word (see weft_fleet_set_devices()). */
void weft_slot_set_devices(WeftSlot *slot, const WeftHost *found);
/* What its fabric tells changed. */
void weft_slot_told(WeftSlot *slot);

/* At most how many nodes of the shape there is room for: exact, so that weft_slot_seat() and weft_slot_take_seat() in turn
 * succeed exactly that often. 0 where it is closed. Labels and fabric are not looked at. A node has pages of one size.
 *
 * required: each node within one NUMA node, and where it has both, each GPU below the root of one of its functions. Where
 * several rails have a choice of roots, this is a search of bounded length (slot-roots.c).
 * preferred: whole nodes in NUMA nodes, and more out of what these leave: of each NUMA node as many cores as have their share
 * of the node's memory there, rounded up to pages. Devices of the whole host.
 * none: cores, pages and devices of the whole host; there may be parts without cores, and parts without pages. (As preferred on
 * hosts of more than WEFT_SEAT_PARTS NUMA nodes.) */
guint weft_slot_fit(const WeftSlot *slot, const WeftShape *shape);
/* The best seat for one: in one NUMA node where it fits, in the fullest of these; else over the fewest, memory split as the
 * cores are; functions and GPUs of the same NUMA node, and GPUs below the PCIe root of a function, as far as locality asks for
 * it or there is a choice. Of functions of a rail, those of the HCA that has most to spare. group is left to the caller. FALSE:
 * no room. */
gboolean weft_slot_seat(const WeftSlot *slot, const WeftShape *shape, WeftSeat *ret_seat);

/* cluster: id; NULL: one that is only tried, and has no node yet. What the host does not have is passed over. What is taken
 * already stays so (a plan may look at an interval in which one comes after the other). */
void weft_slot_take_seat(WeftSlot *slot, const WeftSeat *seat, const char *cluster);
void weft_slot_give_seat(WeftSlot *slot, const WeftSeat *seat, const char *cluster);
/* Is all that the seat has free there, and the host open? FALSE also where bandwidth is guaranteed: links are not looked at. */
gboolean weft_slot_has_room(const WeftSlot *slot, const WeftSeat *seat);
/* May a node of the cluster have that seat now, by all that placement looks at on a host? */
gboolean weft_slot_accepts(const WeftSlot *slot, const WeftSeat *seat, const char *cluster);
/* Pages that are no seat's. */
void weft_slot_mark_pages(WeftSlot *slot, const WeftMemory *memory, gboolean taken);
gboolean weft_slot_has_pages(const WeftSlot *slot, const WeftMemory *memory);
/* FALSE: it has nothing there that the host knows. */
gboolean weft_slot_seat_of(const WeftSlot *slot, const WeftNode *node, WeftSeat *ret_seat);
/* A skeleton as weft_schedule() returns it. */
WeftNode *weft_slot_node(const WeftSlot *slot, const WeftSeat *seat, const WeftGroup *group);

/* --- what there is, counting each resource by itself: for refusals --- */

typedef enum {
    WEFT_SCARCE_CORES,
    WEFT_SCARCE_MEMORY,
    WEFT_SCARCE_FUNCTIONS,
    WEFT_SCARCE_PKEYS,
    WEFT_SCARCE_BANDWIDTH,
    WEFT_SCARCE_GPUS,
    WEFT_SCARCE_LOCALITY, /* there is enough of everything, but not together */
    WEFT_SCARCE_HOSTS,    /* … of its own: exclusive */
    WEFT_SCARCE_KINDS
} WeftScarce;
/* Nodes for which the host would have enough of each, wherever it is; G_MAXUINT: what is not asked for. locality: as
 * weft_slot_fit() without a look at who is there, so never more than the others. hosts: 0 where others are in the way. */
void weft_slot_room(const WeftSlot *slot, const WeftShape *shape, guint ret_room[WEFT_SCARCE_KINDS]);
/* The same if nothing were taken there. */
void weft_slot_room_empty(const WeftSlot *slot, const WeftShape *shape, guint ret_room[WEFT_SCARCE_KINDS]);

/* --- for the index and the fleet --- */

const WeftHost *weft_slot_host(const WeftSlot *slot);
const WeftFleetFabric *weft_slot_fabric(const WeftSlot *slot);
guint weft_slot_number(const WeftSlot *slot);
gboolean weft_slot_is_open(const WeftSlot *slot);
void weft_slot_set_open(WeftSlot *slot, gboolean open);
guint weft_slot_cores(const WeftSlot *slot); /* that nodes may have */
guint weft_slot_free_cores(const WeftSlot *slot);
guint weft_slot_nodes(const WeftSlot *slot); /* that hold something there, tried ones too */
guint weft_slot_free_gpus(const WeftSlot *slot);
/* Cores that are free. */
void weft_slot_free_bits(const WeftSlot *slot, WeftBits *ret_cores);
/* Is there all that is described? */
gboolean weft_slot_is_complete(const WeftSlot *slot);
/* Has it functions that can be given, now or when they are free? */
gboolean weft_slot_gives_functions(const WeftSlot *slot);
/* Adds what is promised in each of its fabric's lanes, in their order. */
void weft_slot_add_lane_uses(const WeftSlot *slot, WeftLaneUse uses[WEFT_LANES_MAX]);
/* Bits a second of an adapter's port; 0: not known. */
guint64 weft_fabric_rate(const WeftFleetFabric *told, const WeftHca *hca);
