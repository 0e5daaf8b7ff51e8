/* Who may connect and who has to go for it; what a client counts as; names of users that do not come; descriptors. */
#include "admission.h"
#include "api.h"
#include "auth.h"
#include "file.h"
#include "users.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <unistd.h>

/* --- seats --- */

/* A row: who is there, oldest first, one letter of the party and one of the stage each; who comes, and who goes for it. Large
 * letters are administrators, x is one that gave up its seat and is not closed yet, l one that takes its answer too slowly,
 * q a stranger that has said nothing. */
typedef struct {
    const char *about;
    const char *there;
    char newcomer;
    const char *verdict; /* "in", "refused", or the number of the one that goes */
} Row;

#define NOW 100

static const WeftSeatLimits limits = { .all = 8, .of_party = 4, .strangers = 4 };

static const Row rows[] = {
    { "there is room", "as bs", 'a', "in" },
    { "a party has all it may: its own oldest that waits goes", "as as as as", 'a', "0" },
    { "… rather a stranger of it than one that is known", "ai as as ai", 'a', "1" },
    { "… but none that takes its answer or is worked for", "aa ab ab aa", 'a', "refused" },
    { "… unless it takes its answer too slowly", "al ab al aa", 'a', "0" },
    { "… and nobody waits", "al ab ai aa", 'a', "2" },
    { "… and nobody else's", "ab ab ab ab bs", 'a', "refused" },
    { "… and none comes faster than those that went are closed", "as as as as ax ax ax ax", 'a', "refused" },
    { "… which is no limit for others", "as as as as ax ax ax ax", 'b', "0" },
    { "… nor for an administrator", "Ai Ai Ai Ai Ax Ax Ax Ax", 'A', "in" },
    { "an administrator has no limit of its own", "Ai Ai Ai Ai", 'A', "in" },
    { "all is taken: the oldest of whoever has the most goes", "bi ai ai ai bb cb db di", 'e', "1" },
    { "… a stranger of it first", "bi ai ai as bb cb db di", 'e', "3" },
    { "… even if it is known and others are strangers", "bs ai ai ai cs cs db eb", 'f', "1" },
    { "… even if it takes its answer", "bs aa aa aa cs cs db eb", 'f', "1" },
    { "… of parties with as many, a stranger before a known one", "ai bi cs ds ei fi gi hi", 'j', "2" },
    { "… and whoever is worked for stays", "ab ab ab bi cb cb db db", 'e', "3" },
    { "nobody who is known goes for a party that has as many", "ai ai bi bi cb cb db db", 'c', "refused" },
    { "… but a stranger does", "ai ai bi bs cb cb db db", 'c', "3" },
    { "… unless the party has as many strangers", "ai ai bi bs cb cs db db", 'c', "5" },
    { "all work", "ab ab bb bb cb cb db db", 'e', "refused" },
    { "a party that has the most gives up its own", "ai ai ai bs cs di eb fb", 'a', "0" },
    { "an administrator gets in where all others have one", "ai bi ci di ei fi gi hi", 'A', "0" },
    { "… where it has more than any", "Ab Ab Ab Ab Ab bi ci di", 'A', "5" },
    { "enough strangers: one of them goes, though there is room", "as as bs cs", 'd', "0" },
    { "… and nobody who is known, however many they are", "ai ai ai as bs cs ds bi", 'e', "3" },
    { "… one of whoever has most of them", "ai ai ai as bs bs cs bi", 'e', "4" },
    { "… the oldest of those that have one each", "as bs cs ds", 'e', "0" },
    { "… its own, where it has one itself", "as bs cs ds", 'c', "2" },
    { "… but rather one that has said nothing", "as bs cq dq", 'e', "2" },
    { "… which those of a party with more of them do not outlive", "as as cq dq", 'e', "0" },
    { "… for a party that many work from, too", "ab ab ab bs cs ds es", 'a', "3" },
};

