#include "move-wish.h"

#include "codec.h"

const char *const weft_method_words[WEFT_METHODS + 1] = {
    [WEFT_METHOD_AUTO] = "auto",
    [WEFT_METHOD_PRE_COPY] = "pre-copy",
    [WEFT_METHOD_POST_COPY] = "post-copy",
    [WEFT_METHOD_HYBRID] = "hybrid",
};

static const WeftCodecField spec_fields[] = {
    WEFT_FIELD(WeftMoveWish, to, TEXT, WEFT_OPTIONAL, .grammar = WEFT_GRAMMAR_HOST, .what = "host name"),
    WEFT_FIELD(WeftMoveWish, disrupt, BOOL),
    WEFT_FIELD(WeftMoveWish, copy, WORD, WEFT_OPTIONAL, .fallback = WEFT_METHOD_AUTO, .words = weft_method_words),
    {},
};

static const WeftCodecField fields[] = {
    WEFT_FIELD(WeftMoveWish, cluster, TEXT),
    WEFT_FIELD(WeftMoveWish, rank, UINT),
    WEFT_FIELD(WeftMoveWish, node, TEXT),
    WEFT_FIELD(WeftMoveWish, to, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftMoveWish, disrupt, BOOL),
    WEFT_FIELD(WeftMoveWish, copy, WORD, WEFT_OPTIONAL, .fallback = WEFT_METHOD_AUTO, .words = weft_method_words),
    WEFT_FIELD(WeftMoveWish, creator, TEXT, WEFT_OPTIONAL),
    WEFT_FIELD(WeftMoveWish, created, UINT64),
    WEFT_FIELD(WeftMoveWish, called_off, TEXT, WEFT_OPTIONAL),
    {},
};

WeftMoveWish *
weft_move_wish_from_json(json_t *json, GError **error)
{
    return weft_codec_decode(fields, sizeof(WeftMoveWish), json, "", error);
}

WeftMoveWish *
weft_move_wish_from_spec(json_t *body, GError **error)
{
    return body ? weft_codec_decode(spec_fields, sizeof(WeftMoveWish), body, "", error) : g_new0(WeftMoveWish, 1);
}

json_t *
weft_move_wish_to_json(const WeftMoveWish *wish)
{
    return weft_codec_write(fields, wish);
}

void
weft_move_wish_free(WeftMoveWish *wish)
{
    weft_codec_free(fields, wish);
}
