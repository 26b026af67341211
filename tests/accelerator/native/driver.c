/* Gives the accelerator's pure parts to a test: one command a line in, answer lines out, then `.`. */
#include <arpa/inet.h>
#include <stdlib.h>

#include "control.h"
#include "driver.h"

enum { LINE_BYTES = 100000 };

static struct engine engine;
static struct fault fault;
static uint8_t packet[LINE_BYTES / 2] __attribute__((aligned(8)));

static void print_outgoing(struct outbox *outbox, void *context)
{
    char ip[INET_ADDRSTRLEN];

    (void)context;
    for (int i = 0; i < outbox->count; i++) {
        const struct outgoing *out = &outbox->outgoing[i];

        inet_ntop(AF_INET, &out->destination.sin_addr, ip, sizeof ip);
        printf("%s:%u ", ip, ntohs(out->destination.sin_port));
        for (uint32_t at = 0; at < out->bytes; at++)
            printf("%02x", out->packet[at]);
        printf("\n");
    }
    outbox->count = 0;
}

static struct outbox outbox = {.flush = print_outgoing};

static void give(const char *wrong)
{
    printf("%s\n", wrong ? wrong : "ok");
}

/* Any line of the control protocol. */
static void control(char *line)
{
    struct request request;
    const char *wrong = request_parse(line, &request);

    if (!wrong && request.verb == OPEN) {
        wrong = engine_open_tree(&engine, &request.config);
        if (!wrong)
            memset(&request.config, 0, sizeof request.config);
    } else if (!wrong && request.verb == CLOSE) {
        wrong = engine_close_tree(&engine, request.config.job, request.config.tree);
    } else if (!wrong && request.verb == FAULT) {
        fault = request.fault;
    }
    request_free(&request);
    give(wrong);
}

/* packet NOW_US CONGESTED IP PORT HEX */
static void take(char *rest)
{
    struct arrived arrived = {.packet = packet};
    char ip[INET_ADDRSTRLEN];
    unsigned congested, port;
    int used;

    if (sscanf(rest, "%lu %u %15s %u %n", &arrived.now_us, &congested, ip, &port, &used) != 4)
        exit(2);
    arrived.congested = congested;
    arrived.source = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    inet_pton(AF_INET, ip, &arrived.source.sin_addr);
    arrived.bytes = read_hex(rest + used, packet);
    engine_handle(&engine, &arrived, &outbox);
    print_outgoing(&outbox, NULL);
}

static void counters(void)
{
    char line[COUNTERS_LINE_BYTES];

    process_counters_print(line, sizeof line, &engine.count);
    printf("%s", line);
    for (int i = 0; i < engine.tree_count; i++) {
        tree_counters_print(line, sizeof line, engine.trees[i]);
        printf("%s", line);
    }
}

/* fates COUNT: copies of each packet, a digit each */
static void fates(const char *rest)
{
    for (uint64_t left = strtoull(rest, NULL, 10); left > 0; left--)
        putchar('0' + fault_copies(&fault));
    printf("\n");
}

/* check SECRET HEX */
static void check(char *rest)
{
    static struct atoll_key key;
    uint64_t secret = strtoull(rest, &rest, 10);
    size_t bytes = read_hex(rest + 1, packet);

    atoll_key_of(&key, secret);
    printf("%lu\n", atoll_check(&key, packet, bytes));
}

/* start INCARNATION SLOTS FAN_IN */
static void start(char *rest)
{
    engine_close(&engine);
    memset(&engine, 0, sizeof engine);
    engine.incarnation = (uint32_t)strtoul(rest, &rest, 10);
    engine.limits.slots = (uint32_t)strtoul(rest, &rest, 10);
    engine.limits.fan_in = (uint32_t)strtoul(rest, &rest, 10);
}

static void obey(const char *verb, char *rest)
{
    if (strcmp(verb, "start") == 0)
        start(rest);
    else if (strcmp(verb, "control") == 0)
        control(rest);
    else if (strcmp(verb, "packet") == 0)
        take(rest);
    else if (strcmp(verb, "counters") == 0)
        counters();
    else if (strcmp(verb, "fates") == 0)
        fates(rest);
    else if (strcmp(verb, "check") == 0)
        check(rest);
}

int main(void)
{
    static char line[LINE_BYTES];

    obey_all(line, sizeof line, obey);
    engine_close(&engine);
    return 0;
}
