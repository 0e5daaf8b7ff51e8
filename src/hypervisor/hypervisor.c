#include "hypervisor.h"
