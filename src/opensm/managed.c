#include "managed.h"

#include "definitions.h"
#include "errors.h"
#include "file.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (256u << 20)
#define MARK "# >>> weft"
#define MARK_FORMAT MARK ": written by weft, changes between these marks are lost (generation %" G_GUINT64_FORMAT ") >>>\n"
#define MARK_END "# <<< weft"
#define NUMBERS 0x8000 /* of partitions */
#define DEFAULT_NUMBER 0x7fff
#define NAME_PREFIX "weft-"
#define NAME_LONGEST 31 /* in opensm's memory */
#define BESIDE ".weft-" /* a file that is not whole yet, or was never finished */
#define BESIDE_ENDING "XXXXXX"

static WeftManagedFile *
managed_file_new(void)
{
    WeftManagedFile *file = g_new0(WeftManagedFile, 1);
    file->partitions = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    file->texts = g_ptr_array_new_with_free_func(g_free);
    return file;
}

void
weft_managed_file_free(WeftManagedFile *file)
{
    if (!file)
        return;
    g_free(file->before);
    g_free(file->after);
    g_clear_pointer(&file->site, g_ptr_array_unref);
    g_ptr_array_unref(file->texts);
    g_ptr_array_unref(file->partitions);
    g_free(file);
}

/* --- the marks --- */

typedef struct Marks {
    const char *begin, *inside, *end, *behind; /* NULL: there are none */
    guint begin_line, end_line;
    guint64 generation;
} Marks;

static gboolean
parse_generation(const char *line, gsize length, guint64 *ret_generation)
{
    g_autofree char *text = g_strndup(line, length);
    const char *word = strstr(text, "(generation ");
    char *end = NULL;
    if (!word || !g_ascii_isdigit(word[strlen("(generation ")]))
        return FALSE;
    errno = 0;
    *ret_generation = g_ascii_strtoull(word + strlen("(generation "), &end, 10);
    return errno == 0 && *end == ')';
}

static gboolean
begin_mark(Marks *marks, const char *line, const char *next, guint number, GError **error)
{
    if (marks->begin)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "line %u: weft's first mark is there twice (the other is line %u); keep one part", number,
                                 marks->begin_line);
    marks->begin = line;
    marks->inside = next;
    marks->begin_line = number;
    return parse_generation(line, (gsize)(next - line), &marks->generation) ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "line %u: weft's mark has no number in \"(generation N)\"; remove the lines from it to \"%s\"",
                             number, MARK_END);
}

static gboolean
end_mark(Marks *marks, const char *line, const char *next, guint number, GError **error)
{
    if (!marks->begin || marks->end)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "line %u: weft's last mark has no first mark before it; remove it",
                                 number);
    marks->end = line;
    marks->behind = next;
    marks->end_line = number;
    return TRUE;
}

static gboolean
find_marks(const char *text, Marks *marks, GError **error)
{
    guint number = 1;
    for (const char *line = text, *next; *line; line = next, number++) {
        next = strchrnul(line, '\n');
        next += *next == '\n';
        if (g_str_has_prefix(line, MARK) && !begin_mark(marks, line, next, number, error))
            return FALSE;
        if (g_str_has_prefix(line, MARK_END) && !end_mark(marks, line, next, number, error))
            return FALSE;
    }
    return !marks->begin || marks->end ||
           weft_error_refuse(error, WEFT_ERROR_INVALID, "line %u: weft's first mark has no \"%s\" behind it; add that line",
                             marks->begin_line, MARK_END);
}

/* --- the site's part --- */

/* opensm gives a partition without a number the first that is free at that line: one of weft's. */
static gboolean
check_numbered(GHashTable *named, const WeftDefinition *definition, GError **error)
{
    const char *name = definition->partition->name;
    if (definition->partition->pkey || !name || g_str_equal(name, "Default") || g_hash_table_contains(named, name))
        return TRUE;
    g_autofree char *quoted = weft_text_quote(name);
    return weft_error_refuse(
        error, WEFT_ERROR_INVALID,
        "line %u: the partition %s has no number, and opensm would give it one of weft's; write one behind "
        "its name (\"name=0x7001\")",
        definition->line, quoted);
}

