/* What is to be done on a host until it is as wished: a step for each thing that is written, in order. Making a plan changes
 * nothing. What is as wished already is a step without anything to do, and what cannot be done one that is refused. */
#pragma once

#include "adapter.h"
#include "context.h"
#include "wish.h"

#include <glib.h>

typedef enum {
    WEFT_STEP_KEPT,    /* as it is to be */
    WEFT_STEP_PLANNED, /* not done yet */
    WEFT_STEP_DONE,
    WEFT_STEP_REFUSED, /* not to be done as things are */
    WEFT_STEP_FAILED,  /* tried */
    WEFT_STEP_LEFT,    /* an earlier step of its item failed */
} WeftStepState;

typedef struct WeftStep WeftStep;
struct WeftStep {
    char *item;   /* what belongs together: "adapter mlx5_0", "pages 2M" */
    char *what;   /* in words: "make 16 virtual functions" */
    char *remedy; /* NULL: none, or what tells it */
    WeftStepState state;
    const char *point; /* failpoint, on both edges */
    gboolean (*act)(const WeftHook *hook, const WeftStep *step, GError **error);
    char *path, *value; /* what it writes where */
    char *hint;         /* for what it says when it fails */
    guint32 words[2];   /* of a command to a device */
};

typedef struct WeftPlan {
    const WeftHook *hook;
    gboolean modprobe; /* options of modules may be written */
    GPtrArray *steps;  /* WeftStep */
} WeftPlan;

WeftPlan *weft_plan_new(const WeftHook *hook, const WeftHostWish *wish, gboolean modprobe);
void weft_plan_free(WeftPlan *plan);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftPlan, weft_plan_free)

/* Does all that is planned, each step between the edges of its failpoint. An item that cannot be finished stays where it is. */
void weft_plan_run(WeftPlan *plan);
/* The least fortunate state that a step of this item has. */
WeftStepState weft_plan_state(const WeftPlan *plan, const char *item);
/* For each step { "item", "state", "what", "remedy" }. */
json_t *weft_plan_to_json(const WeftPlan *plan);

/* --- for those that make plans --- */

/* For one item. The texts are formatted ones. */
WeftStep *weft_plan_add(WeftPlan *plan, const char *item, WeftStepState state, const char *what, ...) G_GNUC_PRINTF(4, 5);
void weft_plan_refuse(WeftPlan *plan, const char *item, const char *remedy, const char *what, ...) G_GNUC_PRINTF(4, 5);
/* Writes the value to a file of sysfs, and reads it back. what is handed over. */
WeftStep *weft_plan_write(WeftPlan *plan, const char *item, const char *point, char *what, char *path, char *value);

void weft_plan_pages(WeftPlan *plan, const WeftHostWish *wish);
void weft_plan_adapters(WeftPlan *plan, const WeftHostWish *wish);

/* The steps from one number of functions to another: first those to go, or drivers off those that stay, then those to come.
 * anew: also where the number is right. FALSE: refused. */
gboolean weft_plan_remove(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted, gboolean anew);
void weft_plan_make(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted, gboolean anew);
/* The same for an NVMe device whose functions are to be switched on as well. */
void weft_plan_nvme(WeftPlan *plan, const char *item, const WeftAdapter *adapter, guint wanted);

char *weft_item_adapter(const char *name);
char *weft_item_pages(guint64 size, guint node);