static WeftStage
stage_of(char letter)
{
    const char *letters = "siab";
    if (letter == 'l')
        return WEFT_STAGE_ANSWERED;
    if (letter == 'q')
        return WEFT_STAGE_STRANGER;
    return (WeftStage)(strchr(letters, letter) - letters);
}

static void
decide(const Row *row)
{
    WeftParty parties[128] = { 0 };
    WeftSeat room[16];
    g_autoptr(GPtrArray) seats = g_ptr_array_new();
    g_auto(GStrv) there = g_strsplit(row->there, " ", -1);
    for (guint i = 0; there[i]; i++) {
        WeftParty *party = &parties[(guchar)there[i][0]];
        party->open++;
        if (there[i][1] == 'x')
            continue;
        party->seats++;
        party->strangers += stage_of(there[i][1]) == WEFT_STAGE_STRANGER;
        room[i] = (WeftSeat){ .party = party,
                              .stage = stage_of(there[i][1]),
                              .since = i + 1,
                              .heard = there[i][1] != 'q',
                              .slow = there[i][1] == 'l' ? NOW : NOW + 1 };
        g_ptr_array_add(seats, &room[i]);
    }
    for (int letter = 'A'; letter <= 'Z'; letter++)
        parties[letter].trusted = TRUE;
    const WeftNewcomer newcomer = { &parties[(guchar)row->newcomer], NOW, 0 };
    WeftSeat *victim = NULL;
    gboolean in = weft_admission_decide(&limits, seats, &newcomer, &victim);
    g_autofree char *verdict = !in       ? g_strdup("refused")
                               : !victim ? g_strdup("in")
                                         : g_strdup_printf("%d", (int)(victim - room));
    if (!g_str_equal(verdict, row->verdict))
        g_error("%s: \"%s\" + %c: %s, not %s", row->about, row->there, row->newcomer, verdict, row->verdict);
}

static void
test_seats(void)
{
    for (guint i = 0; i < G_N_ELEMENTS(rows); i++)
        decide(&rows[i]);
}

/* Of strangers that are alike any may go, and one that has said nothing goes before them, wherever it is. */
static void
test_lots(void)
{
    WeftParty parties[5] = { 0 };
    WeftSeat room[4];
    guint gone[4] = { 0 };
    g_autoptr(GPtrArray) seats = g_ptr_array_new();
    for (guint i = 0; i < 4; i++) {
        parties[i] = (WeftParty){ .seats = 1, .strangers = 1, .open = 1 };
        room[i] = (WeftSeat){ .party = &parties[i], .since = i, .heard = TRUE };
        g_ptr_array_add(seats, &room[i]);
    }
    for (guint silent = 0; silent < 2; silent++)
        for (guint lot = 0; lot < 8; lot++) {
            const WeftNewcomer newcomer = { &parties[4], NOW, lot };
            WeftSeat *victim;
            room[2].heard = !silent;
            g_assert_true(weft_admission_decide(&limits, seats, &newcomer, &victim));
            gone[victim - room]++;
        }
    g_assert_cmpuint(gone[0], ==, 2);
    g_assert_cmpuint(gone[1], ==, 2);
    g_assert_cmpuint(gone[2], ==, 2 + 8);
    g_assert_cmpuint(gone[3], ==, 2);
}

/* --- what counts as one --- */

static void
test_parties(void)
{
    static const struct {
        const char *address;
        const char *party;
    } cases[] = {
        { "192.0.2.7", "192.0.2.7" },
        { "::ffff:192.0.2.7", "192.0.2.7" },
        { "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64" },
        { "2001:db8:1:2:ffff::1", "2001:db8:1:2::/64" },
        { "2001:db8:1:3::1", "2001:db8:1:3::/64" },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct sockaddr_storage address = { 0 };
        gboolean six = strchr(cases[i].address, ':') != NULL;
        address.ss_family = six ? AF_INET6 : AF_INET;
        void *bytes =
            six ? (void *)&((struct sockaddr_in6 *)&address)->sin6_addr : (void *)&((struct sockaddr_in *)&address)->sin_addr;
        g_assert_cmpint(inet_pton(address.ss_family, cases[i].address, bytes), ==, 1);
        WeftPeer *peer = weft_peer_new(-1, &address);
        g_assert_cmpstr(peer->party, ==, cases[i].party);
        g_assert_false(weft_peer_is_admin(peer));
        weft_peer_free(peer);
    }
}

