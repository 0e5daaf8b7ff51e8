#include "id.h"
