#include "faults.h"

#include "errors.h"
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX 65536
#define SLOW_MAX 3600000 /* milliseconds */

typedef enum { NOTHING, FAIL, INVALID, BROKEN, SLOW, HANG, LOST } Kind;

static const char *const kind_words[] = {
    [FAIL] = "fail", [INVALID] = "invalid", [BROKEN] = "broken", [SLOW] = "slow", [HANG] = "hang", [LOST] = "lost"
};

typedef struct {
    Kind kind;
    char *op;
    guint64 number; /* COUNT (0: always) or MILLISECONDS */
    char *message;
} Fault;

/* What a call is to suffer, gathered over all files before it suffers it: no lock is held while it waits. */
typedef struct {
    guint64 milliseconds;
    Fault end; /* NOTHING: it works */
} Verdict;

static void
fault_clear(Fault *fault)
{
    g_free(fault->op);
    g_free(fault->message);
    *fault = (Fault){ 0 };
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(Fault, fault_clear)

/* Cuts the next word off *rest. */
static char *
next_word(const char **rest)
{
    const char *start = *rest + strspn(*rest, " \t");
    gsize length = strcspn(start, " \t");
    *rest = start + length + strspn(start + length, " \t");
    return g_strndup(start, length);
}

static Kind
kind_of(const char *word)
{
    for (Kind kind = FAIL; kind <= LOST; kind++)
        if (strcmp(word, kind_words[kind]) == 0)
            return kind;
    return NOTHING;
}

static gboolean
fault_parse(const char *line, Fault *fault)
{
    const char *rest = line;
    g_autofree char *word = next_word(&rest);
    fault->kind = kind_of(word);
    if (fault->kind == NOTHING)
        return FALSE;
    if (fault->kind == LOST)
        fault->op = g_strdup("*");
    else
        fault->op = next_word(&rest);
    const char *behind = rest;
    g_autofree char *number = next_word(&behind);
    if (g_ascii_string_to_unsigned(number, 10, 0, SLOW_MAX, &fault->number, NULL))
        rest = behind;
    else if (fault->kind == SLOW)
        return FALSE;
    fault->message = g_strdup(rest);
    return *fault->op && (*rest == '\0' || fault->kind <= BROKEN);
}

static gboolean
has_countdown(const Fault *fault)
{
    return fault->kind != SLOW && fault->number > 0;
}

/* The line as it must read after it took effect once; NULL when it is used up. */
static char *
counted_down(const Fault *fault)
{
    if (fault->number == 1)
        return NULL;
    g_autofree char *line = g_strdup_printf("%s %s %" G_GUINT64_FORMAT " %s", kind_words[fault->kind], fault->op,
                                            fault->number - 1, fault->message);
    return g_strdup(g_strchomp(line));
}

/* Takes the faults that apply to op from the lines; TRUE in *ret_changed when a countdown changed them. */
static gboolean
judge_lines(GPtrArray *lines, const char *op, Verdict *verdict, gboolean *ret_changed, GError **error)
{
    for (guint i = 0; i < lines->len && verdict->end.kind == NOTHING; i++) {
        const char *line = lines->pdata[i];
        if (*line == '\0' || *line == '#')
            continue;
        g_auto(Fault) fault = { 0 };
        if (!fault_parse(line, &fault)) {
            g_set_error(error, WEFT_ERROR, WEFT_ERROR_INVALID,
                        "line %u is not understood: %s; write fail, invalid, broken, slow, hang or lost as in faults.h", i + 1,
                        line);
            return FALSE;
        }
        if (strcmp(fault.op, "*") != 0 && strcmp(fault.op, op) != 0)
            continue;
        if (fault.kind == SLOW) {
            verdict->milliseconds += fault.number;
            continue;
        }
        if (has_countdown(&fault)) {
            g_free(lines->pdata[i]);
            lines->pdata[i] = counted_down(&fault);
            *ret_changed = TRUE;
        }
        verdict->end = fault;
        fault = (Fault){ 0 };
    }
    return TRUE;
}

static gboolean
write_lines(const char *path, GPtrArray *lines, GError **error)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < lines->len; i++)
        if (lines->pdata[i])
            g_string_append_printf(text, "%s\n", (const char *)lines->pdata[i]);
    return weft_file_replace(path, text->str, text->len, FALSE, error);
}

