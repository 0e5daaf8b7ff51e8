#include "guest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BEGIN "# weft: begin\n"
#define END "# weft: end\n"
#define PATH_SIZE 512

static int root = -1;
static const char *root_folder;
static int is_node; /* the root is the node's own */

/* --- texts --- */

/* A node without memory for a line of text is of no use: it is better to end, and to be started again. */
static void
grow(struct text *text, size_t more)
{
    if (text->data && text->length + more + 1 <= text->room)
        return;
    text->room = (text->length + more + 1) * 2;
    text->data = realloc(text->data, text->room);
    if (!text->data)
        abort();
}

void
text_add_bytes(struct text *text, const void *bytes, size_t count)
{
    grow(text, count);
    memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = '\0';
}

void
text_add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int needed = vsnprintf(NULL, 0, format, args);
    va_end(args);
    grow(text, (size_t)needed);
    va_start(args, format);
    vsnprintf(text->data + text->length, (size_t)needed + 1, format, args);
    va_end(args);
    text->length += (size_t)needed;
}

void
text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}

char *
next_line(char **text)
{
    char *line = *text;
    if (!line || !*line)
        return NULL;
    char *end = strchr(line, '\n');
    *text = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    return line;
}

char *
next_word(char **line)
{
    char *word = *line + strspn(*line, " \t");
    if (!*word)
        return NULL;
    size_t length = strcspn(word, " \t");
    *line = word + length + (word[length] != '\0');
    word[length] = '\0';
    return word;
}

static int
hex_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int
read_hex(const char *digits, uint8_t *ret_byte)
{
    int high = hex_of(digits[0]), low = high < 0 ? -1 : hex_of(digits[1]);
    if (low < 0)
        return 0;
    *ret_byte = (uint8_t)(high << 4 | low);
    return 1;
}

int
read_mac(const char *word, uint8_t ret_mac[6])
{
    for (unsigned i = 0; i < 6; i++, word += 3)
        if (!word || !read_hex(word, &ret_mac[i]) || word[2] != (i < 5 ? ':' : '\0'))
            return 0;
    return 1;
}

void
say(const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    int fd = is_node ? open("/dev/kmsg", O_WRONLY | O_CLOEXEC) : -1;
    dprintf(fd < 0 ? STDERR_FILENO : fd, "weft: %s\n", line);
    if (fd >= 0)
        close(fd);
}

int64_t
now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* --- files --- */

int
root_set(const char *folder)
{
    root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    root_folder = folder;
    is_node = strcmp(folder, "/") == 0;
    return root >= 0;
}

int
root_is_node(void)
{
    return is_node;
}

int
root_path(const char *path, char *ret_path, size_t size)
{
    return snprintf(ret_path, size, "%s/%s", is_node ? "" : root_folder, path) < (int)size;
}

/* Kernels before 5.9 cannot; then only a program that is executed loses them. */
void
descriptors_close(void)
{
    syscall(SYS_close_range, 3, root - 1, 0);
    syscall(SYS_close_range, root + 1, ~0u, 0);
}

static int
failed(const char *doing, const char *path)
{
    say("%s /%s: %s", doing, path, strerror(errno));
    return 0;
}

int
file_exists(const char *path)
{
    return faccessat(root, path, F_OK, 0) == 0;
}

void
file_remove(const char *path)
{
    unlinkat(root, path, 0);
}

static char *
read_all(int fd, size_t *ret_length)
{
    struct text text = { 0 };
    ssize_t n;
    do {
        grow(&text, 4096);
        n = read(fd, text.data + text.length, 4096);
        text.length += n > 0 ? (size_t)n : 0;
    } while ((n > 0 && text.length < FILE_MAX) || (n < 0 && errno == EINTR));
    if (n != 0) {
        text_free(&text);
        return NULL;
    }
    text.data[text.length] = '\0';
    if (ret_length)
        *ret_length = text.length;
    return text.data;
}

