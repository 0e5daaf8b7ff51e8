/* Functions that we do not use; the compiler refuses them. Included by the build for every file (-include). */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat sprintf vsprintf strtok gets system popen atoi atol rand