static gboolean
judge_locked(const char *path, const char *op, Verdict *verdict, GError **error)
{
    g_autofree char *text = weft_file_read(path, FILE_MAX, NULL, error);
    if (!text)
        return FALSE;
    g_auto(GStrv) split = g_strsplit(g_strchomp(text), "\n", -1);
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(g_free);
    for (char **line = split; *line; line++)
        g_ptr_array_add(lines, g_strdup(g_strstrip(*line)));
    gboolean changed = FALSE;
    return judge_lines(lines, op, verdict, &changed, error) && (!changed || write_lines(path, lines, error));
}

/* The file is replaced at each countdown, so a lock counts only if it is on the file that now has the name.
 * Returns the descriptor, or -1 when there is no file. */
static int
open_locked(const char *path)
{
    for (;;) {
        struct stat mine, named;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            return -1;
        while (flock(fd, LOCK_EX) < 0 && errno == EINTR)
            continue;
        if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 && mine.st_ino == named.st_ino && mine.st_dev == named.st_dev)
            return fd;
        close(fd);
    }
}

static gboolean
judge_file(const char *path, const char *op, Verdict *verdict, GError **error)
{
    int fd = open_locked(path);
    if (fd < 0)
        return TRUE;
    g_autoptr(GError) problem = NULL;
    gboolean ok = judge_locked(path, op, verdict, &problem);
    close(fd);
    if (ok || g_error_matches(problem, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))
        return TRUE;
    g_propagate_prefixed_error(error, g_steal_pointer(&problem), "fault file %s: ", path);
    return FALSE;
}

/* Waits for the deadline (monotonic; -1: none) or the cancellation, whichever comes first. */
static gboolean
wait_until(gint64 deadline, const char *op, GCancellable *cancellable, GError **error)
{
    GPollFD fd = { .fd = -1 };
    gboolean pollable = g_cancellable_make_pollfd(cancellable, &fd);
    gint64 left = 0;
    while (!g_cancellable_is_cancelled(cancellable)) {
        left = deadline < 0 ? -1 : (deadline - g_get_monotonic_time() + 999) / 1000;
        if (deadline >= 0 && left <= 0)
            break;
        g_poll(&fd, pollable, (gint)MIN(left, G_MAXINT));
    }
    if (pollable)
        g_cancellable_release_fd(cancellable);
    if (!g_cancellable_is_cancelled(cancellable))
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_TIMEOUT, "%s was given up before it ended", op);
    return FALSE;
}

static const WeftErrorCode codes[] = {
    [FAIL] = WEFT_ERROR_UNAVAILABLE, [INVALID] = WEFT_ERROR_INVALID, [BROKEN] = WEFT_ERROR_FAILED
};

static gboolean
suffer(const char *op, const Verdict *verdict, GCancellable *cancellable, GError **error)
{
    if (verdict->milliseconds > 0 &&
        !wait_until(g_get_monotonic_time() + (gint64)verdict->milliseconds * 1000, op, cancellable, error))
        return FALSE;
    const Fault *end = &verdict->end;
    switch (end->kind) {
    case HANG:
        return wait_until(-1, op, cancellable, error);
    case LOST:
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_UNAVAILABLE, "%s: no answer", op);
        return FALSE;
    case FAIL:
    case INVALID:
    case BROKEN:
        g_set_error(error, WEFT_ERROR, (int)codes[end->kind], "%s: %s", op, *end->message ? end->message : "told to fail");
        return FALSE;
    default:
        return TRUE;
    }
}

gboolean
weft_faults_pass(const char *op, const char *const *files, GCancellable *cancellable, GError **error)
{
    Verdict verdict = { 0 };
    gboolean ok = TRUE;
    for (guint i = g_strv_length((char **)files); ok && i > 0 && verdict.end.kind == NOTHING; i--)
        ok = judge_file(files[i - 1], op, &verdict, error);
    ok = ok && suffer(op, &verdict, cancellable, error);
    fault_clear(&verdict.end);
    return ok;
}
