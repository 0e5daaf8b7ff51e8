#include "failpoint.h"
