/* What the first bytes and the length of an image's file tell, before any hypervisor opens it. Pure. */
#pragma once

#include "image.h"

#include <glib.h>

#define WEFT_IMAGE_HEAD_LENGTH 520 /* as many of the first bytes as are needed, where the file has them */

/* INVALID where the file cannot be that part of an image, by a table of formats:
 * - a disk is of the format that it is said to have; a raw one has whole sectors; a qcow2 does not lead to other files (its
 *   readers would open whatever file of the host it names), is not encrypted, was closed, describes a disk of at most
 *   WEFT_IMAGE_SIZE_MAX bytes, and has features and tables that can be;
 * - a kernel is an ELF program for x86-64, or a bzImage;
 * - an initrd is a cpio archive, or packed in a way that kernels unpack. */
gboolean
weft_image_head_check(WeftImagePart part, const WeftImageFile *file, const guint8 *bytes, gsize length, GError **error);

/* Bytes of the disk as a node sees it: a qcow2 tells, any other is as large as its file. */
guint64 weft_image_capacity(const WeftImageFile *file, const guint8 *bytes, gsize length);

#define WEFT_LAYER_HEAD_LENGTH 65536 /* likewise */

/* INVALID where it is no qcow2 that is laid over this file, by its path, or over none, and leads to no other. */
gboolean weft_image_layer_check(const char *base, const guint8 *bytes, gsize length, GError **error);
