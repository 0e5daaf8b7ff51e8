/* The head of libvirt's saved files, and the definitions in them. */
#include "errors.h"
#include "saved.h"

#include <string.h>

#define XML "<domain type='kvm'><name>old</name></domain>"
#define COOKIE "<cookie/>"
#define ROOM 512u

/* A saved file's front as libvirt writes it. */
static guint8 *
front_new(const char *magic, guint32 version, guint32 length, guint32 cookie, gboolean swapped)
{
    guint32 fields[] = { version, length, 1, 0, cookie };
    guint8 *front = g_malloc0(WEFT_SAVED_HEAD + ROOM);
    for (gsize i = 0; i < G_N_ELEMENTS(fields); i++)
        fields[i] = swapped ? GUINT32_SWAP_LE_BE(fields[i]) : fields[i];
    memcpy(front, magic, 16);
    memcpy(front + 16, fields, sizeof fields);
    front[40] = 0x5a; /* of what is not used yet */
    memcpy(front + WEFT_SAVED_HEAD, XML, sizeof XML);
    memcpy(front + WEFT_SAVED_HEAD + sizeof XML, COOKIE, sizeof COOKIE);
    return front;
}

static guint8 *
whole_front(void)
{
    return front_new("LibvirtQemudSave", 2, ROOM, sizeof XML, FALSE);
}

static void
expect_refused(const guint8 *front, gsize length, const char *word)
{
    g_autoptr(GError) error = NULL;
    WeftSavedHead head;
    g_assert_false(weft_saved_head_read(front, length, &head, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, word));
}

/* --- the head --- */

static void
reads_head(void)
{
    for (int swapped = 0; swapped < 2; swapped++) {
        g_autoptr(GError) error = NULL;
        g_autofree guint8 *front = front_new("LibvirtQemudSave", 2, ROOM, sizeof XML, swapped);
        WeftSavedHead head;
        g_assert_true(weft_saved_head_read(front, WEFT_SAVED_HEAD, &head, &error));
        g_assert_cmpuint(head.version, ==, 2);
        g_assert_cmpuint(head.length, ==, ROOM);
        g_assert_cmpuint(head.running, ==, 1);
        g_assert_cmpuint(head.cookie, ==, sizeof XML);
        g_autofree char *xml = weft_saved_xml(&head, front + WEFT_SAVED_HEAD, &error);
        g_assert_cmpstr(xml, ==, XML);
    }
}

static void
refuses_heads(void)
{
    g_autofree guint8 *whole = whole_front();
    expect_refused(whole, WEFT_SAVED_HEAD - 1, "less than the head");
    g_autofree guint8 *part = front_new("LibvirtQemudPart", 2, ROOM, 0, FALSE);
    expect_refused(part, WEFT_SAVED_HEAD, "broken off");
    g_autofree guint8 *other = front_new("ElvesQemudSaving", 2, ROOM, 0, FALSE);
    expect_refused(other, WEFT_SAVED_HEAD, "does not begin with");
    g_autofree guint8 *later = front_new("LibvirtQemudSave", 77, ROOM, 0, FALSE);
    expect_refused(later, WEFT_SAVED_HEAD, "version");
    g_autofree guint8 *none = front_new("LibvirtQemudSave", 2, 0, 0, FALSE);
    expect_refused(none, WEFT_SAVED_HEAD, "0 bytes of definition");
    g_autofree guint8 *beyond = front_new("LibvirtQemudSave", 2, ROOM, ROOM, FALSE);
    expect_refused(beyond, WEFT_SAVED_HEAD, "cookie at 512");
    g_autofree guint8 *huge = front_new("LibvirtQemudSave", 2, G_MAXUINT32, 0, FALSE);
    expect_refused(huge, WEFT_SAVED_HEAD, "damaged");
}

