/* ssh between the nodes, for root and the image's user. */
#include "guest.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#define FILES "run/weft/files/"
#define FIRST_USER 1000 /* cloud-init's default user is the first one */
#define PATH_SIZE 512

/* Copies a file of the seed, which is root's. */
static void
install(const char *from, const char *to, unsigned mode)
{
    size_t length;
    char *content = file_read(from, &length);
    if (content)
        file_write(to, content, length, mode);
    free(content);
}

/* What a user put there is left alone. */
static void
give(const char *content, const char *to, unsigned mode)
{
    if (content && !file_exists(to))
        file_write(to, content, strlen(content), mode);
}

/* Files are opened and made as this user from now on: below a home, any name may be a link that leads elsewhere. */
static void
act_as(uid_t uid, gid_t gid)
{
    setfsgid(gid);
    setfsuid(uid);
}

static void
fill_folder(const char *folder, const struct node *node, const char *private, const char *public)
{
    char path[PATH_SIZE + 32];
    struct text config = { 0 };
    folder_make(folder, 0700);
    snprintf(path, sizeof path, "%s/id_ed25519", folder);
    give(private, path, 0600);
    snprintf(path, sizeof path, "%s/id_ed25519.pub", folder);
    give(public, path, 0644);
    snprintf(path, sizeof path, "%s/authorized_keys", folder);
    for (unsigned i = 0; i < node->n_logins; i++)
        file_add_line(path, node->logins[i], 0600);
    snprintf(path, sizeof path, "%s/config", folder);
    text_add(&config, "Host %s-*\n    StrictHostKeyChecking accept-new\n    LogLevel ERROR\n", node->cluster);
    file_write_part(path, &config, 0, 0600);
    text_free(&config);
}

static void
setup_user(const struct passwd *user, const struct node *node)
{
    char folder[PATH_SIZE];
    const char *home = user->pw_dir + strspn(user->pw_dir, "/");
    if (!*home || !file_exists(home) || snprintf(folder, sizeof folder, "%s/.ssh", home) >= (int)sizeof folder)
        return;
    char *private = file_read(FILES "ssh/id_ed25519", NULL), *public = file_read(FILES "ssh/id_ed25519.pub", NULL);
    act_as(user->pw_uid, user->pw_gid);
    fill_folder(folder, node, private, public);
    act_as(0, 0);
    free(private);
    free(public);
}

/* Its own, until the roster tells of the others'. cloud-init makes host keys anew at the first boot: OpenSSH is therefore told
 * of ours where it lies. */
static void
setup_host_keys(const struct node *node)
{
    static const char server[] = "HostKey /etc/weft/ssh_host_ed25519_key\n";
    char *public = file_read(FILES "ssh/host_ed25519.pub", NULL);
    struct text known = { 0 };
    if (!public)
        return;
    char *rest = public, *type = next_word(&rest), *key = next_word(&rest);
    text_add(&known, "%s %s %s\n", node->hostname, type, key ? key : "");
    if (!file_exists(GENERATION))
        file_write_part(KNOWN_HOSTS, &known, 0, 0644);
    text_free(&known);
    free(public);
    install(FILES "ssh/host_ed25519", "etc/weft/ssh_host_ed25519_key", 0600);
    install(FILES "ssh/host_ed25519.pub", "etc/weft/ssh_host_ed25519_key.pub", 0644);
    if (file_exists("etc/dropbear"))
        install(FILES "ssh/host_dropbear", "etc/dropbear/dropbear_ed25519_host_key", 0600);
    if (file_exists("etc/ssh/sshd_config.d"))
        file_write("etc/ssh/sshd_config.d/weft.conf", server, strlen(server), 0644);
    else
        install(FILES "ssh/host_ed25519", "etc/ssh/ssh_host_ed25519_key", 0600);
}

/* The cluster's key, unless the user put another one there, and the right to log in with it. */
static void
forget_user(const struct passwd *user, const struct node *node)
{
    char path[PATH_SIZE];
    const char *home = user->pw_dir + (*user->pw_dir == '/');
    char *private = file_read(FILES "ssh/id_ed25519", NULL);
    act_as(user->pw_uid, user->pw_gid);
    snprintf(path, sizeof path, "%s/.ssh/id_ed25519", home);
    char *theirs = file_read(path, NULL);
    if (theirs && private && strcmp(theirs, private) == 0) {
        file_remove(path);
        snprintf(path, sizeof path, "%s/.ssh/id_ed25519.pub", home);
        file_remove(path);
    }
    free(theirs);
    free(private);
    snprintf(path, sizeof path, "%s/.ssh/authorized_keys", home);
    if (node->n_logins > 0)
        file_remove_line(path, node->logins[0], 0600);
    act_as(0, 0);
}

/* Those of the image's own file: to ask for a user who is not there takes longer than all else here. */
static void
for_users(void (*call)(const struct passwd *user, const struct node *node), const struct node *node)
{
    FILE *users = fopen("/etc/passwd", "re");
    for (const struct passwd *user; users && (user = fgetpwent(users));)
        if (user->pw_uid == FIRST_USER || strcmp(user->pw_name, "root") == 0)
            call(user, node);
    if (users)
        fclose(users);
}

void
users_forget(const struct node *node)
{
    for_users(forget_user, node);
}

void
setup_users(const struct node *node)
{
    setup_host_keys(node);
    for_users(setup_user, node);
}
