#include "fake-private.h"
#include "protocol.h"

#include <fcntl.h>
#include <glib-unix.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define REBOOTS "reboots"
#define APART "apart"
#define PORTS "ports"
#define TEXT_MAX (1024 * 1024)

struct WeftFakeReboots {
    char *world;
    WeftFakeGuests *guests;
    WeftHostChanged changed;
    gpointer data;
    int inotify;
    guint source;
    guint told; /* lines so far */
};

/* The lines of a file of the world; none when it is not there. */
static GStrv
read_lines(const char *world, const char *file)
{
    g_autofree char *path = g_build_filename(world, file, NULL);
    g_autofree char *text = NULL;
    if (access(path, R_OK) < 0 || !g_file_get_contents(path, &text, NULL, NULL))
        return g_new0(char *, 1);
    g_strchomp(text);
    return g_strsplit(text, "\n", -1);
}

/* --- reboots --- */

guint
weft_fake_boots(const char *world, const char *host, const char *domain)
{
    g_auto(GStrv) lines = read_lines(world, REBOOTS);
    g_autofree char *wanted = g_strdup_printf("%s %s", host, domain);
    guint n = 0;
    for (guint i = 0; lines[i]; i++)
        n += g_str_equal(lines[i], wanted);
    return n;
}

static void
tell_new(WeftFakeReboots *reboots)
{
    g_auto(GStrv) lines = read_lines(reboots->world, REBOOTS);
    guint n = g_strv_length(lines);
    for (; reboots->told < n; reboots->told++) {
        g_auto(GStrv) words = g_strsplit(lines[reboots->told], " ", 2);
        if (g_strv_length(words) == 1 && *words[0]) /* a host alone: its devices changed */
            reboots->changed(words[0], WEFT_NEWS_HARDWARE, NULL, reboots->data);
        if (g_strv_length(words) != 2)
            continue;
        weft_fake_guests_end(reboots->guests, words[0], words[1]);
        reboots->changed(words[0], WEFT_NEWS_REBOOTED, words[1], reboots->data);
    }
}

static gboolean
world_written(int fd, GIOCondition condition, gpointer data)
{
    char events[4096];
    while (read(fd, events, sizeof events) > 0)
        continue;
    tell_new(data);
    return G_SOURCE_CONTINUE;
}

WeftFakeReboots *
weft_fake_reboots_new(const char *world, WeftFakeGuests *guests, WeftHostChanged changed, gpointer data)
{
    WeftFakeReboots *reboots = g_new0(WeftFakeReboots, 1);
    *reboots = (WeftFakeReboots){ .world = g_strdup(world), .guests = guests, .changed = changed, .data = data };
    reboots->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    inotify_add_watch(reboots->inotify, world, IN_CLOSE_WRITE | IN_MOVED_TO);
    g_auto(GStrv) lines = read_lines(world, REBOOTS);
    reboots->told = g_strv_length(lines);
    reboots->source = g_unix_fd_add(reboots->inotify, G_IO_IN, world_written, reboots);
    return reboots;
}

void
weft_fake_reboots_free(WeftFakeReboots *reboots)
{
    g_source_remove(reboots->source);
    close(reboots->inotify);
    g_free(reboots->world);
    g_free(reboots);
}

void
weft_fake_devices_changed(const char *world, const char *host)
{
    g_autofree char *path = g_build_filename(world, REBOOTS, NULL);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return;
    dprintf(fd, "%s\n", host);
    close(fd);
}

/* --- ports --- */

static gboolean
says(GStrv lines, const char *word)
{
    return g_strv_contains((const char *const *)lines, word);
}

/* The answer that a test wants of this rail; NULL: none. */
static const char *
find_wanted(GStrv lines, const char *rail)
{
    for (guint i = 0; lines[i]; i++)
        if (g_str_has_prefix(lines[i], rail) && lines[i][strlen(rail)] == ' ')
            return lines[i] + strlen(rail) + 1;
    return NULL;
}

