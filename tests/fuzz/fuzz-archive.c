/* A file that somebody gives as an exported checkpoint. Of what is taken each member lies within the file, in order, and is
 * called as a digest is. */
#include "fuzz.h"

#include "checkpoint-archive.h"

#include <sys/mman.h>
#include <unistd.h>

static void
check_members(const GPtrArray *members, guint64 size)
{
    guint64 end = 0;
    fuzz_promise(members->len > 0);
    for (guint i = 0; i < members->len; i++) {
        const WeftArchiveMember *member = members->pdata[i];
        fuzz_promise(member->offset >= end + WEFT_ARCHIVE_BLOCK && member->offset <= size);
        fuzz_promise(member->size <= size - member->offset);
        fuzz_promise(i == 0 || strspn(member->name, "0123456789abcdef") == strlen(member->name));
        end = member->offset + member->size;
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("archive", MFD_CLOEXEC);
    fuzz_promise(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    g_autoptr(GPtrArray) members = weft_archive_members(fd);
    if (members) {
        check_members(members, size);
        json_auto_t *manifest = weft_archive_manifest(fd, members);
        fuzz_promise(!manifest || json_is_object(manifest));
    }
    close(fd);
    return 0;
}
