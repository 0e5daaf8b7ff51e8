#include "ports.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_SECONDS 5
#define LINE_MAX_BYTES 4096

static const char *server;

void
ports_use(const char *socket)
{
    server = socket;
}

gboolean
ports_are_known(void)
{
    return server != NULL;
}

static FILE *
dial(void)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct timeval patience = { .tv_sec = PATIENCE_SECONDS };
    g_strlcpy(address.sun_path, server, sizeof address.sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return NULL;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    FILE *stream = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fdopen(fd, "r+") : NULL;
    if (!stream)
        close(fd);
    return stream;
}

gboolean
ports_ask(guint64 guid, PortTable *ret_table)
{
    char line[LINE_MAX_BYTES];
    FILE *stream = dial();
    gboolean ok = stream && fprintf(stream, "0x%016" G_GINT64_MODIFIER "x\n", guid) > 0 && fflush(stream) == 0 &&
                  fgets(line, sizeof line, stream);
    if (stream)
        fclose(stream);
    if (!ok)
        return FALSE;
    *ret_table = (PortTable){ 0 };
    g_auto(GStrv) words = g_strsplit(g_strchomp(line), " ", -1);
    for (guint i = 0; words[i] && *words[i] && i < PORT_PKEYS; i++)
        ret_table->pkeys[ret_table->n++] = (guint16)g_ascii_strtoull(words[i], NULL, 16);
    return TRUE;
}
