/* ssh between the nodes, for root and the image's user. */
#include "guest.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES "run/weft/files/"
#define FIRST_USER 1000 /* cloud-init's default user is the first one */
#define PATH_SIZE 512

/* Copies a file of the seed; what a user put there is left alone. */
static void
install(const char *from, const char *to, unsigned mode, int replace)
{
    size_t length;
    char *content = !replace && file_exists(to) ? NULL : file_read(from, &length);
    if (content)
        file_write(to, content, length, mode);
    free(content);
}

static void
own(const char *path, const struct passwd *user)
{
    char absolute[PATH_SIZE];
    snprintf(absolute, sizeof absolute, "/%s", path);
    if (geteuid() == 0 && lchown(absolute, user->pw_uid, user->pw_gid) < 0)
        say("cannot give %s to %s", absolute, user->pw_name);
}

/* Below the user's ~/.ssh. */
static void
setup_user(const struct passwd *user, const struct node *node)
{
    static const char *const files[] = { "id_ed25519", "id_ed25519.pub", "authorized_keys", "config" };
    char folder[PATH_SIZE], path[sizeof files / sizeof *files][PATH_SIZE + 32];
    const char *home = user->pw_dir + strspn(user->pw_dir, "/");
    struct text config = { 0 };
    if (!*home || !file_exists(home) || snprintf(folder, sizeof folder, "%s/.ssh", home) >= (int)sizeof folder)
        return;
    folder_make(folder, 0700);
    own(folder, user);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        snprintf(path[i], sizeof path[i], "%s/%s", folder, files[i]);
    install(FILES "ssh/id_ed25519", path[0], 0600, 0);
    install(FILES "ssh/id_ed25519.pub", path[1], 0644, 0);
    for (unsigned i = 0; i < node->n_logins; i++)
        file_add_line(path[2], node->logins[i], 0600);
    text_add(&config, "Host %s-*\n    StrictHostKeyChecking accept-new\n    LogLevel ERROR\n", node->cluster);
    file_write_part(path[3], &config, 0, 0600);
    text_free(&config);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        own(path[i], user);
}

/* The nodes share a host key, so that one line knows them all. cloud-init makes host keys anew at the first boot: OpenSSH is
 * therefore told of ours where it lies. */
static void
setup_host_keys(const struct node *node)
{
    static const char server[] = "HostKey /etc/weft/ssh_host_ed25519_key\n";
    char *public = file_read(FILES "ssh/host_ed25519.pub", NULL);
    struct text known = { 0 };
    if (!public)
        return;
    public[strcspn(public, "\n")] = '\0';
    text_add(&known, "%s-*,10.6?.*,10.7?.* %s\n", node->cluster, public);
    file_write_part("etc/ssh/ssh_known_hosts", &known, 0, 0644);
    text_free(&known);
    free(public);
    install(FILES "ssh/host_ed25519", "etc/weft/ssh_host_ed25519_key", 0600, 1);
    install(FILES "ssh/host_ed25519.pub", "etc/weft/ssh_host_ed25519_key.pub", 0644, 1);
    if (file_exists("etc/ssh/sshd_config.d"))
        file_write("etc/ssh/sshd_config.d/weft.conf", server, strlen(server), 0644);
    else
        install(FILES "ssh/host_ed25519", "etc/ssh/ssh_host_ed25519_key", 0600, 1);
}

void
setup_users(const struct node *node)
{
    setup_host_keys(node);
    struct passwd *user = getpwnam("root");
    if (user)
        setup_user(user, node);
    user = getpwuid(FIRST_USER);
    if (user)
        setup_user(user, node);
}
