/* The API: HTTP/1.1 and JSON under /v1. It reads and writes the store: what is to happen is a wish there. What is
 * in the nodes and on the hosts now it learns through the gate. */
#pragma once

#include "audit.h"
#include "backup.h"
#include "gate.h"
#include "store.h"
#include "tenant.h"

#include <glib.h>

typedef struct WeftApiOptions {
    const char *socket_path;     /* Unix socket; peer credentials decide */
    const char *socket_group;    /* its group, mode 0660; NULL: mode 0666, credentials decide alone */
    const char *tcp_address;     /* "127.0.0.1:7600" or "[::1]:7600"; NULL: no TCP */
    const char *tls_certificate; /* files in PEM; required with TCP */
    const char *tls_key;
    guint connections; /* at the same time, in all; administrators on this machine have some of their own beside them */
    guint connections_per_address; /* … and of one user of this machine */
    guint body_max;                /* bytes */
    guint requests_per_second;     /* of one principal, in the mean; of one tenant twice as many */
    guint requests_burst;
    guint processor_per_tenant; /* hundredths of one processor's time; for one principal half of them */
    guint streams;              /* event streams at the same time, in all */
    guint sessions;             /* sessions and consoles at the same time, in all */
    guint trials;               /* dry runs at the same time, in all */
    guint questions;            /* that hosts and fabrics are asked for clients at the same time, in all */
    guint uploads;              /* long bodies that come at the same time, in all */
    gint64 idle_timeout;        /* microseconds before an idle connection is closed */
    gint64 token_lifetime;      /* … before a token ends that names no end of its own */
    gint64 token_lifetime_max;  /* … the longest that may be asked for; operators may ask for none */
    const char *images;         /* folder of the images' files, by their digest; NULL: images are UNAVAILABLE */
    const char *default_image;  /* what "default" means in a specification; NULL: the image of that name */
    guint64 reserve;            /* bytes that uploads leave free in that folder */
    gboolean check_images;      /* refuse a cluster whose image is not known: a real node starts from one, a fake from none */
    WeftBackupSite backup;      /* what backups are made of; without a store they are UNAVAILABLE */
    const char *run;            /* this start of weftd: an operator's wish to take a host is for it alone */
    GPtrArray *fakes;           /* char *, what is not real here, for whoever asks for the version; NULL: nothing */
    WeftAudit *audit;           /* borrowed, until the store is gone too; NULL: none */
    WeftGate *gate;             /* to nodes and hosts, borrowed; NULL: whoever asks for it is told that it is UNAVAILABLE */
    /* Of new tenants, where they name none. */
    guint64 quotas[WEFT_QUOTAS];
} WeftApiOptions;

extern const WeftApiOptions weft_api_defaults;

typedef struct WeftApi WeftApi;

/* How many descriptors clients can make weftd open. */
guint weft_api_descriptors(const WeftApiOptions *options);
/* Lowers connections until that is half of this many: the rest is for hosts and the store. FALSE: nothing was to be done. */
gboolean weft_api_fit_descriptors(WeftApiOptions *options, guint64 descriptors);

WeftApi *weft_api_new(WeftStore *store, const WeftApiOptions *options, GError **error);
void weft_api_free(WeftApi *api);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftApi, weft_api_free)

/* Reads the certificate and its key again, and logs what came of it; connections that are there go on with what they have. */
void weft_api_reload(WeftApi *api);

/* The port that TCP listens on, for tests that ask for port 0; 0 without TCP. */
guint weft_api_port(const WeftApi *api);

/* The route table as JSON, for tests and documentation: [{"method","path","role","audited"}, …]. */
json_t *weft_api_routes(void);
