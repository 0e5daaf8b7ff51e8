/* The first bytes of what somebody uploads as an image, and of a node's own layer that a host brings. The input is a byte that
 * says which part of an image it is and of what format. A layer that is taken leads to the image alone: its bytes name no other
 * file. */
#include "fuzz.h"

#include "image-head.h"

#define BASE "/var/lib/weft/pool/image-0"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    GError *error = NULL;
    size_t length = MIN(size - 1, (size_t)WEFT_LAYER_HEAD_LENGTH);
    g_autofree uint8_t *bytes = length ? g_memdup2(data + 1, length) : g_malloc(1);
    WeftImageFile file = { .size = (guint64)length << data[0] % 32, .format = data[0] / 3 % WEFT_DISK_FORMATS };
    if (!weft_image_head_check(data[0] % WEFT_PARTS, &file, bytes, MIN(length, (size_t)WEFT_IMAGE_HEAD_LENGTH), &error))
        fuzz_check_refusal(g_steal_pointer(&error));
    if (!weft_image_layer_check(BASE, bytes, length, &error))
        fuzz_check_refusal(error);
    else
        fuzz_promise(length >= 4 && memcmp(bytes, "QFI\xfb", 4) == 0);
    return 0;
}
