#include "upload.h"

#include "backoff.h"
#include "errors.h"
#include "progress.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (4 << 20)                    /* as much as weftd takes at once */
#define PATIENCE (60 * G_TIME_SPAN_SECOND) /* without a byte more */

/* A file on its way. */
typedef struct {
    WeftCli *cli;
    const char *path;
    int fd;
    guint64 base; /* where in it */
    char *where;  /* path of the API */
    WeftUpload *upload;
    WeftProgress *progress;
    guint8 *piece;
} Sender;

void
weft_upload_clear(WeftUpload *upload)
{
    g_clear_pointer(&upload->digest, g_free);
}

char *
weft_upload_size(guint64 bytes)
{
    static const char units[] = "KMGT";
    double value = (double)bytes;
    int unit = -1;
    for (; value >= 1024 && unit < 3; unit++)
        value /= 1024;
    return unit < 0 ? g_strdup_printf("%.0f", value) : g_strdup_printf(value < 10 ? "%.1f%c" : "%.0f%c", value, units[unit]);
}

/* On a terminal every percent, elsewhere a line for each of the two things that happen to a file. */
static void
show(const Sender *sender, const char *verb, guint64 done)
{
    guint percent = (guint)(100.0 * (double)done / (double)sender->upload->size);
    g_autofree char *size = weft_upload_size(sender->upload->size);
    g_autofree char *text =
        weft_text_is_live(stderr) ? g_strdup_printf("%s %s, %u %%", verb, size, percent) : g_strdup_printf("%s %s", verb, size);
    weft_progress_show(sender->progress, text);
}

static gboolean
fail(const Sender *sender, GError **error)
{
    return weft_cli_refuse_file(sender->path, g_strerror(errno), error);
}

/* Reads up to a piece; FALSE also where the file has become shorter. */
static gboolean
read_piece(const Sender *sender, guint64 offset, gsize *ret_length, GError **error)
{
    gsize wanted = MIN(PIECE, sender->upload->size - offset);
    for (gsize length = 0; length < wanted;) {
        ssize_t n = pread(sender->fd, sender->piece + length, wanted - length, (off_t)(sender->base + offset + length));
        if (n < 0 && errno != EINTR)
            return fail(sender, error);
        if (n == 0)
            return weft_cli_refuse_file(sender->path, "became shorter while it was read", error);
        length += n > 0 ? (gsize)n : 0;
    }
    *ret_length = wanted;
    return TRUE;
}

static gboolean
sum_up(const Sender *sender, GError **error)
{
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);
    gsize length = 0;
    for (guint64 offset = 0; offset < sender->upload->size; offset += length) {
        if (!read_piece(sender, offset, &length, error))
            return FALSE;
        if (offset == 0)
            memcpy(sender->upload->start, sender->piece, MIN(length, sizeof sender->upload->start));
        g_checksum_update(sum, sender->piece, (gssize)length);
        show(sender, "summing up", offset + length);
    }
    sender->upload->digest = g_strdup(g_checksum_get_string(sum));
    return TRUE;
}

/* More than there is to send cannot be of this file: weftd drops it when the file begins anew. */
static guint64
read_state(const Sender *sender, json_t *blob, gboolean *ret_complete)
{
    guint64 size = (guint64)json_integer_value(json_object_get(blob, "size"));
    *ret_complete = json_is_true(json_object_get(blob, "complete"));
    return size <= sender->upload->size ? size : 0;
}

static gboolean
ask_state(const Sender *sender, guint64 *ret_offset, gboolean *ret_complete, GError **error)
{
    json_auto_t *blob = weft_client_get(sender->cli->client, sender->where, error);
    if (!blob)
        return FALSE;
    *ret_offset = read_state(sender, blob, ret_complete);
    return TRUE;
}

