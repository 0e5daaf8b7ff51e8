#include "fake-hypervisor.h"
