/* The parsers of src/base that read texts from outside: hostlists, YAML, JSON, and the fields of an object. Tables hold what is
 * taken and what is refused, with the whole message. */
#include "errors.h"
#include "fields.h"
#include "hostlist.h"
#include "yaml.h"

#include <sys/resource.h>

static void
assert_error(GError *error, WeftErrorCode code, const char *message)
{
    g_assert_error(error, WEFT_ERROR, (int)code);
    g_assert_cmpstr(error->message, ==, message);
    g_error_free(error);
}

/* ---- hostlist ---- */

static void
test_hostlist_expand(void)
{
    static const struct {
        const char *text;
        const char *names;
    } cases[] = {
        { "cfd", "cfd" },
        { "cfd[0-3,7]", "cfd0 cfd1 cfd2 cfd3 cfd7" },
        { "n[08-10]", "n08 n09 n10" },
        { "n[9-10]", "n9 n10" },
        { "n[3]", "n3" },
        { "n[3-3]", "n3" },
        { "n[00-01]", "n00 n01" },
        { "[1-2]x", "1x 2x" },
        { "[1-2]", "1 2" },
        { "b,a,b", "b a b" },
        { "n[2,1,2]", "n2 n1 n2" },
        { "r[1-2]n[0-1]", "r1n0 r1n1 r2n0 r2n1" },
        { "n[1-2]-ib,login1", "n1-ib n2-ib login1" },
        { "a.b_c-d", "a.b_c-d" },
        { "n[999999999999999998-999999999999999999]", "n999999999999999998 n999999999999999999" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_auto(GStrv) names = weft_hostlist_expand(cases[i].text, &error);
        g_assert_no_error(error);
        g_autofree char *joined = g_strjoinv(" ", names);
        g_assert_cmpstr(joined, ==, cases[i].names);
    }
    g_auto(GStrv) grown = weft_hostlist_expand("n[08-100]", NULL);
    g_assert_cmpuint(g_strv_length(grown), ==, 93);
    g_assert_cmpstr(grown[92], ==, "n100");
    g_auto(GStrv) most = weft_hostlist_expand("n[0-255][0-255]", NULL);
    g_assert_cmpuint(g_strv_length(most), ==, WEFT_HOSTLIST_MAX);
    g_assert_cmpstr(most[WEFT_HOSTLIST_MAX - 1], ==, "n255255");
}

#define NOT_NAME " is not part of a name; use letters, digits, \"-\", \"_\", \".\" and ranges like [0-3]"
#define NO_NAME "a name is missing; write names like cfd[0-3] with single commas between them"
#define NO_NUMBER "a number is missing; write ranges like [0-3,7]"
#define TOO_MANY "expands to more than 65536 names; split it"

static const struct {
    const char *text;
    guint position;
    const char *message;
} bad_hostlists[] = {
    { "", 1, NO_NAME },
    { ",", 1, NO_NAME },
    { "a,", 3, NO_NAME },
    { "a,,b", 3, NO_NAME },
    { "a b", 2, "\" b\"" NOT_NAME },
    { "a]", 2, "\"]\"" NOT_NAME },
    { "a/b", 2, "\"/b\"" NOT_NAME },
    { "n[", 3, NO_NUMBER },
    { "n[]", 3, NO_NUMBER },
    { "n[1,]", 5, NO_NUMBER },
    { "n[1-]", 5, NO_NUMBER },
    { "n[-1]", 3, NO_NUMBER },
    { "n[a-b]", 3, NO_NUMBER },
    { "n[[1]]", 3, NO_NUMBER },
    { "n[1", 2, "the bracket is never closed; write \"]\"" },
    { "n[1 ]", 4, "\" ]\" has no place in brackets; write ranges like [0-3,7]" },
    { "n[1-2-3]", 6, "\"-3]\" has no place in brackets; write ranges like [0-3,7]" },
    { "n[1[2]]", 4, "\"[2]]\" has no place in brackets; write ranges like [0-3,7]" },
    { "n[3-1]", 3, "the range 3-1 runs backwards; write 1-3" },
    { "n[1-010]", 3, "the range 1-010 mixes paddings; write both ends with as many digits" },
    { "n[001-10]", 3, "the range 001-10 mixes paddings; write both ends with as many digits" },
    { "n[1234567890123456789]", 3, "a number has 19 digits; at most 18 are taken" },
    { "n[0-99999999]", 3, "the range 0-99999999 has more than 65536 numbers; write a shorter one" },
    { "n[0-65535,0]", 11, TOO_MANY },
    { "n[0-255][0-256]", 1, TOO_MANY },
    { "a,n[0-65535]", 3, TOO_MANY },
    { "n[0-9999][0-9999][0-9999][0-9999][0-9999][0-9999]", 1, TOO_MANY },
};

static void
test_hostlist_refused(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(bad_hostlists); i++) {
        GError *error = NULL;
        g_assert_null(weft_hostlist_expand(bad_hostlists[i].text, &error));
        g_autofree char *message = g_strdup_printf("hostlist \"%s\", character %u: %s", bad_hostlists[i].text,
                                                   bad_hostlists[i].position, bad_hostlists[i].message);
        assert_error(error, WEFT_ERROR_INVALID, message);
    }
}

