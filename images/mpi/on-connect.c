/* on-connect PORT PROGRAM ARGUMENT…: runs a program for each connection, which is its standard input and output. So a node's
 * ssh server reads its host key when somebody comes, and not when a template boots, which has none. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int
listen_on(const char *port)
{
    struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)atoi(port)) };
    int yes = 1, fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, SOMAXCONN) < 0)
        return -1;
    return fd;
}

int
main(int argc, char **argv)
{
    int listener = argc > 2 ? listen_on(argv[1]) : -1;
    if (listener < 0) {
        perror("on-connect");
        return 1;
    }
    signal(SIGCHLD, SIG_IGN);
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0 && fork() == 0) {
            signal(SIGCHLD, SIG_DFL);
            dup2(fd, STDIN_FILENO);
            dup2(fd, STDOUT_FILENO);
            execv(argv[2], argv + 2);
            _exit(127);
        }
        if (fd >= 0)
            close(fd);
    }
}
