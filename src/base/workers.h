/* Threads that compute for the main thread, a bounded number. thread: main, but for what the tasks run. */
#pragma once

#include <glib.h>

typedef struct WeftWorkers WeftWorkers;

typedef struct WeftTask {
    void (*run)(gpointer data);  /* on a worker; touches nothing that the main thread may change */
    void (*done)(gpointer data); /* on the main thread, later; once, unless the workers were freed before */
    GDestroyNotify free_data;    /* last of all, on the main thread */
    gpointer data;
} WeftTask;

/* nice: of the threads; 0: as the main thread's. */
WeftWorkers *weft_workers_new(guint threads, int nice);
/* Waits for what runs; of the rest nothing is run, and nobody is told. */
void weft_workers_free(WeftWorkers *workers);
void weft_workers_push(WeftWorkers *workers, const WeftTask *task);
