#include "acs.h"

/* See PCI Express Base Specification, 7.5 and 7.7.11, and the kernel's include/uapi/linux/pci_regs.h. */
#define CONFIG_WHOLE 4096
#define STATUS 0x06
#define STATUS_HAS_LIST 0x10
#define LIST 0x34
#define CAPABILITY_EXPRESS 0x10
#define EXTENDED_FIRST 0x100
#define EXTENDED_ACS 0x000d
#define HOPS_MAX 960 /* as many as fit: a list that goes round in circles ends */

enum { PORT_ROOT = 4, PORT_DOWNSTREAM = 6 };

/* Source validation, request redirection, completion redirection, upstream forwarding: what the kernel's groups go by. */
#define WANTED 0x1d
#define ACS_CAPABILITY 4
#define ACS_CONTROL 6

static guint
get16(const guint8 *config, guint at)
{
    return config[at] | (guint)config[at + 1] << 8;
}

/* -1: it is no PCI Express device. */
static int
port_type(const guint8 *config)
{
    if (!(config[STATUS] & STATUS_HAS_LIST))
        return -1;
    guint at = config[LIST] & ~3u;
    for (guint hops = 0; at >= 0x40 && hops < HOPS_MAX; hops++, at = config[at + 1] & ~3u)
        if (config[at] == CAPABILITY_EXPRESS)
            return (int)(get16(config, at + 2) >> 4 & 0xf);
    return -1;
}

/* 0: it has none. */
static guint
find_acs(const guint8 *config)
{
    guint at = EXTENDED_FIRST;
    for (guint hops = 0; at >= EXTENDED_FIRST && at <= CONFIG_WHOLE - 8 && hops < HOPS_MAX; hops++) {
        if (get16(config, at) == EXTENDED_ACS)
            return at;
        at = get16(config, at + 2) >> 4 & ~3u;
    }
    return 0;
}

WeftAcs
weft_acs_read(const guint8 *config, gsize length)
{
    if (length < 0x40)
        return WEFT_ACS_UNKNOWN;
    if (length < CONFIG_WHOLE)
        return length < 256 || port_type(config) >= 0 ? WEFT_ACS_UNKNOWN : WEFT_ACS_NEEDLESS;
    int type = port_type(config);
    if (type != PORT_ROOT && type != PORT_DOWNSTREAM)
        return WEFT_ACS_NEEDLESS;
    guint at = find_acs(config);
    if (!at)
        return WEFT_ACS_LACKING;
    /* What a port cannot do for want of a neighbour it need not: the kernel asks for no more than it is able to. */
    guint wanted = WANTED & get16(config, at + ACS_CAPABILITY);
    return (get16(config, at + ACS_CONTROL) & wanted) == wanted ? WEFT_ACS_ON : WEFT_ACS_OFF;
}
