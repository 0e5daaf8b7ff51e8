#include "event.h"

#include "codec.h"

static const WeftCodecField fields[] = {
    WEFT_FIELD(WeftEvent, id, UINT64),
    WEFT_FIELD(WeftEvent, type, TEXT),
    WEFT_FIELD(WeftEvent, tenant, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftEvent, cluster, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftEvent, cluster_name, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftEvent, host, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftEvent, message, TEXT),
    WEFT_FIELD(WeftEvent, detail, TEXT, WEFT_OPTIONAL),
    {},
};

WeftEvent *
weft_event_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(fields, sizeof(WeftEvent), json, "", error);
}

json_t *
weft_event_to_json(const WeftEvent *event)
{
    return weft_codec_write(fields, event);
}

void
weft_event_free(WeftEvent *event)
{
    weft_codec_free(fields, event);
}
