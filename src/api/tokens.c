#include "clock.h"
#include "errors.h"
#include "fields.h"
#include "handlers.h"
#include "id.h"
#include "names.h"
#include "page.h"
#include "views.h"

#define NEVER "never" /* aloud, so that nobody has such a token by leaving a word out */

/* Admins see all tokens, everybody else those of their own principal. */
static gboolean
may_see(const WeftRequest *request, const WeftToken *token)
{
    const WeftPrincipal *who = request->principal;
    return who->role == WEFT_ROLE_ADMIN ||
           (strcmp(token->principal, who->name) == 0 && g_strcmp0(token->tenant, who->tenant) == 0);
}

static char *
token_view(WeftRequest *request, const WeftRecord *record, GError **error)
{
    g_autoptr(WeftToken) token = weft_record_token(record, error);
    return token ? weft_view_text(weft_view_token(token)) : NULL;
}

gboolean
weft_handle_token_list(WeftRequest *request, GError **error)
{
    const WeftPrincipal *who = request->principal;
    const char *place = who->role == WEFT_ROLE_ADMIN ? NULL : who->name;
    return weft_page_reply(request, (WeftQuery){ .kind = WEFT_KIND_TOKEN, .place = place }, token_view, error);
}

/* The principal that the token is for: one's own unless an admin names another. root has none of its own. */
static WeftPrincipal *
find_principal(WeftRequest *request, const char *named, gint64 *ret_revision, GError **error)
{
    GError *failure = NULL;
    WeftPrincipal *principal = NULL;
    const WeftPrincipal *who = request->principal;
    const char *name = named ? named : who->name;
    if (who->role == WEFT_ROLE_ADMIN || strcmp(name, who->name) == 0)
        principal = weft_store_load_principal(request->store, name, ret_revision, &failure);
    if (!principal && (!failure || g_error_matches(failure, WEFT_ERROR, WEFT_ERROR_NOT_FOUND))) {
        g_clear_error(&failure);
        if (named)
            weft_not_found("principal", name, &failure);
        else
            g_set_error(&failure, WEFT_ERROR, WEFT_ERROR_INVALID, "principal: is missing; name whose token it is to be");
    }
    if (failure)
        g_propagate_error(error, failure);
    return principal;
}

/* The claim of the transaction decides; this is for a message that helps. */
static gboolean
check_count(WeftRequest *request, const WeftPrincipal *principal, GError **error)
{
    guint64 count = 0;
    if (!weft_store_tokens_used(request->store, principal->name, &count, error))
        return FALSE;
    if (count < WEFT_TOKENS_MAX)
        return TRUE;
    g_set_error(error, WEFT_ERROR, WEFT_ERROR_EXHAUSTED, "principal %s has %d tokens already; revoke one first",
                principal->name, WEFT_TOKENS_MAX);
    return FALSE;
}

/* 0: it does not end, which is for whose token it is to be, and not for who asks. */
static gint64
read_lifetime(const WeftRequest *request, WeftFields *f)
{
    const char *text = weft_fields_string(f, "expires_in", NULL);
    gint64 life = request->options->token_lifetime, longest = request->options->token_lifetime_max;
    g_autofree char *limit = weft_duration_format(longest);
    g_autoptr(GError) unfit = NULL;
    if (g_strcmp0(text, NEVER) == 0)
        return 0;
    if (text && !weft_duration_parse(text, &life, &unfit))
        weft_fields_fail(f, "expires_in", "%s", unfit->message);
    else if (life <= 0 || life > longest)
        weft_fields_fail(f, "expires_in", "%s must be more than 0 and at most %s, which is this site's token_lifetime_max",
                         text, limit);
    return life;
}

