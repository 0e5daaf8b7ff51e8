#include "clock.h"
#include "fields.h"
#include "handlers.h"
#include "request.h"
#include "rounds.h"

static void
show_time(json_t *view, const char *name)
{
    g_autofree char *text = weft_clock_format(json_integer_value(json_object_get(view, name)));
    json_object_set_new(view, name, json_string(text));
}

static void
answer(WeftRequest *request, const WeftRoundItem *items, guint n)
{
    if (items[0].error) {
        weft_request_fail(request, items[0].error);
        return;
    }
    json_t *view = json_copy(items[0].report);
    show_time(view, "time");
    show_time(view, "wall");
    weft_request_reply(request, weft_reply_new(200, view));
}

/* word: taken over; NULL: none. */
static gboolean
ask(WeftRequest *request, WeftGateAsk question, char *word, GError **error)
{
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(names, word);
    return weft_round_ask(request, WEFT_SHARE_QUESTIONS, question, names, answer, error);
}

gboolean
weft_handle_clock(WeftRequest *request, GError **error)
{
    return ask(request, WEFT_GATE_ASK(request, clock), NULL, error);
}

gboolean
weft_handle_clock_accept(WeftRequest *request, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    gint64 wall = weft_fields_time(&f, "wall", -1);
    if (!weft_fields_end(&f, error))
        return FALSE;
    json_t *word = json_pack("{s:s, s:I}", "who", request->principal->name, "wall", (json_int_t)wall);
    char *text = json_dumps(word, JSON_COMPACT);
    json_decref(word);
    return ask(request, WEFT_GATE_ASK(request, accept_clock), text, error);
}