/* --- who is touched by a change --- */

static void
test_touched(void)
{
    WeftPrincipal alice = { .name = (char *)"alice" };
    static const struct {
        WeftKind kind;
        const char *key;
        gboolean by_token; /* alice came with the token a1 */
        gboolean by_user;  /* … as a user of this machine */
    } cases[] = {
        { WEFT_KIND_PRINCIPAL, "alice", TRUE, TRUE }, { WEFT_KIND_PRINCIPAL, "bob", FALSE, FALSE },
        { WEFT_KIND_PRINCIPAL, "ali", FALSE, FALSE }, { WEFT_KIND_TOKEN, "a1", TRUE, FALSE },
        { WEFT_KIND_TOKEN, "a", FALSE, FALSE },       { WEFT_KIND_TOKEN, "a1_secret", FALSE, FALSE },
        { WEFT_KIND_TOKEN, "secret", FALSE, FALSE },  { WEFT_KIND_CLUSTER, "alice", FALSE, FALSE },
    };
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        WeftChange changes[] = { { .kind = WEFT_KIND_EVENT, .key = "alice" }, { .kind = cases[i].kind, .key = cases[i].key } };
        g_assert_cmpint(weft_auth_is_touched(&alice, "Bearer weft_a1_secret", changes, 2), ==, cases[i].by_token);
        g_assert_cmpint(weft_auth_is_touched(&alice, NULL, changes, 2), ==, cases[i].by_user);
    }
}

/* --- names --- */

#define NOBODY 4000000001U
#define STUCK 4000000002U
#define ALICE 4000000003U
#define STUCK_TOO 4000000004U
#define LATE 4000000005U
#define MEMORY (60 * G_USEC_PER_SEC)
#define SHORT G_USEC_PER_SEC /* and yet longer than a thread of a busy machine takes to begin */

static GMutex gate; /* held: the directory does not answer */
static gint asked;

static char *
resolve(guint uid, gboolean *ret_failed)
{
    if (uid == STUCK || uid == STUCK_TOO) {
        g_mutex_lock(&gate);
        g_mutex_unlock(&gate);
        return g_strdup("late");
    }
    g_atomic_int_inc(&asked);
    return uid == NOBODY ? NULL : g_strdup(uid == ALICE ? "alice" : "system");
}

typedef struct {
    char *name;
    gboolean called;
} Found;

static void
on_found(const char *name, gpointer data)
{
    Found *found = data;
    found->name = g_strdup(name);
    found->called = TRUE;
}

static char *
find(WeftUsers *users, guint uid)
{
    Found found = { 0 };
    weft_users_find(users, uid, on_found, &found);
    while (!found.called)
        g_main_context_iteration(NULL, TRUE);
    return found.name;
}

static void
assert_name(WeftUsers *users, guint uid, const char *expected)
{
    g_autofree char *name = find(users, uid);
    g_assert_cmpstr(name, ==, expected);
}

static void
test_users(void)
{
    WeftUsers *users = weft_users_new(resolve, 10 * G_USEC_PER_SEC, MEMORY);
    assert_name(users, 0, "system");
    assert_name(users, geteuid(), "system");
    assert_name(users, ALICE, "alice");
    assert_name(users, NOBODY, "4000000001");
    gint before = g_atomic_int_get(&asked);
    assert_name(users, ALICE, "alice");
    assert_name(users, NOBODY, "4000000001");
    g_assert_cmpint(g_atomic_int_get(&asked), ==, before);
    weft_users_free(users);
}

