/* fabric-tap.so, preloaded: tells in the file WEFT_TAP of each subnet management packet that the program sends, a line each:
 * method, attribute and M_Key in hex. The simulator asks for no key, so that this is how a test sees one. */
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <infiniband/umad_types.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLASS_OFFSET 1
#define METHOD_OFFSET 3
#define ATTRIBUTE_OFFSET 16
#define KEY_OFFSET 24

static void
tell(const uint8_t *mad)
{
    uint16_t attribute;
    uint64_t key;
    memcpy(&attribute, mad + ATTRIBUTE_OFFSET, sizeof attribute);
    memcpy(&key, mad + KEY_OFFSET, sizeof key);
    const char *path = getenv("WEFT_TAP");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (file < 0)
        abort();
    dprintf(file, "%02x %04x %016" PRIx64 "\n", mad[METHOD_OFFSET], be16toh(attribute), be64toh(key));
    close(file);
}

int
umad_send(int portid, int agentid, void *umad, int length, int timeout_ms, int retries)
{
    int (*send)(int, int, void *, int, int, int) = dlsym(RTLD_NEXT, "umad_send");
    const uint8_t *mad = umad_get_mad(umad);
    if (mad[CLASS_OFFSET] == UMAD_CLASS_SUBN_LID_ROUTED || mad[CLASS_OFFSET] == UMAD_CLASS_SUBN_DIRECTED_ROUTE)
        tell(mad);
    return send(portid, agentid, umad, length, timeout_ms, retries);
}
