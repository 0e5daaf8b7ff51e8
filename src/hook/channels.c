#include "channels.h"

#include "errors.h"
#include "sysfs.h"
#include "xml.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of a socket belongs to QEMU's user: whatever else lies there under that name keeps its owner. */
static gboolean
take_end(const WeftHook *hook, const char *end, GError **error)
{
    g_autofree char *path = weft_sysfs_path(hook, "%s", end);
    struct stat found;
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return TRUE;
    gboolean ok = fd >= 0 && fstat(fd, &found) == 0 &&
                  ((!S_ISSOCK(found.st_mode) && !S_ISCHR(found.st_mode)) || fchownat(fd, "", 0, 0, AT_EMPTY_PATH) == 0);
    if (!ok)
        weft_error_refuse(error, WEFT_ERROR_FAILED, "cannot make %s, through which others could talk to the node, root's: %s",
                          path, g_strerror(errno));
    if (fd >= 0)
        close(fd);
    return ok;
}

gboolean
weft_channels_take(const WeftHook *hook, const char *xml, GError **error)
{
    static const char *const kinds[] = { "channel", "serial", "console" };
    g_autoptr(xmlDoc) doc = weft_xml_parse(xml, "domain", error);
    gboolean ok = doc != NULL;
    const xmlNode *devices = doc ? weft_xml_child(xmlDocGetRootElement(doc), "devices") : NULL;
    for (guint i = 0; i < G_N_ELEMENTS(kinds); i++) {
        for (const xmlNode *node = weft_xml_child(devices, kinds[i]); ok && node; node = weft_xml_next(node, kinds[i])) {
            g_autofree char *end = weft_xml_get(weft_xml_child(node, "source"), "path");
            ok = !end || take_end(hook, end, error);
        }
    }
    return ok;
}
