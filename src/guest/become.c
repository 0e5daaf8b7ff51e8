/* An identity for a node that did not boot with it. Whatever the user runs comes later: "guest start" has not returned yet. */
#include "guest.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILES_MAX 32
#define CLAIMED "run/weft/identity" /* whose it is to be, also when it is done by half */
#define HOOK_SECONDS 30

struct file {
    const char *path; /* below run/weft/files */
    unsigned mode;
    char *content;
    size_t length;
};

/* Texts are borrowed from the input, contents decoded in place. */
struct identity {
    uint8_t random[1024];
    size_t n_random;
    char *node;
    const char *was;
    struct file files[FILES_MAX];
    unsigned n_files;
};

/* --- what is told --- */

static int
digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* In place, and ended by NUL: what comes out is shorter. 0: it is none. */
static int
decode_base64(char *text, size_t *ret_length)
{
    size_t n = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    char *in = text;
    for (; *in && *in != '='; in++) {
        int digit = digit_of(*in);
        if (digit < 0)
            return 0;
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8)
            text[n++] = (char)(bits >> (have -= 8));
    }
    if (in[strspn(in, "=")] != '\0')
        return 0;
    text[n] = '\0';
    *ret_length = n;
    return 1;
}

static int
take_random(struct identity *identity, char *rest)
{
    for (; identity->n_random < sizeof identity->random && read_hex(rest, &identity->random[identity->n_random]); rest += 2)
        identity->n_random++;
    return *rest == '\0';
}

static int
take_node(struct identity *identity, char *rest)
{
    size_t length;
    identity->node = rest;
    return decode_base64(rest, &length) && strlen(rest) == length;
}

static int
take_was(struct identity *identity, char *rest)
{
    identity->was = next_word(&rest);
    return identity->was != NULL;
}

/* A path that leads nowhere else. */
static int
is_plain(const char *path)
{
    return path && *path != '/' && !strstr(path, "..") && strlen(path) < 64;
}

static int
take_file(struct identity *identity, char *rest)
{
    const char *path = next_word(&rest), *mode = next_word(&rest);
    if (!is_plain(path) || !mode || identity->n_files == FILES_MAX)
        return 0;
    struct file *file = &identity->files[identity->n_files++];
    *file = (struct file){ .path = path, .mode = (unsigned)strtoul(mode, NULL, 8) & 0777, .content = rest };
    return decode_base64(rest, &file->length);
}

static const struct {
    const char *key;
    int (*take)(struct identity *identity, char *rest);
} keys[] = { { "random", take_random }, { "node", take_node }, { "was", take_was }, { "file", take_file } };

/* Keys that it does not know are those of a newer weftd. */
static int
parse(char *text, struct identity *ret_identity)
{
    *ret_identity = (struct identity){ 0 };
    for (char *line; (line = next_line(&text));) {
        const char *key = next_word(&line);
        for (size_t i = 0; key && i < sizeof keys / sizeof *keys; i++)
            if (strcmp(key, keys[i].key) == 0 && !keys[i].take(ret_identity, line))
                return 0;
    }
    return ret_identity->node != NULL && ret_identity->n_random >= WEFT_BECOME_RANDOM;
}

/* --- whether it may be --- */

/* Whose the node is by now; NULL: nobody's. The caller frees it. */
static char *
claimed_by(const struct node *before)
{
    char *id = file_read(CLAIMED, NULL);
    if (id)
        id[strcspn(id, "\n")] = '\0';
    return id ? id : before->id[0] ? strdup(before->id) : NULL;
}

static int
may_become(const struct node *node, const struct identity *identity, const struct node *before, struct text *said)
{
    char *id = claimed_by(before);
    int ok = !id || strcmp(id, node->id) == 0 || (identity->was && strcmp(id, identity->was) == 0);
    if (!ok)
        text_add(said, "the node is %s already, and cannot become %s\n", id, node->id);
    free(id);
    return ok;
}

int
become_claim(const char *id)
{
    struct text text = { 0 };
    text_add(&text, "%s\n", id);
    int ok = file_write_text(CLAIMED, &text, 0644) != 0;
    text_free(&text);
    return ok;
}

/* --- how --- */

/* A copy of a running node knows another cluster's nodes, and has its keys. */
static void
forget(const struct node *before)
{
    file_remove(HOSTFILE);
    file_remove(GENERATION);
    file_remove(RAIL_PORTS);
    users_forget(before);
    if (!root_is_node())
        return;
    slurm_forget();
    net_down_ethernet(before);
}

