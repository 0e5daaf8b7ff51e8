/* fabric-wakeups.so, preloaded beside umad2sim for the sake of opensm: glibc before 2.41 may lose a signal to a condition
 * variable (bug 25847) when threads are preempted at the wrong moment, and then no sweep ever ends. A broadcast is never lost,
 * and who waits looks again what for. */
#include <pthread.h>

int
pthread_cond_signal(pthread_cond_t *condition)
{
    return pthread_cond_broadcast(condition);
}
