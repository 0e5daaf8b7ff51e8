/* weft scp: files to and from nodes. */
#include "errors.h"
#include "table.h"
#include "tar.h"
#include "target.h"
#include "verbs.h"

#include <errno.h>
#include <unistd.h>

static gboolean recursive, quiet;
static char *user;

static const GOptionEntry options[] = {
    { "recursive", 'r', 0, G_OPTION_ARG_NONE, &recursive, "folders with all that is in them", NULL },
    { "login", 'l', 0, G_OPTION_ARG_STRING, &user, "as this user of the node; root unless told", "USER" },
    { "quiet", 'q', 0, G_OPTION_ARG_NONE, &quiet, "no progress", NULL },
    { NULL },
};

/* A place in a node. */
typedef struct {
    char *text; /* as it was written */
    char *cluster;
    guint rank;
    char *path; /* never empty */
} Place;

static void
place_clear(Place *place)
{
    g_free(place->text);
    g_free(place->cluster);
    g_free(place->path);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Place, place_clear)

static gboolean
is_remote(const char *text)
{
    g_autofree char *nodes = NULL;
    g_autofree char *path = NULL;
    return weft_target_split_path(text, &nodes, &path);
}

static gboolean
find_place(WeftCli *cli, const char *text, Place *place, GError **error)
{
    g_autofree char *nodes = NULL;
    weft_target_split_path(text, &nodes, &place->path);
    place->text = g_strdup(text);
    if (!*place->path) {
        g_free(place->path);
        place->path = g_strdup(".");
    }
    return weft_target_find_one(cli, nodes, &place->cluster, &place->rank, error);
}

static WeftSession *
open_session(WeftCli *cli, const Place *place, const char *const *command, GError **error)
{
    WeftSessionSpec spec = { .command = (char **)command, .user = user };
    return weft_session_open(cli, place->cluster, place->rank, &spec, error);
}

static WeftProgress *
make_progress(const char *text)
{
    return quiet || !weft_text_is_live(stderr) ? NULL : weft_progress_new(text);
}

/* The last part of a path, which must be a name. */
static char *
name_of(const char *path, GError **error)
{
    g_autofree char *name = g_path_get_basename(path);
    if (strcmp(name, "..") != 0 && strcmp(name, "/") != 0)
        return g_steal_pointer(&name);
    weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: names no file or folder; write its name", path);
    return NULL;
}

static char *
without_slashes(const char *path)
{
    gsize length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    return g_strndup(path, length);
}

/* --- to a node --- */

static gboolean
is_folder_there(WeftCli *cli, const Place *place, gboolean *ret_is, GError **error)
{
    const char *const command[] = { "test", "-d", place->path, NULL };
    g_autoptr(WeftSession) session = open_session(cli, place, command, error);
    int status = 0;
    while (session && !weft_session_has_ended(session, &status))
        if (!weft_session_turn(session, error))
            return FALSE;
    *ret_is = status == 0;
    return session != NULL;
}

/* name NULL: each keeps its own. */
static gboolean
send_files(WeftTar *tar, char **paths, const char *name, GError **error)
{
    for (guint i = 0; paths[i]; i++) {
        g_autofree char *path = without_slashes(paths[i]);
        g_autofree char *own = name ? g_strdup(name) : name_of(path, error);
        if (!own || !weft_tar_send(tar, path, own, error))
            return FALSE;
    }
    return weft_tar_send_end(tar, error);
}

static gboolean
send_to(WeftCli *cli, char **paths, const Place *place, const char *folder, const char *name, GError **error)
{
    const char *const command[] = { "tar", "-x", "-p", "-f", "-", "-C", folder, NULL };
    WeftSession *session = open_session(cli, place, command, error);
    if (!session)
        return FALSE;
    g_autoptr(WeftProgress) progress = make_progress(place->text);
    g_autoptr(WeftTar) tar = weft_tar_new(session, &(WeftTarOptions){ progress, recursive });
    return send_files(tar, paths, name, error);
}

