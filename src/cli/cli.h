/* What every verb of weft gets and uses. */
#pragma once

#include "client.h"

#include <glib.h>
#include <jansson.h>

typedef struct WeftCli {
    WeftClient *client;
    const char *tenant; /* that an operator acts for; NULL: the caller's own, or all */
    gboolean json;      /* print what the API says */
    char **command;     /* the words after --; NULL: none, or the verb takes none */
    int status;         /* exit code of a verb that did what it was asked for */
} WeftCli;

/* What the arguments of a verb name, for the completion. */
typedef enum {
    WEFT_NAMES_NONE,
    WEFT_NAMES_CLUSTERS,
    WEFT_NAMES_HOSTS,
    WEFT_NAMES_TENANTS,
    WEFT_NAMES_PRINCIPALS,
    WEFT_NAMES_IMAGES,
    WEFT_NAMES_FABRICS,
    WEFT_NAMES_RESERVATIONS,
    WEFT_NAMES_TEMPLATES,
    WEFT_NAMES_CHECKPOINTS
} WeftNames;

/* One row of the table of verbs. Options write into static variables of the verb's file: a process runs one verb. */
typedef struct WeftVerb {
    const char *name;      /* "create", "host add" */
    const char *arguments; /* "NAME -n N" */
    const char *summary;   /* a few words, for the list of verbs */
    const char *about;     /* one or more sentences; NULL: the summary says it all */
    const char *examples;  /* a line each */
    guint min_args;
    guint max_args; /* G_MAXUINT: any number */
    WeftNames names;
    gboolean whole;              /* its first argument is one cluster, and no nodes of it */
    gboolean takes_command;      /* after -- */
    gboolean speaks;             /* its output is what somebody in a node says: --json is refused */
    int failure;                 /* exit code of weft's own failures; 0: as weft(1) says */
    const GOptionEntry *options; /* NULL: none of its own */
    gboolean raw;                /* its words, options too, are for another program: run() gets them as they are, and no cli */
    gboolean (*run)(WeftCli *cli, char **args, GError **error);
} WeftVerb;

/* Wrong usage: exit code 2 and a pointer to --help. */
void weft_cli_set_usage(GError **error, const char *format, ...) G_GNUC_PRINTF(2, 3);
/* Puts "cluster cfd: " before the message, unless it names it already or has nothing to do with it (weftd not reachable). */
void weft_cli_blame(GError **error, const char *kind, const char *name);
/* Reports an error and goes on, for verbs with several names; the first one decides the exit code: it moves into first. */
void weft_cli_keep_first(GError **first, GError *error);
/* Removes each of those names from a list of the API, and says so. */
typedef struct WeftRemoval {
    const char *kind;   /* "token" */
    const char *list;   /* "/v1/tokens" */
    const char *said;   /* "is revoked" */
    gboolean of_tenant; /* the list is a tenant's own */
} WeftRemoval;
gboolean weft_cli_remove(WeftCli *cli, const WeftRemoval *removal, char **names, GError **error);
/* Asks "QUESTION? [y/N] ". Where nobody can answer it is refused: who means it says --yes. */
gboolean weft_cli_confirm(const char *question, GError **error);
/* Prints "weft: MESSAGE" and, where a remedy is known, a hint. */
void weft_cli_report(const GError *error);

/* "/v1/clusters/NAME" + suffix, with the tenant that the caller acts for. */
char *weft_cli_cluster_path(const WeftCli *cli, const char *name, const char *suffix);
/* All names of all arguments, each a hostlist. */
GPtrArray *weft_cli_expand(char **args, GError **error);
/* "1 node", "2 nodes". */
char *weft_cli_count(gint64 count, const char *thing);

/* A file here that cannot be read is wrong input, whichever verb wants it and whatever the reason: INVALID, "PATH: REASON". */
gboolean weft_cli_refuse_file(const char *path, const char *reason, GError **error);
/* As weft_file_read(). "-" is the standard input, and weft_cli_file_name() calls it so. */
const char *weft_cli_file_name(const char *path);
char *weft_cli_read_text(const char *path, gsize max, gsize *ret_length, GError **error);
/* A YAML or JSON file. */
json_t *weft_cli_read_file(const char *path, GError **error);
/* "K=V" or FAILS with a message that names the option. */
gboolean weft_cli_split_pair(const char *option, const char *text, char **ret_key, char **ret_value, GError **error);
/* RFC 3339, a day ("2026-01-31"), or how long ago ("2h"), as the API takes it. NULL for NULL. */
char *weft_cli_time(const char *option, const char *text, GError **error);

/* Prints JSON, and releases it. */
void weft_cli_print_json(json_t *json);
/* Text of others, safe for a terminal: control characters become '?'. NULL gives "-". */
char *weft_cli_clean(const char *text);
/* "ready since …" and other fields of an API object as text, cleaned; "-" for null. */
char *weft_cli_field(json_t *object, const char *name);
char *weft_cli_size_field(json_t *object, const char *name);
/* How long ago a time field was: "3m", "2h", "5d". */
char *weft_cli_age_field(json_t *object, const char *name);
/* In how long a time field will be: "in 2 h 5 m", "now"; "-" for null. */
char *weft_cli_until_field(json_t *object, const char *name);
gint64 weft_cli_number(json_t *object, const char *name);
