#include "ports.h"

#include <gio/gio.h>
#include <gio/gunixsocketaddress.h>

#define PATIENCE_SECONDS 5

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

static GSocketConnection *
dial(void)
{
    g_autoptr(GSocketClient) client = g_socket_client_new();
    g_autoptr(GSocketConnectable) address =
        *server == '/' ? G_SOCKET_CONNECTABLE(g_unix_socket_address_new(server)) : g_network_address_parse(server, 0, NULL);
    g_socket_client_set_timeout(client, PATIENCE_SECONDS);
    return address ? g_socket_client_connect(client, address, NULL, NULL) : NULL;
}

static char *
ask(GIOStream *stream, guint64 guid)
{
    g_autoptr(GDataInputStream) input = g_data_input_stream_new(g_io_stream_get_input_stream(stream));
    return g_output_stream_printf(g_io_stream_get_output_stream(stream), NULL, NULL, NULL, "0x%016" G_GINT64_MODIFIER "x\n",
                                  guid)
               ? g_data_input_stream_read_line(input, NULL, NULL, NULL)
               : NULL;
}

gboolean
ports_ask(guint64 guid, PortTable *ret_table)
{
    g_autoptr(GSocketConnection) connection = dial();
    g_autofree char *line = connection ? ask(G_IO_STREAM(connection), guid) : NULL;
    if (!line)
        return FALSE;
    *ret_table = (PortTable){ 0 };
    g_auto(GStrv) words = g_strsplit(g_strchomp(line), " ", -1);
    for (guint i = 0; words[i] && *words[i] && i < PORT_PKEYS; i++)
        ret_table->pkeys[ret_table->n++] = (guint16)g_ascii_strtoull(words[i], NULL, 16);
    return TRUE;
}
