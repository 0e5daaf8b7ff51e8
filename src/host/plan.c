#include "plan.h"

#include "failpoint.h"
#include "size.h"
#include "sysfs.h"

static const char *const state_words[] = {
    [WEFT_STEP_KEPT] = "kept",       [WEFT_STEP_PLANNED] = "planned", [WEFT_STEP_DONE] = "done",
    [WEFT_STEP_REFUSED] = "refused", [WEFT_STEP_FAILED] = "failed",   [WEFT_STEP_LEFT] = "left",
};

static void
step_free(gpointer data)
{
    WeftStep *step = data;
    g_free(step->item);
    g_free(step->what);
    g_free(step->remedy);
    g_free(step->path);
    g_free(step->value);
    g_free(step->hint);
    g_free(step);
}

void
weft_plan_free(WeftPlan *plan)
{
    if (!plan)
        return;
    g_ptr_array_unref(plan->steps);
    g_free(plan);
}

WeftPlan *
weft_plan_new(const WeftHook *hook, const WeftHostWish *wish, gboolean modprobe)
{
    WeftPlan *plan = g_new0(WeftPlan, 1);
    plan->hook = hook;
    plan->modprobe = modprobe;
    plan->steps = g_ptr_array_new_with_free_func(step_free);
    weft_plan_pages(plan, wish); /* first: memory is in fewer pieces */
    weft_plan_adapters(plan, wish);
    return plan;
}

char *
weft_item_adapter(const char *name)
{
    return g_strdup_printf("adapter %s", name);
}

char *
weft_item_pages(guint64 size, guint node)
{
    g_autofree char *words = weft_size_format(size);
    return g_strdup_printf("pages %s node %u", words, node);
}

/* --- making it --- */

static WeftStep *
add_step(WeftPlan *plan, const char *item, WeftStepState state, char *what)
{
    WeftStep *step = g_new0(WeftStep, 1);
    step->item = g_strdup(item);
    step->state = state;
    step->what = what;
    g_ptr_array_add(plan->steps, step);
    return step;
}

WeftStep *
weft_plan_add(WeftPlan *plan, const char *item, WeftStepState state, const char *what, ...)
{
    va_list args;
    va_start(args, what);
    WeftStep *step = add_step(plan, item, state, g_strdup_vprintf(what, args));
    va_end(args);
    return step;
}

void
weft_plan_refuse(WeftPlan *plan, const char *item, const char *remedy, const char *what, ...)
{
    va_list args;
    va_start(args, what);
    add_step(plan, item, WEFT_STEP_REFUSED, g_strdup_vprintf(what, args))->remedy = g_strdup(remedy);
    va_end(args);
}

static gboolean
act_write(const WeftHook *hook, const WeftStep *step, GError **error)
{
    return weft_sysfs_set(step->path, step->value, NULL, error);
}

WeftStep *
weft_plan_write(WeftPlan *plan, const char *item, const char *point, char *what, char *path, char *value)
{
    WeftStep *step = add_step(plan, item, WEFT_STEP_PLANNED, what);
    step->point = point;
    step->act = act_write;
    step->path = path;
    step->value = value;
    return step;
}

/* --- doing it --- */

WeftStepState
weft_plan_state(const WeftPlan *plan, const char *item)
{
    WeftStepState worst = WEFT_STEP_KEPT;
    for (guint i = 0; i < plan->steps->len; i++) {
        const WeftStep *step = g_ptr_array_index(plan->steps, i);
        if (g_str_equal(step->item, item))
            worst = MAX(worst, step->state);
    }
    return worst;
}

static void
run_step(const WeftPlan *plan, WeftStep *step)
{
    g_autoptr(GError) error = NULL;
    weft_failpoint_edge(step->point, "before");
    gboolean ok = step->act(plan->hook, step, &error);
    weft_failpoint_edge(step->point, "after");
    step->state = ok ? WEFT_STEP_DONE : WEFT_STEP_FAILED;
    if (!ok) {
        g_autofree char *what = g_steal_pointer(&step->what);
        step->what = g_strconcat(what, ": ", error->message, NULL);
    }
}

void
weft_plan_run(WeftPlan *plan)
{
    for (guint i = 0; i < plan->steps->len; i++) {
        WeftStep *step = g_ptr_array_index(plan->steps, i);
        if (step->state != WEFT_STEP_PLANNED)
            continue;
        if (weft_plan_state(plan, step->item) > WEFT_STEP_REFUSED)
            step->state = WEFT_STEP_LEFT;
        else
            run_step(plan, step);
    }
}

json_t *
weft_plan_to_json(const WeftPlan *plan)
{
    json_t *list = json_array();
    for (guint i = 0; i < plan->steps->len; i++) {
        const WeftStep *step = g_ptr_array_index(plan->steps, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s?}", "item", step->item, "state", state_words[step->state],
                                              "what", step->what, "remedy", step->remedy));
    }
    return list;
}
