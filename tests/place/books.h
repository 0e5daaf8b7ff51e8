/* Books of a fleet, kept apart from the scheduler's own code: they hold the hosts and who sits where. Everything else is
 * counted anew from that each time, so that nothing can be forgotten or given twice. */
#pragma once

#include "schedule.h"

typedef struct BookSeat {
    char *cluster; /* id */
    WeftSeat seat; /* its host is the one that it stands with */
} BookSeat;

typedef struct BookHost {
    WeftHost *host;
    WeftHost *found; /* what it has by its own word; NULL: all that is described */
    gboolean open;
    GArray *seats; /* BookSeat, in the order in which they were taken */
} BookHost;

typedef struct Books {
    GPtrArray *hosts;    /* BookHost */
    GHashTable *fabrics; /* name to WeftFleetFabric; one of which nothing was told is not there */
} Books;

/* What is free on a host. */
typedef struct BookRoom {
    guint cores[WEFT_NUMA_MAX];
    guint64 pages[WEFT_NUMA_MAX][WEFT_PAGE_SIZES_MAX];
    guint vfs[WEFT_HCAS_MAX]; /* that can be given */
    gboolean whole[WEFT_HCAS_MAX];
    gboolean gpus[WEFT_GPUS_MAX];
} BookRoom;

Books *books_new(void);
void books_free(Books *books);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(Books, books_free)

/* Takes the host over; it is open. */
BookHost *books_add(Books *books, WeftHost *host);
/* NULL: none of that name. */
BookHost *books_find(const Books *books, const char *name);
/* A fleet with the same contents. order: of its hosts, as indices into the books'; NULL: as they are. */
WeftFleet *books_fleet(const Books *books, const guint *order);
/* The host as the fleet is to have it. */
void books_put(const Books *books, WeftFleet *fleet, const BookHost *host);
/* … and all that is taken there, of which the fleet knows nothing yet. */
void books_bring(const Books *books, WeftFleet *fleet, const BookHost *host);
/* Tells the fleet what is known of a fabric. */
void books_tell(const Books *books, WeftFleet *fleet, const char *fabric);

/* Notes what is placed in a fleet with the same hosts. */
void books_take(Books *books, const WeftFleet *fleet, const WeftSeat *seats, guint n, const char *cluster);
void books_give(Books *books, const char *cluster);

/* What is wrong: used twice, by somebody whom it is not for, or not there at all. NULL: nothing. */
char *books_check(const Books *books);
/* The same of one host, and what is free there. */
char *books_count(const Books *books, const BookHost *host, BookRoom *ret_room);

const char *books_leaf(const Books *books, const BookHost *host);
/* What is known of its fabric; never NULL. */
const WeftFleetFabric *books_told(const Books *books, const BookHost *host);
/* Can a partition name the port of this HCA, so that it can be given? */
gboolean books_gives_port(const Books *books, const BookHost *host, guint hca);
/* Can functions of this HCA be given, now or when they are free? */
gboolean books_gives_functions(const Books *books, const BookHost *host, guint hca);
/* Has the HCA's port the cluster's P_Key, or room for it? */
gboolean books_takes_key(const Books *books, const BookHost *host, guint hca, const char *cluster);
/* Bits a second that are not promised yet. */
guint64 books_lane_room(const Books *books, const BookHost *host, guint hca, guint sl);
/* May nodes of this request be there at all, were there room? */
gboolean books_allows(const Books *books, const BookHost *host, const WeftPlaceRequest *request);
/* The path of a group on a fabric; never auto. */
WeftPath books_path(const Books *books, const char *fabric, const WeftCluster *cluster, const WeftGroup *group);
/* Cables between two leaves of a fabric, on the rail where they are most; G_MAXUINT: not known, or no way. */
guint books_hops(const Books *books, const char *fabric, const char *a, const char *b);