static gboolean
check_site(const char *text, guint first_line, GHashTable *named, GError **error)
{
    g_autoptr(GPtrArray) definitions = weft_definitions_parse(text, first_line);
    for (guint i = 0; i < definitions->len; i++) {
        const WeftDefinition *definition = definitions->pdata[i];
        if (!definition->is_ended)
            return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                     "line %u: the partition that begins here is not ended by a ';'; add it", definition->line);
        if (!check_numbered(named, definition, error))
            return FALSE;
        if (definition->partition->name)
            g_hash_table_add(named, g_strdup(definition->partition->name));
    }
    return TRUE;
}

static void
add_site(GHashTable *numbers, GPtrArray *site, const char *text)
{
    g_autoptr(GPtrArray) definitions = weft_definitions_parse(text, 1);
    for (guint i = 0; i < definitions->len; i++) {
        WeftPartition *partition = ((WeftDefinition *)definitions->pdata[i])->partition;
        guint pkey = partition->pkey ? partition->pkey : g_strcmp0(partition->name, "Default") == 0 ? DEFAULT_NUMBER : 0;
        WeftPartition *there = g_hash_table_lookup(numbers, GUINT_TO_POINTER(pkey));
        if (there)
            g_array_append_vals(there->members, partition->members->data, partition->members->len);
        if (pkey == 0 || there)
            continue;
        there = weft_partition_copy(partition);
        there->pkey = pkey;
        g_hash_table_insert(numbers, GUINT_TO_POINTER(pkey), there);
        g_ptr_array_add(site, there);
    }
}

static int
compare_numbers(gconstpointer a, gconstpointer b)
{
    guint x = (*(WeftPartition *const *)a)->pkey, y = (*(WeftPartition *const *)b)->pkey;
    return x < y ? -1 : x > y;
}

GPtrArray *
weft_managed_file_site(const WeftManagedFile *file)
{
    GPtrArray *site = g_ptr_array_new_with_free_func((GDestroyNotify)weft_partition_free);
    g_autoptr(GHashTable) numbers = g_hash_table_new(NULL, NULL);
    add_site(numbers, site, file->before);
    add_site(numbers, site, file->after);
    g_ptr_array_sort(site, compare_numbers);
    return site;
}

/* --- weft's part --- */

static char *
format_partition(const WeftPartition *partition)
{
    GString *text = g_string_new(NULL);
    weft_definition_format(partition, text);
    return g_string_free(text, FALSE);
}

static void
format_section(const WeftManagedFile *file, GString *text)
{
    for (guint i = 0; i < file->partitions->len; i++) {
        if (!file->texts->pdata[i])
            file->texts->pdata[i] = format_partition(file->partitions->pdata[i]);
        g_string_append(text, file->texts->pdata[i]);
    }
}

static gboolean
find_partition(const WeftManagedFile *file, guint pkey, guint *ret_place)
{
    guint from = 0, to = file->partitions->len;
    while (from < to) {
        guint middle = (from + to) / 2;
        if (((const WeftPartition *)file->partitions->pdata[middle])->pkey < pkey)
            from = middle + 1;
        else
            to = middle;
    }
    *ret_place = from;
    return from < file->partitions->len && ((const WeftPartition *)file->partitions->pdata[from])->pkey == pkey;
}

const WeftPartition *
weft_managed_file_find(const WeftManagedFile *file, guint pkey)
{
    guint place;
    return find_partition(file, pkey, &place) ? file->partitions->pdata[place] : NULL;
}

static void
remove_partition(WeftManagedFile *file, guint pkey)
{
    guint place;
    if (!find_partition(file, pkey, &place))
        return;
    g_ptr_array_remove_index(file->partitions, place);
    g_ptr_array_remove_index(file->texts, place);
}

