/* What the parts of the self test share:
 *
 *     selftest.c          which checks there are, which can be made here, and what is told of them
 *     selftest-checks.c   the checks of clusters as they are
 *     selftest-again.c    … for which clusters come, go and move
 *     selftest-look.c     … that compare what hosts and fabric tell with what it was before
 *     selftest-inside.c   what nodes tell of themselves
 *     selftest-site.c     hosts, tenants and clusters: taken, made, and removed */
#pragma once

#include "selftest.h"

/* One of the two who must not notice each other. */
typedef struct WeftParty {
    WeftCli cli;        /* acts for its tenant */
    const char *name;   /* of its cluster */
    gboolean made;      /* the tenant is the test's own */
    gboolean there;     /* so is a cluster of it */
    json_t *cluster;    /* as it was when it was ready; NULL: it is not */
    json_t *nodes;      /* … and its nodes, by rank */
    json_t *inside;     /* … and what they told from inside, by rank */
    json_t *had;        /* functions that its nodes had before: "n1/mlx5_0/2" */
    json_t *partitions; /* {"name", "pkey"} of those that its clusters had */
} WeftParty;

enum { WEFT_FIRST, WEFT_SECOND, WEFT_PARTIES };

typedef struct WeftSelftest {
    WeftCli *cli;
    const WeftSelftestWish *wish;
    json_t *hosts;      /* as the API has them, in order of their names */
    char *hostlist;     /* … their names */
    const char *path;   /* of the nodes */
    gboolean functions; /* … have devices of their hosts */
    gboolean able;      /* a cluster was made */
    json_t *before;     /* host to its examination, before anything was made */
    json_t *templates;  /* ids of those that were there */
    json_t *made;       /* … and of those that were made since */
    char *mark;         /* what is written where a device holds data */
    WeftParty parties[WEFT_PARTIES];
} WeftSelftest;

/* What a cluster is to be. */
typedef struct WeftSiteOrder {
    guint count;
    gboolean forked; /* from a template, where there is one */
} WeftSiteOrder;

typedef enum { WEFT_CHECK_OK, WEFT_CHECK_FAILED, WEFT_CHECK_SKIPPED } WeftVerdict;

/* Says why, and gives what is to be returned. An error, where one is set, is a failure that needs no more words. */
WeftVerdict weft_verdict(GString *found, WeftVerdict verdict, const char *format, ...) G_GNUC_PRINTF(3, 4);

typedef WeftVerdict (*WeftCheckRun)(WeftSelftest *test, GString *found, GError **error);

WeftVerdict weft_check_create(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_device(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_pkeys(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_fabric(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_shape(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_hugepages(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_reach(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_second(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_apart(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_delete(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_swap(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_fork(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_move(WeftSelftest *test, GString *found, GError **error);
WeftVerdict weft_check_clean(WeftSelftest *test, GString *found, GError **error);

/* --- for them (selftest-checks.c) --- */

/* One node on each host, two at least: neighbours have to reach each other. */
WeftSiteOrder weft_main_order(const WeftSelftest *test);
/* Makes the party's cluster, and says how long it took. */
WeftVerdict weft_check_make(WeftSelftest *test, guint party, const WeftSiteOrder *order, GString *found, GError **error);
/* Has each node of both parties its devices and P_Keys, and nobody else's? Says nothing where all is well. */
WeftVerdict weft_check_given(const WeftSelftest *test, GString *found);
gboolean weft_list_contains(json_t *list, json_t *text);
char *weft_party_node_name(const WeftParty *party, size_t rank);
json_t *weft_party_inside(const WeftParty *party, size_t rank); /* borrowed */
/* Those of other nodes of its cluster; unlike: that this one's nodes do not have as well. */
json_t *weft_party_addresses(const WeftParty *party, size_t rank, const WeftParty *unlike);

/* --- from inside (selftest-inside.c) --- */

/* {"ports": [{"guid", "state", "pkeys": [{"index", "value"}]}], "devices": [{"pci", "class", "kind"}], "controllers": [text],
 *  "blocks": [name], "cpus", "memory", "peers": {address: name}}. NULL: it cannot be looked into. */
json_t *weft_inside_look(const WeftParty *party, guint rank, GError **error);
/* Which of these addresses answer: an array of them. SKIPPED through ret_tool FALSE where the image cannot ask. */
json_t *weft_inside_ping(const WeftParty *party, guint rank, json_t *addresses, gboolean *ret_able, GError **error);
/* Writes the mark, with the tenant's name, to what holds data there and is empty, or looks for anybody's mark: names of the
 * devices. */
json_t *weft_inside_mark(const WeftParty *party, guint rank, const char *text, GError **error);
json_t *weft_inside_find(const WeftParty *party, guint rank, const char *text, GError **error);

/* --- hosts, fabric (selftest-look.c) --- */

/* Are members and tables of the fabric as the party's nodes need them? FALSE: not, and how in error. */
gboolean weft_look_members(WeftSelftest *test, const WeftParty *party, GString *found, GError **error);
/* Is nothing left of the parties' partitions, and is each host as it was before? */
gboolean weft_look_gone(WeftSelftest *test, GError **error);
/* Have hosts where nobody is as many free huge pages as before? Waits for it. */
gboolean weft_look_pages_back(WeftSelftest *test, GError **error);

/* --- making and removing (selftest-site.c) --- */

/* The named ones, or free ones. */
gboolean weft_site_choose(WeftSelftest *test, GError **error);
gboolean weft_site_begin(WeftSelftest *test, GError **error);
/* Host to what weft doctor says of it now. */
json_t *weft_site_examine(const WeftSelftest *test, GError **error);

/* Is there room for it now? FALSE with why in ret_reason, or with an error. */
gboolean
weft_site_has_room(WeftSelftest *test, const WeftParty *party, const WeftSiteOrder *order, char **ret_reason, GError **error);
/* Waits until it is ready, and looks at it from inside. */
gboolean weft_site_create(WeftSelftest *test, WeftParty *party, const WeftSiteOrder *order, GError **error);
/* Reads anew what it is, and looks at it from inside. */
gboolean weft_site_look(WeftParty *party, GError **error);
/* Waits until it is gone; fine where there is none. */
gboolean weft_site_remove(WeftSelftest *test, WeftParty *party, GError **error);
/* Removes all that was made. What is left, and how to remove it, is in the error. */
gboolean weft_site_end(WeftSelftest *test, GError **error);
void weft_site_clear(WeftSelftest *test);

/* "n1/mlx5_0/2" of each virtual function that a node has. */
json_t *weft_site_functions(json_t *node);
