#include "domain-xml-private.h"
#include "errors.h"

void
weft_xml_begin(WeftXml *xml, const char *element)
{
    xmlTextWriterStartElement(xml->writer, BAD_CAST element);
}

void
weft_xml_end(WeftXml *xml)
{
    xmlTextWriterEndElement(xml->writer);
}

/* XML has no way to write control characters, escaped or not. */
static gboolean
is_writable(const char *text)
{
    if (!g_utf8_validate(text, -1, NULL))
        return FALSE;
    for (const char *c = text; *c; c++) {
        if (g_ascii_iscntrl(*c))
            return FALSE;
    }
    return TRUE;
}

static const char *
checked(WeftXml *xml, const char *what, const char *text)
{
    if (is_writable(text))
        return text;
    if (!xml->error) {
        g_autofree char *shown = g_strescape(text, NULL);
        g_set_error(&xml->error, WEFT_ERROR, WEFT_ERROR_INVALID,
                    "%s \"%s\" cannot be written as XML: use plain text without control characters", what, shown);
    }
    return "";
}

void
weft_xml_attribute(WeftXml *xml, const char *name, const char *value)
{
    xmlTextWriterWriteAttribute(xml->writer, BAD_CAST name, BAD_CAST checked(xml, name, value));
}

void
weft_xml_attribute_format(WeftXml *xml, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g_autofree char *value = g_strdup_vprintf(format, args);
    va_end(args);
    weft_xml_attribute(xml, name, value);
}

void
weft_xml_text(WeftXml *xml, const char *text)
{
    xmlTextWriterWriteString(xml->writer, BAD_CAST checked(xml, "text", text));
}

void
weft_xml_element(WeftXml *xml, const char *name, const char *text)
{
    xmlTextWriterWriteElement(xml->writer, BAD_CAST name, BAD_CAST checked(xml, name, text));
}

void
weft_xml_empty_of(WeftXml *xml, const char *const *texts)
{
    weft_xml_begin(xml, texts[0]);
    for (guint i = 1; texts[i]; i += 2)
        weft_xml_attribute(xml, texts[i], texts[i + 1]);
    weft_xml_end(xml);
}

static int
compare_guint(gconstpointer a, gconstpointer b)
{
    guint x = *(const guint *)a, y = *(const guint *)b;
    return x < y ? -1 : x > y;
}

char *
weft_xml_set(GArray *numbers)
{
    if (numbers->len == 0)
        return NULL;
    g_array_sort(numbers, compare_guint);
    const guint *n = (const guint *)(gpointer)numbers->data;
    GString *text = g_string_new(NULL);
    for (guint first = 0, last; first < numbers->len; first = last + 1) {
        for (last = first; last + 1 < numbers->len && n[last + 1] <= n[last] + 1; last++)
            ;
        g_string_append_printf(text, "%s%u", first ? "," : "", n[first]);
        if (n[last] > n[first])
            g_string_append_printf(text, "-%u", n[last]);
    }
    return g_string_free(text, FALSE);
}
