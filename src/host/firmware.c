#include "firmware.h"

#include "errors.h"
#include "file.h"
#include "quarantine.h"
#include "sysfs.h"
#include "text.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

#define FOLDER "/var/lib/weft/firmware"
#define NOTE_MAX 128
#define PROBLEM_MAX 200
#define SECONDS "30" /* for a tool to answer */
#define TIMEOUT "timeout", "-k", "5", SECONDS

/* What is asked, the device's address at the end; of several programs the first that is there. Fields are what identifies the
 * firmware, of "FIELD: VALUE" and the lines below that begin with blanks: another version of the tool tells more or less
 * beside. Where there are none all of the answer counts. Nothing that changes by itself, such as a temperature, may be in it.
 */
static const struct {
    const char *programs[3], *arguments[4], *fields[12];
} tools[WEFT_FIRMWARE_KINDS] = {
    [WEFT_FIRMWARE_ADAPTER] = { { "/usr/bin/mstflint", "/usr/bin/flint" },
                                { "-d", "%s", "query" },
                                { "Image type", "FW Version", "Rom Info", "Device ID", "PSID", "GUIDs", "MACs", "Base GUID",
                                  "Base MAC", "Security Attributes" } },
    [WEFT_FIRMWARE_GPU] = { { "/usr/bin/nvidia-smi" },
                            { "--query-gpu=vbios_version,inforom.img", "--format=csv,noheader", "-i", "%s" } },
};

static char *
find_tool(const WeftHook *hook, WeftFirmwareKind kind)
{
    for (guint i = 0; tools[kind].programs[i]; i++) {
        char *path = weft_sysfs_path(hook, "%s", tools[kind].programs[i]);
        if (g_file_test(path, G_FILE_TEST_IS_EXECUTABLE))
            return path;
        g_free(path);
    }
    return NULL;
}

json_t *
weft_firmware_tools(const WeftHook *hook)
{
    json_t *object = json_object();
    for (guint kind = 0; kind < WEFT_FIRMWARE_KINDS; kind++) {
        g_autofree char *path = find_tool(hook, (WeftFirmwareKind)kind);
        g_autofree char *name = g_path_get_basename(tools[kind].programs[0]);
        json_object_set_new(object, name, json_boolean(path != NULL));
    }
    return object;
}

/* With one blank between words. */
static void
add_words(GString *text, const char *line)
{
    g_auto(GStrv) words = g_strsplit_set(line, " \t\r", -1);
    for (guint i = 0; words[i]; i++)
        if (*words[i])
            g_string_append_printf(text, "%s ", words[i]);
    g_string_append_c(text, '\n');
}

/* Those lines of the answer that say what the firmware is; "": it does not. */
static char *
pick_fields(WeftFirmwareKind kind, const char *answer)
{
    GString *text = g_string_new(NULL);
    g_auto(GStrv) lines = g_strsplit(answer, "\n", -1);
    gboolean kept = !*tools[kind].fields;
    for (guint i = 0; lines[i]; i++) {
        g_autofree char *field = g_strndup(lines[i], strcspn(lines[i], ":"));
        if (*tools[kind].fields && *lines[i] && !g_ascii_isspace(*lines[i]))
            kept = g_strv_contains(tools[kind].fields, g_strchomp(field));
        if (kept && *g_strstrip(lines[i]))
            add_words(text, lines[i]);
    }
    return g_string_free(text, FALSE);
}

/* Which tool's word a note is: "mstflint ". */
static char *
prefix_of(WeftFirmwareKind kind)
{
    g_autofree char *name = g_path_get_basename(tools[kind].programs[0]);
    return g_strconcat(name, " ", NULL);
}

/* "mstflint DIGEST" */
static char *
ask(const char *program, WeftFirmwareKind kind, const char *pci, GError **error)
{
    g_autofree char *output = NULL, *problem = NULL;
    const char *command[4 + 1 + G_N_ELEMENTS(tools[kind].arguments) + 1] = { TIMEOUT, program };
    guint n = 5;
    int status = 0;
    for (guint i = 0; i < G_N_ELEMENTS(tools[kind].arguments) && tools[kind].arguments[i]; i++)
        command[n++] = g_str_equal(tools[kind].arguments[i], "%s") ? pci : tools[kind].arguments[i];
    if (!g_spawn_sync(NULL, (char **)command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, &output, &problem, &status, error))
        return NULL;
    gboolean fine = g_spawn_check_wait_status(status, NULL);
    g_autofree char *picked = pick_fields(kind, output), *prefix = prefix_of(kind);
    g_autofree char *digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, picked, -1);
    if (fine && *picked)
        return g_strconcat(prefix, digest, NULL);
    g_autofree char *line = weft_text_line(problem, PROBLEM_MAX);
    weft_error_refuse(error, WEFT_ERROR_FAILED, "%s does not tell the firmware of %s: %s", program, pci,
                      *line  ? line
                      : fine ? "its answer has none of the fields that are known"
                             : "it failed, or took longer than " SECONDS " s");
    return NULL;
}

