#include "swf.h"

#include "bounds.h"
#include "errors.h"
#include "text.h"

#include <string.h>

#define SECOND G_USEC_PER_SEC
#define UNKNOWN (-1)
#define NUMBERS_MAX 64 /* partitions and queues of which something is known */

typedef enum {
    JOB_NUMBER,
    SUBMIT_TIME,
    WAIT_TIME,
    RUN_TIME,
    PROCESSORS,
    CPU_TIME,
    USED_MEMORY,
    ASKED_PROCESSORS,
    ASKED_TIME,
    ASKED_MEMORY,
    STATUS,
    USER,
    GROUP,
    APPLICATION,
    QUEUE,
    PARTITION,
    PRECEDING_JOB,
    THINK_TIME,
    FIELDS
} Field;

/* A time may have a fraction, and is kept in microseconds. The other fields are only looked at as far as they have a largest
 * value. */
static const struct {
    const char *name;
    gboolean time;
    gint64 max;
} fields[FIELDS] = {
    [JOB_NUMBER] = { "job number", FALSE, G_MAXINT64 / 10 },
    [SUBMIT_TIME] = { "submit time", TRUE, WEFT_LOAD_TIME_MAX },
    [WAIT_TIME] = { "wait time" },
    [RUN_TIME] = { "run time", TRUE, (gint64)WEFT_WALLTIME_MAX },
    [PROCESSORS] = { "allocated processors", FALSE, WEFT_LOAD_PROCESSORS_MAX },
    [CPU_TIME] = { "CPU time" },
    [USED_MEMORY] = { "used memory" },
    [ASKED_PROCESSORS] = { "requested processors", FALSE, WEFT_LOAD_PROCESSORS_MAX },
    [ASKED_TIME] = { "requested time", TRUE, (gint64)WEFT_WALLTIME_MAX },
    [ASKED_MEMORY] = { "requested memory" },
    [STATUS] = { "status", FALSE, 5 },
    [USER] = { "user", FALSE, WEFT_LOAD_IDS_MAX },
    [GROUP] = { "group", FALSE, WEFT_LOAD_IDS_MAX },
    [APPLICATION] = { "application" },
    [QUEUE] = { "queue", FALSE, WEFT_LOAD_IDS_MAX },
    [PARTITION] = { "partition", FALSE, WEFT_LOAD_IDS_MAX },
    [PRECEDING_JOB] = { "preceding job" },
    [THINK_TIME] = { "think time" },
};

typedef struct Parser {
    WeftLoad *load;
    guint line;
    GArray *gpu_partitions;     /* gint64 */
    GArray *preemptible_queues; /* gint64 */
} Parser;

/* The first byte up to the end that is none of the set. */
static const char *
skip(const char *text, const char *end, const char *set)
{
    while (text < end && *text && strchr(set, *text))
        text++;
    return text;
}

static gboolean
refuse(const Parser *parser, Field field, const char *word, gsize length, GError **error)
{
    g_autofree char *copy = g_strndup(word, MIN(length, 256));
    g_autofree char *quoted = weft_text_quote(copy);
    if (fields[field].max == 0)
        return weft_error_refuse(error, WEFT_ERROR_INVALID, "line %u: field %u, the %s, is %s; write a number, or -1",
                                 parser->line, field + 1, fields[field].name, quoted);
    return weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "line %u: field %u, the %s, is %s; write a number up to %" G_GINT64_FORMAT
                             ", or -1 where it is not known",
                             parser->line, field + 1, fields[field].name, quoted, fields[field].max);
}

/* A number of the unit, whatever comes after its last digit that counts. FALSE: it is none, or beyond all bounds. */
static gboolean
parse_number(const char *word, const char *end, gint64 unit, gint64 *ret_value)
{
    gboolean minus = word < end && *word == '-';
    gint64 value = 0;
    const char *start = word += minus;
    for (; word < end && g_ascii_isdigit(*word); word++) {
        if (value > G_MAXINT64 / 20)
            return FALSE;
        value = value * 10 + (*word - '0');
    }
    if (word == start || value > G_MAXINT64 / unit - 1)
        return FALSE;
    value *= unit;
    if (unit > 1 && word < end && *word == '.')
        for (word++; word < end && g_ascii_isdigit(*word); word++)
            value += (*word - '0') * (unit /= 10);
    *ret_value = minus ? -value : value;
    return word == end;
}

