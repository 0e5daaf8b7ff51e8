/* cloud-init's user-data of a node: weft's own part and the user's, as one MIME archive. Pure. */
#pragma once

#include <glib.h>

/* user: the user's own, of any kind that cloud-init knows; NULL: none. */
char *weft_user_data_format(const char *user);
