/* weft lab: finds the program that makes labs, and becomes it. */
#include "errors.h"
#include "verbs.h"

#include <errno.h>
#include <unistd.h>

#define PROGRAM "weft-lab"

/* In the source tree a build folder is beside lab/, and the lab runs what was built there. */
static char *
find_in_source(const char *folder)
{
    g_autofree char *build = g_canonicalize_filename("../..", folder);
    g_autofree char *path = g_canonicalize_filename("../lab/" PROGRAM, build);
    if (!g_file_test(path, G_FILE_TEST_IS_EXECUTABLE))
        return NULL;
    g_setenv("WEFT_BUILD", build, FALSE);
    return g_steal_pointer(&path);
}

static char *
find_program(GError **error)
{
    const char *given = g_getenv("WEFT_LAB");
    if (given && given[0])
        return g_strdup(given);
    g_autofree char *self = g_file_read_link("/proc/self/exe", error);
    if (!self)
        return NULL;
    g_autofree char *folder = g_path_get_dirname(self);
    char *path = find_in_source(folder);
    if (path)
        return path;
    g_autofree char *prefix = g_path_get_dirname(folder);
    return g_canonicalize_filename(WEFT_LIBEXECDIR "/weft/lab/" PROGRAM, prefix);
}

static gboolean
run_lab(WeftCli *cli, char **args, GError **error)
{
    g_autofree char *path = find_program(error);
    if (!path)
        return FALSE;
    g_autoptr(GPtrArray) argv = g_ptr_array_new();
    g_ptr_array_add(argv, path);
    for (; *args; args++)
        g_ptr_array_add(argv, *args);
    g_ptr_array_add(argv, NULL);
    execv(path, (char **)argv->pdata);
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_NOT_FOUND,
                "cannot run %s: %s; install weft's lab, or name its " PROGRAM " in WEFT_LAB", path, g_strerror(errno));
    return FALSE;
}

const WeftVerb weft_lab_verbs[] = {
    {
        .name = "lab",
        .arguments = "VERB [ARGUMENT…]",
        .summary = "make a whole cloud on this machine, to try and to test",
        .raw = TRUE,
        .run = run_lab,
    },
    { 0 },
};