/* A port is there if the definition names its GUID; that of a whole adapter is known to nobody here. */
static gboolean
has_port(const char *definition, const char *rail, const char *guid)
{
    g_autofree char *by_guid = g_strdup_printf("guid=\"%s\"", guid);
    g_autofree char *by_rail = g_strdup_printf("<weft:device rail=\"%s\"", rail);
    const char *device = definition ? strstr(definition, by_rail) : NULL;
    const char *end = device ? strchr(device, '>') : NULL;
    g_autofree char *mark = end ? g_strndup(device, (gsize)(end - device)) : g_strdup("");
    return device && (strstr(mark, by_guid) || !strstr(mark, "guid="));
}

static char *
read_definition(const char *world, const char *host, const char *domain)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_DOMAINS, &folder, NULL))
        return NULL;
    g_autofree char *file = g_strconcat(domain, WEFT_FAKE_RUNNING, NULL);
    char *text = folder.fd < 0 ? NULL : weft_fake_read(&folder, file, TEXT_MAX, NULL);
    weft_fake_folder_close(&folder);
    return text;
}

char *
weft_fake_ports(const char *world, const char *host, const char *domain, const char *asked, gboolean *ret_failed)
{
    g_autofree char *here = g_build_filename(host, PORTS, NULL);
    g_auto(GStrv) own = read_lines(world, here), all = read_lines(world, PORTS), lines = g_strsplit(asked, "\n", -1);
    g_autofree char *definition = strstr(asked, WEFT_MEET_RAIL " ") ? read_definition(world, host, domain) : NULL;
    GString *said = g_string_new(NULL);
    *ret_failed = FALSE;
    for (guint i = 0; lines[i] && !says(own, "older") && !says(all, "older"); i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", -1);
        if (g_strv_length(words) != 4 || !g_str_equal(words[0], WEFT_MEET_RAIL))
            continue;
        const char *wanted = find_wanted(own, words[1]) ? find_wanted(own, words[1]) : find_wanted(all, words[1]);
        const char *answer = wanted ? wanted : has_port(definition, words[1], words[2]) ? "active" : "missing";
        g_string_append_printf(said, WEFT_MEET_RAIL " %s %s\n", words[1], answer);
        *ret_failed |= !g_str_equal(answer, "active");
    }
    *ret_failed = *ret_failed && !says(own, "well") && !says(all, "well");
    return g_string_free(said, FALSE);
}

/* --- who does not reach whom --- */

/* Adds the ranks of the cluster's nodes there. */
static void
add_ranks(const char *world, const char *host, const char *cluster, GString *ranks)
{
    WeftFakeFolder folder;
    if (!weft_fake_folder_open(world, host, WEFT_FAKE_DOMAINS, &folder, NULL))
        return;
    g_autoptr(GPtrArray) files = weft_fake_files(&folder, NULL);
    for (guint i = 0; files && i < files->len; i++) {
        const char *file = files->pdata[i];
        if (!g_str_has_prefix(file, cluster) || !g_str_has_suffix(file, WEFT_FAKE_RUNNING))
            continue;
        g_autofree char *text = weft_fake_read(&folder, file, TEXT_MAX, NULL);
        const char *rank = text ? strstr(text, " rank=") : NULL;
        if (rank)
            g_string_append_printf(ranks, " %u", (guint)g_ascii_strtoull(rank + strlen(" rank=."), NULL, 10));
    }
    weft_fake_folder_close(&folder);
}

char *
weft_fake_apart(const char *world, const char *host, const char *domain)
{
    g_auto(GStrv) lines = read_lines(world, APART);
    g_autofree char *cluster = g_strndup(domain, (gsize)(strrchr(domain, '-') + 1 - domain));
    g_autoptr(GString) ranks = g_string_new(NULL);
    for (guint i = 0; lines[i]; i++) {
        g_auto(GStrv) words = g_strsplit(lines[i], " ", 2);
        if (g_strv_length(words) == 2 && (g_str_equal(words[0], host) || g_str_equal(words[1], host)))
            add_ranks(world, g_str_equal(words[0], host) ? words[1] : words[0], cluster, ranks);
    }
    if (!ranks->len)
        return NULL;
    return g_strdup_printf(WEFT_MEET_UNREACHED "%s\nno answer on the partition from the nodes of rank%s\n", ranks->str,
                           ranks->str);
}
