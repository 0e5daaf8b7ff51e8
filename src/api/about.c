#include "handlers.h"
#include "openapi.h"
#include "request.h"

gboolean
weft_handle_version(WeftRequest *request, GError **error)
{
    json_t *body = json_pack("{s:s, s:s, s:s}", "name", "weft", "version", WEFT_VERSION, "api", "v1");
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
