/* fabric-agents.so, preloaded beside umad2sim: what the kernel sees to.
 *
 * A port that is closed gives all its agents back. umad2sim frees one, and has 32 for as long as the program runs: weftd, which
 * looks at the fabric again and again, would soon have none.
 *
 * An answer is waited for. libibmad gives up when its own timeout is over, without asking again, and ibsim, which answers all
 * that it gets, also with "lost", is late as soon as it has no processor for a moment. */
#include <dlfcn.h>
#include <infiniband/umad.h>
#include <pthread.h>

#define AGENTS 32
#define PATIENCE_MS 2000

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int port_of[AGENTS]; /* + 1; 0: not registered */

int
umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version, long method_mask[16 / sizeof(long)])
{
    int (*next)(int, int, int, uint8_t, long[]) = dlsym(RTLD_NEXT, "umad_register");
    int agent = next(portid, mgmt_class, mgmt_version, rmpp_version, method_mask);
    pthread_mutex_lock(&mutex);
    if (agent >= 0 && agent < AGENTS)
        port_of[agent] = portid + 1;
    pthread_mutex_unlock(&mutex);
    return agent;
}

int
umad_close_port(int portid)
{
    int (*next)(int) = dlsym(RTLD_NEXT, "umad_close_port");
    pthread_mutex_lock(&mutex);
    for (int agent = 0; agent < AGENTS; agent++)
        if (port_of[agent] == portid + 1) {
            umad_unregister(portid, agent);
            port_of[agent] = 0;
        }
    pthread_mutex_unlock(&mutex);
    return next(portid);
}

int
umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
    int (*next)(int, void *, int *, int) = dlsym(RTLD_NEXT, "umad_recv");
    return next(portid, umad, length, timeout_ms > 0 && timeout_ms < PATIENCE_MS ? PATIENCE_MS : timeout_ms);
}
