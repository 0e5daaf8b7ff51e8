#include "fabric.h"
