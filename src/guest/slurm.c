/* Slurm, where it is wanted and installed: rank 0 controls, all run jobs, and the tree of switches is the real one. */
#include "guest.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "etc/slurm"
#define END_TRIES 50
#define END_WAIT 100 /* milliseconds */

static const char *
program(const char *const *places)
{
    for (; *places; places++)
        if (file_exists(*places))
            return *places;
    return NULL;
}

/* As this user; NULL: as root. What it says is not a part of the meeting's answer. */
static void
run(const struct passwd *user, const char *const *argv)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd <= 2; fd++)
            dup2(null, fd);
        if (!user || (setgroups(0, NULL) == 0 && setgid(user->pw_gid) == 0 && setuid(user->pw_uid) == 0))
            execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid && status != 0)
        say("%s does not start", argv[0]);
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
give(const char *path, const struct passwd *user)
{
    if (geteuid() == 0 && chown(path, user->pw_uid, user->pw_gid) < 0)
        say("%s may not have %s", user->pw_name, path);
}

static void
write_key(const struct passwd *munge)
{
    size_t length;
    char *key = file_read("run/weft/files/munge.key", &length);
    if (key && file_write("etc/munge/munge.key", key, length, 0400))
        give("/etc/munge/munge.key", munge);
    free(key);
}

static void
start_munge(const struct passwd *munge)
{
    static const char *const folders[] = { "/run/munge", "/var/log/munge", "/var/lib/munge" };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        folder_make(folders[i] + 1, i == 0 ? 0755 : 0700);
        give(folders[i], munge);
    }
    if (!file_exists("run/munge/munge.socket.2"))
        run(munge, (const char *const[]){ "munged", NULL });
}

static void
end_running(const char *pid_file)
{
    char *text = file_read(pid_file, NULL);
    pid_t pid = text ? atoi(text) : 0;
    free(text);
    if (pid <= 1 || kill(pid, SIGTERM) < 0)
        return;
    for (int tries = 0; tries < END_TRIES && kill(pid, 0) == 0; tries++)
        poll(NULL, 0, END_WAIT);
}

/* slurmd wants control groups, and asks systemd for its own: where there is none, it is told so. */
static void
prepare_groups(void)
{
    static const char text[] = "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n";
    if (!file_exists("sys/fs/cgroup/cgroup.controllers") && mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, NULL) < 0)
        say("there are no control groups for Slurm");
    mkdir("/sys/fs/cgroup/system.slice", 0755);
    file_write(FOLDER "/cgroup.conf", text, sizeof text - 1, 0644);
}

/* slurmctld and slurmd that run already end first: a node that comes or goes is seen only at a start. */
static void
start(const struct passwd *munge, int controls)
{
    if (file_exists("run/systemd/system")) {
        run(NULL, (const char *const[]){ "systemctl", "--no-block", "restart", "munge", "slurmd", controls ? "slurmctld" : NULL,
                                         NULL });
        return;
    }
    start_munge(munge);
    prepare_groups();
    end_running("run/slurmd.pid");
    end_running("run/slurmctld.pid");
    if (controls)
        run(NULL, (const char *const[]){ "slurmctld", NULL });
    run(NULL, (const char *const[]){ "slurmd", NULL });
}

/* The daemons of another cluster, in a copy of one of its nodes; the next roster starts them again. slurmctld does not start
 * where another cluster's state lies. */
void
slurm_forget(void)
{
    if (!file_exists(FOLDER "/slurm.conf"))
        return;
    file_remove(FOLDER "/slurm.conf");
    file_remove("var/lib/slurm/ctld/clustername");
    if (file_exists("run/systemd/system"))
        return; /* which restarts them */
    end_running("run/slurmd.pid");
    end_running("run/slurmctld.pid");
    end_running("run/munge/munged.pid");
    file_remove("run/munge/munge.socket.2");
}

static void
set_up(const struct node *node, const struct roster *roster)
{
    static const char *const slurmd[] = { "usr/sbin/slurmd", "usr/bin/slurmd", "usr/local/sbin/slurmd", NULL };
    const struct passwd *munge = getpwnam("munge");
    if (!program(slurmd) || !munge) {
        say("Slurm is wanted, but the image lacks slurmd or munge");
        return;
    }
    rxe_set_up_for_session();
    folder_make("var/lib/slurm/ctld", 0755);
    folder_make("var/lib/slurm/d", 0755);
    write_key(munge);
    int changed = write_configuration(node, roster);
    changed = write_topology(roster) || changed;
    if (changed)
        start(munge, roster->self == roster->members[0].rank);
}

/* The cluster is ready without it; whoever waits for it asks Slurm. */
void
slurm_setup(const struct node *node, const struct roster *roster)
{
    fflush(stdout);
    if (!node->slurm || fork() != 0)
        return;
    setsid();
    set_up(node, roster);
    _exit(0);
}
