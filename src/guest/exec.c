/* Children: with a terminal or pipes, as any user. */
#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pty.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utmp.h>

/* --- what is asked for --- */

static const char *
take_text(char *text, struct exec_request *request)
{
    static const char too_many[] = "too many arguments or variables";
    char *value = strchr(text, '=');
    if (!value)
        return "a text of OPEN is no \"key=value\"";
    *value++ = '\0';
    if (strcmp(text, "arg") == 0 && request->n_args < ARGS_MAX)
        request->args[request->n_args++] = value;
    else if (strcmp(text, "env") == 0 && request->n_env < ARGS_MAX && strchr(value, '='))
        request->env[request->n_env++] = value;
    else if (strcmp(text, "arg") == 0 || strcmp(text, "env") == 0)
        return too_many;
    else if (strcmp(text, "dir") == 0)
        request->dir = value;
    else if (strcmp(text, "user") == 0)
        request->user = value;
    else if (strcmp(text, "tty") == 0)
        request->tty = *value == '1';
    else if (strcmp(text, "rows") == 0)
        request->rows = (uint16_t)strtoul(value, NULL, 10);
    else if (strcmp(text, "cols") == 0)
        request->cols = (uint16_t)strtoul(value, NULL, 10);
    return NULL;
}

const char *
exec_parse(char *payload, size_t length, struct exec_request *ret_request)
{
    *ret_request = (struct exec_request){ .rows = 24, .cols = 80 };
    for (char *text = payload + strlen(payload) + 1; text < payload + length;) {
        char *next = text + strlen(text) + 1;
        const char *problem = take_text(text, ret_request);
        if (problem)
            return problem;
        text = next;
    }
    return NULL;
}

/* --- the child's side --- */

struct start {
    const struct exec_request *request;
    struct passwd user;
};

/* The program's own environment is nobody else's; then that of the node; then what the session asks for. */
static void
set_environment(const struct start *start)
{
    const struct passwd *user = &start->user;
    clearenv();
    setenv("PATH", PROGRAM_PATH, 1);
    setenv("HOME", user->pw_dir, 1);
    setenv("USER", user->pw_name, 1);
    setenv("LOGNAME", user->pw_name, 1);
    setenv("SHELL", user->pw_shell, 1);
    if (start->request->tty)
        setenv("TERM", "xterm", 1);
    char *rest = file_read(ENVIRONMENT_FILE, NULL);
    for (char *line; (line = next_line(&rest));)
        if (strchr(line, '='))
            putenv(line);
    for (unsigned i = 0; i < start->request->n_env; i++)
        putenv(start->request->env[i]);
}

static void
become(const struct passwd *user)
{
    struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
    if (setrlimit(RLIMIT_MEMLOCK, &limit) < 0 && getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &limit);
    }
    if (geteuid() != 0)
        return;
    if (initgroups(user->pw_name, user->pw_gid) < 0 || setgid(user->pw_gid) < 0 || setuid(user->pw_uid) < 0) {
        fprintf(stderr, "weft: cannot become %s: %s\n", user->pw_name, strerror(errno));
        exit(126);
    }
}

static void
run_program(const void *data)
{
    const struct start *start = data;
    const struct exec_request *request = start->request;
    const char *shell = start->user.pw_shell;
    const char *slash = strrchr(shell, '/');
    char login[NAME_SIZE];
    rxe_set_up_for_session();
    become(&start->user);
    set_environment(start);
    if (request->dir && chdir(request->dir) < 0) {
        fprintf(stderr, "weft: %s: %s\n", request->dir, strerror(errno));
        exit(126);
    }
    if (!request->dir && chdir(start->user.pw_dir) < 0 && chdir("/") < 0)
        exit(126);
    snprintf(login, sizeof login, "-%s", slash ? slash + 1 : shell);
    if (request->n_args > 0)
        execvp(request->args[0], request->args);
    else
        execl(shell, login, (char *)NULL);
    int error = errno;
    fprintf(stderr, "weft: %s: %s\n", request->n_args > 0 ? request->args[0] : shell, strerror(error));
    exit(error == ENOENT ? 127 : 126);
}