/* A directory that is down holds up nobody but those who need a name of it, and them not for long. */
static void
test_stuck_directory(void)
{
    WeftUsers *users = weft_users_new(resolve, SHORT, MEMORY);
    g_mutex_lock(&gate);
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "*user 4000000002*does not answer*");
    assert_name(users, STUCK, NULL);
    g_test_assert_expected_messages();
    assert_name(users, STUCK, NULL); /* at once: nobody waits for what did not come */
    assert_name(users, ALICE, "alice");
    assert_name(users, 0, "system");
    g_mutex_unlock(&gate);
    for (g_autofree char *name = NULL; !name; g_main_context_iteration(NULL, FALSE))
        name = find(users, STUCK);
    assert_name(users, STUCK, "late");
    weft_users_free(users);
}

/* All threads wait for the directory: a name that was known counts on, and what nobody waits for any more is not asked. */
static void
test_busy_directory(void)
{
    WeftUsers *users = weft_users_new(resolve, SHORT, 0);
    assert_name(users, ALICE, "alice");
    g_mutex_lock(&gate);
    gint before = g_atomic_int_get(&asked);
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "*user 4000000002*does not answer*");
    assert_name(users, STUCK, NULL);
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "*user 4000000004*does not answer*");
    assert_name(users, STUCK_TOO, NULL);
    g_test_expect_message(NULL, G_LOG_LEVEL_WARNING, "*user 4000000005*does not answer*");
    assert_name(users, LATE, NULL);
    g_test_assert_expected_messages();
    assert_name(users, ALICE, "alice");
    g_mutex_unlock(&gate);
    while (g_atomic_int_get(&asked) == before)
        g_main_context_iteration(NULL, FALSE);
    g_assert_cmpint(g_atomic_int_get(&asked), ==, before + 1); /* alice's, which came behind the one that was dropped */
    weft_users_free(users);
}

/* Whoever waits when weftd ends is told so, and an answer that comes later meets nobody. */
static void
test_end_while_asking(void)
{
    WeftUsers *users = weft_users_new(resolve, 10 * G_USEC_PER_SEC, MEMORY);
    Found found = { 0 };
    g_mutex_lock(&gate);
    weft_users_find(users, STUCK, on_found, &found);
    g_assert_false(found.called);
    weft_users_free(users);
    g_assert_true(found.called);
    g_assert_null(found.name);
    g_mutex_unlock(&gate);
}

/* --- descriptors --- */

static void
test_descriptors(void)
{
    WeftApiOptions options = weft_api_defaults;
    g_assert_false(weft_api_fit_descriptors(&options, 1024 * 1024));
    g_assert_cmpuint(options.connections, ==, weft_api_defaults.connections);
    guint plain = weft_api_descriptors(&options);
    options.tcp_address = "127.0.0.1:7600";
    g_assert_cmpuint(weft_api_descriptors(&options), >, plain + options.connections / 2 * 2); /* three for each of TLS */
    for (guint files = 512; files <= 4096; files *= 2) {
        g_assert_true(weft_api_fit_descriptors(&options, files));
        g_assert_cmpuint(weft_api_descriptors(&options), <=, files / 2);
        g_assert_cmpuint(options.connections, >=, files / 32);
        options.connections = weft_api_defaults.connections;
    }
}

static void
test_admin_path(void)
{
    g_autofree char *usual = weft_file_admin_socket("/run/weft/weft.sock");
    g_assert_cmpstr(usual, ==, "/run/weft/weft-admin.sock");
    g_autofree char *other = weft_file_admin_socket("/run/weft.d/api");
    g_assert_cmpstr(other, ==, "/run/weft.d/api-admin");
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/admission/seats", test_seats);
    g_test_add_func("/admission/lots", test_lots);
    g_test_add_func("/admission/parties", test_parties);
    g_test_add_func("/admission/touched", test_touched);
    g_test_add_func("/admission/users", test_users);
    g_test_add_func("/admission/stuck-directory", test_stuck_directory);
    g_test_add_func("/admission/busy-directory", test_busy_directory);
    g_test_add_func("/admission/end-while-asking", test_end_while_asking);
    g_test_add_func("/admission/descriptors", test_descriptors);
    g_test_add_func("/admission/admin-path", test_admin_path);
    return g_test_run();
}
