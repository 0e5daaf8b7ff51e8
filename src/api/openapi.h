/* docs/openapi.json, built in. */
#pragma once

extern const char weft_openapi[];
