#include "template.h"

#include "codec.h"

#define ID_LENGTH 16 /* hexadecimal digits */

const char *const weft_template_state_words[WEFT_TEMPLATE_STATES + 1] = {
    [WEFT_TEMPLATE_CAPTURING] = "capturing",
    [WEFT_TEMPLATE_READY] = "ready",
    [WEFT_TEMPLATE_FAILED] = "failed",
};

static const WeftCodecField template_fields[] = {
    WEFT_FIELD(WeftTemplate, id, TEXT),
    WEFT_FIELD(WeftTemplate, generation, UINT64),
    WEFT_FIELD(WeftTemplate, image, TEXT),
    WEFT_FIELD(WeftTemplate, cmdline, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, guest, TEXT),
    WEFT_FIELD(WeftTemplate, cores, UINT, .min = 1, .max = WEFT_CORES_MAX),
    WEFT_FIELD(WeftTemplate, cpus, UINT, .min = 1),
    WEFT_FIELD(WeftTemplate, memory, UINT64),
    WEFT_FIELD(WeftTemplate, page_size, UINT64),
    WEFT_FIELD(WeftTemplate, kind, TEXT),
    WEFT_FIELD(WeftTemplate, state, WORD, .words = weft_template_state_words),
    WEFT_FIELD(WeftTemplate, since, UINT64),
    WEFT_FIELD(WeftTemplate, reason, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, detail, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, failed, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, digest, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, size, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, host, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, captured, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, used, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, source, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, rank, UINT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, cluster, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, tenant, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, paused, UINT64, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, disk, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftTemplate, disk_size, UINT64, WEFT_OPTIONAL),
    {},
};

static const WeftCodecField primed_fields[] = {
    WEFT_FIELD(WeftPrimed, id, TEXT),
    WEFT_FIELD(WeftPrimed, template, TEXT),
    WEFT_FIELD(WeftPrimed, generation, UINT64),
    WEFT_FIELD(WeftPrimed, tenant, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftPrimed, host, TEXT),
    WEFT_FIELD(WeftPrimed, numa, UINT, .max = WEFT_NUMA_MAX - 1),
    WEFT_FIELD(WeftPrimed, page_size, UINT64, .min = 1),
    WEFT_FIELD(WeftPrimed, pages, UINT64),
    WEFT_FIELD(WeftPrimed, since, UINT64),
    {},
};

static WeftTemplate *
template_new(void)
{
    WeftTemplate *template = g_new0(WeftTemplate, 1);
    template->files = g_ptr_array_new_with_free_func(g_free);
    return template;
}

void
weft_template_free(WeftTemplate *template)
{
    if (!template)
        return;
    g_ptr_array_unref(template->files);
    weft_codec_free(template_fields, template);
}

static void
check_file(WeftFields *f, const WeftTemplate *template)
{
    g_autoptr(GError) error = NULL;
    if (template->digest && !weft_digest_check(template->digest, &error))
        weft_fields_fail(f, "digest", "%s", error->message);
    else if (template->state == WEFT_TEMPLATE_READY && !template->digest)
        weft_fields_fail(f, "digest", "is missing; a template that is ready has a saved file");
}

WeftTemplate *
weft_template_from_json(json_t *json, GError **error)
{
    g_autoptr(WeftTemplate) template = template_new();
    WeftFields f;
    weft_fields_begin(&f, json, "%s", "");
    weft_codec_read(&f, template_fields, template);
    weft_codec_read_texts(&f, "files", WEFT_PARTS, WEFT_GRAMMAR_NONE, "digest", template->files);
    if (!f.error)
        check_file(&f, template);
    return weft_fields_end(&f, error) ? g_steal_pointer(&template) : NULL;
}

json_t *
weft_template_to_json(const WeftTemplate *template)
{
    json_t *json = weft_codec_write(template_fields, template);
    json_object_set_new_nocheck(json, "files", weft_codec_write_texts(template->files));
    return json;
}

static gpointer
copy_text(gconstpointer text, gpointer data)
{
    return g_strdup(text);
}

WeftTemplate *
weft_template_copy(const WeftTemplate *template)
{
    WeftTemplate *copy = g_memdup2(template, sizeof *copy);
    weft_codec_own(template_fields, copy);
    copy->files = g_ptr_array_copy(template->files, copy_text, NULL);
    return copy;
}

/* --- which one it is --- */

