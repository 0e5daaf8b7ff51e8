#include "wakeup.h"

#include "watchdog.h"

typedef struct Wakeup {
    GSource base;
    void (*run)(gpointer data);
    gpointer data;
} Wakeup;

static gboolean
dispatch(GSource *source, GSourceFunc callback, gpointer data)
{
    const Wakeup *wakeup = (const Wakeup *)source;
    /* Before it runs: whoever asks meanwhile gets another turn. */
    g_source_set_ready_time(source, -1);
    wakeup->run(wakeup->data);
    weft_watchdog_mark("events of the main loop", NULL); /* what others do next is not its fault */
    return G_SOURCE_CONTINUE;
}

GSource *
weft_wakeup_new(void (*run)(gpointer data), gpointer data)
{
    static GSourceFuncs functions = { .dispatch = dispatch };
    GSource *source = g_source_new(&functions, sizeof(Wakeup));
    ((Wakeup *)source)->run = run;
    ((Wakeup *)source)->data = data;
    g_source_attach(source, NULL);
    return source;
}

void
weft_wakeup_ask(GSource *wakeup)
{
    g_source_set_ready_time(wakeup, 0);
}
