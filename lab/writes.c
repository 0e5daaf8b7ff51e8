/* Part of libweftfold.so. Before QEMU 9.0 an emulated guest loses writes while it is migrated: at the end of a pass QEMU
 * forgets which pages were written to, but not that its processors need no longer tell of writes to them, so that later writes
 * go unnoticed until the guest happens to flush its TLB (QEMU's commit 03bfc2188f, "physmem: Fix migration dirty bitmap
 * coherency with TCG memory access", mended it). KVM has no part in that. Lab hosts run what Debian has, so this does what was
 * missing: it listens for the end of each pass, before anything of the next one is read, and flushes.
 *
 * Only in QEMU 7.2, whose structures are known here. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define FIND(name) __typeof__(name) *find_##name = (__typeof__(name) *)dlsym(RTLD_DEFAULT, #name)

typedef struct CPUState CPUState;
typedef struct AddressSpace AddressSpace;
typedef struct GMainContext GMainContext;
typedef int gboolean;

typedef struct VersionInfo {
    const struct {
        int64_t major, minor, micro;
    } * qemu;
    char *package;
} VersionInfo;

/* QEMU 7.2, include/exec/memory.h */
typedef struct MemoryListener {
    void (*others_before[12])(void);
    void (*log_global_after_sync)(struct MemoryListener *listener);
    void (*others_after[4])(void);
    unsigned priority;
    const char *name;
    AddressSpace *address_space;
    void *link[2], *link_as[2];
} MemoryListener;

gboolean g_main_context_acquire(GMainContext *context);
extern bool tcg_allowed;
VersionInfo *qmp_query_version(void **error);
bool qemu_mutex_iothread_locked(void);
CPUState *qemu_get_cpu(int number);
void run_on_cpu(CPUState *cpu, void (*run)(CPUState *cpu, uint64_t data), uint64_t data);
void tlb_flush(CPUState *cpu);
void memory_listener_register(MemoryListener *listener, AddressSpace *space);

static void
flush(CPUState *cpu, uint64_t data)
{
    FIND(tlb_flush);
    find_tlb_flush(cpu);
}

/* QEMU's own listener waits for each processor in the same way. */
static void
flush_all(MemoryListener *listener)
{
    FIND(qemu_get_cpu);
    FIND(run_on_cpu);
    CPUState *cpu;
    for (int i = 0; (cpu = find_qemu_get_cpu(i)); i++)
        find_run_on_cpu(cpu, flush, 0);
}

static MemoryListener listener = { .log_global_after_sync = flush_all, .name = "weft-lab" };

/* TRUE: nothing is left to be done. */
static bool
mend(void)
{
    FIND(tcg_allowed);
    FIND(qmp_query_version);
    FIND(qemu_mutex_iothread_locked);
    FIND(qemu_get_cpu);
    FIND(memory_listener_register);
    AddressSpace *space = dlsym(RTLD_DEFAULT, "address_space_memory");
    if (!find_tcg_allowed || !find_qmp_query_version || !find_qemu_mutex_iothread_locked || !space)
        return true; /* not QEMU, or another one */
    if (getpid() != gettid() || !find_qemu_mutex_iothread_locked() || !find_qemu_get_cpu(0))
        return false; /* its machine is not there yet */
    const VersionInfo *version = find_qmp_query_version(NULL);
    if (*find_tcg_allowed && version->qemu->major == 7 && version->qemu->minor == 2)
        find_memory_listener_register(&listener, space);
    return true;
}

/* What QEMU's main thread calls in each round of its loop, with its lock held. */
EXPORT gboolean
g_main_context_acquire(GMainContext *context)
{
    static __typeof__(&g_main_context_acquire) real;
    static bool mended;
    if (!real)
        real = (__typeof__(real))dlsym(RTLD_NEXT, "g_main_context_acquire");
    if (!__atomic_load_n(&mended, __ATOMIC_RELAXED) && mend())
        __atomic_store_n(&mended, true, __ATOMIC_RELAXED);
    return real(context);
}