static gboolean
send_all(WeftCli *cli, char **paths, const char *to, GError **error)
{
    g_auto(Place) place = { 0 };
    gboolean folder = FALSE;
    if (!find_place(cli, to, &place, error) || !is_folder_there(cli, &place, &folder, error))
        return FALSE;
    if (folder)
        return send_to(cli, paths, &place, place.path, NULL, error);
    if (paths[1] || g_str_has_suffix(place.path, "/"))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is no folder; make it with: weft run '%s[%u]' -- mkdir -p %s",
                                 to, place.cluster, place.rank, place.path);
    g_autofree char *parent = g_path_get_dirname(place.path);
    g_autofree char *name = name_of(place.path, error);
    return name && send_to(cli, paths, &place, parent, name, error);
}

/* --- from a node --- */

/* to: a name in the current folder. */
static gboolean
receive_from(WeftCli *cli, const Place *place, const char *to, GError **error)
{
    g_autofree char *path = without_slashes(place->path);
    g_autofree char *parent = g_path_get_dirname(path);
    g_autofree char *name = name_of(path, error);
    if (!name)
        return FALSE;
    /* A name that begins with '-' must not be an option. Without -r what is named is followed, as a copy of it is wanted. */
    g_autofree char *member = g_strconcat("./", name, NULL);
    const char *const command[] = { "tar", "-c", recursive ? "-f" : "-hf", "-", "-C", parent, member, NULL };
    WeftSession *session = open_session(cli, place, command, error);
    if (!session)
        return FALSE;
    g_autoptr(WeftProgress) progress = make_progress(place->text);
    g_autoptr(WeftTar) tar = weft_tar_new(session, &(WeftTarOptions){ progress, recursive });
    return weft_tar_receive(tar, member, to ? to : name, error);
}

static gboolean
enter(const char *folder, GError **error)
{
    return chdir(folder) == 0 || weft_cli_refuse_file(folder, g_strerror(errno), error);
}

/* Into the folder, or as the file that to names. */
static gboolean
receive_all(WeftCli *cli, char **from, const char *to, GError **error)
{
    gboolean folder = g_file_test(to, G_FILE_TEST_IS_DIR);
    if (!folder && (from[1] || g_str_has_suffix(to, "/")))
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is no folder; make it with: mkdir %s", to, to);
    g_autofree char *parent = folder ? g_strdup(to) : g_path_get_dirname(to);
    g_autofree char *name = folder ? NULL : name_of(to, error);
    if ((!folder && !name) || !enter(parent, error))
        return FALSE;
    for (guint i = 0; from[i]; i++) {
        g_auto(Place) place = { 0 };
        if (!find_place(cli, from[i], &place, error) || !receive_from(cli, &place, name, error))
            return FALSE;
    }
    return TRUE;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    guint n = g_strv_length(args), remote = 0;
    g_auto(GStrv) sources = g_strdupv(args);
    g_clear_pointer(&sources[n - 1], g_free);
    for (guint i = 0; sources[i]; i++)
        remote += is_remote(sources[i]);
    gboolean up = is_remote(args[n - 1]);
    if ((up && remote) || (!up && remote != n - 1)) {
        weft_cli_set_usage(error, "scp: one side must be in a node, written CLUSTER[RANK]:PATH, and the other side here");
        return FALSE;
    }
    return up ? send_all(cli, sources, args[n - 1], error) : receive_all(cli, sources, args[n - 1], error);
}

const WeftVerb weft_scp_verbs[] = {
    {
        .name = "scp",
        .arguments = "SOURCE… TARGET",
        .summary = "copy files to and from a node",
        .about = "Copies files to or from a node: CLUSTER[RANK]:PATH on one side, paths here on the other. Into TARGET where\n"
                 "that is a folder, else as TARGET. Modes and times are kept, links inside of folders stay links. The node\n"
                 "needs tar.",
        .examples = "weft scp -r input 'cfd[3]:/data'\n"
                    "weft scp 'cfd[0]:/tmp/result.h5' .",
        .min_args = 2,
        .max_args = G_MAXUINT,
        .names = WEFT_NAMES_CLUSTERS,
        .options = options,
        .run = run,
    },
    { 0 },
};
