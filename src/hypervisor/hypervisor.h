/* The seam to the hosts. Implementations: fake (a world in files), libvirt.
 *
 * thread: the operations run on workers and may block; several may run at once, also for one host. Each returns soon after its
 * cancellable was cancelled, with what it had begun done, undone, or left to the next call: all are idempotent.
 *
 * Errors: UNAVAILABLE when the host cannot be reached, TIMEOUT when cancelled, INVALID when trying again cannot help. A message
 * names the host as "host NAME:" and a domain as "domain NAME": so the API finds these names, which are not for tenants. */
#pragma once

#include <gio/gio.h>
#include <glib.h>

typedef struct WeftHypervisor WeftHypervisor;

typedef enum { WEFT_DOMAIN_RUNNING, WEFT_DOMAIN_STOPPED } WeftDomainState;

typedef struct WeftDomain {
    char *name;
    char *node; /* weft's mark: the node's id; NULL for a domain that is not ours */
    WeftDomainState state;
} WeftDomain;

void weft_domain_free(WeftDomain *domain);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftDomain, weft_domain_free)

/* Where a call goes: a host by name and the URI that it is reached by. */
typedef struct WeftHostAddress {
    const char *name;
    const char *uri;
} WeftHostAddress;

/* Tells on the main thread that something happened on a host: look again. */
typedef void (*WeftHostChanged)(const char *host, gpointer data);

typedef struct WeftHypervisorOps {
    const char *name;
    /* A running domain of that name with the same definition is success, one with another definition is CONFLICT; a stopped one
     * is started anew from the given definition. Returns when the domain runs. */
    gboolean (*start)(WeftHypervisor *hv, const WeftHostAddress *host, const char *xml, GCancellable *cancellable,
                      GError **error);
    /* Returns once the guest has answered from inside; NOT_FOUND when the domain is not running. */
    gboolean (*await)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                      GError **error);
    /* Ends and undefines; success also when there is no such domain. Returns when it is gone. */
    gboolean (*stop)(WeftHypervisor *hv, const WeftHostAddress *host, const char *domain, GCancellable *cancellable,
                     GError **error);
    /* All domains of the host, ours or not: WeftDomain, sorted by name. */
    GPtrArray *(*list)(WeftHypervisor *hv, const WeftHostAddress *host, GCancellable *cancellable, GError **error);
    /* thread: main. One listener. A driver that cannot tell does nothing: the reconciler looks from time to time anyway. */
    void (*watch)(WeftHypervisor *hv, WeftHostChanged changed, gpointer data);
    void (*free)(WeftHypervisor *hv);
} WeftHypervisorOps;

struct WeftHypervisor {
    const WeftHypervisorOps *ops;
};

/* NULL is fine. */
void weft_hypervisor_free(WeftHypervisor *hv);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftHypervisor, weft_hypervisor_free)