static void
set_partition(WeftManagedFile *file, const WeftPartition *partition)
{
    guint place;
    remove_partition(file, partition->pkey);
    find_partition(file, partition->pkey, &place);
    g_ptr_array_insert(file->partitions, (int)place, weft_partition_copy(partition));
    g_ptr_array_insert(file->texts, (int)place, NULL);
}

/* A partition may be in two definitions: those of its members that have index 0, and the others. */
static void
read_section(WeftManagedFile *file, const char *text, guint first_line)
{
    g_autoptr(GPtrArray) definitions = weft_definitions_parse(text, first_line);
    g_autofree WeftPartition **found = g_new0(WeftPartition *, NUMBERS);
    for (guint i = 0; i < definitions->len; i++) {
        WeftPartition *partition = ((WeftDefinition *)definitions->pdata[i])->partition;
        WeftPartition **there = &found[partition->pkey];
        if (*there)
            g_array_append_vals((*there)->members, partition->members->data, partition->members->len);
        else if (partition->pkey && partition->name)
            *there = weft_partition_copy(partition);
    }
    for (guint i = 0; i < NUMBERS; i++)
        if (found[i])
            g_ptr_array_add(file->partitions, found[i]);
    g_ptr_array_set_size(file->texts, (int)file->partitions->len);

    g_autoptr(GString) ours = g_string_new(NULL);
    format_section(file, ours);
    file->was_edited = !g_str_equal(ours->str, text);
}

WeftManagedFile *
weft_managed_file_parse(const char *text, GError **error)
{
    Marks marks = { 0 };
    if (!find_marks(text, &marks, error))
        return NULL;
    g_autoptr(WeftManagedFile) file = managed_file_new();
    file->before = marks.begin ? g_strndup(text, (gsize)(marks.begin - text)) : g_strdup(text);
    file->after = g_strdup(marks.behind ? marks.behind : "");
    file->generation = marks.generation;
    g_autoptr(GHashTable) named = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    if (!check_site(file->before, 1, named, error) || !check_site(file->after, marks.end_line + 1, named, error))
        return NULL;
    if (marks.begin) {
        g_autofree char *inside = g_strndup(marks.inside, (gsize)(marks.end - marks.inside));
        read_section(file, inside, marks.begin_line + 1);
    }
    file->site = weft_managed_file_site(file);
    return g_steal_pointer(&file);
}

char *
weft_managed_file_format(const WeftManagedFile *file)
{
    GString *text = g_string_new(file->before);
    if (text->len && text->str[text->len - 1] != '\n')
        g_string_append_c(text, '\n');
    g_string_append_printf(text, MARK_FORMAT, file->generation);
    format_section(file, text);
    g_string_append(text, MARK_END " <<<\n");
    g_string_append(text, file->after);
    return g_string_free(text, FALSE);
}

/* --- a change --- */

static gboolean
check_number(guint pkey, const GPtrArray *site, GError **error)
{
    if (pkey < 1 || pkey >= DEFAULT_NUMBER)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "partition 0x%04x: must be 0x0001 to 0x%04x", pkey,
                                 DEFAULT_NUMBER - 1);
    for (guint i = 0; i < site->len; i++)
        if (((const WeftPartition *)site->pdata[i])->pkey == pkey)
            return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                     "partition 0x%04x is the site's own (\"%s\"); take it out of the range that weft may use",
                                     pkey, ((const WeftPartition *)site->pdata[i])->name);
    return TRUE;
}

/* Somebody else of weft's mark has it. */
static gboolean
check_holder(const WeftManagedFile *file, guint pkey, const char *name, GError **error)
{
    const WeftPartition *there = weft_managed_file_find(file, pkey);
    if (!there || !g_str_has_prefix(there->name, NAME_PREFIX) || g_str_equal(there->name, name))
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_CONFLICT, "P_Key 0x%04x is that of another partition, \"%s\", and is left alone",
                             pkey, there->name);
}

