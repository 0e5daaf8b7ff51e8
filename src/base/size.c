#include "size.h"
