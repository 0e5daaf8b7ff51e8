#include "simulate-table.h"

#include "cli.h"
#include "table.h"

#include <math.h>

#define MINUTE 60.0
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* Three digits that count: "3.2 s", "45 m", "2.1 d". */
static char *
format_time(double seconds)
{
    static const struct {
        double unit;
        const char *name;
    } units[] = { { DAY, "d" }, { HOUR, "h" }, { MINUTE, "m" }, { 1, "s" } };
    guint i = 0;
    while (i < G_N_ELEMENTS(units) - 1 && seconds < units[i].unit)
        i++;
    double value = seconds / units[i].unit;
    return g_strdup_printf("%.*f %s", value < 9.95 && seconds > 0 ? 1 : 0, value, units[i].name);
}

static char *
format_number(double value)
{
    return g_strdup_printf("%.*f", value < 99.995 ? 2 : 0, value);
}

static char *
format_share(double share)
{
    return g_strdup_printf("%.1f %%", share * 100);
}

static void
take_spread(WeftTable *table, const char *name, const WeftSpread *s, char *(*format)(double))
{
    weft_table_take(table, g_strdup(name));
    weft_table_take(table, format(s->mean));
    weft_table_take(table, format(s->median));
    weft_table_take(table, format(s->p95));
    weft_table_take(table, format(s->max));
}

static void
take_line(WeftTable *table, const char *name, char *value, char *remark)
{
    weft_table_take(table, g_strdup(name));
    weft_table_take(table, value);
    weft_table_take(table, remark ? remark : g_strdup(""));
}

static char *
count(guint64 n)
{
    return g_strdup_printf("%" G_GUINT64_FORMAT, n);
}

static void
take_jobs(WeftTable *table, const WeftSimulation *s, const WeftLoad *load)
{
    take_line(table, "jobs ended", count(s->ended), g_strdup_printf("of %u submitted", s->jobs));
    if (load->partial + load->incomplete)
        take_line(table, "lines left out", count(load->partial + load->incomplete),
                  g_strdup_printf("%u of jobs that never ran, %u of parts of jobs", load->incomplete, load->partial));
    if (s->impossible)
        take_line(table, "jobs that never fit", count(s->impossible), g_strdup("not even into the empty fleet"));
    if (s->waiting)
        take_line(table, "jobs left waiting", count(s->waiting), NULL);
    if (s->cut)
        take_line(table, "jobs cut", count(s->cut), g_strdup("by their walltime"));
    if (s->preempted)
        take_line(table, "times given way", count(s->preempted), g_strdup("to jobs that are not preemptible"));
    take_line(table, "jobs backfilled", count(s->backfilled), g_strdup("started while an older one waited"));
    take_line(table, "jobs late", count(s->late), g_strdup_printf("of %u that were told when they would start", s->promised));
}

static void
take_shares(WeftTable *table, const WeftSimulation *s)
{
    g_autofree char *fed = format_time((double)s->fed / G_USEC_PER_SEC), *span = format_time((double)s->span / G_USEC_PER_SEC);
    take_line(table, "load", format_share(s->offered), g_strdup_printf("asked for in %s, until the last submission", fed));
    take_line(table, "utilisation", format_share(s->busy_fed), g_strdup("until then"));
    take_line(table, "", format_share(s->busy), g_strdup_printf("in %s, until the last end", span));
    take_line(table, "fragmentation", format_share(s->stranded), g_strdup("of the free core time was on hosts with nodes"));
    take_line(table, "nodes split", format_share(s->whole ? (double)s->split / (double)s->whole : 0),
              g_strdup("of those that would fit into one NUMA node"));
    take_line(table, "queue", format_number(s->queue), g_strdup_printf("jobs in the mean, at most %.0f", s->queue_max));
}

void
weft_simulate_table(const WeftSimulation *s, const WeftSite *site, const WeftLoad *load, const WeftSimulateNames *names)
{
    g_autofree char *hosts = weft_cli_count(site->options.hosts, "host"), *safe = weft_cli_clean(names->load);
    g_autofree char *leaves = site->leaves == 1 ? g_strdup("1 leaf") : g_strdup_printf("%u leaves", site->leaves);
    printf("%s\n%s with %u cores on %s\n%s\n\n", safe, hosts, site->options.cores, leaves, names->rules);

    g_autoptr(WeftTable) shares = weft_table_new("FIGURE|>VALUE|REMARK");
    take_jobs(shares, s, load);
    take_shares(shares, s);
    weft_table_print(shares, stdout);

    g_autoptr(WeftTable) spreads = weft_table_new("OF EACH JOB|>MEAN|>MEDIAN|>95 %|>MAX");
    take_spread(spreads, "wait", &s->wait, format_time);
    take_spread(spreads, "bounded slowdown", &s->bounded_slowdown, format_number);
    take_spread(spreads, "leaves", &s->leaves, format_number);
    take_spread(spreads, "leaves over least", &s->detour, format_number);
    fputc('\n', stdout);
    weft_table_print(spreads, stdout);
}
