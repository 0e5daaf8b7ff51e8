#include "works.h"

#include "errors.h"
#include "request.h"

#define WORKS_MAX 4 /* of one principal */

struct WeftWorks {
    GQueue queue; /* Work; the first has the next step */
    guint source;
};

typedef struct {
    WeftRequest *request; /* borrowed: it cancels its work before it goes */
    GSourceFunc step;
    gpointer data;
    GDestroyNotify free_data;
} Work;

static void
work_free(Work *work)
{
    work->free_data(work->data);
    g_free(work);
}

WeftWorks *
weft_works_new(void)
{
    return g_new0(WeftWorks, 1);
}

void
weft_works_free(WeftWorks *works)
{
    if (!works)
        return;
    g_assert(g_queue_is_empty(&works->queue));
    g_clear_handle_id(&works->source, g_source_remove);
    g_free(works);
}

static gboolean
take_step(gpointer data)
{
    WeftWorks *works = data;
    Work *work = g_queue_pop_head(&works->queue);
    if (work && work->step(work->data))
        g_queue_push_tail(&works->queue, work);
    else if (work)
        work_free(work);
    if (!g_queue_is_empty(&works->queue))
        return G_SOURCE_CONTINUE;
    works->source = 0;
    return G_SOURCE_REMOVE;
}

static guint
count(const WeftWorks *works, const char *account)
{
    guint n = 0;
    for (const GList *link = works->queue.head; link; link = link->next)
        n += strcmp(((const Work *)link->data)->request->account, account) == 0;
    return n;
}

gboolean
weft_works_add(WeftRequest *request, GSourceFunc step, gpointer data, GDestroyNotify free_data, GError **error)
{
    WeftWorks *works = request->works;
    if (count(works, request->account) >= WORKS_MAX) {
        free_data(data);
        g_set_error(error, WEFT_ERROR, WEFT_ERROR_BUSY, "%d of your requests of this kind are being answered; try again later",
                    WORKS_MAX);
        return FALSE;
    }
    Work *work = g_new(Work, 1);
    *work = (Work){ request, step, data, free_data };
    g_queue_push_tail(&works->queue, work);
    if (!works->source)
        works->source = g_idle_add_full(G_PRIORITY_DEFAULT, take_step, works, NULL);
    return TRUE;
}

void
weft_works_cancel(WeftRequest *request)
{
    GQueue *queue = &request->works->queue;
    for (GList *link = queue->head, *next; link; link = next) {
        Work *work = link->data;
        next = link->next;
        if (work->request != request)
            continue;
        g_queue_delete_link(queue, link);
        work_free(work);
    }
}
