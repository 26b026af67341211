#include "ending.h"

#include <stddef.h>

volatile sig_atomic_t told_to_end;

static void on_end(int signal_number)
{
    (void)signal_number;
    told_to_end = 1;
}

sigset_t hold_ending_signals(void)
{
    struct sigaction action = {.sa_handler = on_end};
    sigset_t ending, waiting;

    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_BLOCK, &ending, &waiting);
    sigdelset(&waiting, SIGTERM);
    sigdelset(&waiting, SIGINT);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    return waiting;
}
