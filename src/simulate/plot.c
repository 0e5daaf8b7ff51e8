#include "figures.h"

#include <math.h>

#define WIDTH 880
#define HEIGHT 488
#define LEFT 62
#define RIGHT 24
#define TOP 84
#define PANEL 150.0
#define GAP 46
#define PLOT_WIDTH (WIDTH - LEFT - RIGHT)
#define TICKS 8 /* at most, along the time; … */
#define RUNGS 5 /* … and above each other */

/* Colours by class: a page or viewer that is dark gets the second set. */
static const char style[] = "<style>\n"
                            "text { font: 12px system-ui, 'DejaVu Sans', sans-serif; fill: #57606a }\n"
                            ".title { font-size: 15px; font-weight: 600; fill: #1f2328 }\n"
                            ".name { font-weight: 600; fill: #1f2328 }\n"
                            ".back { fill: #ffffff }\n"
                            ".grid { stroke: #d8dee4; stroke-width: 1 }\n"
                            ".axis { stroke: #8c959f; stroke-width: 1 }\n"
                            ".line { fill: none; stroke-width: 1.6; stroke-linejoin: round }\n"
                            ".area { stroke: none; fill-opacity: 0.16 }\n"
                            ".u.line { stroke: #0969da } .u.area, .u.key { fill: #0969da }\n"
                            ".q.line { stroke: #bc4c00 } .q.area, .q.key { fill: #bc4c00 }\n"
                            "@media (prefers-color-scheme: dark) {\n"
                            "text { fill: #9198a1 }\n"
                            ".title, .name { fill: #f0f6fc }\n"
                            ".back { fill: #0d1117 }\n"
                            ".grid { stroke: #2f353d }\n"
                            ".axis { stroke: #656c76 }\n"
                            ".u.line { stroke: #58a6ff } .u.area, .u.key { fill: #58a6ff }\n"
                            ".q.line { stroke: #f0883e } .q.area, .q.key { fill: #f0883e }\n"
                            "}\n"
                            "</style>\n";

/* Steps of the time's axis, in seconds, and how their labels count. */
static const struct {
    double step, unit;
    const char *label;
} scales[] = {
    { 10, 1, "s" },         { 60, 60, "min" },       { 300, 60, "min" },      { 600, 60, "min" },
    { 1800, 60, "min" },    { 3600, 3600, "h" },     { 10800, 3600, "h" },    { 21600, 3600, "h" },
    { 43200, 3600, "h" },   { 86400, 86400, "d" },   { 172800, 86400, "d" },  { 432000, 86400, "d" },
    { 864000, 86400, "d" }, { 2592000, 86400, "d" }, { 7776000, 86400, "d" }, { 31536000, 86400, "d" },
};

/* One of the two plots above each other. */
typedef struct Panel {
    const char *class;
    const char *name;
    char *summary; /* what is said beside its name */
    WeftMeterWhat what;
    double top;    /* y of its upper edge */
    double high;   /* value there */
    guint ticks;   /* above zero */
    double factor; /* of values on labels */
    const char *unit;
} Panel;

/* Locales do not matter here: a comma would be another number. */
static void
append(GString *svg, const char *format, double a, double b, double c, double d)
{
    const double values[] = { a, b, c, d };
    guint i = 0;
    for (const char *p = format; *p; p++) {
        char number[G_ASCII_DTOSTR_BUF_SIZE];
        if (*p == '#')
            g_string_append(svg, g_ascii_formatd(number, sizeof number, "%.1f", values[i++]));
        else
            g_string_append_c(svg, *p);
    }
}

static double
x_of(const WeftMeter *m, double seconds)
{
    double all = (double)(m->now - m->start) / G_USEC_PER_SEC;
    return LEFT + (all > 0 ? seconds / all : 0) * PLOT_WIDTH;
}

static double
y_of(const Panel *panel, double value)
{
    return panel->top + PANEL * (1 - value / panel->high);
}

/* 1, 2 or 5 times a power of ten, so that so many of it reach the value. */
static double
nice_step(double value, guint ticks)
{
    static const double steps[] = { 1, 2, 5 };
    for (double power = 1;; power *= 10)
        for (guint i = 0; i < G_N_ELEMENTS(steps); i++)
            if (steps[i] * power * ticks >= value)
                return steps[i] * power;
}

static double
value_at(const WeftSimulation *s, WeftMeterWhat what, guint step)
{
    double all = weft_meter_step_length(&s->meter, step) * (what == WEFT_METER_BUSY ? (double)s->cores : 1);
    return s->meter.steps[what][step] / all;
}

static void
append_grid(GString *svg, const Panel *panel)
{
    for (guint i = 0; i <= panel->ticks; i++) {
        double value = panel->high * i / panel->ticks, y = y_of(panel, value);
        append(svg, i ? "<line class=\"grid\"" : "<line class=\"axis\"", 0, 0, 0, 0);
        append(svg, " x1=\"#\" y1=\"#\" x2=\"#\" y2=\"#\"/>\n", LEFT, y, WIDTH - RIGHT, y);
        append(svg, "<text x=\"#\" y=\"#\" text-anchor=\"end\">", LEFT - 8, y + 4, 0, 0);
        g_string_append_printf(svg, "%.0f%s</text>\n", value * panel->factor, panel->unit);
    }
}

