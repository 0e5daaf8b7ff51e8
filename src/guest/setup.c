/* What an MPI user expects at the first login. Each step stands alone: one that fails says so, and the others go on. */
#include "guest.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static void
setup_hostname(const struct node *node)
{
    struct text text = { 0 };
    if (root_is_node() && sethostname(node->hostname, strlen(node->hostname)) < 0)
        say("cannot set the hostname to %s", node->hostname);
    text_add(&text, "%s\n", node->hostname);
    file_write_text("etc/hostname", &text, 0644);
    text_free(&text);
}

void
setup_machine_id(const struct node *node)
{
    struct text text = { 0 };
    if (!node->machine_id[0])
        return;
    text_add(&text, "%s\n", node->machine_id);
    file_write_text("etc/machine-id", &text, 0444);
    if (file_exists("var/lib/dbus/machine-id"))
        file_write_text("var/lib/dbus/machine-id", &text, 0444);
    text_free(&text);
}

/* Itself, until the roster tells of the others. */
static void
setup_hosts(const struct node *node)
{
    struct text text = { 0 };
    char ip[INET_ADDRSTRLEN];
    if (file_exists(HOSTFILE))
        return;
    if (!file_exists("etc/hosts"))
        file_add_line("etc/hosts", "127.0.0.1 localhost", 0644);
    text_add(&text, "%s %s\n", inet_ntop(AF_INET, &node->ethernet.ip, ip, sizeof ip), node->hostname);
    file_write_part("etc/hosts", &text, 1, 0644);
    text_free(&text);
    text_add(&text, "%s slots=%u\n", node->hostname, node->slots);
    file_write_text(HOSTFILE, &text, 0644);
    text_free(&text);
}

/* Registered memory is locked memory. The first program's limit is that of all services which it starts from now on, except
 * under systemd, which has its own. */
static void
setup_limits(void)
{
    static const struct {
        const char *path, *text;
    } files[] = {
        { "etc/security/limits.d/weft.conf", "* - memlock unlimited\nroot - memlock unlimited\n" },
        { "etc/systemd/system.conf.d/weft.conf", "[Manager]\nDefaultLimitMEMLOCK=infinity\n" },
        { "etc/systemd/system/ssh.service.d/weft.conf", "[Service]\nLimitMEMLOCK=infinity\n" },
        { "etc/systemd/system/sshd.service.d/weft.conf", "[Service]\nLimitMEMLOCK=infinity\n" },
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (i == 0 || file_exists("etc/systemd/system"))
            file_write(files[i].path, files[i].text, strlen(files[i].text), 0644);
    const struct rlimit unlimited = { RLIM_INFINITY, RLIM_INFINITY };
    if (root_is_node())
        prlimit(1, RLIMIT_MEMLOCK, &unlimited, NULL);
}

/* --- environment --- */

static void
add_mpi(struct text *text, const struct node *node)
{
    char subnet[INET_ADDRSTRLEN];
    uint32_t mask = node->ethernet.prefix ? ~0u << (32 - node->ethernet.prefix) : 0;
    struct in_addr base = { htonl(ntohl(node->ethernet.ip.s_addr) & mask) };
    inet_ntop(AF_INET, &base, subnet, sizeof subnet);
    text_add(text, "OMPI_MCA_orte_default_hostfile=/" HOSTFILE "\nPRTE_MCA_prte_default_hostfile=/" HOSTFILE "\n");
    text_add(text, "OMPI_MCA_plm_rsh_args=-o LogLevel=ERROR -o StrictHostKeyChecking=accept-new\n");
    text_add(text, "OMPI_ALLOW_RUN_AS_ROOT=1\nOMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n");
    text_add(text, "PRTE_ALLOW_RUN_AS_ROOT=1\nPRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1\n");
    text_add(text, "OMPI_MCA_btl=^openib\n");
    text_add(text, "OMPI_MCA_oob_tcp_if_include=%s/%u\nOMPI_MCA_btl_tcp_if_include=%s/%u\n", subnet, node->ethernet.prefix,
             subnet, node->ethernet.prefix);
}

/* rxe knows one P_Key, whatever the partition's is. */
static void
add_ucx(struct text *text, const struct node *node)
{
    if (node->n_rails > 0)
        text_add(text, "UCX_IB_PKEY=0x%x\nUCX_IB_SL=%u\n", node->pkey & 0x7fff, node->sl);
    else if (rxe_is_offered())
        text_add(text, "UCX_NET_DEVICES=rxe0:1\nUCX_TLS=rc,sm,self\nUCX_IB_GID_INDEX=0\n");
}

static void
write_profile(const struct text *environment)
{
    struct text profile = { 0 };
    char *copy = environment->data ? strdup(environment->data) : NULL;
    char *rest = copy;
    for (char *line; (line = next_line(&rest));) {
        char *value = strchr(line, '=');
        text_add(&profile, "export %.*s='%s'\n", (int)(value - line), line, value + 1);
    }
    file_write_text("etc/profile.d/weft.sh", &profile, 0644);
    text_free(&profile);
    free(copy);
}

/* Shells that log in read the profile; PAM reads /etc/environment for all others; UCX has a file of its own, for what is
 * started through an ssh server without PAM. */
void
setup_environment(const struct node *node)
{
    struct text all = { 0 }, ucx = { 0 };
    add_ucx(&ucx, node);
    add_mpi(&all, node);
    text_add(&all, "%s", ucx.data ? ucx.data : "");
    file_write_text(ENVIRONMENT_FILE, &all, 0644);
    file_write_part("etc/environment", &all, 0, 0644);
    file_write_part("etc/ucx/ucx.conf", &ucx, 0, 0644);
    write_profile(&all);
    text_free(&ucx);
    text_free(&all);
}

void
setup_files(const struct node *node)
{
    setup_hostname(node);
    if (!file_exists("run/systemd/system")) /* which has one of its own by now, and keeps it */
        setup_machine_id(node);
    setup_hosts(node);
    setup_limits();
    setup_environment(node);
    setup_users(node);
}
