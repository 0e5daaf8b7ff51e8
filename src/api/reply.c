#include "reply.h"

#include "problem.h"
#include "streams.h"

#include <unistd.h>

WeftReply *
weft_reply_text(guint status, const char *type, const char *body)
{
    WeftReply *reply = g_new0(WeftReply, 1);
    reply->status = status;
    reply->type = type;
    reply->body = g_strdup(body);
    reply->fd = -1;
    reply->headers = g_ptr_array_new_with_free_func(g_free);
    return reply;
}

WeftReply *
weft_reply_bytes(GBytes *bytes)
{
    WeftReply *reply = weft_reply_text(200, "application/octet-stream", NULL);
    reply->raw = g_bytes_get_size(bytes);
    reply->body = g_memdup2(g_bytes_get_data(bytes, NULL), reply->raw);
    return reply;
}

WeftReply *
weft_reply_file(int fd, guint64 size)
{
    WeftReply *reply = weft_reply_text(200, "application/x-tar", NULL);
    reply->fd = fd;
    reply->raw = size;
    return reply;
}

static WeftReply *
reply_json(guint status, const char *type, json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
    g_assert(!body || text); /* every text that we show was checked to be UTF-8 when it came in */
    WeftReply *reply = weft_reply_text(status, type, text);
    free(text);
    json_decref(body);
    return reply;
}

WeftReply *
weft_reply_new(guint status, json_t *body)
{
    return reply_json(status, "application/json", body);
}

WeftReply *
weft_reply_problem(const GError *error, const char *detail)
{
    WeftReply *reply = reply_json(weft_problem_status(error), "application/problem+json", weft_problem_to_json(error, detail));
    if (reply->status == 401)
        weft_reply_header(reply, "WWW-Authenticate", "Bearer realm=\"weft\"");
    return reply;
}

void
weft_reply_header(WeftReply *reply, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_ptr_array_add(reply->headers, g_strdup(name));
    g_ptr_array_add(reply->headers, g_strdup_vprintf(format, args));
    va_end(args);
}

void
weft_reply_free(WeftReply *reply)
{
    if (!reply)
        return;
    g_clear_pointer(&reply->stream, weft_stream_free);
    if (reply->fd >= 0)
        close(reply->fd);
    g_ptr_array_unref(reply->headers);
    g_free(reply->body);
    g_free(reply);
}
