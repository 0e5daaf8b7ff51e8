/* The ports that this node was promised, as its kernel tells of them. They are found by their GUIDs: what devices and
 * interfaces are called is up to the distribution. */
#include "guest.h"

#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES "sys/class/infiniband"
#define PATH_SIZE 512
#define ACTIVE 4
#define AGAIN 100 /* milliseconds between two looks at what nobody tells of */

/* Below a port's folder. NULL: it is not there. */
static char *
read_of(const char *port, const char *file)
{
    char path[PATH_SIZE];
    return snprintf(path, sizeof path, "%s/%s", port, file) < (int)sizeof path ? file_read(path, NULL) : NULL;
}

static unsigned
read_number(const char *port, const char *file, int base)
{
    char *text = read_of(port, file);
    unsigned number = text ? (unsigned)strtoul(text, NULL, base) : 0;
    free(text);
    return number;
}

/* A port's first GID is its subnet's prefix and its GUID. */
static int
has_guid(const char *port, uint64_t wanted)
{
    unsigned words[8];
    char *text = read_of(port, "gids/0");
    int known = text && sscanf(text, "%x:%x:%x:%x:%x:%x:%x:%x", &words[0], &words[1], &words[2], &words[3], &words[4],
                               &words[5], &words[6], &words[7]) == 8;
    uint64_t guid = 0;
    for (unsigned i = 4; known && i < 8; i++)
        guid = guid << 16 | words[i];
    free(text);
    return known && guid != 0 && guid == wanted;
}

/* Looks at each entry of the folder until one is the right one; ret_path is that one's then. */
static int
look_through(const char *folder, int (*is_right)(const char *path, uint64_t guid, char *ret_port), uint64_t guid,
             char *ret_port)
{
    char path[PATH_SIZE];
    DIR *entries = root_path(folder, path, sizeof path) ? opendir(path) : NULL;
    int found = 0;
    for (struct dirent *entry; entries && !found && (entry = readdir(entries));)
        if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
            found = is_right(path, guid, ret_port);
    if (entries)
        closedir(entries);
    return found;
}

static int
is_port(const char *path, uint64_t guid, char *ret_port)
{
    return has_guid(path, guid) && snprintf(ret_port, PATH_SIZE, "%s", path) < PATH_SIZE;
}

static int
is_device(const char *path, uint64_t guid, char *ret_port)
{
    char ports[PATH_SIZE];
    return snprintf(ports, sizeof ports, "%s/ports", path) < (int)sizeof ports && look_through(ports, is_port, guid, ret_port);
}

/* A node that is to look for nobody has no addresses, either. */
static int
has_interface(struct promise *promise, const struct member *self)
{
    return server_options()->alone || (net_rail_name(promise->guid, promise->interface) && self &&
                                       net_has_address(promise->interface, self->addresses[promise->rail + 1]));
}

/* 0: it is not as it should be. */
static int
examine(struct promise *promise, const struct member *self, struct text *said)
{
    char port[PATH_SIZE];
    text_add(said, WEFT_MEET_RAIL " %u ", promise->rail);
    if (!look_through(DEVICES, is_device, promise->guid, port)) {
        text_add(said, "missing\n");
        return 0;
    }
    unsigned state = read_number(port, "state", 10), pkey = read_number(port, "pkeys/0", 16);
    int interface = has_interface(promise, self);
    if (state != ACTIVE)
        text_add(said, "state %u\n", state);
    else if (pkey != promise->pkey)
        text_add(said, "pkey 0x%04x\n", pkey);
    else
        text_add(said, interface ? "active\n" : "no-ipoib\n");
    return state == ACTIVE && pkey == promise->pkey && interface;
}

/* After a move and a boot the node knows of its whole adapters what its seed says, which was so on another host. */
static void
learn(const struct roster *roster)
{
    struct text ports = { 0 };
    const struct node *node = server_options()->node;
    for (unsigned i = 0; i < roster->n_promises; i++)
        text_add(&ports, "%u 0x%016llx\n", roster->promises[i].rail, (unsigned long long)roster->promises[i].guid);
    net_learn_ports(&ports);
    text_free(&ports);
    if (roster->n_promises > 0 && root_is_node() && !net_is_up(node))
        net_up_rails(node, 0, 0);
}

int
fabric_await(struct roster *roster, int64_t end, struct text *said)
{
    const struct member *self = roster_self(roster);
    learn(roster);
    for (;;) {
        struct text ports = { 0 };
        int well = 1;
        for (unsigned i = 0; i < roster->n_promises; i++)
            well &= examine(&roster->promises[i], self, &ports);
        if (well || now() >= end) {
            if (ports.data)
                text_add(said, "%s", ports.data);
            text_free(&ports);
            return well;
        }
        text_free(&ports);
        poll(NULL, 0, AGAIN);
    }
}
