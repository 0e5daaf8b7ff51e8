/* What cloud-init reads of a node: user-data, weft's own part and the user's as one MIME archive; and vendor-data, which is
 * weft's alone and yields to the user's. Pure. */
#pragma once

#include <glib.h>

/* user: the user's own, of any kind that cloud-init knows; NULL: none. */
char *weft_user_data_format(const char *user);
const char *weft_vendor_data(void);
