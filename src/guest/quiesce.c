/* Before a node stands still, or loses devices, and afterwards. Hooks are what knows of open connections. */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define QUIESCED "run/weft/quiesced" /* "begun": hooks may have been told; "done": all have */
#define DRAIN 1000                   /* milliseconds */
#define DEVICE_SECONDS 30

struct wish {
    int64_t end;
    int needed; /* hooks */
    char *id;   /* of the node that it goes on as; NULL: as it was */
    struct text ports;
};

static int
read_wish(struct wish *ret_wish)
{
    char *text = input_read(), *rest = text;
    unsigned long seconds = WEFT_QUIESCE_SECONDS;
    *ret_wish = (struct wish){ 0 };
    for (char *line; (line = next_line(&rest));) {
        const char *key = next_word(&line), *value = next_word(&line), *guid = next_word(&line);
        if (key && value && strcmp(key, "within") == 0)
            seconds = strtoul(value, NULL, 10);
        if (key && value && strcmp(key, "hooks") == 0)
            ret_wish->needed = strcmp(value, "needed") == 0;
        if (key && value && strcmp(key, "node") == 0 && !ret_wish->id)
            ret_wish->id = strdup(value);
        if (key && guid && strcmp(key, "rail") == 0)
            text_add(&ret_wish->ports, "%s %s\n", value, guid);
    }
    free(text);
    ret_wish->end = now() + (int64_t)seconds * 1000;
    return seconds > 0 && seconds <= 3600;
}

static void
mark(const char *state)
{
    file_write(QUIESCED, state, strlen(state), 0644);
}

static int
is_marked(const char *state)
{
    char *found = file_read(QUIESCED, NULL);
    int same = found && strcmp(found, state) == 0;
    free(found);
    return same;
}

/* The last of them first, as they may rest on each other. 0: some failed, and the last line says which. */
static int
wake_hooks(const struct hooks *hooks, unsigned n, int64_t end)
{
    int ok = 1;
    for (unsigned i = n; i > 0; i--) {
        char *why = NULL;
        if (!hook_run(WEFT_QUIESCE_FOLDER, hooks->names[i - 1], "resume", end, &why)) {
            printf("%s\n", why);
            ok = 0;
        }
        free(why);
    }
    return ok;
}

/* All, or none in the end. */
static int
still_hooks(const struct hooks *hooks, int64_t end)
{
    mark("begun");
    for (unsigned i = 0; i < hooks->n; i++) {
        char *why = NULL;
        if (hook_run(WEFT_QUIESCE_FOLDER, hooks->names[i], "quiesce", end, &why))
            continue;
        wake_hooks(hooks, i + 1, now() + WEFT_QUIESCE_SECONDS * 1000);
        file_remove(QUIESCED);
        printf("%s\n", why);
        free(why);
        return 0;
    }
    mark("done");
    return 1;
}

static int
quiesce(const struct hooks *hooks, const struct wish *wish)
{
    printf("hooks %u\n", hooks->n);
    if (wish->needed && hooks->n == 0) {
        printf("there is no hook in /" WEFT_QUIESCE_FOLDER "\n");
        return 0;
    }
    if (!is_marked("done") && !still_hooks(hooks, wish->end))
        return 0;
    if (root_is_node())
        sync();
    int64_t end = now() + DRAIN < wish->end ? now() + DRAIN : wish->end;
    unsigned busy = net_drain(end);
    printf(busy ? "%u connections wait for acknowledgements\n" : "nothing is on its way\n", busy);
    return 1;
}

static int
restore_devices(const struct wish *wish)
{
    const struct node *node = server_options()->node;
    int64_t left = (wish->end - now()) / 1000;
    if (!root_is_node() || !node)
        return 1;
    net_learn_ports(&wish->ports);
    lock_await(SETUP_LOCK, left < 1 ? 1 : (unsigned)left);
    if (devices_bring_back(node, left < DEVICE_SECONDS ? (int)left : DEVICE_SECONDS))
        return 1;
    printf("a network device did not come back\n");
    return 0;
}

static int
resume(const struct hooks *hooks, const struct wish *wish, int64_t time)
{
    if (root_is_node())
        clock_set(time);
    int ok = (!wish->id || become_claim(wish->id)) & restore_devices(wish);
    if (!file_exists(QUIESCED))
        return ok;
    ok = wake_hooks(hooks, hooks->n, wish->end) && ok;
    file_remove(QUIESCED);
    return ok;
}

static void
run(const struct question *question, int back)
{
    struct wish wish;
    struct hooks hooks;
    signal(SIGHUP, SIG_IGN); /* half of it helps nobody */
    int ok = read_wish(&wish);
    hooks_list(WEFT_QUIESCE_FOLDER, &hooks);
    if (!ok)
        printf("the question makes no sense\n");
    else
        ok = back ? resume(&hooks, &wish, question->time) : quiesce(&hooks, &wish);
    hooks_free(&hooks);
    fflush(stdout);
    _exit(!ok);
}

void
quiesce_run(const struct question *question)
{
    run(question, 0);
    _exit(1);
}

void
resume_run(const struct question *question)
{
    run(question, 1);
    _exit(1);
}