/* A value holds for its whole step. */
static void
append_curve(GString *svg, const Panel *panel, const WeftSimulation *s)
{
    const WeftMeter *m = &s->meter;
    g_autoptr(GString) points = g_string_new(NULL);
    double step = (double)m->step / G_USEC_PER_SEC, end = x_of(m, 0);
    for (guint i = 0; i < m->n_steps; i++) {
        double y = y_of(panel, value_at(s, panel->what, i));
        end = x_of(m, i * step + weft_meter_step_length(m, i));
        append(points, i ? " L# # L# #" : "M# # L# #", x_of(m, i * step), y, end, y);
    }
    if (points->len == 0)
        return;
    g_string_append_printf(svg, "<path class=\"%s area\" d=\"%s", panel->class, points->str);
    append(svg, " L# # L# # Z\"/>\n", end, y_of(panel, 0), LEFT, y_of(panel, 0));
    g_string_append_printf(svg, "<path class=\"%s line\" d=\"%s\"><title>%s</title></path>\n", panel->class, points->str,
                           panel->name);
}

static void
append_panel(GString *svg, const Panel *panel, const WeftSimulation *s)
{
    g_string_append_printf(svg, "<rect class=\"%s key\"", panel->class);
    append(svg, " x=\"#\" y=\"#\" width=\"12\" height=\"12\" rx=\"2\"/>\n", LEFT, panel->top - 22, 0, 0);
    append(svg, "<text class=\"name\" x=\"#\" y=\"#\">", LEFT + 19, panel->top - 12, 0, 0);
    g_string_append_printf(svg, "%s</text>\n", panel->name);
    append(svg, "<text x=\"#\" y=\"#\" text-anchor=\"end\">", WIDTH - RIGHT, panel->top - 12, 0, 0);
    g_string_append_printf(svg, "%s</text>\n", panel->summary);
    append_grid(svg, panel);
    append_curve(svg, panel, s);
}

static void
append_times(GString *svg, const WeftMeter *m, double bottom)
{
    double all = (double)(m->now - m->start) / G_USEC_PER_SEC;
    guint scale = 0;
    while (scale < G_N_ELEMENTS(scales) - 1 && all / scales[scale].step > TICKS)
        scale++;
    double step = MAX(scales[scale].step, floor(all / TICKS / scales[scale].step) * scales[scale].step);
    for (guint i = 0; i * step <= all; i++) {
        double t = i * step;
        append(svg, "<line class=\"axis\" x1=\"#\" y1=\"#\" x2=\"#\" y2=\"#\"/>\n", x_of(m, t), bottom, x_of(m, t), bottom + 5);
        append(svg, "<text x=\"#\" y=\"#\" text-anchor=\"middle\">", x_of(m, t), bottom + 20, 0, 0);
        g_string_append_printf(svg, "%.0f %s</text>\n", t / scales[scale].unit, scales[scale].label);
    }
    append(svg, "<text x=\"#\" y=\"#\" text-anchor=\"middle\">time since the first submission</text>\n",
           LEFT + PLOT_WIDTH / 2.0, bottom + 42, 0, 0);
}

char *
weft_simulation_plot(const WeftSimulation *s, const char *title)
{
    double longest = 0;
    for (guint i = 0; i < s->meter.n_steps; i++)
        longest = MAX(longest, value_at(s, WEFT_METER_WAITING, i));
    double step = nice_step(longest, RUNGS);
    guint rungs = MAX((guint)ceil(longest / step), 1);
    g_autofree char *busy = g_strdup_printf("mean %.1f %%", s->busy * 100);
    g_autofree char *waiting = g_strdup_printf("mean %.1f, at most %.0f", s->queue, s->queue_max);
    const Panel panels[] = {
        { "u", "Utilisation", busy, WEFT_METER_BUSY, TOP, 1, 4, 100, " %" },
        { "q", "Jobs that wait", waiting, WEFT_METER_WAITING, TOP + PANEL + GAP, step * rungs, rungs, 1, "" },
    };
    g_autofree char *escaped = g_markup_escape_text(title, -1);
    GString *svg = g_string_new(NULL);
    g_string_append_printf(svg,
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                           "role=\"img\">\n<title>%s</title>\n%s<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n"
                           "<text class=\"title\" x=\"%d\" y=\"34\">%s</text>\n",
                           WIDTH, HEIGHT, WIDTH, HEIGHT, escaped, style, WIDTH, HEIGHT, LEFT, escaped);
    for (guint i = 0; i < G_N_ELEMENTS(panels); i++)
        append_panel(svg, &panels[i], s);
    append_times(svg, &s->meter, y_of(&panels[1], 0));
    g_string_append(svg, "</svg>\n");
    return g_string_free(svg, FALSE);
}
