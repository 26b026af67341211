/* Ending in order: the signals that ask for it arrive only while the daemon waits, so that none is
 * missed between a look at `told_to_end` and the wait. */
#ifndef ATOLL_ENDING_H
#define ATOLL_ENDING_H

#include <signal.h>

extern volatile sig_atomic_t told_to_end;

/* Holds these signals back; returns the mask under which to wait for them and for all else. */
sigset_t hold_ending_signals(void);

#endif
