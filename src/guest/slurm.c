/* Slurm, where it is wanted and installed: rank 0 controls, all run jobs, and the tree of switches is the real one. */
#include "guest.h"

#include <arpa/inet.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "etc/slurm"

static const char *
program(const char *const *places)
{
    for (; *places; places++)
        if (file_exists(*places))
            return *places;
    return NULL;
}

static void
run(const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static int
write_configuration(const struct node *node, const struct roster *roster)
{
    struct text text = { 0 };
    char ip[INET_ADDRSTRLEN];
    text_add(&text,
             "ClusterName=%s\nSlurmctldHost=%s\nAuthType=auth/munge\nSlurmUser=root\nMpiDefault=none\n"
             "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\nSelectType=select/cons_tres\n"
             "SelectTypeParameters=CR_Core\nTopologyPlugin=topology/tree\nReturnToService=2\n"
             "StateSaveLocation=/var/lib/slurm/ctld\nSlurmdSpoolDir=/var/lib/slurm/d\n"
             "SlurmctldPidFile=/run/slurmctld.pid\nSlurmdPidFile=/run/slurmd.pid\n",
             node->cluster, roster->members[0].name);
    for (unsigned i = 0; i < roster->n_members; i++)
        text_add(&text, "NodeName=%s NodeAddr=%s CPUs=%u State=UNKNOWN\n", roster->members[i].name,
                 inet_ntop(AF_INET, &roster->members[i].addresses[0], ip, sizeof ip), roster->members[i].slots);
    text_add(&text, "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
    int changed = file_write_text(FOLDER "/slurm.conf", &text, 0644) == 1;
    text_free(&text);
    return changed;
}

/* Leaves are numbered as they appear, and all hang on one switch: the fabric above them is not the tenant's to know. */
static int
write_topology(const struct roster *roster)
{
    struct text text = { 0 }, leaves = { 0 };
    for (unsigned i = 0; i < roster->n_members; i++) {
        const char *leaf = roster->members[i].leaf;
        int first = *leaf != '\0';
        for (unsigned j = 0; j < i && first; j++)
            first = strcmp(roster->members[j].leaf, leaf) != 0;
        if (!first)
            continue;
        text_add(&text, "SwitchName=%s Nodes=", leaf);
        for (unsigned j = i; j < roster->n_members; j++)
            if (strcmp(roster->members[j].leaf, leaf) == 0)
                text_add(&text, "%s%s", j > i ? "," : "", roster->members[j].name);
        text_add(&text, "\n");
        text_add(&leaves, "%s%s", leaves.length ? "," : "", leaf);
    }
    if (leaves.length > 0)
        text_add(&text, "SwitchName=top Switches=%s\n", leaves.data);
    int changed = file_write_text(FOLDER "/topology.conf", &text, 0644) == 1;
    text_free(&leaves);
    text_free(&text);
    return changed;
}

static void
write_key(void)
{
    size_t length;
    char *key = file_read("run/weft/files/munge.key", &length);
    const struct passwd *munge = getpwnam("munge");
    if (key && munge && file_write("etc/munge/munge.key", key, length, 0400))
        if (geteuid() == 0 && chown("/etc/munge/munge.key", munge->pw_uid, munge->pw_gid) < 0)
            say("munge may not read its key");
    free(key);
}

static void
start(int controls)
{
    if (file_exists("run/systemd/system")) {
        run((const char *const[]){ "systemctl", "--no-block", "restart", "munge", "slurmd", controls ? "slurmctld" : NULL,
                                   NULL });
        return;
    }
    folder_make("run/munge", 0755);
    folder_make("var/log/munge", 0700);
    folder_make("var/lib/munge", 0700);
    run((const char *const[]){ "munged", "--force", "--stop", NULL });
    run((const char *const[]){ "munged", "--force", NULL });
    if (controls)
        run((const char *const[]){ "slurmctld", NULL });
    run((const char *const[]){ "slurmd", NULL });
}

void
slurm_setup(const struct node *node, const struct roster *roster)
{
    static const char *const slurmd[] = { "usr/sbin/slurmd", "usr/bin/slurmd", "usr/local/sbin/slurmd", NULL };
    if (!program(slurmd)) {
        say("Slurm is wanted, but the image has no slurmd");
        return;
    }
    folder_make("var/lib/slurm/ctld", 0755);
    folder_make("var/lib/slurm/d", 0755);
    write_key();
    int changed = write_configuration(node, roster);
    changed = write_topology(roster) || changed;
    if (changed)
        start(roster->self == roster->members[0].rank);
}