static void
test_hostlist_limits(void)
{
    g_autofree char *many = g_strnfill(70000, 'x');
    g_autofree char *name = g_strnfill(256, 'x');
    g_autoptr(GString) brackets = g_string_new(NULL);
    for (guint i = 0; i < 256; i++)
        g_string_append(brackets, "[0]");
    const char *const texts[] = { many, name, brackets->str };
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autoptr(GError) error = NULL;
        g_assert_null(weft_hostlist_expand(texts[i], &error));
        g_assert_error(error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_nonnull(strstr(error->message, "longer than"));
        g_assert_cmpuint(strlen(error->message), <, 256);
    }
    name[255] = '\0';
    g_auto(GStrv) names = weft_hostlist_expand(name, NULL);
    g_assert_cmpstr(names[0], ==, name);
}

/* However many names a short text stands for, it is refused before any of them is made. */
static void
test_hostlist_bombs(void)
{
    g_autoptr(GString) product = g_string_new("n");
    for (guint i = 0; i < 250; i++)
        g_string_append(product, "[0-65535]");
    g_autoptr(GString) sum = g_string_new("n[0");
    while (sum->len < 65000)
        g_string_append(sum, ",0-65000");
    const char *const texts[] = { product->str, sum->str };
    for (guint i = 0; i < G_N_ELEMENTS(texts); i++) {
        struct rusage before, after;
        g_autofree char *text = i ? g_strconcat(texts[i], "]", NULL) : g_strdup(texts[i]);
        g_autoptr(GError) error = NULL;
        getrusage(RUSAGE_SELF, &before);
        g_assert_null(weft_hostlist_expand(text, &error));
        getrusage(RUSAGE_SELF, &after);
        g_assert_nonnull(strstr(error->message, TOO_MANY));
        g_assert_cmpint(after.ru_maxrss - before.ru_maxrss, <, 8 * 1024); /* KiB */
    }
}

