#include "errors.h"
#include "driver.h"
#include "hook.h"

#include <errno.h>
#include <string.h>

/* What libvirt's codes mean to weft; all others are FAILED. */
/* clang-format off */
static const struct {
    int code;
    WeftErrorCode weft;
} meanings[] = {
    { VIR_ERR_NO_CONNECT,          WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_INVALID_CONN,        WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_UNKNOWN_HOST,        WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_RPC,                 WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_GNUTLS_ERROR,        WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_LIBSSH,              WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_SSH,                 WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_AUTH_FAILED,         WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_AUTH_CANCELLED,      WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_AUTH_UNAVAILABLE,    WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_OPERATION_TIMEOUT,   WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_AGENT_UNRESPONSIVE,  WEFT_ERROR_UNAVAILABLE },
    { VIR_ERR_RESOURCE_BUSY,       WEFT_ERROR_BUSY },
    { VIR_ERR_NO_DOMAIN,           WEFT_ERROR_NOT_FOUND },
    { VIR_ERR_NO_NETWORK,          WEFT_ERROR_NOT_FOUND },
    { VIR_ERR_NO_STORAGE_POOL,     WEFT_ERROR_NOT_FOUND },
    { VIR_ERR_NO_STORAGE_VOL,      WEFT_ERROR_NOT_FOUND },
    { VIR_ERR_NO_NODE_DEVICE,      WEFT_ERROR_NOT_FOUND },
    { VIR_ERR_DOM_EXIST,           WEFT_ERROR_CONFLICT },
    { VIR_ERR_NETWORK_EXIST,       WEFT_ERROR_CONFLICT },
    { VIR_ERR_STORAGE_VOL_EXIST,   WEFT_ERROR_CONFLICT },
    { VIR_ERR_STORAGE_POOL_BUILT,  WEFT_ERROR_CONFLICT },
    { VIR_ERR_NO_MEMORY,           WEFT_ERROR_EXHAUSTED },
    { VIR_ERR_XML_ERROR,           WEFT_ERROR_INVALID },
    { VIR_ERR_XML_DETAIL,          WEFT_ERROR_INVALID },
    { VIR_ERR_XML_INVALID_SCHEMA,  WEFT_ERROR_INVALID },
    { VIR_ERR_PARSE_FAILED,        WEFT_ERROR_INVALID },
    { VIR_ERR_OS_TYPE,             WEFT_ERROR_INVALID },
    { VIR_ERR_CONFIG_UNSUPPORTED,  WEFT_ERROR_INVALID },
    { VIR_ERR_ARGUMENT_UNSUPPORTED, WEFT_ERROR_INVALID },
    { VIR_ERR_INVALID_ARG,         WEFT_ERROR_INVALID },
    { VIR_ERR_NO_SUPPORT,          WEFT_ERROR_INVALID },
};
/* clang-format on */

static gboolean
is_full(const virError *failure)
{
    if (failure->code == VIR_ERR_SYSTEM_ERROR && (failure->int1 == ENOSPC || failure->int1 == EDQUOT))
        return TRUE;
    /* qemu-img's own words. */
    return failure->message && strstr(failure->message, "No space left on device");
}

/* A socket to libvirtd that breaks is a system error, or one of libvirt's insides. */
static gboolean
is_about_connection(const virError *failure)
{
    if (failure->domain == VIR_FROM_RPC || failure->domain == VIR_FROM_REMOTE)
        return failure->code == VIR_ERR_SYSTEM_ERROR || failure->code == VIR_ERR_INTERNAL_ERROR;
    return failure->code == VIR_ERR_INTERNAL_ERROR && failure->message &&
           (strstr(failure->message, "client socket is closed") || strstr(failure->message, "received hangup event"));
}

static WeftErrorCode
code_of(const virError *failure)
{
    if (is_full(failure))
        return WEFT_ERROR_EXHAUSTED;
    if (is_about_connection(failure))
        return WEFT_ERROR_UNAVAILABLE;
    for (gsize i = 0; i < G_N_ELEMENTS(meanings); i++) {
        if (meanings[i].code == failure->code)
            return meanings[i].weft;
    }
    return WEFT_ERROR_FAILED;
}

/* libvirt wraps a hook's standard error: "Hook script execution failed: internal error: Child process (…
 * /etc/libvirt/hooks/qemu weft-1a-1 prepare begin -) unexpected exit status 1: TEXT", in the language of its service. What
 * weft's own says is found in any. */
char *
weft_vir_hook_text(const char *message)
{
    const char *own = strstr(message, WEFT_HOOK_SAYS);
    const char *hook = strstr(message, "/hooks/");
    const char *status = hook ? strstr(hook, ") unexpected ") : NULL;
    const char *text = status ? strstr(status, ": ") : NULL;
    if (own)
        return g_strstrip(g_strdup(own));
    return text ? g_strstrip(g_strdup(text + 2)) : NULL;
}

/* What libvirt says when it is not let in tells only those who know it. */
/* clang-format off */
static const struct {
    const char *words, *meaning;
} explained[] = {
    { "Unable to read TLS confirmation",
      "the host does not take this certificate: it is of another authority, or not in tls_allowed_dn_list there" },
    { "Failed to verify peer's certificate",
      "the host's certificate lacks the name or address in the URI, is out of date, or is of another authority" },
    { "Host key verification failed",
      "the host's key is not in /etc/ssh/ssh_known_hosts, or is another one" },
};
/* clang-format on */

char *
weft_vir_explain(const char *message)
{
    g_autoptr(GString) text = g_string_new(message);
    for (gsize i = 0; i < G_N_ELEMENTS(explained); i++) {
        if (strstr(message, explained[i].words))
            g_string_append_printf(text, " (%s)", explained[i].meaning);
    }
    g_string_replace(text, "\r", "", 0); /* ssh's */
    g_string_replace(text, "\n", "; ", 0);
    return g_string_free(g_steal_pointer(&text), FALSE);
}

gboolean
weft_vir_failed_with(int code)
{
    const virError *failure = virGetLastError();
    return failure && failure->code == code;
}

static GPrivate kept = G_PRIVATE_INIT((GDestroyNotify)virFreeError);

void
weft_vir_keep_error(void)
{
    g_private_replace(&kept, virSaveLastError());
}

gboolean
weft_vir_tell_error(GError **error, const char *doing, ...)
{
    va_list args;
    va_start(args, doing);
    g_autofree char *what = g_strdup_vprintf(doing, args);
    va_end(args);

    const virError *failure = g_private_get(&kept);
    if (!failure || failure->code == VIR_ERR_OK)
        return weft_error_refuse(error, WEFT_ERROR_FAILED, "%s: libvirt does not say why it failed", what);
    g_autofree char *hook = failure->code == VIR_ERR_HOOK_SCRIPT_FAILED ? weft_vir_hook_text(failure->message) : NULL;
    g_autofree char *told = hook ? g_strconcat("the host's hook says: ", hook, NULL) : weft_vir_explain(failure->message);
    gboolean disowned = hook && g_str_has_prefix(hook, WEFT_HOOK_OWNER);
    return weft_error_refuse(error, disowned ? WEFT_ERROR_DENIED : code_of(failure), "%s: %s", what, told);
}

static void
ignore_error(void *data, virError *failure)
{
}

void
weft_vir_be_silent(void)
{
    virSetErrorFunc(NULL, ignore_error);
}
