#include "hostlist.h"
