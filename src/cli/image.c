/* weft image: what nodes boot. Files are sent in pieces, go on where they ended, and are not sent where they are already. */
#include "table.h"
#include "upload.h"
#include "verbs.h"

static char *disk, *format, *kernel, *initrd, *cmdline;

/* clang-format off */
static const GOptionEntry add_options[] = {
    { "disk", 0, 0, G_OPTION_ARG_FILENAME, &disk, "its disk", "FILE" },
    { "format", 0, 0, G_OPTION_ARG_STRING, &format, "of the disk; seen in the file unless told", "qcow2|raw|readonly" },
    { "kernel", 0, 0, G_OPTION_ARG_FILENAME, &kernel, "a kernel to boot; the disk boots by itself without one", "FILE" },
    { "initrd", 0, 0, G_OPTION_ARG_FILENAME, &initrd, "the kernel's initial file system", "FILE" },
    { "cmdline", 0, 0, G_OPTION_ARG_STRING, &cmdline, "the kernel's command line", "TEXT" },
    { NULL },
};
/* clang-format on */

/* Which formats begin with which bytes; all else is raw. A squashfs cannot be written to. */
static const struct {
    const char *magic;
    const char *format;
} magics[] = { { "QFI\xfb", "qcow2" }, { "hsqs", "readonly" } };

static const char *
guess_format(const char *start)
{
    for (gsize i = 0; i < G_N_ELEMENTS(magics); i++)
        if (memcmp(start, magics[i].magic, 4) == 0)
            return magics[i].format;
    return "raw";
}

static gboolean
check_options(GError **error)
{
    if (!disk && !kernel)
        weft_cli_set_usage(error, "image add: what is it made of? give --disk FILE, or --kernel FILE");
    else if (!kernel && (initrd || cmdline))
        weft_cli_set_usage(error, "image add: %s is the kernel's: give --kernel FILE too", initrd ? "--initrd" : "--cmdline");
    else if (!disk && format)
        weft_cli_set_usage(error, "image add: --format is the disk's: give --disk FILE too");
    else
        return TRUE;
    return FALSE;
}

/* Sends the file and writes down in the image what it is. */
static gboolean
add_file(WeftCli *cli, json_t *image, const char *part, const char *path, GError **error)
{
    if (!path)
        return TRUE;
    g_auto(WeftUpload) upload = { 0 };
    if (!weft_upload_file(cli, part, path, &upload, error))
        return FALSE;
    json_t *file = json_pack("{s:s, s:I}", "digest", upload.digest, "size", (json_int_t)upload.size);
    if (path == disk)
        json_object_set_new(file, "format", json_string(format ? format : guess_format(upload.start)));
    json_object_set_new(image, part, file);
    return TRUE;
}

static gboolean
send_image(WeftCli *cli, json_t *image, GError **error)
{
    g_auto(WeftResponse) response = { 0 };
    if (!weft_client_call(cli->client, &(WeftCall){ "POST", "/v1/images", image }, &response, error))
        return FALSE;
    g_autofree char *name = weft_cli_field(response.body, "name");
    if (cli->json)
        weft_cli_print_json(g_steal_pointer(&response.body));
    else
        printf("image %s is added\n", name);
    return TRUE;
}

static gboolean
run_add(WeftCli *cli, char **args, GError **error)
{
    if (!check_options(error))
        return FALSE;
    json_auto_t *image = json_pack("{s:s, s:s*}", "name", args[0], "cmdline", cmdline);
    if (add_file(cli, image, "disk", disk, error) && add_file(cli, image, "kernel", kernel, error) &&
        add_file(cli, image, "initrd", initrd, error) && send_image(cli, image, error))
        return TRUE;
    weft_cli_blame(error, "image", args[0]);
    return FALSE;
}

static char *
total_size(json_t *image)
{
    static const char *const parts[] = { "disk", "kernel", "initrd" };
    gint64 bytes = 0;
    for (gsize i = 0; i < G_N_ELEMENTS(parts); i++)
        bytes += json_integer_value(json_object_get(json_object_get(image, parts[i]), "size"));
    return weft_upload_size((guint64)bytes);
}

/* What it boots from. */
static char *
describe(json_t *image)
{
    json_t *drive = json_object_get(image, "disk");
    gboolean has_kernel = json_is_object(json_object_get(image, "kernel"));
    if (!json_is_object(drive))
        return g_strdup("kernel");
    g_autofree char *kind = weft_cli_field(drive, "format");
    return g_strconcat(has_kernel ? "kernel, " : "", kind, NULL);
}

static gboolean
run_ls(WeftCli *cli, char **args, GError **error)
{
    json_t *images = weft_client_list(cli->client, "/v1/images", error);
    if (!images)
        return FALSE;
    if (cli->json) {
        weft_cli_print_json(images);
        return TRUE;
    }
    g_autoptr(WeftTable) table = weft_table_new("NAME|BOOTS|>SIZE|>AGE");
    size_t i;
    json_t *image;
    json_array_foreach (images, i, image) {
        weft_table_take(table, weft_cli_field(image, "name"));
        weft_table_take(table, describe(image));
        weft_table_take(table, total_size(image));
        weft_table_take(table, weft_cli_age_field(image, "created"));
    }
    weft_table_print(table, stdout);
    json_decref(images);
    return TRUE;
}

static gboolean
run_rm(WeftCli *cli, char **args, GError **error)
{
    return weft_cli_remove(cli, &(WeftRemoval){ "image", "/v1/images", "is removed" }, args, error);
}

const WeftVerb weft_image_verbs[] = {
    {
        .name = "image add",
        .arguments = "NAME --disk FILE",
        .summary = "add an image that nodes can boot",
        .about = "Sends the image's files to weftd and gives them a name. What was broken off goes on where it ended when the\n"
                 "same command is given again; a file that is there already is not sent.",
        .examples = "weft image add debian-12 --disk debian-12-genericcloud-amd64.qcow2\n"
                    "weft image add mpi --disk mpi.squashfs --kernel vmlinux --initrd initrd --cmdline quiet",
        .min_args = 1,
        .max_args = 1,
        .options = add_options,
        .run = run_add,
    },
    {
        .name = "image ls",
        .arguments = "",
        .summary = "list the images",
        .examples = "weft image ls\n"
                    "weft image ls --json",
        .run = run_ls,
    },
    {
        .name = "image rm",
        .arguments = "NAME",
        .summary = "remove an image that no cluster boots",
        .examples = "weft image rm debian-11\n"
                    "weft image rm mpi --json",
        .min_args = 1,
        .max_args = 1,
        .names = WEFT_NAMES_IMAGES,
        .run = run_rm,
    },
    { 0 },
};
