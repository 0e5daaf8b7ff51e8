/* What every hypervisor driver must do. A driver's program describes itself by a fixture and runs the suite. */
#pragma once

#include "hypervisor.h"

typedef struct WeftHypervisorFixture {
    const char *name;
    /* A fresh world with two hosts and no domains; what it returns is for the others. */
    gpointer (*create)(void);
    /* A driver on that world: may be called again, as weftd does after it was killed. */
    WeftHypervisor *(*open)(gpointer world);
    void (*destroy)(gpointer world);
    WeftHostAddress hosts[2];
    /* A definition that the driver can start, with weft's mark; other definitions by other memory. */
    char *(*definition)(const char *node, guint memory_mib);
    char *(*device)(void); /* that can be plugged into it, with an alias */
    /* A device of a definition: the domain's own disk, over a raw image. */
    char *(*disk)(const char *node, const char *digest);
    /* Its guest writes this byte there, and what it finds there. */
    void (*write)(gpointer world, const char *host, const char *domain, char byte);
    gboolean (*has)(gpointer world, const char *host, const char *domain, char byte);
    gboolean lets_go;  /* its guests let go of what is unplugged */
    guint crowd;       /* domains at once where it is about many */
    gboolean tells;    /* of changes on its hosts */
    gboolean has_hook; /* its hosts run weft-hook, or say why not */
    /* What comes out of a running domain's stream, after something was written to it or by itself. hello NULL: nothing. */
    WeftChannel hello_channel;
    const char *ask, *hello;
    gsize ask_length, hello_length;

    /* Those that a driver lacks are NULL, and their cases are skipped. */
    void (*fault)(gpointer world, const char *host, const char *line);        /* as in faults.h; NULL: none any more */
    char *(*image_sum)(gpointer world, const char *host, const char *digest); /* SHA-256 of what is there under that name */
    /* A file of the pool, which is there; NULL: there is none. */
    void (*put_file)(gpointer world, const char *host, const char *name, const char *text);
    char *(*file_text)(gpointer world, const char *host, const char *name);
    void (*add_foreign)(gpointer world, const char *host, const char *name);
    void (*end_domain)(gpointer world, const char *host, const char *name); /* it stops by itself and stays defined */
    void (*reboot)(gpointer world, const char *host, const char *name);     /* its guest begins anew by itself */
} WeftHypervisorFixture;

void weft_hypervisor_contract_add(const WeftHypervisorFixture *fixture);
/* g_test_run() beside a main loop, on which drivers tell what they hear. */
int weft_hypervisor_contract_run(void);

#define OK (-1)
/* That a call had this outcome: OK, or an error of this code. Frees the error. */
void expect(gboolean ok, GError *error, int code);
