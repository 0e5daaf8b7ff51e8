#include "words.h"

#include "clock.h"
#include "errors.h"

typedef struct Words {
    const char *unreached;
    const char *late; /* … within its deadline */
    const char *wrong;
    const char *other;
} Words;

/* clang-format off */
static const Words words[WEFT_DEEDS] = {
    [WEFT_DEED_START] = {
        "its host cannot be reached", "its host did not start it",
        "its host cannot run it as it is", "its host refused the start" },
    [WEFT_DEED_FORK] = {
        "its host cannot be reached", "it was not forked from its template",
        "it cannot be forked from its template", "being forked from its template failed" },
    [WEFT_DEED_CAPTURE] = {
        "its host cannot be reached", "it was not captured",
        "its image cannot be captured", "it could not be captured" },
    [WEFT_DEED_CLONE] = {
        "its host cannot be reached", "its memory was not saved",
        "its memory cannot be saved", "saving its memory failed" },
    [WEFT_DEED_THAW] = {
        "its host cannot be reached", "it did not go on from its checkpoint",
        "its host cannot let it go on from its checkpoint", "going on from its checkpoint failed" },
    [WEFT_DEED_FREEZE] = {
        "its host cannot be reached", "it was not saved",
        "it cannot be saved", "saving it failed" },
    [WEFT_DEED_GREET] = {
        "its host lost it before it answered", "no answer from inside",
        "its host cannot reach into it", "it ended before it answered" },
    [WEFT_DEED_MEET] = {
        "it answers no more", "no word from inside whether it reaches the others",
        "its image cannot tell whether it reaches the others", "it does not reach all others on the partition" },
    [WEFT_DEED_MOVE] = {
        "a host cannot be reached", "nothing was heard of its move",
        "its hosts cannot move it as it is", "its move failed" },
    [WEFT_DEED_QUIESCE] = {
        "it answers no more", "it did not come to rest",
        "its image cannot be brought to rest", "it could not be brought to rest" },
    [WEFT_DEED_UNPLUG] = {
        "its host cannot be reached", "it did not let go of a device of its host",
        "a device of its host cannot be unplugged", "a device of its host was not unplugged" },
    [WEFT_DEED_PLUG] = {
        "its host cannot be reached", "a device of its host was not plugged",
        "a device of its host cannot be plugged", "a device of its host was not plugged" },
    [WEFT_DEED_WAKE] = {
        "it answers no more", "no word from inside whether it goes on",
        "its image cannot tell whether it goes on", "not everything in it goes on" },
    [WEFT_DEED_STOP] = {
        "its host cannot be reached", "its host did not stop it",
        "its host cannot stop it", "its host refused to stop it" },
    [WEFT_DEED_CONNECT] = {
        "a host of it cannot be reached", "a host of it did not join the partition's network",
        "a host of it cannot join the partition's network", "a host of it refused to join the partition's network" },
    [WEFT_DEED_INSPECT] = {
        "its host does not tell what it is able to", "its host does not tell what it is able to",
        "its host does not tell what it is able to", "its host does not tell what it is able to" },
    [WEFT_DEED_BRING] = {
        "its host cannot be reached", "the image did not reach its host",
        "its host cannot take the image", "the image was not brought to its host" },
    [WEFT_DEED_WIRE] = {
        "the subnet manager cannot be reached", "the ports of its hosts did not confirm its partition",
        "the subnet manager cannot do it", "the subnet manager refused it" },
    [WEFT_DEED_VERIFY] = {
        "a port of its hosts does not answer", "the ports of its hosts did not tell what they hold",
        "the ports of its hosts cannot be read", "a port of its hosts has not the partition's key" },
};
/* clang-format on */

char *
weft_words(WeftDeed deed, const GError *error, gint64 deadline)
{
    switch (weft_error_code(error)) {
    case WEFT_ERROR_UNAVAILABLE:
        return g_strdup(words[deed].unreached);
    case WEFT_ERROR_TIMEOUT: {
        g_autofree char *limit = weft_duration_format(deadline);
        return g_strdup_printf("%s within %s", words[deed].late, limit);
    }
    case WEFT_ERROR_INVALID:
        return g_strdup(words[deed].wrong);
    case WEFT_ERROR_EXHAUSTED:
        return g_strdup_printf("%s: a disk has no room for it", words[deed].other);
    default:
        return g_strdup(words[deed].other);
    }
}
