/* PCI's access control services, read from a port's configuration space: whether what is below a port can reach its neighbours
 * without passing the IOMMU. Pure. */
#pragma once

#include <glib.h>

typedef enum {
    WEFT_ACS_NEEDLESS, /* no port that decides: the upper side of a switch, an endpoint */
    WEFT_ACS_ON,       /* all four that the kernel wants: validation, both redirections, upstream forwarding */
    WEFT_ACS_OFF,      /* it could, and some of the four are off */
    WEFT_ACS_LACKING,  /* it cannot */
    WEFT_ACS_UNKNOWN,  /* these bytes do not tell: only root is given all of them */
} WeftAcs;

WeftAcs weft_acs_read(const guint8 *config, gsize length);
