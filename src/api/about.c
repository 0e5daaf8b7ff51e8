#include "handlers.h"
#include "openapi.h"
#include "request.h"

gboolean
weft_handle_version(WeftRequest *request, GError **error)
{
    const GPtrArray *fakes = request->options->fakes;
    json_t *names = json_array();
    for (guint i = 0; fakes && i < fakes->len; i++)
        json_array_append_new(names, json_string(fakes->pdata[i]));
    json_t *body = json_pack("{s:s, s:s, s:s, s:o}", "name", "weft", "version", WEFT_VERSION, "api", "v1", "fakes", names);
    return weft_request_reply(request, weft_reply_new(200, body));
}

gboolean
weft_handle_whoami(WeftRequest *request, GError **error)
{
    const WeftPrincipal *who = request->principal;
    json_t *body = json_pack("{s:s, s:s?, s:s}", "name", who->name, "tenant", who->tenant, "role", weft_role_words[who->role]);
    return weft_request_reply(request, weft_reply_new(200, body));
}

gboolean
weft_handle_openapi(WeftRequest *request, GError **error)
{
    return weft_request_reply(request, weft_reply_text(200, "application/json", weft_openapi));
}
