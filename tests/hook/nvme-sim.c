/* LD_PRELOAD: an NVMe device with virtual functions below a folder that stands for /sys and /dev, as QEMU's hw/nvme behaves:
 * what its primary controller lets go is free after its function was reset, secondary ones take no resources while they are
 * online, and are switched on only with two queues, an interrupt and a function that is there. Each function has a namespace of
 * its own, all have the fifth, and the physical function the sixth; one that a controller does not have it does not format.
 * NVME_SIM is the file of its state; NVME_SIM_REFUSE the number of a command that it refuses, NVME_SIM_FNA how it formats. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <linux/nvme_ioctl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FUNCTIONS = 4 };
enum { NAMESPACES = FUNCTIONS + 2, LAYOUT = 0x12, PROTECTION = 0x09 };
enum { INVALID_FIELD = 0x4002, ALREADY_ATTACHED = 0x4118, PRIVATE = 0x4119, NOT_ATTACHED = 0x411a };
enum { INVALID_CONTROLLER = 0x11f, INVALID_STATE = 0x120, INVALID_NUMBER = 0x121, INVALID_RESOURCE = 0x122 };

static const guint total[] = { 8, 4 }; /* queues, interrupts */

typedef struct State {
    guint8 ready, functions, online[FUNCTIONS];
    guint16 primary[2], next[2], given[2][FUNCTIONS];
    guint8 attached[NAMESPACES]; /* a bit for each controller */
    guint8 data[NAMESPACES];     /* 0: erased */
} State;

static State
load(void)
{
    State state = { 0 };
    g_autofree char *data = NULL;
    gsize length = 0;
    if (g_file_get_contents(g_getenv("NVME_SIM"), &data, &length, NULL) && length == sizeof state)
        memcpy(&state, data, sizeof state);
    for (guint kind = 0; kind < 2 && !state.ready; kind++)
        state.primary[kind] = state.next[kind] = (guint16)total[kind];
    for (guint i = 0; i < NAMESPACES && !state.ready; i++) {
        state.attached[i] = (guint8)(i < FUNCTIONS ? 1 << (i + 1) : i == FUNCTIONS ? (1 << (FUNCTIONS + 1)) - 1 : 1);
        state.data[i] = 1;
    }
    state.ready = 1;
    return state;
}

static void
save(const State *state)
{
    g_file_set_contents(g_getenv("NVME_SIM"), (const char *)state, sizeof *state, NULL);
}

static void
switch_off(State *state)
{
    memset(state->online, 0, sizeof state->online);
    memset(state->given, 0, sizeof state->given);
}

/* --- commands --- */

static void
put16(guint8 *page, guint at, guint value)
{
    page[at] = (guint8)value;
    page[at + 1] = (guint8)(value >> 8);
}

static void
identify_namespaces(const State *state, guint what, guint namespace, guint8 *page)
{
    guint n = 0;
    for (guint i = namespace; what == 0x10 && i < NAMESPACES; i++)
        page[4 * n++] = (guint8)(i + 1);
    for (guint i = 0; what == 0x12 && i <= FUNCTIONS; i++)
        if (state->attached[namespace - 1] & 1 << i)
            put16(page, 2 * ++n, i);
    if (what == 0x12)
        put16(page, 0, n);
    if (what == 0x00) {
        page[26] = LAYOUT;
        page[29] = PROTECTION;
    }
    if (what == 0x01) {
        const char *fna = g_getenv("NVME_SIM_FNA");
        page[256] = 0x0a;
        page[524] = (guint8)(fna ? g_ascii_strtoull(fna, NULL, 0) : 0);
    }
}

static int
identify(const State *state, guint what, guint namespace, guint8 *page)
{
    memset(page, 0, 4096);
    if ((what == 0x00 || what == 0x12) && (namespace < 1 || namespace > NAMESPACES))
        return INVALID_FIELD;
    identify_namespaces(state, what, namespace, page);
    for (guint kind = 0; what == 0x14 && kind < 2; kind++) {
        put16(page, 32 + 32 * kind, total[kind]);
        put16(page, 40 + 32 * kind, state->primary[kind]);
        put16(page, 44 + 32 * kind, total[kind]);
    }
    if (what == 0x15)
        page[0] = FUNCTIONS;
    for (guint i = 0; what == 0x15 && i < FUNCTIONS; i++) {
        guint8 *entry = page + 32 * (i + 1);
        put16(entry, 0, i + 1);
        entry[4] = state->online[i];
        put16(entry, 8, i + 1);
        put16(entry, 10, state->given[0][i]);
        put16(entry, 12, state->given[1][i]);
    }
    return 0;
}

static int
assign(State *state, guint kind, guint i, guint number)
{
    guint used = state->primary[kind];
    for (guint other = 0; other < FUNCTIONS; other++)
        used += other == i ? 0 : state->given[kind][other];
    if (state->online[i])
        return INVALID_STATE;
    if (number > total[kind])
        return INVALID_NUMBER;
    if (used + number > total[kind])
        return INVALID_RESOURCE;
    state->given[kind][i] = (guint16)number;
    return 0;
}