static gboolean
check_partition(const WeftPartition *partition, const GPtrArray *site, GError **error)
{
    gboolean ours = g_str_has_prefix(partition->name, NAME_PREFIX);
    gsize length = strspn(partition->name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "._-");
    if (!ours || length > NAME_LONGEST || partition->name[length]) {
        g_autofree char *quoted = weft_text_quote(partition->name);
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "partition 0x%04x: its name %s must be " NAME_PREFIX
                                 " and letters, digits, '.', '_' and '-', %d at most",
                                 partition->pkey, quoted, NAME_LONGEST);
    }
    return check_number(partition->pkey, site, error);
}

static gboolean
check_change(const WeftManagedFile *file, const WeftFabricChange *change, GError **error)
{
    if (change->generation < file->generation)
        return weft_error_refuse(error, WEFT_ERROR_CONFLICT,
                                 "generation %" G_GUINT64_FORMAT " is older than %" G_GUINT64_FORMAT
                                 ", which the fabric has already",
                                 change->generation, file->generation);
    for (guint i = 0; i < change->set->len; i++) {
        const WeftPartition *partition = change->set->pdata[i];
        if (!check_partition(partition, file->site, error) || !check_holder(file, partition->pkey, partition->name, error))
            return FALSE;
    }
    for (guint i = 0; i < change->removed->len; i++) {
        const WeftPartitionRemoval *removal = &g_array_index(change->removed, WeftPartitionRemoval, i);
        if (!check_number(removal->pkey, file->site, error) || !check_holder(file, removal->pkey, removal->name, error))
            return FALSE;
    }
    return TRUE;
}

/* What somebody else wrote between the marks is lost, as they say. */
static void
drop_foreign(WeftManagedFile *file)
{
    for (guint i = file->partitions->len; i-- > 0;) {
        const WeftPartition *partition = file->partitions->pdata[i];
        if (!g_str_has_prefix(partition->name, NAME_PREFIX))
            remove_partition(file, partition->pkey);
    }
}

gboolean
weft_managed_file_change(WeftManagedFile *file, const WeftFabricChange *change, GError **error)
{
    if (!check_change(file, change, error))
        return FALSE;
    drop_foreign(file);
    for (guint i = 0; i < change->set->len; i++)
        set_partition(file, change->set->pdata[i]);
    for (guint i = 0; i < change->removed->len; i++)
        remove_partition(file, g_array_index(change->removed, WeftPartitionRemoval, i).pkey);
    file->generation = change->generation;
    file->was_edited = FALSE;
    return TRUE;
}

/* --- the file --- */

WeftManagedFile *
weft_managed_file_load(const char *path, GError **error)
{
    g_autoptr(GError) failed = NULL;
    gsize length = 0;
    g_autofree char *text = weft_file_read(path, FILE_MAX, &length, &failed);
    if (!text && !g_error_matches(failed, WEFT_ERROR, WEFT_ERROR_NOT_FOUND)) {
        g_propagate_error(error, g_steal_pointer(&failed));
        return NULL;
    }
    /* What is behind it would not be seen, and be lost with the next change. */
    if (text && strlen(text) < length) {
        weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: byte %zu is a zero, so this is no text; repair the file", path,
                          strlen(text) + 1);
        return NULL;
    }
    WeftManagedFile *file = weft_managed_file_parse(text ? text : "", error);
    if (!file)
        g_prefix_error(error, "%s: ", path);
    return file;
}

static gboolean
fail(GError **error, const char *path)
{
    int saved = errno;
    return weft_error_refuse(error, WEFT_ERROR_FAILED,
                             "%s cannot be written: %s; weft must be able to write the file and its folder", path,
                             g_strerror(saved));
}

/* As the file was: opensm or the site may count on its owner and mode. */
static gboolean
keep_attributes(int fd, const struct stat *was)
{
    struct stat is;
    if (fstat(fd, &is) < 0)
        return FALSE;
    if ((is.st_uid != was->st_uid || is.st_gid != was->st_gid) && fchown(fd, was->st_uid, was->st_gid) < 0)
        return FALSE;
    return ((is.st_mode ^ was->st_mode) & 07777) == 0 || fchmod(fd, was->st_mode & 07777) == 0;
}

