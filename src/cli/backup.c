/* weft backup: the site in one file, and whether such a file is in order. */
#include "clock.h"
#include "errors.h"
#include "file.h"
#include "site-archive.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <unistd.h>

#define SECRET_LENGTH 32

static char *passphrase_file;
static gboolean verify;

static const GOptionEntry options[] = {
    { "passphrase-file", 0, 0, G_OPTION_ARG_FILENAME, &passphrase_file,
      "file whose first line is the passphrase, - for standard input (it is asked for)", "FILE" },
    { "verify", 0, 0, G_OPTION_ARG_NONE, &verify, "check a backup instead of making one, without weftd", NULL },
    { NULL },
};

static void
show(const WeftCli *cli, const WeftBackup *backup, const char *path)
{
    if (cli->json) {
        weft_cli_print_json(json_incref(backup->manifest));
        return;
    }
    g_autofree char *made = weft_clock_format(json_integer_value(json_object_get(backup->manifest, "created")));
    const char *site = json_string_value(json_object_get(backup->manifest, "site"));
    const char *version = json_string_value(json_object_get(backup->manifest, "weft"));
    printf("%s: site %s as of %s, by weft %s; it names %" G_GSIZE_FORMAT
           " files of images, templates and checkpoints, which are not in it\n",
           path, site ? site : "?", made, version ? version : "?", json_array_size(json_object_get(backup->manifest, "blobs")));
}

/* NULL: it is no backup, or of another passphrase. */
static WeftBackup *
open_backup(const char *path, const char *passphrase, GError **error)
{
    guint8 secret[SECRET_LENGTH];
    g_autoptr(WeftBackup) backup = weft_backup_read(path, -1, error);
    if (!backup)
        return NULL;
    gboolean ok = weft_backup_open_secret(backup, passphrase, secret, sizeof secret, error);
    explicit_bzero(secret, sizeof secret);
    if (ok)
        return g_steal_pointer(&backup);
    g_prefix_error(error, "backup %s: ", path);
    return NULL;
}

static gboolean
check(WeftCli *cli, const char *path, const char *passphrase, GError **error)
{
    g_autoptr(WeftBackup) backup = open_backup(path, passphrase, error);
    if (backup)
        show(cli, backup, path);
    return backup != NULL;
}

static gboolean
fetch(WeftCli *cli, const char *path, const char *passphrase, FILE *file, GError **error)
{
    json_t *body = json_pack("{s:s}", "passphrase", passphrase);
    gboolean ok = weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/backup", body, .file = file }, NULL, error);
    json_decref(body);
    if (ok && (fflush(file) != 0 || fsync(fileno(file)) < 0))
        return weft_cli_refuse_file(path, g_strerror(errno), error);
    return ok;
}

/* It has its name only when it was checked: what is half there is nobody's backup. */
static gboolean
make(WeftCli *cli, const char *path, const char *passphrase, GError **error)
{
    g_autofree char *part = g_strconcat(path, ".part", NULL);
    if (g_file_test(path, G_FILE_TEST_EXISTS))
        return weft_cli_refuse_file(path, "it exists; name another file", error);
    int fd = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!file)
        return weft_cli_refuse_file(part, g_strerror(errno), error);
    gboolean ok = fetch(cli, part, passphrase, file, error);
    fclose(file);
    g_autoptr(WeftBackup) backup = ok ? open_backup(part, passphrase, error) : NULL;
    ok = backup != NULL;
    if (ok && (link(part, path) < 0 || !weft_file_sync_folder(path, NULL)))
        ok = weft_cli_refuse_file(path, g_strerror(errno), error);
    g_unlink(part);
    if (ok)
        show(cli, backup, path);
    return ok;
}

static gboolean
run(WeftCli *cli, char **args, GError **error)
{
    char *passphrase = weft_passphrase_get(passphrase_file, !verify, error);
    gboolean ok = passphrase && (verify ? check : make)(cli, args[0], passphrase, error);
    weft_passphrase_free(passphrase);
    return ok;
}

const WeftVerb weft_backup_verbs[] = {
    {
        .name = "backup",
        .arguments = "FILE",
        .summary = "write the site's backup to a file, or check one",
        .about =
            "The file has the store, the site's secret, encrypted by a passphrase, and the digests of the files of images, "
            "templates and checkpoints, which are not in it. weftd --restore brings it back.",
        .examples = "weft backup site-2026-11-16.tar\n"
                    "weft backup --verify site-2026-11-16.tar",
        .options = options,
        .min_args = 1,
        .max_args = 1,
        .run = run,
    },
    { 0 },
};