static char *
note_path(const WeftHook *hook, const char *pci)
{
    return weft_sysfs_path(hook, FOLDER "/%s", pci);
}

static char *
read_note(const WeftHook *hook, const char *pci)
{
    g_autofree char *path = note_path(hook, pci);
    char *note = weft_file_read(path, NOTE_MAX, NULL, NULL);
    return note ? g_strchomp(note) : NULL;
}

/* Is what is remembered for the other about this one's firmware? Its own is, whatever it says; that of another function of the
 * slot if the same tool told it. */
static gboolean
is_about(const WeftHook *hook, WeftFirmwareKind kind, const char *pci, const char *other)
{
    g_autofree char *prefix = prefix_of(kind), *note = read_note(hook, other);
    return g_str_equal(pci, other) ||
           (strlen(pci) == strlen(other) && weft_quarantine_is_same_slot(pci, other) && note && g_str_has_prefix(note, prefix));
}

/* Whose notes are about the firmware of this device: addresses, char *. */
static GPtrArray *
find_noted(const WeftHook *hook, WeftFirmwareKind kind, const char *pci)
{
    g_autofree char *folder = note_path(hook, "");
    GPtrArray *names = weft_sysfs_names(folder);
    for (guint i = names->len; i-- > 0;)
        if (!is_about(hook, kind, pci, names->pdata[i]))
            g_ptr_array_remove_index(names, i);
    return names;
}

gboolean
weft_firmware_is_noted(const WeftHook *hook, WeftFirmwareKind kind, const char *pci)
{
    g_autoptr(GPtrArray) noted = find_noted(hook, kind, pci);
    return noted->len > 0;
}

void
weft_firmware_forget(const WeftHook *hook, const char *pci)
{
    g_autofree char *path = note_path(hook, pci);
    g_unlink(path);
}

static const char *
digest_in(const char *note)
{
    const char *space = note ? strchr(note, ' ') : NULL;
    return space ? space + 1 : "unknown";
}

gboolean
weft_firmware_compare(const WeftHook *hook, WeftFirmwareKind kind, const char *pci, GError **error)
{
    g_autoptr(GPtrArray) noted = find_noted(hook, kind, pci);
    g_autofree char *program = find_tool(hook, kind);
    if (noted->len == 0)
        return TRUE;
    if (!program)
        return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                 "the firmware of %s was known before a node had it, and %s is not installed any more", pci,
                                 tools[kind].programs[0]);
    g_autofree char *now = ask(program, kind, pci, error);
    if (!now)
        return FALSE;
    for (guint i = 0; i < noted->len; i++) {
        g_autofree char *before = read_note(hook, noted->pdata[i]);
        if (g_strcmp0(before, now) != 0)
            return weft_error_refuse(error, WEFT_ERROR_FAILED,
                                     "the firmware of %s is not what it was before a node had %s (%s tells; digest %.12s, now "
                                     "%.12s): write it again",
                                     pci, (char *)noted->pdata[i], program, digest_in(before), digest_in(now));
    }
    weft_firmware_forget(hook, pci);
    return TRUE;
}

static gboolean
write_note(const WeftHook *hook, const char *pci, const char *now, GError **error)
{
    g_autofree char *path = note_path(hook, pci), *folder = note_path(hook, "");
    if (g_mkdir_with_parents(folder, 0755) != 0)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make the folder %s: %s", folder, g_strerror(errno));
    return weft_file_replace(path, now, strlen(now), TRUE, error);
}

/* Nodes that have others of its functions go on, and theirs are compared with it when they are gone. */
void
weft_firmware_accept(const WeftHook *hook, WeftFirmwareKind kind, const char *pci)
{
    weft_firmware_forget(hook, pci);
    g_autoptr(GPtrArray) noted = find_noted(hook, kind, pci);
    g_autofree char *program = noted->len ? find_tool(hook, kind) : NULL;
    g_autofree char *now = program ? ask(program, kind, pci, NULL) : NULL;
    for (guint i = 0; i < noted->len; i++)
        if (!now || !write_note(hook, noted->pdata[i], now, NULL))
            weft_firmware_forget(hook, noted->pdata[i]);
}

gboolean
weft_firmware_note(const WeftHook *hook, WeftFirmwareKind kind, const char *pci, GError **error)
{
    g_autofree char *program = find_tool(hook, kind);
    if (!weft_firmware_compare(hook, kind, pci, error))
        return FALSE;
    g_autofree char *now = program ? ask(program, kind, pci, NULL) : NULL;
    return !now || write_note(hook, pci, now, error);
}