static void
test_hostlist_fold(void)
{
    static const struct {
        const char *names;
        const char *text;
    } cases[] = {
        { "", "" },
        { "cfd", "cfd" },
        { "n1", "n1" },
        { "n0 n1 n2 n3 n7", "n[0-3,7]" },
        { "n7 n10 n9 n8", "n[7-10]" },
        { "n08 n09 n10", "n[08-10]" },
        { "n098 n099 n100 n101", "n[098-101]" },
        { "n98 n99 n100 n101", "n[98-101]" },
        { "n8 n09", "n[8,09]" },
        { "n1 n01", "n[01,1]" },
        { "n1-ib n2-ib n1 n2", "n[1-2],n[1-2]-ib" },
        { "r1n1 r1n2 r2n1", "r1n[1-2],r2n1" },
        { "n n1 n2", "n,n[1-2]" },
        { "a a", "a,a" },
        { "n1 n1 n2", "n[1,1-2]" },
        { "login node1 node2 admin", "admin,login,node[1-2]" },
        { "n12345678901234567890 n12345678901234567891", "n12345678901234567890,n12345678901234567891" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_auto(GStrv) names = g_strsplit(cases[i].names, " ", -1);
        g_autofree char *text = weft_hostlist_fold((const char *const *)names);
        g_assert_cmpstr(text, ==, cases[i].text);
    }
}

static int
compare_pointers(gconstpointer a, gconstpointer b)
{
    return weft_natural_compare(*(const char *const *)a, *(const char *const *)b);
}

static void
test_hostlist_round_trip(void)
{
    static const char *const forms[] = { "n%u", "n%02u", "n%03u", "r%u-ib", "%ux", "plain" };
    g_autoptr(GRand) dice = g_rand_new_with_seed(7);
    for (guint round = 0; round < 300; round++) {
        g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
        for (gint n = g_rand_int_range(dice, 1, 40); n > 0; n--) {
            guint form = (guint)g_rand_int_range(dice, 0, G_N_ELEMENTS(forms));
            g_ptr_array_add(names, g_strdup_printf(forms[form], (guint)g_rand_int_range(dice, 0, 120)));
        }
        g_ptr_array_sort(names, compare_pointers);
        g_ptr_array_add(names, NULL);
        g_autofree char *text = weft_hostlist_fold((const char *const *)names->pdata);
        GError *error = NULL;
        g_auto(GStrv) back = weft_hostlist_expand(text, &error);
        g_assert_no_error(error);
        qsort(back, g_strv_length(back), sizeof *back, compare_pointers);
        g_assert_cmpstrv(back, names->pdata);
    }
}

static void
test_hostlist_split(void)
{
    static const struct {
        const char *text;
        const char *name;
        const char *ranks; /* NULL: none */
        const char *message;
    } cases[] = {
        { "cfd", "cfd", NULL, NULL },
        { "cfd[0-3,7]", "cfd", "0 1 2 3 7 ", NULL },
        { "cfd[4294967295]", "cfd", "4294967295 ", NULL },
        { "cfd[4294967296]", NULL, NULL, "character 1: the number 4294967296 is too large for a node" },
        { "cfd[0]x", NULL, NULL,
          "character 7: goes on behind the name; write one cluster and its nodes, like cfd or cfd[0-3,7]" },
        { "a,b", NULL, NULL, "character 2: goes on behind the name; write one cluster and its nodes, like cfd or cfd[0-3,7]" },
        { "cfd[2-1]", NULL, NULL, "character 5: the range 2-1 runs backwards; write 1-2" },
        { "[0]", NULL, NULL, "character 1: \"[0]\"" NOT_NAME },
        { "", NULL, NULL, "character 1: \"\"" NOT_NAME },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_autofree char *name = NULL;
        g_autoptr(GArray) ranks = NULL;
        gboolean ok = weft_hostlist_split(cases[i].text, &name, &ranks, &error);
        g_assert_cmpstr(name, ==, cases[i].name);
        g_autoptr(GString) joined = g_string_new(NULL);
        for (guint n = 0; ranks && n < ranks->len; n++)
            g_string_append_printf(joined, "%u ", g_array_index(ranks, guint, n));
        g_assert_cmpstr(ranks ? joined->str : NULL, ==, cases[i].ranks);
        g_assert_true(ok == !cases[i].message);
        g_autofree char *message = g_strdup_printf("hostlist \"%s\", %s", cases[i].text, cases[i].message);
        if (!ok)
            assert_error(error, WEFT_ERROR_INVALID, message);
    }
}

static void
test_natural_compare(void)
{
    static const char *const ascending[] = { "",
                                             "1",
                                             "02",
                                             "2",
                                             "10",
                                             "a",
                                             "n",
                                             "n-",
                                             "n1",
                                             "n01-a",
                                             "n1-b",
                                             "n2",
                                             "n10",
                                             "n10a",
                                             "n12345678901234567890123",
                                             "n12345678901234567890124",
                                             "na" };
    for (guint i = 0; i < G_N_ELEMENTS(ascending); i++)
        for (guint j = 0; j < G_N_ELEMENTS(ascending); j++) {
            int order = weft_natural_compare(ascending[i], ascending[j]);
            g_assert_cmpint((order > 0) - (order < 0), ==, (i > j) - (i < j));
        }
}

/* ---- YAML and JSON ---- */

typedef struct {
    const char *text;
    const char *result; /* compact JSON with sorted keys, ' for "; NULL: refused */
    const char *message;
} ParseCase;

typedef json_t *(*Parse)(const char *text, gsize length, GError **error);

static json_t *
parse_yaml(const char *text, gsize length, GError **error)
{
    return weft_yaml_parse(text, length, "f.yaml", error);
}

static void
run_parse_cases(Parse parse, const ParseCase *cases, gsize n)
{
    for (gsize i = 0; i < n; i++) {
        GError *error = NULL;
        json_t *value = parse(cases[i].text, strlen(cases[i].text), &error);
        if (!cases[i].result) {
            g_assert_null(value);
            assert_error(error, WEFT_ERROR_INVALID, cases[i].message);
            continue;
        }
        g_assert_no_error(error);
        char *text = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        g_assert_cmpstr(g_strdelimit(text, "\"", '\''), ==, cases[i].result);
        free(text);
        json_decref(value);
    }
}

#define DEEP_16 "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]"
#define NO_ANCHORS "anchors (\"&…\") are not taken; write the value out at each place"
#define NO_TAGS "tags (\"!…\") are not taken; put a text in quotes"

static void
test_yaml(void)
{
    static const ParseCase cases[] = {
        { "a: 1\nb: [x, true, false, null, -5]\n", "{'a':1,'b':['x',true,false,null,-5]}", NULL },
        { "a:\n  - b: c\n    d:\n", "{'a':[{'b':'c','d':null}]}", NULL },
        { "{\"a\": [1, 2.5, \"x\"], \"b\": {}}", "{'a':[1,'2.5','x'],'b':{}}", NULL },
        { "[yes, no, on, off, True, NULL, ~]", "['yes','no','on','off','True','NULL','~']", NULL },
        { "[0x10, 0700, 1_000, 1e3, +5, 12:30, 00, 0]", "['0x10','0700','1_000','1e3','+5','12:30','00',0]", NULL },
        { "['1', \"true\", 'null', '']", "['1','true','null','']", NULL },
        { "[9223372036854775807, -9223372036854775808, 9223372036854775808]",
          "[9223372036854775807,-9223372036854775808,'9223372036854775808']", NULL },
        { "a: |\n  two\n  lines\n", "{'a':'two\\nlines\\n'}", NULL },
        { "---\na: größe\n...\n", "{'a':'größe'}", NULL },
        { "x", "'x'", NULL },
        { DEEP_16, DEEP_16, NULL },
        { "[" DEEP_16 "]", NULL, "f.yaml:1: nested deeper than 16" },
        { "", NULL, "f.yaml:1: is empty" },
        { "# only\n# remarks\n", NULL, "f.yaml:3: is empty" },
        { "a: 1\nb: 2\na: 3\n", NULL, "f.yaml:3: the key \"a\" is there twice; keep one of them" },
        { "a: &x 1\n", NULL, "f.yaml:1: " NO_ANCHORS },
        { "a: &x [1]\n", NULL, "f.yaml:1: " NO_ANCHORS },
        { "a: &x {b: 1}\n", NULL, "f.yaml:1: " NO_ANCHORS },
        { "a: 1\nb: *x\n", NULL, "f.yaml:2: aliases (\"*…\") are not taken; write the value out at each place" },
        { "a: !!str 1\n", NULL, "f.yaml:1: " NO_TAGS },
        { "a: ! 1\n", NULL, "f.yaml:1: " NO_TAGS },
        { "a: !!map {}\n", NULL, "f.yaml:1: " NO_TAGS },
        { "a: !x []\n", NULL, "f.yaml:1: " NO_TAGS },
        { "a: 1\n---\nb: 2\n", NULL, "f.yaml:2: a second document begins; one file holds one document" },
        { "[1]: 2\n", NULL, "f.yaml:1: a key must be a plain text, not a list or a mapping" },
        { "{{a: 1}: 2}", NULL, "f.yaml:1: a key must be a plain text, not a list or a mapping" },
        { "{\"\": 2}", NULL, "f.yaml:1: a key is empty; write it before the colon" },
        { "a: \"x\\0y\"\n", NULL, "f.yaml:1: a text has a NUL character in it; leave it out" },
        { "a: [1, 2\nb: 3\n", NULL, "f.yaml:2: did not find expected ',' or ']'" },
        { "a:\n\t- b\n", NULL, "f.yaml:2: found character that cannot start any token" },
        { "a: \xff\n", NULL, "f.yaml:1: invalid leading UTF-8 octet" },
    };
    run_parse_cases(parse_yaml, cases, G_N_ELEMENTS(cases));
}

static void
test_json(void)
{
    static const ParseCase cases[] = {
        { "{\"a\": [1, -2, 2.5, true, false, null, \"x\"]}", "{'a':[1,-2,2.5,true,false,null,'x']}", NULL },
        { " 5 ", "5", NULL },
        { "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\\[\"", "'[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\\['", NULL },
        { "[\"\\\"\", [[]]]", "['\\'',[[]]]", NULL },
        { DEEP_16, DEEP_16, NULL },
        { "[" DEEP_16 "]", NULL, "line 1: nested deeper than 16" },
        { "\n\n{\"a\":" DEEP_16 "}", NULL, "line 3: nested deeper than 16" },
        { "", NULL, "line 1: unexpected token near end of file" },
        { "{\"a\": 1, \"a\": 2}", NULL, "line 1: duplicate object key near '\"a\"'" },
        { "{} x", NULL, "line 1: end of file expected near 'x'" },
        { "{\n\"a\":\n}", NULL, "line 3: unexpected token near '}'" },
        { "{'a': 1}", NULL, "line 1: string or '}' expected near '''" },
        { "[1,]", NULL, "line 1: unexpected token near ']'" },
        { "[01]", NULL, "line 1: invalid token near '0'" },
        { "[NaN]", NULL, "line 1: invalid token near 'NaN'" },
        { "[9223372036854775808]", NULL, "line 1: too big integer near '9223372036854775808'" },
        { "[1e999]", NULL, "line 1: real number overflow near '1e999'" },
        { "[\"\\u0000\"]", NULL, "line 1: \\u0000 is not allowed without JSON_ALLOW_NUL near '\"\\u0000\"'" },
        { "[\"\xff\"]", NULL, "line 1: unable to decode byte 0xff near '\"'" },
        { "\"", NULL, "line 1: premature end of input near '\"'" },
    };
    run_parse_cases(weft_json_parse, cases, G_N_ELEMENTS(cases));
}

static void
test_parse_hostile(void)
{
    gsize length = 200000;
    g_autofree char *deep = g_strnfill(length, '[');
    g_autofree char *large = g_malloc0(WEFT_TEXT_BYTES_MAX + 1);
    const struct {
        const char *text;
        gsize length;
    } cases[] = {
        { deep, length }, { large, WEFT_TEXT_BYTES_MAX + 1 }, { "1\0", 2 }, { "[1]\0", 4 }, { "\"a\0b\"", 5 }, { "\"\\", 2 },
        { NULL, 0 },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) json_error = NULL;
        g_autoptr(GError) yaml_error = NULL;
        g_assert_null(weft_json_parse(cases[i].text, cases[i].length, &json_error));
        g_assert_error(json_error, WEFT_ERROR, WEFT_ERROR_INVALID);
        g_assert_null(parse_yaml(cases[i].text, cases[i].length, &yaml_error));
        g_assert_error(yaml_error, WEFT_ERROR, WEFT_ERROR_INVALID);
    }
}

