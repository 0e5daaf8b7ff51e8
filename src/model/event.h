/* What happened, for people: each event is written in the transaction of the change that it tells. */
#pragma once

#include <glib.h>
#include <jansson.h>

typedef struct WeftEvent {
    gint64 id;     /* weft_clock_stamp(): time and order at once */
    char *type;    /* "cluster-placed", "node-lost", "host-drained", …: stable words */
    char *tenant;  /* NULL: for operators only */
    char *doer;    /* … and a tenant had it told: who has many told loses their own. Not written in it; NULL: nobody */
    char *cluster; /* id, NULL: none */
    char *cluster_name;
    char *host; /* NULL: none; never shown to tenants */
    char *message;
    char *detail; /* a driver's words, NULL: none; never shown to tenants */
} WeftEvent;

WeftEvent *weft_event_from_json(json_t *json, GError **error);
json_t *weft_event_to_json(const WeftEvent *event);
void weft_event_free(WeftEvent *event);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(WeftEvent, weft_event_free)
