#include "guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct member *
member_of(const struct roster *roster, const char *rank)
{
    unsigned wanted = rank ? (unsigned)strtoul(rank, NULL, 10) : 0;
    /* The lines are sorted by rank: it is mostly the last. */
    for (unsigned i = roster->n_members; rank && i > 0; i--)
        if (roster->members[i - 1].rank == wanted)
            return &roster->members[i - 1];
    return NULL;
}

static int
take_node(struct roster *roster, char *rest)
{
    const char *rank = next_word(&rest), *name = next_word(&rest), *ip = next_word(&rest), *slots = next_word(&rest);
    const char *mac = next_word(&rest);
    if (!slots || strlen(name) >= NAME_SIZE || roster->n_members == MEMBERS_MAX)
        return 0;
    if (roster->n_members % 64 == 0) {
        roster->members = realloc(roster->members, (roster->n_members + 64) * sizeof *roster->members);
        if (!roster->members)
            abort();
    }
    struct member *member = &roster->members[roster->n_members++];
    *member = (struct member){ .rank = (unsigned)strtoul(rank, NULL, 10), .slots = (unsigned)strtoul(slots, NULL, 10) };
    memcpy(member->name, name, strlen(name) + 1);
    if (mac && !read_mac(mac, member->mac))
        return 0;
    return inet_pton(AF_INET, ip, &member->addresses[0]) == 1;
}

static int
take_ipoib(struct roster *roster, char *rest)
{
    struct member *member = member_of(roster, next_word(&rest));
    const char *rail = next_word(&rest), *ip = next_word(&rest);
    unsigned long number = rail ? strtoul(rail, NULL, 10) : RAILS_MAX;
    return member && ip && number < RAILS_MAX && inet_pton(AF_INET, ip, &member->addresses[number + 1]) == 1;
}

static int
take_leaf(struct roster *roster, char *rest)
{
    struct member *member = member_of(roster, next_word(&rest));
    const char *leaf = next_word(&rest);
    if (!member || !leaf || strlen(leaf) >= sizeof member->leaf)
        return 0;
    memcpy(member->leaf, leaf, strlen(leaf) + 1);
    return 1;
}

static int
take_hostkey(struct roster *roster, char *rest)
{
    struct member *member = member_of(roster, next_word(&rest));
    if (member)
        member->host_key = rest;
    return member && *rest;
}

static int
take_generation(struct roster *roster, char *rest)
{
    roster->generation = strtoull(rest, NULL, 10);
    return 1;
}

static int
take_self(struct roster *roster, char *rest)
{
    roster->self = (unsigned)strtoul(rest, NULL, 10);
    return 1;
}

static int
take_within(struct roster *roster, char *rest)
{
    roster->within = (unsigned)strtoul(rest, NULL, 10);
    return roster->within > 0 && roster->within <= 3600;
}

static int
take_port(struct roster *roster, char *rest)
{
    const char *rail = next_word(&rest), *guid = next_word(&rest), *pkey = next_word(&rest);
    if (!pkey || roster->n_promises == RAILS_MAX)
        return 0;
    struct promise *promise = &roster->promises[roster->n_promises++];
    promise->rail = (unsigned)strtoul(rail, NULL, 10);
    promise->guid = strtoull(guid, NULL, 16);
    promise->pkey = (unsigned)strtoul(pkey, NULL, 16);
    return promise->rail < RAILS_MAX;
}

static const struct {
    const char *key;
    int (*take)(struct roster *roster, char *rest);
} keys[] = {
    { "generation", take_generation }, { "self", take_self }, { "within", take_within },   { "node", take_node },
    { "ipoib", take_ipoib },           { "leaf", take_leaf }, { "hostkey", take_hostkey }, { "port", take_port },
};

static int
take_line(struct roster *roster, char *line)
{
    const char *key = next_word(&line);
    for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
        if (strcmp(key, keys[i].key) == 0)
            return keys[i].take(roster, line);
    return 1;
}

int
roster_parse(char *text, struct roster *ret_roster)
{
    *ret_roster = (struct roster){ .within = WEFT_MEET_SECONDS };
    for (char *line; (line = next_line(&text));)
        if (!take_line(ret_roster, line))
            return 0;
    return ret_roster->n_members > 0;
}

const struct member *
roster_self(const struct roster *roster)
{
    for (unsigned i = 0; i < roster->n_members; i++)
        if (roster->members[i].rank == roster->self)
            return &roster->members[i];
    return NULL;
}

/* --- what follows from it --- */

static void
write_hosts(const struct roster *roster)
{
    struct text text = { 0 };
    char ip[INET_ADDRSTRLEN];
    for (unsigned i = 0; i < roster->n_members; i++) {
        const struct member *member = &roster->members[i];
        text_add(&text, "%s %s\n", inet_ntop(AF_INET, &member->addresses[0], ip, sizeof ip), member->name);
        for (unsigned rail = 0; rail < RAILS_MAX; rail++)
            if (member->addresses[rail + 1].s_addr)
                text_add(&text, "%s %s-ib%u\n", inet_ntop(AF_INET, &member->addresses[rail + 1], ip, sizeof ip), member->name,
                         rail);
    }
    if (!file_exists("etc/hosts"))
        file_add_line("etc/hosts", "127.0.0.1 localhost", 0644);
    /* First, since many images name the node itself 127.0.1.1, which no other node reaches. */
    file_write_part("etc/hosts", &text, 1, 0644);
    text_free(&text);
}

/* By every name and address that it may be called by, so that nobody is asked and nobody remembers a node that was replaced. */
static void
write_known_hosts(const struct roster *roster)
{
    struct text text = { 0 };
    char ip[INET_ADDRSTRLEN];
    for (unsigned i = 0; i < roster->n_members; i++) {
        const struct member *member = &roster->members[i];
        if (!member->host_key)
            continue;
        text_add(&text, "%s,%s", member->name, inet_ntop(AF_INET, &member->addresses[0], ip, sizeof ip));
        for (unsigned rail = 0; rail < RAILS_MAX; rail++)
            if (member->addresses[rail + 1].s_addr)
                text_add(&text, ",%s-ib%u,%s", member->name, rail,
                         inet_ntop(AF_INET, &member->addresses[rail + 1], ip, sizeof ip));
        text_add(&text, " %s\n", member->host_key);
    }
    file_write_part(KNOWN_HOSTS, &text, 0, 0644);
    text_free(&text);
}

static void
write_hostfile(const struct roster *roster)
{
    struct text text = { 0 };
    for (unsigned i = 0; i < roster->n_members; i++)
        text_add(&text, "%s slots=%u\n", roster->members[i].name, roster->members[i].slots);
    file_write_text(HOSTFILE, &text, 0644);
    text_free(&text);
}

int
roster_write(const struct node *node, const struct roster *roster)
{
    char *known = file_read(GENERATION, NULL);
    unsigned long long newest = known ? strtoull(known, NULL, 10) : 0;
    struct text generation = { 0 };
    free(known);
    if (newest > roster->generation)
        return 0;
    write_hosts(roster);
    write_hostfile(roster);
    setup_users(node);
    write_known_hosts(roster);
    text_add(&generation, "%llu\n", roster->generation);
    file_write_text(GENERATION, &generation, 0644);
    text_free(&generation);
    return 1;
}