/* ---- fields ---- */

static const char *const colours[] = { "red", "green", NULL };

/* JSON is written with ' for " in the tables below. */
static json_t *
parse_quoted(const char *text)
{
    GError *error = NULL;
    g_autofree char *json = g_strdelimit(g_strdup(text), "'", '"');
    json_t *value = weft_json_parse(json, strlen(json), &error);
    g_assert_no_error(error);
    return value;
}

/* Reads one of every kind; only name is required. */
static gboolean
read_thing(const char *text, const char *where, char **ret_summary, GError **error)
{
    json_t *object = parse_quoted(text);
    WeftFields f;
    weft_fields_begin(&f, object, "%s", where);
    const char *name = weft_fields_string(&f, "name", WEFT_REQUIRED_TEXT);
    const char *note = weft_fields_string(&f, "note", NULL);
    guint64 cores = weft_fields_uint(&f, "cores", 1, 1024, 4);
    guint64 memory = weft_fields_size(&f, "memory", 1024, 8ULL << 30, 2048);
    gint64 wait = weft_fields_duration(&f, "wait", 7);
    gint64 since = weft_fields_time(&f, "since", 8);
    guint64 guid = weft_fields_hex(&f, "guid", 0xffff, 9);
    gint64 nice = weft_fields_int(&f, "nice", -20, 19, -1);
    double share = weft_fields_real(&f, "share", 0.5, 2, 1);
    guint64 length = weft_fields_seconds(&f, "length", 1, 7200, 0);
    gboolean evict = weft_fields_bool(&f, "evict", TRUE);
    int colour = weft_fields_word(&f, "colour", colours, 1);
    json_t *list = weft_fields_array(&f, "list", 2);
    json_t *labels = weft_fields_object(&f, "labels");
    *ret_summary =
        g_strdup_printf("%s %s %d %d %d %d %d %d %g %d %d %s %zu %zu%s", name, note ? note : "-", (int)cores, (int)memory,
                        (int)wait, (int)since, (int)guid, (int)nice, share, (int)length, evict, colours[colour],
                        json_array_size(list), json_object_size(labels), weft_fields_has(&f, "note") ? " has" : "");
    gboolean ok = weft_fields_end(&f, error);
    json_decref(object);
    return ok;
}

