/* What the first bytes of a disk's file tell, before any hypervisor opens it. Pure. */
#pragma once

#include "image.h"

#include <glib.h>

#define WEFT_DISK_HEADER_LENGTH 112 /* as many of the first bytes as are needed, where the file has them */

/* INVALID where the file is not of the format that it is said to have, or is a qcow2 that leads to other files (its readers
 * would open whatever file of the host it names), is encrypted, was not closed, describes a disk of more than
 * WEFT_IMAGE_SIZE_MAX bytes, or has features or tables that cannot be. */
gboolean weft_disk_header_check(const WeftImageFile *file, const guint8 *header, gsize length, GError **error);
