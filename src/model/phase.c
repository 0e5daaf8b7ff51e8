#include "phase.h"
