#include "path-rule.h"

const WeftPathRule weft_path_rule_published = WEFT_PATH_RULE_PUBLISHED;

WeftPath
weft_path_rule_apply(const WeftPathRule *rule, guint between, guint64 *ret_shm)
{
    gboolean near = between < rule->bridge_below;
    *ret_shm = near ? rule->shm : 0;
    return near ? WEFT_PATH_BRIDGE : WEFT_PATH_SRIOV;
}
