#include "fake-fabric.h"
