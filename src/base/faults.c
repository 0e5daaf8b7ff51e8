#include "faults.h"
