#include "progress.h"

#include "clock.h"
#include "table.h"

#include <stdio.h>

struct WeftProgress {
    char *what;
    char *shown;
    gint64 start;
    gboolean live;
};

WeftProgress *
weft_progress_new(const char *what)
{
    WeftProgress *progress = g_new0(WeftProgress, 1);
    progress->what = g_strdup(what);
    progress->start = g_get_monotonic_time();
    progress->live = weft_text_is_live(stderr);
    return progress;
}

void
weft_progress_free(WeftProgress *progress)
{
    if (!progress)
        return;
    if (progress->live && progress->shown)
        fputs("\r\033[K", stderr);
    g_free(progress->what);
    g_free(progress->shown);
    g_free(progress);
}

static void
show_live(WeftProgress *progress, const char *text)
{
    gint64 seconds = (g_get_monotonic_time() - progress->start) / G_TIME_SPAN_SECOND;
    g_autofree char *elapsed = weft_duration_format(MAX(seconds, 1) * G_TIME_SPAN_SECOND);
    g_autofree char *line = g_strdup_printf("%s: %s (%s)", progress->what, text, elapsed);
    gsize columns = weft_text_columns(stderr);
    g_autofree char *fitting = weft_text_fit(line, (columns ? columns : 80) - 1);
    fprintf(stderr, "\r%s\033[K", fitting);
}

void
weft_progress_show(WeftProgress *progress, const char *text)
{
    if (progress->live)
        show_live(progress, text);
    else if (g_strcmp0(text, progress->shown) != 0)
        fprintf(stderr, "%s: %s\n", progress->what, text);
    g_free(progress->shown);
    progress->shown = g_strdup(text);
}

gint64
weft_progress_due(const WeftProgress *progress)
{
    return progress->live ? g_get_monotonic_time() + G_TIME_SPAN_SECOND : G_MAXINT64;
}
