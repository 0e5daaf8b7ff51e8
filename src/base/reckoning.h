/* Which time it is, by what the wall clock says and by what is known otherwise. Pure: readings go in.
 *
 * The wall clock can be set, the ticks since the machine booted cannot. From a moment of trust on, time is reckoned by ticks. A
 * wall clock that differs from that by the bound or less is followed: clocks are corrected by seconds. All that is followed
 * counts, so that many small steps are no more than one: within a day they may come to the bound together. A wall clock that
 * differs by more is doubted until it comes back or somebody who knows confirms it:
 *
 *   - JUMPED: it was set while ticks were counted. What is reckoned is right, and everything goes on by it.
 *   - HELD: the machine booted since the last time that the store knows, and the gap to it is above the bound. Time is reckoned
 *     from that last one on, which is not known to be right: nothing may end, begin or be dropped because of its age. Where the
 *     wall clock had jumped before the boot, all times that the store has were reckoned, also those of before it. */
#pragma once

#include <glib.h>

typedef enum { WEFT_CLOCK_TRUSTED, WEFT_CLOCK_JUMPED, WEFT_CLOCK_HELD } WeftClockTrust;
extern const char *const weft_clock_trust_words[];

#define WEFT_BOOT_ID_MAX 40

/* All times in microseconds. boot: which boot of the machine the ticks count from. */
typedef struct WeftClockReading {
    gint64 wall;
    gint64 ticks;
    char boot[WEFT_BOOT_ID_MAX];
} WeftClockReading;

/* A moment of trust, as it is kept over a restart. boot "": not known. */
typedef struct WeftClockMark {
    gint64 time;
    gint64 ticks;
    gint64 followed; /* see below */
    gboolean jumped; /* the wall clock was doubted, and this is what was reckoned */
    char boot[WEFT_BOOT_ID_MAX];
} WeftClockMark;

typedef struct WeftReckoning {
    WeftClockTrust trust;
    gint64 bound;
    gint64 offset;   /* what is reckoned is ticks + offset */
    gint64 followed; /* how far the wall clock was followed away from the ticks; a bound of it wears off in a day */
    gint64 worn;     /* ticks of when it did last */
    gint64 since;    /* times from then on were reckoned, those before are the wall clock's; G_MININT64: all were */
} WeftReckoning;

/* mark: the last moment of trust; NULL: there was none, and the wall clock is trusted. */
void weft_reckoning_begin(WeftReckoning *self, const WeftClockReading *reading, const WeftClockMark *mark, gint64 bound);
/* The time. Notices that the wall clock was set, or came back. */
gint64 weft_reckoning_now(WeftReckoning *self, const WeftClockReading *reading);
/* By how much the wall clock is ahead of what is reckoned. */
gint64 weft_reckoning_gap(const WeftReckoning *self, const WeftClockReading *reading);
/* It is later by that much than what was reckoned, and the wall clock is right. */
void weft_reckoning_accept(WeftReckoning *self, gint64 gap);
/* What is reckoned is right, whatever the wall clock says. */
void weft_reckoning_confirm(WeftReckoning *self);
/* May hosts say that the wall clock is right? Not after a jump, also where the machine booted since: ticks had contradicted it.
 */
gboolean weft_clock_is_for_hosts(WeftClockTrust trust, gint64 since);

/* What the clocks of hosts say of it. */
typedef enum { WEFT_VERDICT_NONE, WEFT_VERDICT_WALL, WEFT_VERDICT_RECKONED } WeftClockVerdict;
/* hosts: so many there are. wall, reckoned, neither: so many agree with either. A majority of up to 15 hosts decides, and of
 * those that were heard. */
WeftClockVerdict weft_clock_judge(guint hosts, guint wall, guint reckoned, guint neither);
#define WEFT_CLOCK_JURY 15
