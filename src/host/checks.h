/* What is in order on a host and what is not, with the command or option that mends it: one judgement for weft doctor, which
 * knows the host by its report (see hook.h), and for weft host prepare, which makes that report itself. Pure.
 *
 * A check is { "check", "state": "ok|advice|warn|fail|unknown", "found", "remedy": text or null }: fail where nodes cannot
 * start or would not be what they are said to be, warn where they could be better or safer, advice where they could be faster.
 * Of settings that are not as they should be there is "why", too. */
#pragma once

#include "host.h"

#include <glib.h>
#include <jansson.h>

typedef enum { WEFT_HEALTH_OK, WEFT_HEALTH_ADVICE, WEFT_HEALTH_WARN, WEFT_HEALTH_FAIL, WEFT_HEALTH_UNKNOWN } WeftHealth;

/* Appends a check. remedy: NULL with OK. */
void weft_doctor_add(json_t *checks, const char *check, WeftHealth health, const char *remedy, const char *format, ...)
    G_GNUC_PRINTF(5, 6);

/* report may be NULL, and lack anything: an older hook says less. on: it is known from elsewhere that the IOMMU works. needed:
 * nodes are to have devices of this host. */
void weft_check_iommu(json_t *checks, json_t *report, gboolean on, gboolean needed);
/* Is it known that nothing can be passed on? The report says so; without one nobody does. */
gboolean weft_report_lacks_iommu(json_t *report, gboolean on);
void weft_check_interrupts(json_t *checks, json_t *report, gboolean needed);

typedef struct WeftFunctionsWish {
    const char *check;  /* "hca mlx5_0" */
    const char *name;   /* "mlx5_0" */
    const char *driver; /* "mlx5", "mlx4", "nvme" or another */
    guint wanted;
    guint found; /* where the report does not tell */
} WeftFunctionsWish;

/* Are they there, without a driver of the host, and each alone behind the IOMMU? adapter: an item of the report's "hcas"; may
 * be NULL. */
void weft_check_functions(json_t *checks, json_t *report, json_t *adapter, const WeftFunctionsWish *wish);

/* The settings of a report (see settings.h). host: tells which processors are for nodes; may be NULL. */
void weft_check_settings(json_t *checks, json_t *report, const WeftHost *host);

/* Says nothing where all were taken back. */
void weft_check_unclean(json_t *checks, json_t *report);
/* Says nothing where folders for memory of nodes are root's alone. */
void weft_check_folders(json_t *checks, json_t *report);

/* Says nothing where what weft keeps on the host outlives a reboot. */
void weft_check_volatile(json_t *checks, json_t *report);

/* Which firmware of whole devices is compared between nodes. Says nothing where the report does not. */
void weft_check_firmware(json_t *checks, json_t *report);
/* Says nothing where no device is in quarantine. */
void weft_check_quarantine(json_t *checks, json_t *report);

typedef struct WeftPagesWish {
    guint node;
    guint64 size;
    guint64 wanted;
    guint64 found;
    gint64 free; /* -1: not known */
} WeftPagesWish;

/* All at once; GArray of WeftPagesWish. */
void weft_check_pages(json_t *checks, const GArray *wishes);
/* found and free as the report has them. FALSE: it says nothing of any. */
gboolean weft_pages_reported(json_t *report, WeftPagesWish *wish);
