#include "control.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "words.h"

static const char *const VERB_NAMES[VERBS] = {
    [HELLO] = "hello", [OWN] = "own",           [OPEN] = "open",     [CLOSE] = "close",
    [FAULT] = "fault", [COUNTERS] = "counters", [STATUS] = "status", [QUIT] = "quit"};

static const char *const WAY_NAMES[WAYS] = {[IN] = "in", [OUT] = "out"};

enum key {
    JOB, TREE, KEY, WINDOW, LEAVES, CHILD, NOTICE_EVERY, HOLD_US, DROP, DUPLICATE, SEED, NUMBERS,
    CHILDREN = NUMBERS, MEMBERS, RESULTS, NOTICES, UP, KEYS
};

static const struct {
    const char *name;
    uint64_t least, most; /* of a number, or of how many addresses */
    unsigned verbs;
} RULE[KEYS] = {
    [JOB] = {"job", 0, UINT64_MAX, 1 << OPEN | 1 << CLOSE},
    [TREE] = {"tree", 0, UINT16_MAX, 1 << OPEN | 1 << CLOSE},
    [KEY] = {"key", 0, UINT64_MAX, 1 << OPEN},
    [WINDOW] = {"window", 1, WINDOW_MAX, 1 << OPEN},
    [LEAVES] = {"leaves", 1, UINT16_MAX, 1 << OPEN},
    [CHILD] = {"child", 0, CHILDREN_MAX - 1, 1 << OPEN},
    [NOTICE_EVERY] = {"notice_every", 1, ATOLL_DONE_BITS, 1 << OPEN},
    [HOLD_US] = {"hold_us", 0, 60000000, 1 << OPEN},
    [DROP] = {"drop", 0, ONE_BILLION, 1 << FAULT},
    [DUPLICATE] = {"duplicate", 0, ONE_BILLION, 1 << FAULT},
    [SEED] = {"seed", 0, UINT64_MAX, 1 << FAULT},
    [CHILDREN] = {"children", 1, CHILDREN_MAX, 1 << OPEN},
    [MEMBERS] = {"members", 0, MEMBERS_MAX, 1 << OPEN},
    [RESULTS] = {"results", 0, MEMBERS_MAX, 1 << OPEN},
    [NOTICES] = {"notices", 0, MEMBERS_MAX, 1 << OPEN},
    [UP] = {"up", 1, 1, 1 << OPEN},
};

/* What a line has named so far. */
struct named {
    bool is[KEYS];
    uint64_t number[NUMBERS];
    struct addresses up;
};

static bool parse_address(char *text, struct sockaddr_in *address)
{
    char *colon = strchr(text, ':');
    uint64_t port;

    if (!colon)
        return false;
    *colon = '\0';
    if (!parse_number(colon + 1, UINT16_MAX, &port) || port < 1)
        return false;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    return inet_pton(AF_INET, text, &address->sin_addr) == 1;
}

static bool parse_addresses(char *text, uint64_t most, struct addresses *addresses)
{
    char *word;

    addresses->at = calloc(most, sizeof *addresses->at);
    if (!addresses->at)
        return false;
    while ((word = strsep(&text, ","))) {
        if ((uint64_t)addresses->count == most ||
            !parse_address(word, &addresses->at[addresses->count++]))
            return false;
    }
    return true;
}

static struct addresses *addresses_of(struct request *request, struct named *named, enum key key)
{
    switch (key) {
    case CHILDREN:
        return &request->config.children;
    case MEMBERS:
        return &request->config.members;
    case RESULTS:
        return &request->config.results;
    case NOTICES:
        return &request->config.notices;
    default:
        return &named->up;
    }
}

static const char *parse_value(char *text, enum key key, struct request *request,
                               struct named *named)
{
    named->is[key] = true;
    if (key < NUMBERS) {
        uint64_t *number = &named->number[key];

        if (!parse_number(text, RULE[key].most, number) || *number < RULE[key].least)
            return "a value is out of range";
        return NULL;
    }
    return parse_addresses(text, RULE[key].most, addresses_of(request, named, key))
               ? NULL
               : "an address is written 10.0.0.1:7000, and there may be too many";
}

