#include "image.h"

#include "bounds.h"
#include "codec.h"
#include "errors.h"

const char *const weft_disk_format_words[WEFT_DISK_FORMATS + 1] = {
    [WEFT_DISK_QCOW2] = "qcow2",
    [WEFT_DISK_RAW] = "raw",
    [WEFT_DISK_READONLY] = "readonly",
};

const char *const weft_image_part_words[WEFT_PARTS + 1] = {
    [WEFT_PART_DISK] = "disk",
    [WEFT_PART_KERNEL] = "kernel",
    [WEFT_PART_INITRD] = "initrd",
};

static const WeftCodecField file_fields[] = {
    WEFT_FIELD(WeftImageFile, digest, TEXT),
    WEFT_FIELD(WeftImageFile, size, UINT64, .min = 1, .max = WEFT_IMAGE_SIZE_MAX),
    WEFT_FIELD(WeftImageFile, format, WORD, WEFT_OPTIONAL, .fallback = WEFT_DISK_RAW, .words = weft_disk_format_words),
    {},
};

static const WeftCodecField image_fields[] = {
    WEFT_FIELD(WeftImage, name, TEXT, .grammar = WEFT_GRAMMAR_IMAGE, .what = "image name"),
    WEFT_FIELD(WeftImage, cmdline, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_TEXT, .what = "kernel command line"),
    WEFT_FIELD(WeftImage, created, UINT64, WEFT_OPTIONAL),
    {},
};

gboolean
weft_digest_check(const char *digest, GError **error)
{
    if (strlen(digest) == WEFT_DIGEST_LENGTH && strspn(digest, "0123456789abcdef") == WEFT_DIGEST_LENGTH)
        return TRUE;
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "\"%s\" is no SHA-256 digest; it has 64 lower-case hexadecimal digits, as sha256sum prints them",
                             digest);
}

const WeftImageFile *
weft_image_part(const WeftImage *image, WeftImagePart part)
{
    const WeftImageFile *const files[WEFT_PARTS] = {
        [WEFT_PART_DISK] = image->disk,
        [WEFT_PART_KERNEL] = image->kernel,
        [WEFT_PART_INITRD] = image->initrd,
    };
    return files[part];
}

const WeftImageFile *
weft_image_file(const WeftImage *image, guint n)
{
    for (guint part = 0; part < WEFT_PARTS; part++)
        if (weft_image_part(image, part) && n-- == 0)
            return weft_image_part(image, part);
    return NULL;
}

char *
weft_image_file_name(const char *digest)
{
    return g_strconcat(WEFT_IMAGE_PREFIX, digest, NULL);
}

static void
file_free(WeftImageFile *file)
{
    if (file)
        weft_codec_free(file_fields, file);
}

static WeftImageFile *
read_file(WeftFields *fields, const char *name)
{
    json_t *object = weft_fields_object(fields, name);
    if (!object)
        return NULL;
    g_autofree char *where = weft_fields_path(fields, name);
    g_autoptr(GError) error = NULL;
    WeftImageFile *file = weft_codec_decode(file_fields, sizeof(WeftImageFile), object, where, &fields->error);
    if (file && !weft_digest_check(file->digest, &error))
        weft_fields_fail(fields, name, "%s", error->message);
    return file;
}

static void
check(WeftFields *fields, const WeftImage *image)
{
    if (!image->disk && !image->kernel)
        weft_fields_fail(fields, "disk", "is missing, and there is no kernel either; an image needs one to boot from");
    else if (!image->kernel && (image->initrd || image->cmdline))
        weft_fields_fail(fields, "kernel", "is missing; only a kernel takes an initrd and a command line");
}

WeftImage *
weft_image_from_json(json_t *json, const char *where, GError **error)
{
    g_autoptr(WeftImage) image = g_new0(WeftImage, 1);
    WeftFields f;
    weft_fields_begin(&f, json, "%s", where);
    weft_codec_read(&f, image_fields, image);
    if (!f.error)
        image->disk = read_file(&f, "disk");
    if (!f.error)
        image->kernel = read_file(&f, "kernel");
    if (!f.error)
        image->initrd = read_file(&f, "initrd");
    if (!f.error)
        check(&f, image);
    return weft_fields_end(&f, error) ? g_steal_pointer(&image) : NULL;
}

json_t *
weft_image_to_json(const WeftImage *image)
{
    json_t *json = weft_codec_write(image_fields, image);
    for (guint part = 0; part < WEFT_PARTS; part++) {
        const WeftImageFile *file = weft_image_part(image, part);
        if (file)
            json_object_set_new_nocheck(json, weft_image_part_words[part], weft_codec_write(file_fields, file));
    }
    return json;
}

void
weft_image_free(WeftImage *image)
{
    if (!image)
        return;
    file_free(image->disk);
    file_free(image->kernel);
    file_free(image->initrd);
    weft_codec_free(image_fields, image);
}