static gboolean
send_piece(const Sender *sender, guint64 *offset, gboolean *ret_complete, GError **error)
{
    gsize length = 0;
    if (!read_piece(sender, *offset, &length, error))
        return FALSE;
    g_auto(WeftResponse) response = { 0 };
    g_autofree char *where = g_strdup_printf("%s?offset=%" G_GUINT64_FORMAT "&size=%" G_GUINT64_FORMAT, sender->where, *offset,
                                             sender->upload->size);
    WeftCall call = { .method = "PATCH", .path = where, .raw = sender->piece, .raw_length = length };
    if (!weft_client_call(sender->cli->client, &call, &response, error))
        return FALSE;
    *offset = read_state(sender, response.body, ret_complete);
    return TRUE;
}

/* What a while may mend: a lost connection, a restart of weftd, somebody else who sends the same. */
static gboolean
is_passing(const GError *error)
{
    WeftErrorCode code = weft_error_code(error);
    return error->domain == WEFT_ERROR && (code == WEFT_ERROR_UNAVAILABLE || code == WEFT_ERROR_TIMEOUT ||
                                           code == WEFT_ERROR_BUSY || code == WEFT_ERROR_CONFLICT);
}

static gboolean
send_file(const Sender *sender, GError **error)
{
    static const WeftBackoff backoff = { 100 * G_TIME_SPAN_MILLISECOND, 5 * G_TIME_SPAN_SECOND };
    guint64 offset = 0;
    gboolean complete = FALSE;
    if (!ask_state(sender, &offset, &complete, error))
        return FALSE;
    gint64 last = g_get_monotonic_time();
    for (guint failures = 0; !complete;) {
        g_autoptr(GError) failure = NULL;
        show(sender, "sending", offset);
        if (send_piece(sender, &offset, &complete, &failure)) {
            failures = 0;
            last = g_get_monotonic_time();
            continue;
        }
        if (!is_passing(failure) || last + PATIENCE < g_get_monotonic_time()) {
            g_propagate_error(error, g_steal_pointer(&failure));
            return FALSE;
        }
        g_poll(NULL, 0, (gint)(weft_backoff_delay(&backoff, ++failures) / 1000));
        ask_state(sender, &offset, &complete, NULL);
    }
    return TRUE;
}

static gboolean
open_file(Sender *sender, GError **error)
{
    struct stat info;
    sender->fd = open(sender->path, O_RDONLY | O_CLOEXEC);
    if (sender->fd < 0 || fstat(sender->fd, &info) < 0)
        return fail(sender, error);
    if (!S_ISREG(info.st_mode) || info.st_size == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "%s: is %s; give the file of an image", sender->path,
                                 S_ISREG(info.st_mode) ? "empty" : "no file");
    sender->upload->size = (guint64)info.st_size;
    return TRUE;
}

gboolean
weft_upload_file(WeftCli *cli, const char *what, const char *path, WeftUpload *ret_upload, GError **error)
{
    g_autoptr(WeftProgress) progress = weft_progress_new(what);
    Sender sender = { .cli = cli, .path = path, .upload = ret_upload, .progress = progress, .piece = g_malloc(PIECE) };
    gboolean ok = open_file(&sender, error) && sum_up(&sender, error);
    if (ok) {
        sender.where = weft_client_path("/v1/blobs", ret_upload->digest);
        ok = send_file(&sender, error);
    }
    if (sender.fd >= 0)
        close(sender.fd);
    g_free(sender.where);
    g_free(sender.piece);
    return ok;
}

gboolean
weft_upload_part(WeftCli *cli, const char *what, const char *path, guint64 offset, const WeftUpload *part, GError **error)
{
    g_autoptr(WeftProgress) progress = weft_progress_new(what);
    WeftUpload upload = *part;
    Sender sender = { .cli = cli, .path = path, .upload = &upload, .progress = progress, .base = offset };
    sender.fd = open(path, O_RDONLY | O_CLOEXEC);
    if (sender.fd < 0)
        return fail(&sender, error);
    sender.piece = g_malloc(PIECE);
    sender.where = weft_client_path("/v1/blobs", part->digest);
    gboolean ok = send_file(&sender, error);
    close(sender.fd);
    g_free(sender.where);
    g_free(sender.piece);
    return ok;
}
