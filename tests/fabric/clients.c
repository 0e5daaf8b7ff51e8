/* fabric-clients.so, preloaded by ibsim: a client that was killed between its first message and ibsim's answer is one that has
 * gone, as others that are killed. Else ibsim ends itself («can't connect to in socket»), and the fabric with it. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

int
connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    int (*next)(int, const struct sockaddr *, socklen_t) = dlsym(RTLD_NEXT, "connect");
    int status = next(fd, addr, len);
    return status < 0 && errno == ECONNREFUSED && addr->sa_family == AF_UNIX ? 0 : status;
}