static int
manage(State *state, guint word, guint number)
{
    guint action = word & 0xf, kind = word >> 8 & 7, controller = word >> 16;
    if (action == 1 && controller == 0 && kind < 2) {
        state->next[kind] = (guint16)number;
        return 0;
    }
    if (controller < 1 || controller > FUNCTIONS || kind > 1)
        return INVALID_CONTROLLER;
    if (action == 8)
        return assign(state, kind, controller - 1, number);
    if (action != 9 || state->given[0][controller - 1] < 2 || !state->given[1][controller - 1] || controller > state->functions)
        return INVALID_STATE;
    state->online[controller - 1] = 1;
    return 0;
}

static int
attach(State *state, guint namespace, guint how, const guint8 *list)
{
    guint8 *attached = &state->attached[namespace - 1], bit = (guint8)(1 << list[2]);
    if (list[0] != 1 || list[2] > FUNCTIONS || how > 1)
        return INVALID_FIELD;
    if (!(*attached & bit) == (how == 1))
        return how ? NOT_ATTACHED : ALREADY_ATTACHED;
    if (how == 0 && *attached && namespace != FUNCTIONS + 1)
        return PRIVATE;
    *attached ^= bit;
    return 0;
}

/* Its layout stays, or programs find another disk. */
static int
format(State *state, guint namespace, guint word)
{
    guint erase = word >> 9 & 7;
    if (!(state->attached[namespace - 1] & 1) || (word & 0x1ff) != (LAYOUT | (PROTECTION & 7) << 5 | 1 << 8) || !erase)
        return INVALID_FIELD;
    state->data[namespace - 1] = 0;
    return 0;
}

static int
obey(State *state, const struct nvme_passthru_cmd *order)
{
    guint8 *page = (guint8 *)(guintptr)order->addr;
    const char *refused = g_getenv("NVME_SIM_REFUSE");
    if (refused && g_ascii_strtoull(refused, NULL, 0) == order->opcode)
        return INVALID_FIELD;
    if (order->opcode == 0x06)
        return identify(state, order->cdw10, order->nsid, page);
    if (order->opcode == 0x1c)
        return manage(state, order->cdw10, order->cdw11);
    if (order->nsid < 1 || order->nsid > NAMESPACES)
        return INVALID_FIELD;
    return order->opcode == 0x80 ? format(state, order->nsid, order->cdw10) : attach(state, order->nsid, order->cdw10, page);
}

int
ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    struct nvme_passthru_cmd *command = va_arg(args, void *);
    va_end(args);
    if (request != NVME_IOCTL_ADMIN_CMD) {
        errno = ENOTTY;
        return -1;
    }
    State state = load();
    int status = obey(&state, command);
    save(&state);
    return status;
}

/* --- files --- */

static gboolean
change_function(const char *folder, guint i, gboolean there)
{
    g_autofree char *link = g_strdup_printf("%s/virtfn%u", folder, i);
    g_autofree char *target = g_strdup_printf("../0000:01:00.%u", i + 1);
    g_autofree char *own = g_build_filename(folder, target, NULL);
    g_autofree char *known = g_strdup_printf("%s/../../../bus/pci/devices/0000:01:00.%u", folder, i + 1);
    g_unlink(link);
    g_unlink(known);
    g_rmdir(own);
    return !there || (symlink(target, link) == 0 && g_mkdir(own, 0755) == 0 && symlink(own, known) == 0);
}

static gboolean
change_functions(State *state, const char *path, guint number)
{
    g_autofree char *folder = g_path_get_dirname(path);
    if (number > 0 && state->functions > 0) {
        errno = EBUSY;
        return FALSE;
    }
    for (guint i = 0; i < FUNCTIONS; i++)
        if (!change_function(folder, i, i < number))
            return FALSE;
    state->functions = (guint8)number;
    switch_off(state);
    return TRUE;
}

ssize_t
write(int fd, const void *buf, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);
    g_autofree char *link = g_strdup_printf("/proc/self/fd/%d", fd);
    char path[4096] = { 0 };
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    gboolean ours = readlink(link, path, sizeof path - 1) > 0;
    if (ours && g_str_has_suffix(path, "/sriov_numvfs")) {
        State state = load();
        g_autofree char *number = g_strndup(buf, n);
        if (!change_functions(&state, path, (guint)g_ascii_strtoull(number, NULL, 10)))
            return -1;
        save(&state);
    } else if (ours && g_str_has_suffix(path, ":01:00.0/reset")) {
        State state = load();
        memcpy(state.primary, state.next, sizeof state.primary);
        switch_off(&state);
        save(&state);
    }
    if (ours && g_str_has_suffix(path, "/sriov_numvfs") && ftruncate(fd, 0) != 0)
        return -1;
    return real(fd, buf, n);
}
