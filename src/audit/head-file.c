#include "head-file.h"

#include "errors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 256

static void
read_head(int fd, WeftAuditHead *ret_head)
{
    char text[TEXT_MAX];
    ssize_t length = pread(fd, text, sizeof text, 0);
    json_auto_t *json = length > 0 ? json_loadb(text, (size_t)length, 0, NULL) : NULL;
    json_int_t sequence = json_integer_value(json_object_get(json, "sequence"));
    const char *hash = json_string_value(json_object_get(json, "hash"));
    *ret_head = (WeftAuditHead){ 0 };
    if (sequence < 1 || !hash || strlen(hash) != WEFT_AUDIT_HASH)
        return;
    ret_head->sequence = (guint64)sequence;
    g_strlcpy(ret_head->hash, hash, sizeof ret_head->hash);
}

int
weft_head_open(const char *trail, WeftAuditHead *ret_head, GError **error)
{
    g_autofree char *path = g_strconcat(trail, "-head", NULL);
    int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot open %s, which belongs to the audit trail: %s", path,
                          g_strerror(errno));
    else
        read_head(fd, ret_head);
    return fd;
}

/* The text has one length, so that it is written over in one block, and a power cut leaves the old one or the new one. */
gboolean
weft_head_write(int fd, const WeftAuditHead *head)
{
    char text[TEXT_MAX];
    int length =
        g_snprintf(text, sizeof text, "{\"sequence\":%20" G_GUINT64_FORMAT ",\"hash\":\"%s\"}\n", head->sequence, head->hash);
    errno = EIO; /* of a write that was cut short */
    return pwrite(fd, text, (size_t)length, 0) == length && fdatasync(fd) == 0;
}