#define FALLBACKS " - 4 2048 7 8 9 -1 1 0 1 green 0 0"

static void
test_fields_taken(void)
{
    static const struct {
        const char *text;
        const char *summary;
    } cases[] = {
        { "{'name': 'n'}", "n" FALLBACKS },
        { "{'name': 'n', 'note': null, 'cores': null, 'list': null, 'evict': null}", "n" FALLBACKS " has" },
        { "{'name': '', 'note': 'x', 'cores': 1, 'memory': '1M', 'wait': '250ms', 'guid': '0xfFfF', 'evict': false}",
          " x 1 1048576 250000 8 65535 -1 1 0 0 green 0 0 has" },
        { "{'name': 'n', 'cores': 1024, 'memory': 1024, 'since': '1970-01-01T00:00:00.000001Z', 'colour': 'red',"
          " 'list': [1, 2], 'labels': {'a': 1}}",
          "n - 1024 1024 7 1 9 -1 1 0 1 red 2 1" },
        { "{'name': 'n', 'nice': -20, 'share': 2, 'length': '2h'}", "n - 4 2048 7 8 9 -20 2 7200 1 green 0 0" },
        { "{'name': 'n', 'nice': 19, 'share': '0.5', 'length': 90}", "n - 4 2048 7 8 9 19 0.5 90 1 green 0 0" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_autofree char *summary = NULL;
        gboolean ok = read_thing(cases[i].text, "", &summary, &error);
        g_assert_no_error(error);
        g_assert_true(ok);
        g_assert_cmpstr(summary, ==, cases[i].summary);
    }
}

#define KNOWN "known are: name, note, cores, memory, wait, since, guid, nice, share, length, evict, colour, list, labels"

static const struct {
    const char *fields; /* beside the name */
    const char *message;
} bad_fields[] = {
    { "'note': 1", "note: must be a text, is a whole number" },
    { "'cores': '4'", "cores: must be a whole number, is a text" },
    { "'cores': 4.0", "cores: must be a whole number, is a fraction" },
    { "'cores': 0", "cores: must be 1 to 1024, is 0" },
    { "'cores': -1", "cores: must be 1 to 1024, is -1" },
    { "'cores': 1025", "cores: must be 1 to 1024, is 1025" },
    { "'memory': '8GB'", "memory: size \"8GB\" is not understood; write it like 512M, 8G or 1T" },
    { "'memory': '9G'", "memory: must be 1K to 8G, is 9G" },
    { "'memory': 1", "memory: must be 1K to 8G, is 1" },
    { "'memory': -1", "memory: must not be negative, is -1" },
    { "'memory': true", "memory: must be a size like \"8G\" or a number of bytes, is true" },
    { "'wait': 5", "wait: must be a duration like \"90s\" or \"5m\", is a whole number" },
    { "'wait': '5'", "wait: duration \"5\" is not understood; write it like 250ms, 90s, 5m, 2h or 1d" },
    { "'since': 'now'", "since: time \"now\" is not understood; write it like 2026-01-31T12:00:00Z" },
    { "'guid': 5", "guid: must be a hexadecimal text like \"0x1f\", is a whole number" },
    { "'guid': '5'", "guid: must be 0x0 to 0xffff in hexadecimal, is \"5\"" },
    { "'guid': '0x'", "guid: must be 0x0 to 0xffff in hexadecimal, is \"0x\"" },
    { "'guid': '0x-1'", "guid: must be 0x0 to 0xffff in hexadecimal, is \"0x-1\"" },
    { "'guid': '0x0x1'", "guid: must be 0x0 to 0xffff in hexadecimal, is \"0x0x1\"" },
    { "'guid': '0x10000'", "guid: must be 0x0 to 0xffff in hexadecimal, is \"0x10000\"" },
    { "'nice': -21", "nice: must be -20 to 19, is -21" },
    { "'nice': 20", "nice: must be -20 to 19, is 20" },
    { "'nice': 1.5", "nice: must be a whole number, is a fraction" },
    { "'share': 0.4", "share: must be 0.5 to 2, is 0.4" },
    { "'share': 3", "share: must be 0.5 to 2, is 3" },
    { "'share': '1x'", "share: must be a number, is a text" },
    { "'share': ''", "share: must be a number, is a text" },
    { "'share': 'inf'", "share: must be a number, is a text" },
    { "'share': '3'", "share: must be 0.5 to 2, is 3" },
    { "'length': 0", "length: must be 1 s to 2 h, is 0 ms" },
    { "'length': '3h'", "length: must be 1 s to 2 h, is 3 h" },
    { "'length': 9223372036854775807", "length: must be 1 s to 2 h, is 106751991 d 4 h" },
    { "'length': '100ms'", "length: duration \"100ms\" is no whole number of seconds" },
    { "'length': '5'", "length: duration \"5\" is not understood; write it like 250ms, 90s, 5m, 2h or 1d" },
    { "'length': []", "length: must be a duration like \"90m\" or a number of seconds, is a list" },
    { "'evict': 'yes'", "evict: must be true or false, is a text" },
    { "'colour': 'blue'", "colour: must be one of red, green; is \"blue\"" },
    { "'colour': []", "colour: must be a text, is a list" },
    { "'list': {}", "list: must be a list, is an object" },
    { "'list': [1, 2, 3]", "list: must have at most 2 entries, has 3" },
    { "'labels': false", "labels: must be an object, is false" },
    { "'coers': 4", "coers: no such field; did you mean \"cores\"?" },
    { "'': 4", ": no such field; " KNOWN },
    { "'x\\ny': 4", "x\\x0ay: no such field; " KNOWN },
    { "'list': 1, 'cores': 0", "cores: must be 1 to 1024, is 0" }, /* the first that was asked for */
};

static void
test_fields_refused(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(bad_fields); i++)
        for (gboolean nested = FALSE; nested <= TRUE; nested++) {
            GError *error = NULL;
            g_autofree char *summary = NULL;
            g_autofree char *text = g_strdup_printf("{'name': 'n', %s}", bad_fields[i].fields);
            g_autofree char *message = g_strconcat(nested ? "groups[1]." : "", bad_fields[i].message, NULL);
            g_assert_false(read_thing(text, nested ? "groups[1]" : "", &summary, &error));
            assert_error(error, WEFT_ERROR_INVALID, message);
        }
}