/* Nothing of the server's is the child's: no descriptor, no handler, no mask, no protection from the lack of memory. */
static void
begin_child(void)
{
    sigset_t none;
    for (int signal_number = 1; signal_number < 32; signal_number++)
        signal(signal_number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    descriptors_close();
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) < 0)
        say("a session is spared when memory lacks");
    if (fd >= 0)
        close(fd);
    umask(022);
}

/* --- the parent's side --- */

static void
close_all(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static const char *
start_with_terminal(void (*run)(const void *data), const void *data, struct child *ret_child)
{
    int master, slave;
    if (openpty(&master, &slave, NULL, NULL, NULL) < 0)
        return "no terminal is left";
    pid_t pid = fork();
    if (pid == 0) {
        login_tty(slave);
        begin_child();
        run(data);
    }
    close(slave);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    fcntl(master, F_SETFL, O_NONBLOCK);
    int in = pid < 0 ? -1 : fcntl(master, F_DUPFD_CLOEXEC, 0);
    if (in < 0) {
        close(master);
        return "no process can be started";
    }
    *ret_child = (struct child){ .pid = pid, .in = in, .out = master, .err = -1 };
    return NULL;
}

static const char *
start_with_pipes(void (*run)(const void *data), const void *data, struct child *ret_child)
{
    int fds[6] = { -1, -1, -1, -1, -1, -1 };
    for (unsigned i = 0; i < 6; i += 2) {
        if (pipe2(fds + i, O_CLOEXEC) < 0) {
            close_all(fds, 6);
            return "no descriptor is left";
        }
    }
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        dup2(fds[0], STDIN_FILENO);
        dup2(fds[3], STDOUT_FILENO);
        dup2(fds[5], STDERR_FILENO);
        begin_child();
        run(data);
    }
    const int theirs[] = { fds[0], fds[3], fds[5] }, ours[] = { fds[1], fds[2], fds[4] };
    close_all(theirs, 3);
    if (pid < 0) {
        close_all(ours, 3);
        return "no process can be started";
    }
    for (unsigned i = 0; i < 3; i++)
        fcntl(ours[i], F_SETFL, O_NONBLOCK);
    *ret_child = (struct child){ .pid = pid, .in = fds[1], .out = fds[2], .err = fds[4] };
    return NULL;
}

const char *
child_start(int tty, void (*run)(const void *data), const void *data, struct child *ret_child)
{
    fflush(NULL);
    return (tty ? start_with_terminal : start_with_pipes)(run, data, ret_child);
}

void
child_resize(const struct child *child, uint16_t rows, uint16_t cols)
{
    struct winsize size = { .ws_row = rows, .ws_col = cols };
    ioctl(child->out, TIOCSWINSZ, &size);
}

/* Whoever serves as an ordinary user, in a test, runs all as that user. */
static const struct passwd *
find_user(const char *name)
{
    if (geteuid() != 0)
        return name ? NULL : getpwuid(geteuid());
    static struct passwd root = { .pw_name = "root", .pw_dir = "/root", .pw_shell = "/bin/sh" };
    const struct passwd *user = getpwnam(name ? name : "root");
    return user || name ? user : &root;
}

static const char *
refuse_user(const char *name)
{
    static char problem[128];
    if (!name || strlen(name) > 64)
        return "there is no such user in the node";
    snprintf(problem, sizeof problem, "there is no user '%s' in the node", name);
    return problem;
}

const char *
exec_start(const struct exec_request *request, struct child *ret_child)
{
    const struct passwd *user = find_user(request->user);
    if (!user)
        return refuse_user(request->user);
    struct start start = { .request = request, .user = *user };
    if (!start.user.pw_shell || !*start.user.pw_shell)
        start.user.pw_shell = "/bin/sh";
    const char *problem = child_start(request->tty, run_program, &start, ret_child);
    if (!problem && request->tty)
        child_resize(ret_child, request->rows, request->cols);
    return problem;
}
