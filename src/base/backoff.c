#include "backoff.h"
