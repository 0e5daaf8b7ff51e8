/* fabric-stray.so, preloaded: while the file WEFT_STRAY is there, answers come under numbers that nobody asked under, for
 * whoever takes them as they come. libibnetdisc does, and ends its process then. */
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUMBER_OFFSET 8 /* of the transaction */
#define NUMBER_LENGTH 8

int
umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
    int (*next)(int, void *, int *, int) = dlsym(RTLD_NEXT, "umad_recv");
    const char *path = getenv("WEFT_STRAY");
    int agent = next(portid, umad, length, timeout_ms);
    if (agent >= 0 && timeout_ms < 0 && path && access(path, F_OK) == 0)
        memset((char *)umad_get_mad(umad) + NUMBER_OFFSET, 0xff, NUMBER_LENGTH);
    return agent;
}
