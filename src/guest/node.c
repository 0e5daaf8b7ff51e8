#include "guest.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int
read_address(const char *word, struct address *ret_address)
{
    char ip[INET_ADDRSTRLEN];
    const char *slash = word ? strchr(word, '/') : NULL;
    if (!slash || (size_t)(slash - word) >= sizeof ip)
        return 0;
    memcpy(ip, word, (size_t)(slash - word));
    ip[slash - word] = '\0';
    ret_address->prefix = (unsigned)strtoul(slash + 1, NULL, 10);
    return ret_address->prefix <= 32 && inet_pton(AF_INET, ip, &ret_address->ip) == 1;
}

static int
read_number(const char *word, unsigned *ret_number)
{
    char *end;
    if (!word)
        return 0;
    *ret_number = (unsigned)strtoul(word, &end, 0);
    return *end == '\0';
}

static int
read_name(const char *word, char *ret_name, size_t size)
{
    return word && (size_t)snprintf(ret_name, size, "%s", word) < size;
}

static int
take_hostname(struct node *node, char *rest)
{
    return read_name(next_word(&rest), node->hostname, sizeof node->hostname);
}

static int
take_cluster(struct node *node, char *rest)
{
    return read_name(next_word(&rest), node->cluster, sizeof node->cluster);
}

static int
take_id(struct node *node, char *rest)
{
    return read_name(next_word(&rest), node->id, sizeof node->id);
}

static int
take_machine(struct node *node, char *rest)
{
    return read_name(next_word(&rest), node->machine_id, sizeof node->machine_id);
}

static int
take_path(struct node *node, char *rest)
{
    return read_name(next_word(&rest), node->path, sizeof node->path);
}

static int
take_rank(struct node *node, char *rest)
{
    return read_number(next_word(&rest), &node->rank);
}

static int
take_slots(struct node *node, char *rest)
{
    return read_number(next_word(&rest), &node->slots);
}

static int
take_pkey(struct node *node, char *rest)
{
    return read_number(next_word(&rest), &node->pkey);
}

static int
take_sl(struct node *node, char *rest)
{
    return read_number(next_word(&rest), &node->sl);
}

static int
read_choice(const char *word, int *ret_choice)
{
    unsigned wanted = 0;
    int ok = read_number(word, &wanted);
    *ret_choice = wanted != 0;
    return ok;
}

static int
take_slurm(struct node *node, char *rest)
{
    return read_choice(next_word(&rest), &node->slurm);
}

static int
take_template(struct node *node, char *rest)
{
    return read_choice(next_word(&rest), &node->template);
}

static int
take_mac(struct node *node, char *rest)
{
    return read_mac(next_word(&rest), node->mac) && read_address(next_word(&rest), &node->ethernet) &&
           read_number(next_word(&rest), &node->mtu);
}

static int
take_ipoib(struct node *node, char *rest)
{
    if (node->n_rails == RAILS_MAX)
        return 0;
    if (!read_number(next_word(&rest), &node->rails[node->n_rails].rail))
        return 0;
    char *guid = next_word(&rest);
    node->rails[node->n_rails].guid = guid ? strtoull(guid, NULL, 16) : 0;
    return guid && read_address(next_word(&rest), &node->rails[node->n_rails++].address);
}

static int
take_login(struct node *node, char *rest)
{
    if (node->n_logins < LOGINS_MAX)
        node->logins[node->n_logins++] = rest;
    return *rest != '\0';
}

static const struct {
    const char *key;
    int (*take)(struct node *node, char *rest);
} keys[] = {
    { "hostname", take_hostname }, { "cluster", take_cluster },   { "path", take_path },   { "rank", take_rank },
    { "slots", take_slots },       { "pkey", take_pkey },         { "sl", take_sl },       { "slurm", take_slurm },
    { "mac", take_mac },           { "ipoib", take_ipoib },       { "login", take_login }, { "id", take_id },
    { "machine", take_machine },   { "template", take_template },
};

/* Keys that it does not know are those of a newer weftd. */
static int
take_line(struct node *node, char *line)
{
    char *key = next_word(&line);
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].take(node, line);
    return 1;
}

int
node_parse(const char *path, char *text, struct node *ret_node)
{
    *ret_node = (struct node){ .mtu = 1450, .slots = 1, .pkey = 0xffff };
    char *rest = ret_node->text = text;
    for (char *line; (line = next_line(&rest));) {
        if (!take_line(ret_node, line)) {
            say("/%s: \"%s\" makes no sense", path, line);
            node_free(ret_node);
            return 0;
        }
    }
    if (ret_node->template || ret_node->hostname[0] != '\0')
        return 1;
    node_free(ret_node);
    return 0;
}

int
node_read(const char *path, struct node *ret_node)
{
    char *text = file_read(path, NULL);
    if (text)
        return node_parse(path, text, ret_node);
    *ret_node = (struct node){ 0 };
    return 0;
}

void
node_free(struct node *node)
{
    free(node->text);
    *node = (struct node){ 0 };
}
