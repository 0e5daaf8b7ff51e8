#include "fake-fabric.h"

#include "blocking.h"
#include "errors.h"
#include "fake-world.h"
#include "faults.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#define EVENTS_FILE_MAX 65536

typedef struct FakeFabric {
    WeftFabricDriver *driver;
    WeftFakeWorld world;
    char *folder;
    int inotify; /* -1: nobody listens */
    guint watch;
} FakeFabric;

/* --- calls --- */

static gboolean
pass(FakeFabric *fake, const char *op, GCancellable *cancellable, GError **error)
{
    const char *const files[] = { fake->world.faults, NULL };
    if (!weft_faults_pass(op, files, cancellable, error))
        return FALSE;
    return !g_cancellable_is_cancelled(cancellable) || weft_error_refuse(error, WEFT_ERROR_TIMEOUT, "%s was cancelled", op);
}

/* One at a time of all processes, as a subnet manager has it: what another one is about to do looks like what a killed one left
 * undone. The file is never removed. */
static int
lock_world(const FakeFabric *fake, GError **error)
{
    g_autofree char *path = g_build_filename(fake->folder, "lock", NULL);
    int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0)
        return fd;
    weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: %s", path, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

static gboolean
fake_apply(gpointer self, const WeftFabricChange *change, GCancellable *cancellable, GError **error)
{
    FakeFabric *fake = self;
    int lock = pass(fake, "apply", cancellable, error) ? lock_world(fake, error) : -1;
    if (lock < 0)
        return FALSE;
    gboolean ok = weft_fake_world_apply(&fake->world, change, error);
    close(lock);
    return ok;
}

static GPtrArray *
fake_list(gpointer self, GCancellable *cancellable, GError **error)
{
    FakeFabric *fake = self;
    int lock = pass(fake, "list", cancellable, error) ? lock_world(fake, error) : -1;
    if (lock < 0)
        return NULL;
    GPtrArray *partitions = weft_fake_world_list(&fake->world, error);
    close(lock);
    return partitions;
}

static WeftManager *
fake_greet(gpointer self, GCancellable *cancellable, GError **error)
{
    FakeFabric *fake = self;
    return pass(fake, "greet", cancellable, error) ? weft_fake_world_greet(&fake->world, error) : NULL;
}

static WeftFabricMap *
fake_map(gpointer self, GCancellable *cancellable, GError **error)
{
    FakeFabric *fake = self;
    return pass(fake, "map", cancellable, error) ? weft_fake_world_map(&fake->world, error) : NULL;
}

static GPtrArray *
fake_verify(gpointer self, const GArray *port_guids, GCancellable *cancellable, GError **error)
{
    FakeFabric *fake = self;
    return pass(fake, "verify", cancellable, error) ? weft_fake_world_verify(&fake->world, port_guids, error) : NULL;
}

static gboolean
fake_generation(gpointer self, guint64 *ret_generation, GCancellable *cancellable, GError **error)
{
    return weft_fake_world_generation(&((FakeFabric *)self)->world, ret_generation, error);
}

/* --- events --- */

static const char *const event_words[] = {
    [WEFT_FABRIC_EVENT_PORTS] = "ports",
    [WEFT_FABRIC_EVENT_SWEPT] = "swept",
    [WEFT_FABRIC_EVENT_MANAGER] = "manager",
    [WEFT_FABRIC_EVENT_LOST] = "lost",
};

static void
tell_line(FakeFabric *fake, const char *line)
{
    g_auto(GStrv) words = g_strsplit(line, " ", 2);
    for (guint i = 0; words[0] && i < G_N_ELEMENTS(event_words); i++)
        if (g_str_equal(words[0], event_words[i]))
            weft_blocking_tell(fake->driver, i, words[1]);
}

static void
tell_events(FakeFabric *fake)
{
    g_autofree char *path = g_build_filename(fake->folder, "events", NULL);
    g_autofree char *text = weft_file_read(path, EVENTS_FILE_MAX, NULL, NULL);
    g_auto(GStrv) lines = text ? g_strsplit(text, "\n", -1) : NULL;
    for (guint i = 0; lines && lines[i]; i++)
        tell_line(fake, lines[i]);
}

static gboolean
folder_changed(int fd, GIOCondition condition, gpointer data)
{
    _Alignas(struct inotify_event) char buffer[4096];
    gboolean written = FALSE;
    for (ssize_t n; (n = read(fd, buffer, sizeof buffer)) > 0;)
        for (char *at = buffer; at < buffer + n; at += sizeof(struct inotify_event) + ((struct inotify_event *)at)->len)
            written |= ((struct inotify_event *)at)->len && g_str_equal(((struct inotify_event *)at)->name, "events");
    if (written)
        tell_events(data);
    return G_SOURCE_CONTINUE;
}

static void
fake_listen(gpointer self, gboolean on)
{
    FakeFabric *fake = self;
    if (!on) {
        g_source_remove(fake->watch);
        close(fake->inotify);
        fake->inotify = -1;
        return;
    }
    fake->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (fake->inotify < 0 || inotify_add_watch(fake->inotify, fake->folder, IN_CLOSE_WRITE | IN_MOVED_TO) < 0)
        g_warning("fake fabric: %s is not listened to: %s", fake->folder, g_strerror(errno));
    fake->watch = g_unix_fd_add(fake->inotify, G_IO_IN, folder_changed, fake);
}

/* --- making and ending it --- */

static void
fake_free(gpointer self)
{
    FakeFabric *fake = self;
    weft_fake_world_clear(&fake->world);
    g_free(fake->folder);
    g_free(fake);
}

static const WeftBlockingOps fake_ops = {
    .name = "fake",
    .apply = fake_apply,
    .list = fake_list,
    .greet = fake_greet,
    .map = fake_map,
    .verify = fake_verify,
    .generation = fake_generation,
    .listen = fake_listen,
    .free = fake_free,
};

WeftFabricDriver *
weft_fabric_fake_new(const char *world, const WeftPkeys *pkeys, GError **error)
{
    FakeFabric *fake = g_new0(FakeFabric, 1);
    fake->folder = g_strdup(world);
    fake->inotify = fake->world.watch = -1;
    g_mkdir_with_parents(world, 0755); /* what fails here is told by the next that needs it */
    int lock = lock_world(fake, error);
    gboolean ok = lock >= 0 && weft_fake_world_open(&fake->world, world, error);
    if (lock >= 0)
        close(lock);
    if (!ok) {
        fake_free(fake);
        return NULL;
    }
    fake->driver = weft_blocking_new(&fake_ops, fake, pkeys);
    return fake->driver;
}
