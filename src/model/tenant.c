#include "tenant.h"