static void
install_files(const struct identity *identity)
{
    char path[128];
    folder_make("run/weft/files", 0700);
    for (unsigned i = 0; i < identity->n_files; i++) {
        const struct file *file = &identity->files[i];
        snprintf(path, sizeof path, "run/weft/files/%s", file->path);
        file_write(path, file->content, file->length, 0600);
    }
}

/* An ssh server that systemd keeps has the old key. */
static void
restart_ssh(void)
{
    pid_t pid = root_is_node() && file_exists("run/systemd/system") ? fork() : -1;
    if (pid == 0) {
        execlp("systemctl", "systemctl", "--no-block", "try-restart", "ssh.service", "sshd.service", (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

/* Services that run already; where systemd does not keep them, they are told by the image's own programs. */
static void
tell_services(void)
{
    struct hooks hooks;
    restart_ssh();
    hooks_list(BECOME_FOLDER, &hooks);
    for (unsigned i = 0; i < hooks.n; i++) {
        char *why = NULL;
        if (!hook_run(BECOME_FOLDER, hooks.names[i], "become", now() + HOOK_SECONDS * 1000, &why))
            say("%s", why);
        free(why);
    }
    hooks_free(&hooks);
}

/* In the other order the environment would be written without them first. */
static void
take_devices(const struct node *node, const struct node *before)
{
    net_hand_over(before, node);
    if (devices_are_at_hand(node))
        devices_set_up(node, 0);
}

/* The node's file comes last: with it, what waits for an identity goes on. */
static int
become(const struct node *node, const struct identity *identity, const struct node *before, int64_t time)
{
    int same = before->id[0] && strcmp(before->id, node->id) == 0;
    int copied = before->id[0] && !same;
    if (root_is_node()) {
        entropy_add(identity->random, identity->n_random);
        clock_set(time);
    }
    if (!become_claim(node->id))
        return 0;
    if (root_is_node() && !same)
        boot_id_renew();
    if (copied)
        forget(before);
    if (root_is_node() && !same)
        take_devices(node, before);
    install_files(identity);
    setup_files(node);
    if (copied)
        setup_machine_id(node);
    size_t length = strlen(identity->node);
    if (!file_write(NODE_FILE, identity->node, length, 0644))
        return 0;
    if (copied)
        tell_services();
    return 1;
}

int
become_is_at_hand(void)
{
    return server_options()->template;
}

int
become_here(const struct question *question, char *input, struct text *ret_said)
{
    static struct identity identity;
    struct node node = { 0 }, before = { 0 };
    int result = 1;
    if (!input || !parse(input, &identity) || !node_parse("(become)", strdup(identity.node), &node) || !node.id[0]) {
        text_add(ret_said, "the identity makes no sense\n");
    } else {
        node_read(NODE_FILE, &before);
        if (may_become(&node, &identity, &before, ret_said)) {
            result = !become(&node, &identity, &before, question->time);
            text_add(ret_said, result ? "the identity cannot be written\n" : "became %s\n", node.hostname);
        }
    }
    node_free(&node);
    node_free(&before);
    return result;
}

void
become_run(const struct question *question)
{
    struct text said = { 0 };
    char *text = input_read();
    signal(SIGHUP, SIG_IGN); /* what has begun is brought to its end, also when weftd goes away */
    int result = become_here(question, text, &said);
    fwrite(said.data, 1, said.length, stdout);
    fflush(stdout);
    _exit(result);
}

/* --- once before --- */

/* Nobody is called so. */
static const char nobody[] = "hostname -\ncluster -\nid -\nmachine 00000000000000000000000000000000\n"
                             "mac 00:00:00:00:00:00 10.64.0.1/16 1450\nlogin -\n";

static void
prepare_network(void)
{
    struct node template = { 0 };
    if (node_read(NODE_FILE, &template))
        net_prepare(&template);
    node_free(&template);
}

/* An image of layers has copies of its folders and files made when they are first written to; and what reads the lower layer
 * for that would run in each fork. */
void
become_rehearse(void)
{
    static const char *const paths[] = { "ssh/id_ed25519",       "ssh/id_ed25519.pub", "ssh/host_ed25519",
                                         "ssh/host_ed25519.pub", "ssh/host_dropbear",  "munge.key" };
    static struct identity blank;
    struct node node;
    for (unsigned i = 0; i < sizeof paths / sizeof *paths; i++)
        blank.files[blank.n_files++] = (struct file){ paths[i], 0600, (char *)"-", 1 };
    if (!node_parse("(rehearsal)", strdup(nobody), &node))
        return;
    install_files(&blank);
    setup_files(&node);
    users_forget(&node);
    file_remove(HOSTFILE);
    if (root_is_node()) {
        boot_id_renew();
        prepare_network();
    }
    node_free(&node);
}