static void
refuses_definition_that_is_none(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree guint8 *front = whole_front();
    WeftSavedHead head;
    g_assert_true(weft_saved_head_read(front, WEFT_SAVED_HEAD, &head, &error));
    memset(front + WEFT_SAVED_HEAD, 'x', ROOM); /* it never ends */
    g_assert_null(weft_saved_xml(&head, front + WEFT_SAVED_HEAD, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

static void
expect_front(const WeftSavedHead *head, const guint8 *data, const char *xml, guint32 room)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) fresh = weft_saved_front(head, data, xml, room, &error);
    g_assert_no_error(error);
    gsize length;
    const guint8 *bytes = g_bytes_get_data(fresh, &length);
    WeftSavedHead again;
    g_assert_true(weft_saved_head_read(bytes, length, &again, &error));
    g_assert_cmpuint(length, ==, WEFT_SAVED_HEAD + again.length);
    if (room)
        g_assert_cmpuint(again.length, ==, room);
    g_autofree char *text = weft_saved_xml(&again, bytes + WEFT_SAVED_HEAD, &error);
    g_assert_cmpstr(text, ==, xml);
    g_assert_cmpstr((const char *)bytes + WEFT_SAVED_HEAD + again.cookie, ==, COOKIE);
    g_assert_cmpuint(bytes[40], ==, 0x5a);
}

static void
keeps_cookie(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree guint8 *front = whole_front();
    const guint8 *data = front + WEFT_SAVED_HEAD;
    WeftSavedHead head;
    g_assert_true(weft_saved_head_read(front, WEFT_SAVED_HEAD, &head, &error));
    expect_front(&head, data, "<domain/>", 0);
    expect_front(&head, data, "<domain/>", head.length);
    g_autofree char *long_one = g_strnfill(ROOM * 4, 'x');
    expect_front(&head, data, long_one, 0);
    g_assert_null(weft_saved_front(&head, data, long_one, head.length, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

/* --- the definition --- */

#define SAVED_FORMAT                                                                                                           \
    "<domain type='kvm'><name>old</name><uuid>1</uuid><metadata><a xmlns='urn:old'><owner run='old'/></a></metadata>"          \
    "<memory unit='KiB'>2097152</memory><memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>"  \
    "<vcpu placement='static'>4</vcpu><cputune><vcpupin vcpu='0' cpuset='1'/></cputune>"                                       \
    "<os><type machine='pc-q35-7.2'>hvm</type></os><devices>"                                                                  \
    "<disk><source file='/old.disk'/><backingStore/><target dev='vda'/><address bus='3'/></disk>"                              \
    "<disk><source file='/old.seed'/><target dev='vdb'/><address bus='4'/></disk>%s"                                           \
    "<rng><address bus='5'/></rng></devices></domain>"
#define WANTED_FORMAT                                                                                                          \
    "<domain type='kvm'><name>weft-1-2</name><uuid>2</uuid><metadata><b xmlns='urn:new'><owner run='new'/></b></metadata>"     \
    "<memory unit='GiB'>%s</memory><memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages><nosharepages/>"        \
    "</memoryBacking><vcpu>4</vcpu><cputune><vcpupin vcpu='0' cpuset='7'/></cputune><os><type machine='q35'>hvm</type></os>"   \
    "<devices><disk><source file='/new.seed'/><target dev='vdb'/></disk>"                                                      \
    "<disk><source file='/new.disk'/><target dev='vda'/></disk><rng/></devices></domain>"

static char *
defined(const char *more, const char *gib, const WeftSavedMemory *memory, GError **error)
{
    g_autofree char *saved = g_strdup_printf(SAVED_FORMAT, more);
    g_autofree char *wanted = g_strdup_printf(WANTED_FORMAT, gib);
    return weft_saved_definition(saved, wanted, memory, error);
}

static void
expect_has(const char *text, const char *part, gboolean has)
{
    if ((strstr(text, part) != NULL) != has)
        g_error("%s %s", part, has ? "lacks" : "is there");
}

static void
takes_places_and_files(void)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *xml = defined("", "2", NULL, &error);
    g_assert_no_error(error);
    const char *const there[] = { "<name>weft-1-2</name>",
                                  "<uuid>2</uuid>",
                                  "urn:new",
                                  "<owner run=\"new\"/>",
                                  "cpuset=\"7\"",
                                  "pc-q35-7.2",
                                  "/new.disk",
                                  "/new.seed",
                                  "bus=\"3\"",
                                  "bus=\"5\"",
                                  "<hugepages>",
                                  "nosharepages",
                                  "cpu-unavailable-features" };
    const char *const gone[] = { "old", "cpuset=\"1\"", "commandline", "/run/weft-fork" };
    for (gsize i = 0; i < G_N_ELEMENTS(there); i++)
        expect_has(xml, there[i], TRUE);
    for (gsize i = 0; i < G_N_ELEMENTS(gone); i++)
        expect_has(xml, gone[i], FALSE);
    g_assert_true(strstr(xml, "/new.disk") < strstr(xml, "/new.seed")); /* each where the guest had it */
}

static void
shares_memory(void)
{
    g_autoptr(GError) error = NULL;
    const WeftSavedMemory shared = { "m1", "g1", FALSE }, made = { "m1", "g1", TRUE };
    g_autofree char *fork = defined("", "2", &shared, &error);
    g_assert_no_error(error);
    expect_has(fork, "<hugepages>", FALSE); /* QEMU would write to every page */
    expect_has(fork, "nosharepages", TRUE);
    expect_has(fork, "<access mode=\"private\"/>", TRUE);
    expect_has(fork, "page=\"2097152\"", TRUE);
    expect_has(fork, "use=\"share\"", TRUE);
    expect_has(fork, "path=/run/weft-fork/weft-1-2", TRUE);
    g_autofree char *maker = defined("", "2", &made, &error);
    g_assert_no_error(error);
    expect_has(maker, "<access mode=\"shared\"/>", TRUE);
    expect_has(maker, "use=\"make\"", TRUE);
    expect_has(maker, "commandline", FALSE);
    /* One that was forked and saved goes on with memory of its own. */
    g_autofree char *wanted = g_strdup_printf(WANTED_FORMAT, "2");
    g_autofree char *own = weft_saved_definition(fork, wanted, NULL, &error);
    g_assert_no_error(error);
    expect_has(own, "commandline", FALSE);
    expect_has(own, "<hugepages>", TRUE);
    expect_has(own, "xmlns/memory", FALSE);
}

static void
expect_other(const char *more, const char *gib, const char *word)
{
    g_autoptr(GError) error = NULL;
    g_assert_null(defined(more, gib, NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
    g_assert_nonnull(strstr(error->message, word));
}

static void
refuses_others(void)
{
    expect_other("", "3", "3145728 KiB of memory");
    expect_other("<interface/>", "2", "0 interface");
    expect_other("<disk><target dev='vdc'/></disk>", "2", "2 disk");
    expect_other("<hostdev/>", "2", "hostdev");
    g_autoptr(GError) error = NULL;
    g_assert_null(weft_saved_definition("<network/>", "<domain/>", NULL, &error));
    g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/saved/head/reads", reads_head);
    g_test_add_func("/saved/head/refuses", refuses_heads);
    g_test_add_func("/saved/head/no-definition", refuses_definition_that_is_none);
    g_test_add_func("/saved/head/keeps-cookie", keeps_cookie);
    g_test_add_func("/saved/definition/places-and-files", takes_places_and_files);
    g_test_add_func("/saved/definition/shares-memory", shares_memory);
    g_test_add_func("/saved/definition/refuses-others", refuses_others);
    return g_test_run();
}
