#include "terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static const int signals[] = { SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGWINCH };
static volatile sig_atomic_t caught[G_N_ELEMENTS(signals)];
static sigset_t before;
static struct termios saved;
static gboolean is_raw;

static void
on_signal(int number)
{
    for (guint i = 0; i < G_N_ELEMENTS(signals); i++)
        if (signals[i] == number)
            caught[i] = 1;
}

void
weft_terminal_catch(void)
{
    struct sigaction action = { .sa_handler = on_signal };
    sigset_t blocked;
    sigemptyset(&blocked);
    for (guint i = 0; i < G_N_ELEMENTS(signals); i++) {
        sigaddset(&blocked, signals[i]);
        sigaction(signals[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &blocked, &before);
}

int
weft_terminal_poll(struct pollfd *fds, guint n, int timeout_ms)
{
    struct timespec limit = { timeout_ms / 1000, (timeout_ms % 1000) * 1000000L };
    return ppoll(fds, n, timeout_ms < 0 ? NULL : &limit, &before);
}

int
weft_terminal_signal(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(signals); i++) {
        if (!caught[i])
            continue;
        caught[i] = 0;
        return signals[i];
    }
    return 0;
}

void
weft_terminal_restore(void)
{
    if (is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    is_raw = FALSE;
}

gboolean
weft_terminal_make_raw(void)
{
    if (tcgetattr(STDIN_FILENO, &saved) != 0)
        return FALSE;
    struct termios raw = saved;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) != 0)
        return FALSE;
    is_raw = TRUE;
    atexit(weft_terminal_restore);
    return TRUE;
}

void
weft_terminal_size(guint *ret_rows, guint *ret_columns)
{
    struct winsize size = { 0 };
    gboolean known = ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *ret_rows = known && size.ws_row ? size.ws_row : 24;
    *ret_columns = known && size.ws_col ? size.ws_col : 80;
}
