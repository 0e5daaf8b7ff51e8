/* The table of all routes. */
#pragma once

#include "router.h"

extern const WeftRoute weft_routes[];
