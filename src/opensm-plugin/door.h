/* The Unix socket: one thread that never blocks. Takes orders from the configured uid and from root; a client that hangs, sends
 * garbage or does not read loses its connection, and nobody else notices. */
#pragma once

#include "osm.h"

/* Listens; a socket that nobody listens on any more is replaced. */
WeftDoor *weft_door_new(WeftOsm *weft, GError **error);
/* Nobody is heard any more; what is still answered goes nowhere. Before weft_hands_free(). */
void weft_door_close(WeftDoor *door);
/* After weft_door_close() and weft_hands_free(). */
void weft_door_free(WeftDoor *door);

/* Tells those who listen whether opensm rules, if that has changed since it was told. thread: any. */
void weft_door_tell_rule(WeftDoor *door);
/* Tells those who listen. thread: any; returns at once, so opensm's may call it with its lock held. */
void weft_door_tell(WeftDoor *door, const char *event, const char *detail);
