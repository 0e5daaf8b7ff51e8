#include "cluster.h"
