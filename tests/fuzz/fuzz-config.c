/* weft.yaml: whatever it says, it is taken or refused with the file's name. */
#include "fuzz.h"

#include "config.h"

#include <sys/mman.h>
#include <unistd.h>

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GError *error = NULL;
    int fd = memfd_create("weft.yaml", MFD_CLOEXEC);
    fuzz_promise(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    g_autofree char *path = g_strdup_printf("/proc/self/fd/%d", fd);
    g_autoptr(WeftConfig) config = weft_config_load(path, &error);
    close(fd);
    if (!config) {
        fuzz_promise(strstr(error->message, path));
        fuzz_check_refusal(error);
        return 0;
    }
    fuzz_promise(config->fabrics->len == config->managers->len && config->store_path && config->api.socket_path);
    for (guint i = 0; i < config->hosts->len; i++)
        fuzz_promise(*((const WeftHost *)config->hosts->pdata[i])->name);
    return 0;
}