static WeftToken *
read_token(WeftRequest *request, const char **ret_principal, GError **error)
{
    WeftFields f;
    weft_fields_begin(&f, request->body, "%s", "");
    *ret_principal = weft_fields_string(&f, "principal", NULL);
    const char *note = weft_fields_string(&f, "note", NULL);
    gint64 life = read_lifetime(request, &f);
    g_autoptr(GError) unfit = NULL;
    if (note && *note && !weft_grammar_check(WEFT_GRAMMAR_TEXT, note, "the text", &unfit))
        weft_fields_fail(&f, "note", "%s", unfit->message);
    if (!weft_fields_end(&f, error))
        return NULL;
    WeftToken *token = g_new0(WeftToken, 1);
    token->id = weft_id_new();
    token->note = g_strdup(note);
    token->created = weft_clock_now();
    token->expires = life ? token->created + life : 0;
    return token;
}

static gboolean
check_end(const WeftRequest *request, const WeftToken *token, const WeftPrincipal *principal, GError **error)
{
    g_autofree char *limit = weft_duration_format(request->options->token_lifetime_max);
    return token->expires || principal->role >= WEFT_ROLE_OPERATOR ||
           weft_error_refuse(error, WEFT_ERROR_INVALID,
                             "expires_in: \"" NEVER "\" is for tokens of operators and admins, and %s is a %s; name a duration "
                             "of at most %s",
                             principal->name, weft_role_words[principal->role], limit);
}

static WeftReply *
secret_reply(const WeftToken *token, const char *secret)
{
    json_t *view = weft_view_token(token);
    json_object_set_new(view, "token", json_sprintf("weft_%s_%s", token->id, secret));
    WeftReply *reply = weft_reply_new(201, view);
    weft_reply_header(reply, "Location", "/v1/tokens/%s", token->id);
    reply->once = TRUE;
    return reply;
}

/* For operators; but whoever makes and revokes tokens all day pushes out no events but its own. */
static void
tell(WeftTxn *txn, const char *type, const WeftToken *token, char *message)
{
    WeftEvent event = { .type = (char *)type, .doer = token->tenant, .message = message };
    weft_txn_put_event(txn, &event);
    g_free(message);
}

gboolean
weft_handle_token_make(WeftRequest *request, GError **error)
{
    const char *name = NULL;
    gint64 revision = 0;
    g_autoptr(WeftToken) token = read_token(request, &name, error);
    g_autoptr(WeftPrincipal) principal = token ? find_principal(request, name, &revision, error) : NULL;
    if (!principal || !check_end(request, token, principal, error) || !check_count(request, principal, error))
        return FALSE;
    g_autofree char *secret = weft_auth_secret();
    token->principal = g_strdup(principal->name);
    token->tenant = g_strdup(principal->tenant);
    token->hash = weft_auth_hash(secret);

    WeftTxn *txn = weft_txn_new("token-made");
    weft_txn_put_token(txn, token, WEFT_ABSENT);
    weft_txn_expect(txn, WEFT_KIND_PRINCIPAL, principal->name, revision);
    tell(txn, "token-made", token,
         g_strdup_printf("%s made token %s for %s", request->principal->name, token->id, principal->name));
    return weft_request_commit(request, txn, secret_reply(token, secret));
}

gboolean
weft_handle_token_revoke(WeftRequest *request, GError **error)
{
    gint64 revision = 0;
    const char *id = request->match.params[0];
    g_autoptr(WeftToken) token = weft_store_load_token(request->store, id, &revision, error);
    if (!token) {
        weft_reword_not_found("token", id, error);
        return FALSE;
    }
    if (!may_see(request, token)) {
        weft_not_found("token", id, error);
        return FALSE;
    }

    WeftTxn *txn = weft_txn_new("token-revoked");
    weft_txn_delete(txn, WEFT_KIND_TOKEN, id, revision);
    tell(txn, "token-revoked", token,
         g_strdup_printf("%s revoked token %s of %s", request->principal->name, id, token->principal));
    return weft_request_commit(request, txn, weft_reply_new(204, NULL));
}