/* Everything below zero is the -1 of the format: some traces have other negative times where clocks were set back. */
static gboolean
parse_field(const Parser *parser, Field field, const char *word, const char *end, gint64 *ret_value, GError **error)
{
    gint64 unit = fields[field].time ? SECOND : 1, value = 0;
    if (fields[field].max == 0)
        return skip(word, end, "-+.eE0123456789") == end || refuse(parser, field, word, (gsize)(end - word), error);
    if (!parse_number(word, end, unit, &value) || value / unit > fields[field].max)
        return refuse(parser, field, word, (gsize)(end - word), error);
    *ret_value = value < 0 ? UNKNOWN : value;
    return TRUE;
}

static gboolean
has_number(const GArray *numbers, gint64 number)
{
    for (guint i = 0; i < numbers->len; i++)
        if (g_array_index(numbers, gint64, i) == number)
            return TRUE;
    return FALSE;
}

static guint
known(gint64 value)
{
    return value < 0 ? 0 : (guint)value;
}

static void
add_job(Parser *parser, const gint64 *values)
{
    if (values[STATUS] >= 2 && values[STATUS] <= 4) {
        parser->load->partial++;
        return;
    }
    gint64 processors = values[ASKED_PROCESSORS] > 0 ? values[ASKED_PROCESSORS] : values[PROCESSORS];
    if (values[SUBMIT_TIME] < 0 || values[RUN_TIME] < 0 || processors <= 0) {
        parser->load->incomplete++;
        return;
    }
    WeftLoadJob job = { .number = values[JOB_NUMBER],
                        .submit = values[SUBMIT_TIME],
                        .run = values[RUN_TIME],
                        .walltime = values[ASKED_TIME] > 0 ? values[ASKED_TIME] : values[RUN_TIME],
                        .processors = (guint)processors,
                        .user = known(values[USER]),
                        .group = known(values[GROUP]),
                        .gpus = has_number(parser->gpu_partitions, values[PARTITION]),
                        .preemptible = has_number(parser->preemptible_queues, values[QUEUE]) };
    job.walltime = MAX(job.walltime, SECOND);
    g_array_append_val(parser->load->jobs, job);
}

static gboolean
parse_job(Parser *parser, const char *line, const char *end, GError **error)
{
    gint64 values[FIELDS];
    guint n = 0;
    for (const char *word = line; word < end; n++) {
        const char *next = word;
        while (next < end && !g_ascii_isspace(*next))
            next++;
        if (n < FIELDS && !parse_field(parser, n, word, next, &values[n], error))
            return FALSE;
        for (word = next; word < end && g_ascii_isspace(*word); word++)
            ;
    }
    if (n != FIELDS)
        return weft_error_refuse(error, WEFT_ERROR_INVALID,
                                 "line %u: has %u fields; a job has %u, with -1 for what is not known, and a comment begins "
                                 "with ';'",
                                 parser->line, n, FIELDS);
    add_job(parser, values);
    return TRUE;
}

/* --- comments --- */

/* "Partition: 2 gpus of some kind" */
static void
note_number(GArray *numbers, const char *value, const char *prefix)
{
    char *rest;
    gint64 number = g_ascii_strtoll(value, &rest, 10);
    g_autofree char *words = g_ascii_strdown(rest, -1);
    g_auto(GStrv) list = g_strsplit_set(words, " \t,;:()", -1);
    for (guint i = 0; rest != value && numbers->len < NUMBERS_MAX && list[i]; i++)
        if (g_str_has_prefix(list[i], prefix)) {
            g_array_append_val(numbers, number);
            return;
        }
}

