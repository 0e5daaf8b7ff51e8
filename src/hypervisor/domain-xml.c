#include "domain-xml.h"