char *
file_read(const char *path, size_t *ret_length)
{
    int fd = openat(root, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a user may have made it a pipe */
    if (fd < 0)
        return NULL;
    char *content = read_all(fd, ret_length);
    close(fd);
    return content;
}

char *
input_read(void)
{
    return read_all(STDIN_FILENO, NULL);
}

int
folder_make(const char *path, unsigned mode)
{
    char part[PATH_SIZE];
    if (strlen(path) >= sizeof part)
        return 0;
    memcpy(part, path, strlen(path) + 1);
    for (char *slash = part; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdirat(root, part, 0755);
        *slash = '/';
    }
    return mkdirat(root, part, mode) == 0 || errno == EEXIST || failed("making", path);
}

static void
make_folder_of(const char *path)
{
    char folder[PATH_SIZE];
    const char *slash = strrchr(path, '/');
    if (!slash || (size_t)(slash - path) >= sizeof folder)
        return;
    memcpy(folder, path, (size_t)(slash - path));
    folder[slash - path] = '\0';
    folder_make(folder, 0755);
}

static int
write_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t n = write(fd, bytes, count);
        if (n < 0 && errno != EINTR)
            return 0;
        bytes += n > 0 ? n : 0;
        count -= n > 0 ? (size_t)n : 0;
    }
    return 1;
}

static int
is_same(const char *path, const void *bytes, size_t count, unsigned mode)
{
    struct stat status;
    size_t length = 0;
    if (fstatat(root, path, &status, 0) < 0 || (size_t)status.st_size != count || (status.st_mode & 07777) != mode)
        return 0;
    char *old = file_read(path, &length);
    int same = old && length == count && memcmp(old, bytes, count) == 0;
    free(old);
    return same;
}

int
file_write(const char *path, const void *bytes, size_t count, unsigned mode)
{
    char fresh[PATH_SIZE];
    if (snprintf(fresh, sizeof fresh, "%s.weft-new", path) >= (int)sizeof fresh)
        return 0;
    if (is_same(path, bytes, count, mode))
        return 2;
    make_folder_of(path);
    unlinkat(root, fresh, 0);
    int fd = openat(root, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0)
        return failed("writing", path);
    int ok = write_all(fd, bytes, count) && fchmod(fd, mode) == 0;
    if (close(fd) == 0 && ok && renameat(root, fresh, root, path) == 0)
        return 1;
    failed("writing", path);
    unlinkat(root, fresh, 0);
    return 0;
}

int
file_write_text(const char *path, const struct text *text, unsigned mode)
{
    return file_write(path, text->data ? text->data : "", text->length, mode);
}

int
file_write_part(const char *path, const struct text *text, int first, unsigned mode)
{
    char *old = file_read(path, NULL);
    struct text rest = { 0 }, whole = { 0 };
    char *begin = old ? strstr(old, BEGIN) : NULL;
    char *end = begin ? strstr(begin, END) : NULL;
    if (end) {
        text_add_bytes(&rest, old, (size_t)(begin - old));
        text_add(&rest, "%s", end + strlen(END));
    } else if (old) {
        text_add(&rest, "%s", old);
    }
    if (!first && rest.length > 0)
        text_add(&whole, "%s%s", rest.data, rest.data[rest.length - 1] == '\n' ? "" : "\n");
    text_add(&whole, "%s%s%s", BEGIN, text->data ? text->data : "", END);
    if (first && rest.length > 0)
        text_add(&whole, "%s", rest.data);
    int result = file_write_text(path, &whole, mode);
    text_free(&whole);
    text_free(&rest);
    free(old);
    return result;
}

int
file_add_line(const char *path, const char *line, unsigned mode)
{
    char *old = file_read(path, NULL);
    struct text whole = { 0 };
    text_add(&whole, "%s", old ? old : "");
    for (char *rest = old, *there; (there = next_line(&rest));) {
        if (strcmp(there, line) == 0) {
            text_free(&whole);
            free(old);
            return 2;
        }
    }
    if (whole.length > 0 && whole.data[whole.length - 1] != '\n')
        text_add(&whole, "\n");
    text_add(&whole, "%s\n", line);
    int result = file_write_text(path, &whole, mode);
    text_free(&whole);
    free(old);
    return result;
}

int
file_remove_line(const char *path, const char *line, unsigned mode)
{
    char *old = file_read(path, NULL);
    struct text rest = { 0 };
    int found = 0;
    for (char *next = old, *there; (there = next_line(&next));) {
        if (strcmp(there, line) == 0)
            found = 1;
        else
            text_add(&rest, "%s\n", there);
    }
    int result = found ? file_write_text(path, &rest, mode) : 2;
    text_free(&rest);
    free(old);
    return result;
}
