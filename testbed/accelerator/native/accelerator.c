/* accelerator: an emulated in-line FPGA that sums what children of a tree send.
 *
 * One process for one site, in a network namespace of its own. It sleeps until packets come in; what
 * it does with them is in tree.c, and docs/protocol.md says why. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "answers.h"
#include "control.h"
#include "ending.h"

enum { EVENTS = 32, BATCHES_A_TURN = 16 };

struct options {
    int listener;
    struct sockaddr_in address;
    const char *interface;
    uint32_t incarnation;
    struct limits limits;
};

static bool parse_address(const char *text, struct sockaddr_in *address)
{
    const char *colon = strchr(text, ':');
    char ip[INET_ADDRSTRLEN] = "";

    if (!colon || (size_t)(colon - text) >= sizeof ip)
        return false;
    memcpy(ip, text, (size_t)(colon - text));
    address->sin_family = AF_INET;
    address->sin_port = htons((uint16_t)atoi(colon + 1));
    return address->sin_port && inet_pton(AF_INET, ip, &address->sin_addr) == 1;
}

static bool parse_option(const char *name, const char *value, struct options *options)
{
    if (strcmp(name, "--listen-fd") == 0)
        options->listener = atoi(value);
    else if (strcmp(name, "--address") == 0)
        return parse_address(value, &options->address);
    else if (strcmp(name, "--interface") == 0)
        options->interface = value;
    else if (strcmp(name, "--incarnation") == 0)
        options->incarnation = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--rate-bps") == 0)
        options->limits.rate_bps = strtoull(value, NULL, 10);
    else if (strcmp(name, "--slots") == 0)
        options->limits.slots = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(name, "--fan-in") == 0)
        options->limits.fan_in = (uint32_t)strtoul(value, NULL, 10);
    else
        return false;
    return true;
}

static bool parse_options(int count, char **words, struct options *options)
{
    *options = (struct options){
        .listener = -1, .incarnation = 1, .limits = {0, UINT32_MAX, CHILDREN_MAX}};
    for (int i = 1; i < count; i += 2)
        if (i + 1 == count || !parse_option(words[i], words[i + 1], options))
            return false;
    return options->listener >= 0 && options->address.sin_port;
}

static void handle(struct server *server, const struct epoll_event *events, int count)
{
    for (int i = 0; i < count; i++) {
        if (server_owns(server, events[i].data.ptr)) {
            server_handle(server, events[i].data.ptr);
            continue;
        }
        for (int batch = 0; batch < BATCHES_A_TURN && wire_receive(events[i].data.ptr); batch++)
            continue;
    }
}

static bool run(struct server *server, const sigset_t *mask)
{
    struct epoll_event events[EVENTS];

    while (!told_to_end && !server->ended) {
        int count = epoll_pwait(server->epoll, events, EVENTS, -1, mask);

        if (count < 0 && errno != EINTR)
            return false;
        handle(server, events, count);
    }
    return true;
}

static bool start(struct server *server, const struct options *options)
{
    struct parts *parts = server->daemon;
    struct epoll_event event = {.events = EPOLLIN};
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    parts->wire = wire_open(&options->address, options->interface, parts->engine);
    if (epoll < 0 || !parts->wire)
        return false;
    event.data.ptr = parts->wire;
    return epoll_ctl(epoll, EPOLL_CTL_ADD, wire_socket(parts->wire), &event) == 0 &&
           server_open(server, options->listener, epoll);
}

int main(int count, char **words)
{
    static struct engine engine;
    struct parts parts = {.engine = &engine};
    struct server server = {
        .carry_out = carry_out, .daemon = &parts, .line_max_bytes = LINE_MAX_BYTES};
    struct options options;
    sigset_t mask;

    if (!parse_options(count, words, &options)) {
        fprintf(stderr, "usage: accelerator --listen-fd FD --address IP:PORT [--interface NAME]\n"
                        "    [--incarnation N] [--rate-bps N] [--slots N] [--fan-in N]\n");
        return 2;
    }
    mask = hold_ending_signals();
    prctl(PR_SET_TIMERSLACK, 1);
    engine.limits = options.limits;
    engine.incarnation = options.incarnation;
    if (!start(&server, &options)) {
        fprintf(stderr, "accelerator: cannot start: %s\n", strerror(errno));
        return 1;
    }
    if (!run(&server, &mask)) {
        fprintf(stderr, "accelerator: cannot wait for packets: %s\n", strerror(errno));
        return 1;
    }
    server_close(&server);
    wire_close(parts.wire);
    engine_close(&engine);
    return 0;
}
