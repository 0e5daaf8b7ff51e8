/* Runs a target on every file of the folders given: the corpus as a test, with any compiler. */
#include "fuzz.h"

#include <glib/gstdio.h>

static void
replay_file(const char *path)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *data = NULL;
    gsize length;
    if (!g_file_get_contents(path, &data, &length, &error))
        g_error("%s", error->message);
    /* A copy of the exact size, so that a sanitizer sees a read past its end. */
    g_autofree char *exact = length ? g_memdup2(data, length) : g_strdup("");
    g_print("# %s\n", path);
    LLVMFuzzerTestOneInput((const uint8_t *)exact, length);
}

static guint
replay_folder(const char *folder)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GDir) dir = g_dir_open(folder, 0, &error);
    if (!dir)
        g_error("%s", error->message);
    guint files = 0;
    for (const char *name; (name = g_dir_read_name(dir)); files++) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        replay_file(path);
    }
    return files;
}

int
main(int argc, char **argv)
{
    guint files = 0;
    for (int i = 1; i < argc; i++) {
        guint found = replay_folder(argv[i]);
        if (found == 0)
            g_error("%s: is empty; a corpus needs at least one file", argv[i]);
        files += found;
    }
    if (files == 0)
        g_error("name the folders of the corpus");
    g_print("%u inputs replayed\n", files);
    return 0;
}
