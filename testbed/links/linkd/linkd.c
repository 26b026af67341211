/* linkd: carries frames between wire ends, each direction with its rate, delay, loss and queue.
 *
 * One process for all links of a run, in the network namespace that holds the wire ends. It sleeps
 * until a frame comes in or one is due, to the nanosecond; a timer slack of 1 ns and, where it is
 * permitted, real-time priority keep the kernel from waking it late. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>

#include "ending.h"
#include "links.h"
#include "server.h"

enum { EVENTS = 64, REALTIME_PRIORITY = 20 };

enum { GATHER_NS = 100000, GRAIN_MOST_US = 10000 };

struct options {
    int listener;
    bool realtime;
    uint64_t memory_bytes;
    uint64_t grain_ns; /* frames due within this time leave together; 0: each when it is due */
};

/* Half of what is free, so that the rest of the run has the other half. */
static uint64_t default_memory_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    uint64_t kilobytes = 0;
    char line[128];

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lu kB", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes ? kilobytes * 512 : 1ull << 30;
}

static bool parse_options(int count, char **words, struct options *options)
{
    *options = (struct options){-1, false, default_memory_bytes(), 0};
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--realtime") == 0)
            options->realtime = true;
        else if (strcmp(words[i], "--listen-fd") == 0 && i + 1 < count)
            options->listener = atoi(words[++i]);
        else if (strcmp(words[i], "--memory-mb") == 0 && i + 1 < count)
            options->memory_bytes = strtoull(words[++i], NULL, 10) << 20;
        else if (strcmp(words[i], "--grain-us") == 0 && i + 1 < count)
            options->grain_ns = strtoull(words[++i], NULL, 10) * 1000;
        else
            return false;
    }
    return options->listener >= 0 && options->grain_ns <= GRAIN_MOST_US * 1000ull;
}

static void ask_for_priority(bool realtime)
{
    struct sched_param priority = {.sched_priority = REALTIME_PRIORITY};

    prctl(PR_SET_TIMERSLACK, 1);
    if (realtime && sched_setscheduler(0, SCHED_FIFO, &priority))
        fprintf(stderr, "linkd: no real-time priority: %s\n", strerror(errno));
}

/* Two sockets a link: the usual limit of 1024 would end at 500 links. */
static void ask_for_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

static char *carry_out(struct server *server, struct client *client)
{
    struct request request;
    const char *wrong = request_parse(client->line, &request);

    if (wrong)
        return server_verdict(wrong);
    client->owner |= request.verb == OWN;
    server->ended |= request.verb == QUIT;
    return links_answer(server->daemon, &request);
}

static int wait_for_events(const struct links *links, struct epoll_event *events,
                           const sigset_t *mask)
{
    uint64_t due = timers_due(&links->timers), now = clock_now();
    uint64_t wait = due > now ? due - now : 0;
    struct timespec limit = {(time_t)(wait / ONE_BILLION), (long)(wait % ONE_BILLION)};

    return epoll_pwait2(links->epoll, events, EVENTS, due == NEVER ? NULL : &limit, mask);
}

/* Lets more come in before the next look, if the last looks were close together. A frame is timed
 * by the kernel's stamp of its arrival, so that reading it later does not make it late. */
static void gather(uint64_t woken, uint64_t woken_before, uint64_t gather_ns)
{
    uint64_t now = clock_now(), until = woken + gather_ns;
    struct timespec pause = {0, (long)(until - now)};

    if (woken - woken_before < 2 * gather_ns && now < until)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

static void handle(struct links *links, struct server *server, const struct epoll_event *events,
                   int count)
{
    links_release(links);
    for (int i = 0; i < count; i++)
        if (!server_owns(server, events[i].data.ptr))
            links_receive(links, events[i].data.ptr);
    links_release(links);
    for (int i = 0; i < count; i++) /* last, because a request may end a lane */
        if (server_owns(server, events[i].data.ptr))
            server_handle(server, events[i].data.ptr);
}

static bool run(struct links *links, struct server *server, const sigset_t *mask)
{
    struct epoll_event events[EVENTS];
    uint64_t woken = 0, woken_before;
    uint64_t gather_ns = links->early_ns ? 2 * links->early_ns : GATHER_NS;

    while (!told_to_end && !server->ended) {
        int count = wait_for_events(links, events, mask);

        if (count < 0 && errno != EINTR)
            return false;
        woken_before = woken;
        woken = clock_now();
        handle(links, server, events, count);
        gather(woken, woken_before, gather_ns);
    }
    return true;
}

int main(int count, char **words)
{
    struct options options;
    struct links links;
    struct server server = {
        .carry_out = carry_out, .daemon = &links, .line_max_bytes = LINE_MAX_BYTES};
    sigset_t mask;
    int epoll;

    if (!parse_options(count, words, &options)) {
        fprintf(stderr, "usage: linkd --listen-fd FD [--realtime] [--memory-mb N] [--grain-us N]\n");
        return 2;
    }
    mask = hold_ending_signals();
    ask_for_priority(options.realtime);
    ask_for_files();
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || !links_open(&links, epoll, options.memory_bytes) ||
        !server_open(&server, options.listener, epoll)) {
        fprintf(stderr, "linkd: cannot start: %s\n", strerror(errno));
        return 1;
    }
    links.early_ns = options.grain_ns / 2;
    if (!run(&links, &server, &mask)) {
        fprintf(stderr, "linkd: cannot wait for frames: %s\n", strerror(errno));
        return 1;
    }
    server_close(&server);
    links_close(&links);
    return 0;
}
