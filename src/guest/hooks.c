/* Programs of the user's or the image's that are to be told of something. */
#include "guest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAIL 2048 /* of its output, for the error */

static int
compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int
is_program(const char *folder, const char *name)
{
    char path[512];
    struct stat status;
    size_t length = strlen(name);
    if (name[0] == '.' || name[length - 1] == '~' || length > 200)
        return 0;
    size_t used = (size_t)snprintf(path, sizeof path, "%s/", folder);
    snprintf(path + used, sizeof path - used, "%s", name);
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

void
hooks_list(const char *folder, struct hooks *ret_hooks)
{
    char path[256];
    *ret_hooks = (struct hooks){ 0 };
    DIR *open_folder = root_path(folder, path, sizeof path) ? opendir(path) : NULL;
    for (struct dirent *entry; open_folder && ret_hooks->n < HOOKS_MAX && (entry = readdir(open_folder));)
        if (is_program(path, entry->d_name))
            ret_hooks->names[ret_hooks->n++] = strdup(entry->d_name);
    if (open_folder)
        closedir(open_folder);
    qsort(ret_hooks->names, ret_hooks->n, sizeof *ret_hooks->names, compare);
}

void
hooks_free(struct hooks *hooks)
{
    for (unsigned i = 0; i < hooks->n; i++)
        free(hooks->names[i]);
    *hooks = (struct hooks){ 0 };
}

static pid_t
start(const char *path, const char *word, int output)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setsid();
    signal(SIGHUP, SIG_DFL);
    int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    clearenv();
    setenv("PATH", PROGRAM_PATH, 1);
    setenv("HOME", "/root", 1);
    execl(path, path, word, (char *)NULL);
    dprintf(STDERR_FILENO, "%s\n", strerror(errno));
    _exit(127);
}

/* The newest of it is kept. */
static void
gather(struct text *tail, const char *bytes, size_t count)
{
    text_add_bytes(tail, bytes, count);
    if (tail->length <= 2 * TAIL)
        return;
    memmove(tail->data, tail->data + tail->length - TAIL, TAIL + 1);
    tail->length = TAIL;
}

/* Until the program has ended; what it left behind may keep its output open. Kernels before 5.3 tell of the output's end only.
 * 0: too late. */
static int
listen_until(pid_t pid, int fd, int64_t end, struct text *tail)
{
    char bytes[1024];
    int ended = (int)syscall(SYS_pidfd_open, pid, 0), done = 0;
    fcntl(fd, F_SETFL, O_NONBLOCK);
    while (!done && now() < end) {
        struct pollfd wait[] = { { .fd = fd, .events = POLLIN }, { .fd = ended, .events = POLLIN } };
        poll(wait, 2, (int)(end - now()));
        ssize_t n;
        while ((n = read(fd, bytes, sizeof bytes)) > 0)
            gather(tail, bytes, (size_t)n);
        done = n == 0 || wait[1].revents != 0;
    }
    if (ended >= 0)
        close(ended);
    return done;
}

/* In a line: what it said last says most. */
static char *
explain(const char *name, const char *word, const char *how, struct text *tail)
{
    struct text why = { 0 };
    while (tail->length > 0 && (unsigned char)tail->data[tail->length - 1] <= ' ')
        tail->data[--tail->length] = '\0';
    for (size_t i = 0; i < tail->length; i++)
        if ((unsigned char)tail->data[i] < ' ')
            tail->data[i] = ' ';
    size_t from = tail->length > 300 ? tail->length - 300 : 0;
    text_add(&why, "hook %s %s: %s%s%s", name, word, how, tail->length ? ": " : "", tail->length ? tail->data + from : "");
    return why.data;
}

int
hook_run(const char *folder, const char *name, const char *word, int64_t end, char **ret_why)
{
    char relative[512], path[1024], how[64];
    struct text tail = { 0 };
    int fds[2], status = 0;
    snprintf(relative, sizeof relative, "%s/%s", folder, name);
    if (!root_path(relative, path, sizeof path) || pipe2(fds, O_CLOEXEC) < 0) {
        *ret_why = explain(name, word, "cannot be started", &tail);
        return 0;
    }
    pid_t pid = start(path, word, fds[1]);
    close(fds[1]);
    int in_time = pid > 0 && listen_until(pid, fds[0], end, &tail);
    close(fds[0]);
    if (pid > 0 && !in_time) {
        kill(pid, SIGKILL); /* it may not lead a group of its own yet */
        kill(-pid, SIGKILL);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    int ok = in_time && status == 0;
    if (!in_time)
        snprintf(how, sizeof how, pid > 0 ? "did not end in time" : "cannot be started");
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was ended by signal %d", WTERMSIG(status));
    else
        snprintf(how, sizeof how, "ended with status %d", WEXITSTATUS(status));
    if (!ok)
        *ret_why = explain(name, word, how, &tail);
    text_free(&tail);
    return ok;
}
