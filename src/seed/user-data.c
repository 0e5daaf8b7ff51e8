#include "user-data.h"

#include "seed.h"

#define MIME_SCAN 4096 /* in so many bytes cloud-init looks for the header that makes a text a MIME message */
#define BASE64_WIDTH 76

/* cloud-init runs it at every boot, before what the user asks for. Services that systemd starts later have the limits that it
 * has written by then. */
/* clang-format off */
static const char boothook[] =
    "#cloud-boothook\n"
    "#!/bin/sh\n"
    "# Starts weft's guest program, which comes with the seed.\n"
    "mkdir -p " WEFT_SEED_MOUNT "\n"
    "mountpoint -q " WEFT_SEED_MOUNT " || mount -t iso9660 -o ro LABEL=" WEFT_SEED_LABEL " " WEFT_SEED_MOUNT " || exit\n"
    WEFT_SEED_MOUNT "/weft/guest start " WEFT_SEED_MOUNT " || exit\n"
    "[ ! -d /run/systemd/system ] || systemctl daemon-reload\n";
/* clang-format on */

/* Root's keys are not to be disabled, as cloud-init does unless it is told. The image's user is made after the boothook: when
 * all is there, the guest program is started once more, and gives this user its keys. */
static const char vendor_data[] = "Content-Type: multipart/mixed; boundary=\"==weft==\"\n"
                                  "MIME-Version: 1.0\n"
                                  "\n"
                                  "--==weft==\n"
                                  "Content-Type: text/cloud-config; charset=\"us-ascii\"\n"
                                  "\n"
                                  "#cloud-config\n"
                                  "disable_root: false\n"
                                  "--==weft==\n"
                                  "Content-Type: text/x-shellscript; charset=\"us-ascii\"\n"
                                  "Content-Disposition: attachment; filename=\"weft-users\"\n"
                                  "\n"
                                  "#!/bin/sh\n"
                                  "exec " WEFT_SEED_MOUNT "/weft/guest start " WEFT_SEED_MOUNT "\n"
                                  "--==weft==--\n";

static gboolean
is_mime(const char *text)
{
    g_autofree char *start = g_strndup(text, MIME_SCAN);
    g_autofree char *lower = g_ascii_strdown(start, -1);
    return strstr(lower, "mime-version:") != NULL;
}

/* A line that is nowhere in the user's text. */
static char *
choose_boundary(const char *user)
{
    for (guint i = 0;; i++) {
        g_autofree char *boundary = g_strdup_printf("==weft-%u==", i);
        if (!user || !strstr(user, boundary))
            return g_steal_pointer(&boundary);
    }
}

static void
append_base64(GString *text, const char *content)
{
    g_autofree char *base64 = g_base64_encode((const guchar *)content, strlen(content));
    for (gsize at = 0, length = strlen(base64); at < length; at += BASE64_WIDTH) {
        g_string_append_len(text, base64 + at, (gssize)MIN(BASE64_WIDTH, length - at));
        g_string_append_c(text, '\n');
    }
}

/* A MIME message is a part as it is, its headers being the part's. Of anything else cloud-init finds the type itself, by its
 * first line, when it is told that the type is unknown. */
static void
append_user(GString *text, const char *user)
{
    if (is_mime(user)) {
        g_string_append_printf(text, "%s\n", user);
        return;
    }
    g_string_append(text, "Content-Type: text/x-not-multipart; charset=\"utf-8\"\n"
                          "Content-Transfer-Encoding: base64\n"
                          "Content-Disposition: attachment; filename=\"user-data\"\n"
                          "\n");
    append_base64(text, user);
}

char *
weft_user_data_format(const char *user)
{
    g_autofree char *boundary = choose_boundary(user);
    GString *text = g_string_new(NULL);
    g_string_append_printf(text,
                           "Content-Type: multipart/mixed; boundary=\"%s\"\n"
                           "MIME-Version: 1.0\n"
                           "\n"
                           "--%s\n"
                           "Content-Type: text/cloud-boothook; charset=\"us-ascii\"\n"
                           "Content-Disposition: attachment; filename=\"weft-boothook\"\n"
                           "\n"
                           "%s",
                           boundary, boundary, boothook);
    if (user) {
        g_string_append_printf(text, "--%s\n", boundary);
        append_user(text, user);
    }
    g_string_append_printf(text, "--%s--\n", boundary);
    return g_string_free(text, FALSE);
}

const char *
weft_vendor_data(void)
{
    return vendor_data;
}
