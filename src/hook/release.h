/* What becomes of a device when its node is gone, before anybody else has it: a table of steps for each kind of device
 * (release.c). Where one fails the device is in quarantine (quarantine.h), and nobody gets it until an operator has seen to it
 * and the steps succeed. They are not tried before: a dead device takes a minute to fail, and one that is bound and unbound
 * again and again takes its port along. */
#pragma once

#include "context.h"
#include "metadata.h"

#include <glib.h>

/* A device that a node has for itself. */
typedef struct WeftTaken {
    const char *pci;
    const char *pf;               /* of a virtual function: the one that it is of; NULL: the node has all of it */
    guint vf;                     /* its number */
    const WeftHookDevice *device; /* what it was given, where it is of a fabric; NULL: nothing, or nobody knows */
} WeftTaken;

WeftTaken weft_taken_device(const WeftHookDevice *device);
WeftTaken weft_taken_gpu(const char *pci);

/* May a node have it: is it there, out of quarantine, and able to do what its kind has to when the node is gone? Changes
 * nothing. */
gboolean weft_release_check(const WeftHook *hook, const WeftTaken *taken, GError **error);
/* Remembers what is compared when the node is gone. */
gboolean weft_release_note(const WeftHook *hook, const WeftTaken *taken, GError **error);
/* The node is gone. Success also where the device is. Never under the feet of a process that uses it, nor in quarantine. */
gboolean weft_release(const WeftHook *hook, const WeftTaken *taken, GError **error);
/* An operator has seen to it: the steps once more, and then it is out of quarantine. device: what it was given, if it is known;
 * without it the steps that need that are left out. */
gboolean weft_release_readmit(const WeftHook *hook, const char *pci, const WeftHookDevice *device, GError **error);