static void
test_fields_not_an_object(void)
{
    static const struct {
        const char *text;
        const char *where;
        const char *message;
    } cases[] = {
        { "[]", "", "the whole text: must be an object, is a list" },
        { "null", "groups[0]", "groups[0]: must be an object, is null" },
        { "{}", "", "name: is missing" },
        { "{'name': null}", "host", "host.name: is missing" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        GError *error = NULL;
        g_autofree char *summary = NULL;
        g_assert_false(read_thing(cases[i].text, cases[i].where, &summary, &error));
        g_assert_cmpstr(summary, ==, FALLBACKS);
        assert_error(error, WEFT_ERROR_INVALID, cases[i].message);
    }
}

/* What required fields are after an error: nothing that a caller could stumble over. */
static void
test_fields_required(void)
{
    json_t *object = json_object();
    WeftFields f;
    weft_fields_begin(&f, object, "%s", "");
    g_assert_cmpuint(weft_fields_uint(&f, "a", 3, 5, WEFT_REQUIRED), ==, 3);
    g_assert_cmpuint(weft_fields_size(&f, "b", 3, 5, WEFT_REQUIRED), ==, 3);
    g_assert_cmpuint(weft_fields_hex(&f, "c", 5, WEFT_REQUIRED), ==, 0);
    g_assert_cmpint(weft_fields_duration(&f, "d", -1), ==, 0);
    g_assert_cmpint(weft_fields_time(&f, "e", -1), ==, 0);
    g_assert_cmpint(weft_fields_word(&f, "f", colours, -1), ==, 0);
    weft_fields_fail(&f, "g", "comes too late");
    g_autofree char *path = weft_fields_path(&f, "x");
    g_assert_cmpstr(path, ==, "x");
    GError *error = NULL;
    g_assert_false(weft_fields_end(&f, &error));
    assert_error(g_steal_pointer(&error), WEFT_ERROR_INVALID, "a: is missing");

    weft_fields_begin(&f, object, "hosts[%u]", 3u);
    weft_fields_fail(&f, "g", "has %d of them", 2);
    g_assert_false(weft_fields_end(&f, &error));
    assert_error(g_steal_pointer(&error), WEFT_ERROR_INVALID, "hosts[3].g: has 2 of them");
    json_decref(object);
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hostlist/expand", test_hostlist_expand);
    g_test_add_func("/hostlist/bombs", test_hostlist_bombs);
    g_test_add_func("/hostlist/refused", test_hostlist_refused);
    g_test_add_func("/hostlist/limits", test_hostlist_limits);
    g_test_add_func("/hostlist/fold", test_hostlist_fold);
    g_test_add_func("/hostlist/round-trip", test_hostlist_round_trip);
    g_test_add_func("/hostlist/split", test_hostlist_split);
    g_test_add_func("/hostlist/natural-order", test_natural_compare);
    g_test_add_func("/parse/yaml", test_yaml);
    g_test_add_func("/parse/json", test_json);
    g_test_add_func("/parse/hostile", test_parse_hostile);
    g_test_add_func("/fields/taken", test_fields_taken);
    g_test_add_func("/fields/refused", test_fields_refused);
    g_test_add_func("/fields/not-an-object", test_fields_not_an_object);
    g_test_add_func("/fields/required", test_fields_required);
    return g_test_run();
}