struct WeftManagedSave {
    char *path;   /* as it was given */
    char *target; /* a link stays one: the file that it names is replaced */
    char *temporary;
    int fd;
};

void
weft_managed_save_cancel(WeftManagedSave *save)
{
    if (!save)
        return;
    if (save->fd >= 0) {
        g_unlink(save->temporary);
        close(save->fd);
    }
    g_free(save->temporary);
    g_free(save->target);
    g_free(save->path);
    g_free(save);
}

static gboolean
write_beside(WeftManagedSave *save, const char *text)
{
    struct stat was;
    gboolean exists = stat(save->target, &was) == 0;
    if ((!exists && errno != ENOENT) || (exists && faccessat(AT_FDCWD, save->target, W_OK, AT_EACCESS) < 0))
        return FALSE;
    save->fd = g_mkstemp_full(save->temporary, O_WRONLY | O_CLOEXEC, 0644);
    return save->fd >= 0 && (!exists || keep_attributes(save->fd, &was)) && weft_file_write(save->fd, text, strlen(text));
}

static char *
resolve(const char *path)
{
    char *resolved = g_file_test(path, G_FILE_TEST_IS_SYMLINK) ? realpath(path, NULL) : NULL;
    char *target = g_strdup(resolved ? resolved : path);
    free(resolved);
    return target;
}

static void
tidy(const char *target)
{
    g_autofree char *folder = g_path_get_dirname(target);
    g_autofree char *base = g_path_get_basename(target);
    g_autofree char *prefix = g_strconcat(base, BESIDE, NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    for (const char *name; dir && (name = g_dir_read_name(dir));) {
        if (!g_str_has_prefix(name, prefix) || strlen(name) != strlen(prefix) + strlen(BESIDE_ENDING))
            continue;
        g_autofree char *left = g_build_filename(folder, name, NULL);
        g_unlink(left);
    }
}

WeftManagedSave *
weft_managed_save_begin(const WeftManagedFile *file, const char *path, GError **error)
{
    WeftManagedSave *save = g_new0(WeftManagedSave, 1);
    save->path = g_strdup(path);
    save->target = resolve(path);
    save->temporary = g_strconcat(save->target, BESIDE BESIDE_ENDING, NULL);
    save->fd = -1;
    tidy(save->target);
    g_autofree char *text = weft_managed_file_format(file);
    if (write_beside(save, text))
        return save;
    fail(error, path);
    weft_managed_save_cancel(save);
    return NULL;
}

gboolean
weft_managed_save_end(WeftManagedSave *save, GError **error)
{
    gboolean ok = weft_file_place(save->fd, save->temporary, save->target, 0) || fail(error, save->path);
    weft_managed_save_cancel(save);
    return ok;
}

/* --- whether it is still the same --- */

static WeftManagedStamp
make_stamp(const struct stat *file)
{
    return (WeftManagedStamp){
        .device = file->st_dev,
        .inode = file->st_ino,
        .size = file->st_size,
        .seconds = file->st_mtim.tv_sec,
        .nanoseconds = file->st_mtim.tv_nsec,
    };
}

gboolean
weft_managed_save_stamp(const WeftManagedSave *save, WeftManagedStamp *ret_stamp)
{
    struct stat file;
    if (fstat(save->fd, &file) < 0)
        return FALSE;
    *ret_stamp = make_stamp(&file);
    return TRUE;
}

gboolean
weft_managed_stamp_holds(const WeftManagedStamp *stamp, const char *path)
{
    struct stat file;
    if (stat(path, &file) < 0)
        return FALSE;
    WeftManagedStamp now = make_stamp(&file);
    return memcmp(&now, stamp, sizeof now) == 0;
}

gboolean
weft_managed_file_save(const WeftManagedFile *file, const char *path, GError **error)
{
    WeftManagedSave *save = weft_managed_save_begin(file, path, error);
    return save && weft_managed_save_end(save, error);
}