/* All that a node must have in common with what it is forked from. */
static char *
make_id(const WeftTemplate *template)
{
    g_autoptr(GString) text = g_string_new(NULL);
    for (guint i = 0; i < template->files->len; i++)
        g_string_append_printf(text, "%s\n", (const char *)template->files->pdata[i]);
    g_string_append_printf(text, "%s\n%s\n%u %u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT "\n%s\n",
                           template->cmdline ? template->cmdline : "", template->guest, template->cores, template->cpus,
                           template->memory, template->page_size, template->kind);
    char *id = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text->str, (gssize)text->len);
    id[ID_LENGTH] = '\0';
    return id;
}

static guint
count_cpus(const WeftNode *node, const WeftHost *host)
{
    guint n = 0;
    for (guint i = 0; i < node->cores->len; i++) {
        guint16 core = g_array_index(node->cores, guint16, i);
        n += core < host->cores->len ? g_array_index(host->cores, WeftCore, core).n_cpus : 1;
    }
    return n;
}

/* In its tenant's words. NULL: nothing speaks against it. */
static const char *
find_obstacle(const WeftTemplateNeed *need)
{
    const WeftImage *image = need->image;
    if (!image)
        return "its image is not known";
    if (!need->running && image->disk && image->disk->format != WEFT_DISK_READONLY)
        return "its image has a disk that each node writes to";
    if (need->node->memory->len != 1)
        return "its memory is in more than one NUMA node";
    return need->kind ? NULL : "its host does not tell which QEMU and processor it has";
}

WeftTemplate *
weft_template_for(const WeftTemplateNeed *need, const char **ret_why)
{
    const WeftNode *node = need->node;
    const WeftImage *image = need->image;
    *ret_why = find_obstacle(need);
    if (*ret_why)
        return NULL;
    WeftTemplate *template = template_new();
    const WeftImageFile *file;
    for (guint i = 0; (file = weft_image_file(image, i)); i++)
        g_ptr_array_add(template->files, g_strdup(file->digest));
    template->image = g_strdup(image->name);
    template->cmdline = g_strdup(image->cmdline);
    template->guest = g_strdup(need->guest);
    template->cores = node->cores->len;
    template->cpus = count_cpus(node, need->host);
    template->memory = weft_node_memory(node);
    template->page_size = g_array_index(node->memory, WeftMemory, 0).page_size;
    template->kind = g_strdup(need->kind);
    template->id = make_id(template);
    return template;
}

guint64
weft_template_storage(const WeftTemplate *template)
{
    return template->state == WEFT_TEMPLATE_FAILED ? 0 : template->size + template->disk_size;
}

gboolean
weft_template_is_of(const WeftTemplate *template, const WeftImage *image)
{
    const WeftImageFile *file;
    guint i = 0;
    for (; (file = weft_image_file(image, i)); i++)
        if (i >= template->files->len || !g_str_equal(file->digest, template->files->pdata[i]))
            return FALSE;
    return i == template->files->len && g_strcmp0(template->cmdline, image->cmdline) == 0;
}

char *
weft_template_private_id(const char *cluster, guint rank)
{
    return g_strdup_printf("%s-%u", cluster, rank);
}

WeftImageFile
weft_template_file(const WeftTemplate *template)
{
    return (WeftImageFile){ template->digest, template->size, WEFT_DISK_RAW };
}

WeftImageFile
weft_template_disk(const WeftTemplate *template)
{
    return (WeftImageFile){ template->disk, template->disk_size, WEFT_DISK_QCOW2 };
}

char *
weft_inventory_kind(const WeftInventory *inventory)
{
    if (!inventory->qemu)
        return NULL;
    return g_strdup_printf("QEMU %s, %s, %s, %s", inventory->qemu, inventory->machine ? inventory->machine : "q35",
                           inventory->cpu_model ? inventory->cpu_model : "unknown processor", inventory->kvm ? "kvm" : "tcg");
}

char *
weft_template_cluster(const char *id)
{
    return g_strconcat("template-", id, NULL);
}

/* --- primed memory --- */

WeftPrimed *
weft_primed_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(primed_fields, sizeof(WeftPrimed), json, "", error);
}

json_t *
weft_primed_to_json(const WeftPrimed *primed)
{
    return weft_codec_write(primed_fields, primed);
}

void
weft_primed_free(WeftPrimed *primed)
{
    if (primed)
        weft_codec_free(primed_fields, primed);
}

WeftMemory
weft_primed_memory(const WeftPrimed *primed)
{
    return (WeftMemory){ primed->numa, primed->page_size, primed->pages };
}