static guint
note_count(const char *value, guint max)
{
    guint64 count = g_ascii_strtoull(value, NULL, 10);
    return count <= max ? (guint)count : 0;
}

/* What does not look as it should says nothing: comments are for people. */
static void
parse_comment(Parser *parser, const char *line, const char *end)
{
    line = skip(line, end, "; \t");
    g_autofree char *copy = g_strndup(line, MIN((gsize)(end - line), 1024));
    char *value = strchr(copy, ':');
    if (!value)
        return;
    *value++ = '\0';
    g_strstrip(copy);
    if (g_ascii_strcasecmp(copy, "MaxNodes") == 0)
        parser->load->hosts = note_count(value, WEFT_LOAD_HOSTS_MAX);
    else if (g_ascii_strcasecmp(copy, "MaxProcs") == 0)
        parser->load->processors = note_count(value, WEFT_LOAD_PROCESSORS_MAX);
    else if (g_ascii_strcasecmp(copy, "Partition") == 0)
        note_number(parser->gpu_partitions, value, "gpu");
    else if (g_ascii_strcasecmp(copy, "Queue") == 0)
        note_number(parser->preemptible_queues, value, "preempt");
}

static gboolean
parse_lines(Parser *parser, const char *text, gsize length, GError **error)
{
    const char *end = text + length;
    while (text < end) {
        const char *newline = memchr(text, '\n', (gsize)(end - text));
        const char *stop = newline ? newline : end;
        parser->line++;
        while (text < stop && g_ascii_isspace(*text))
            text++;
        if (text < stop && *text == ';')
            parse_comment(parser, text, stop);
        else if (text < stop && !parse_job(parser, text, stop, error))
            return FALSE;
        text = newline ? newline + 1 : end;
    }
    return TRUE;
}

WeftLoad *
weft_swf_parse(const char *text, gsize length, GError **error)
{
    g_autoptr(WeftLoad) load = weft_load_new();
    g_autoptr(GArray) partitions = g_array_new(FALSE, FALSE, sizeof(gint64));
    g_autoptr(GArray) queues = g_array_new(FALSE, FALSE, sizeof(gint64));
    Parser parser = { .load = load, .gpu_partitions = partitions, .preemptible_queues = queues };
    if (!parse_lines(&parser, text, length, error))
        return NULL;
    weft_load_sort(load);
    return g_steal_pointer(&load);
}

/* --- writing --- */

static void
append_time(GString *text, gint64 time)
{
    g_string_append_printf(text, " %" G_GINT64_FORMAT, time / SECOND);
    if (time % SECOND)
        g_string_append_printf(text, ".%06" G_GINT64_FORMAT, time % SECOND);
}

static void
append_job(GString *text, const WeftLoadJob *job)
{
    g_string_append_printf(text, "%" G_GINT64_FORMAT, job->number);
    append_time(text, job->submit);
    g_string_append(text, " -1");
    append_time(text, job->run);
    g_string_append_printf(text, " -1 -1 -1 %u", job->processors);
    append_time(text, job->walltime);
    g_string_append_printf(text, " -1 1 %u %u -1 %d %d -1 -1\n", job->user, job->group, job->preemptible ? 2 : 1,
                           job->gpus ? 2 : 1);
}

char *
weft_swf_format(const WeftLoad *load, const char *note)
{
    GString *text = g_string_new("; Version: 2.2\n");
    g_string_append_printf(text, "; Note: %s\n; MaxJobs: %u\n; MaxRecords: %u\n", note, load->jobs->len, load->jobs->len);
    if (load->hosts)
        g_string_append_printf(text, "; MaxNodes: %u\n", load->hosts);
    if (load->processors)
        g_string_append_printf(text, "; MaxProcs: %u\n", load->processors);
    g_string_append(text, "; Queue: 1 normal\n; Queue: 2 preemptible\n; Partition: 1 cores\n; Partition: 2 gpus\n");
    for (guint i = 0; i < load->jobs->len; i++)
        append_job(text, &g_array_index(load->jobs, WeftLoadJob, i));
    return g_string_free(text, FALSE);
}