static const char *parse_setting(char *word, struct request *request, struct named *named)
{
    char *value = strchr(word, '=');

    if (!value)
        return "a setting is written key=value";
    *value++ = '\0';
    for (int key = 0; key < KEYS; key++) {
        if (strcmp(word, RULE[key].name) != 0)
            continue;
        if (!(RULE[key].verbs >> request->verb & 1))
            return "a setting of another request";
        if (named->is[key])
            return "a setting is named twice";
        return parse_value(value, (enum key)key, request, named);
    }
    return "unknown setting";
}

static const char *lacking(const struct request *request, const struct named *named)
{
    const bool *is = named->is;
    bool numbers = is[JOB] && is[TREE];

    if (request->verb == CLOSE)
        return numbers ? NULL : "job and tree are wanted";
    if (request->verb != OPEN)
        return NULL;
    if (!numbers || !is[KEY] || !is[WINDOW] || !is[LEAVES] || !is[CHILDREN])
        return "job, tree, key, window, leaves and children are wanted";
    return is[UP] != is[RESULTS] ? NULL : "either up or results is wanted";
}

static void take_numbers(struct request *request, const struct named *named)
{
    struct tree_config *config = &request->config;
    const uint64_t *number = named->number;

    config->job = number[JOB];
    config->tree = (uint16_t)number[TREE];
    config->secret = number[KEY];
    config->window = (uint32_t)number[WINDOW];
    config->leaves = (uint32_t)number[LEAVES];
    config->child = (uint16_t)number[CHILD];
    config->notice_every = named->is[NOTICE_EVERY] ? (uint32_t)number[NOTICE_EVERY] : 16;
    config->hold_us = named->is[HOLD_US] ? (uint32_t)number[HOLD_US] : 5000;
    if (named->is[UP])
        config->up = named->up.at[0];
    request->fault = (struct fault){number[DROP], number[DUPLICATE], number[SEED]};
}

static const char *parse_settings(char **rest, struct request *request)
{
    struct named named = {0};
    const char *wrong = NULL;
    char *word;

    while (!wrong && (word = next_word(rest)))
        wrong = parse_setting(word, request, &named);
    if (!wrong)
        wrong = lacking(request, &named);
    if (!wrong)
        take_numbers(request, &named);
    free(named.up.at);
    return wrong;
}

static const char *parse_way(char **rest, struct request *request)
{
    int way = place_of(next_word(rest), WAY_NAMES, WAYS);

    if (way < 0)
        return "in or out is wanted";
    request->way = (enum way)way;
    return NULL;
}

const char *request_parse(char *line, struct request *request)
{
    char *rest = line;
    int verb = place_of(next_word(&rest), VERB_NAMES, VERBS);
    const char *wrong = NULL;

    memset(request, 0, sizeof *request);
    if (verb < 0)
        return "unknown request";
    request->verb = (enum verb)verb;
    if (request->verb == FAULT)
        wrong = parse_way(&rest, request);
    return wrong ? wrong : parse_settings(&rest, request);
}

void request_free(struct request *request)
{
    tree_config_free(&request->config);
    memset(&request->config, 0, sizeof request->config);
}

size_t process_counters_print(char *text, size_t room, const struct process_counters *count)
{
    size_t used = (size_t)snprintf(text, room, "process");

#define X(name) used += (size_t)snprintf(text + used, room - used, " " #name "=%lu", count->name);
    PROCESS_COUNTERS(X)
#undef X
    return used + (size_t)snprintf(text + used, room - used, "\n");
}

size_t tree_counters_print(char *text, size_t room, const struct tree *tree)
{
    size_t used = (size_t)snprintf(text, room, "tree job=%lu tree=%u", tree->config.job,
                                   tree->config.tree);

#define X(name) used += (size_t)snprintf(text + used, room - used, " " #name "=%lu", tree->count.name);
    TREE_COUNTERS(X)
#undef X
    return used + (size_t)snprintf(text + used, room - used, "\n");
}
