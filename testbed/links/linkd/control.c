#include "control.h"

#include <stdio.h>
#include <string.h>

#include "words.h"

static const char *const VERB_NAMES[VERBS] = {
    [HELLO] = "hello", [OWN] = "own", [JOIN] = "join", [PART] = "part", [SET] = "set",
    [COUNTERS] = "counters", [STATUS] = "status", [QUIT] = "quit"};

static const char *const WAY_NAMES[WAYS] = {[FORWARD] = "forward", [BACKWARD] = "backward"};

static const char *const CAUSE_NAMES[DROP_CAUSES] = {
    [DROP_QUEUE] = "queue",       [DROP_LOSS] = "loss",     [DROP_SOCKET] = "socket",
    [DROP_OVERSIZE] = "oversize", [DROP_MEMORY] = "memory", [DROP_TRANSMIT] = "transmit"};

#define MAX_RATE 100000000000ull /* bit/s */
#define MAX_TIME 60000000000ull  /* ns */

static const struct {
    const char *name;
    uint64_t most;
} SETTING[SETTINGS] = {
    [RATE] = {"rate", MAX_RATE},
    [DELAY] = {"delay", MAX_TIME},
    [JITTER] = {"jitter", MAX_TIME},
    [QUEUE] = {"queue", MAX_TIME},
    [LOSS] = {"loss", ONE_BILLION},
    [GE_ENTER] = {"ge_enter", ONE_BILLION},
    [GE_LEAVE] = {"ge_leave", ONE_BILLION},
    [GE_BAD] = {"ge_bad", ONE_BILLION},
    [GE_GOOD] = {"ge_good", ONE_BILLION},
    [DUPLICATE] = {"duplicate", ONE_BILLION},
    [CORRUPT] = {"corrupt", ONE_BILLION},
    [REORDER] = {"reorder", 1},
    [SEED] = {"seed", UINT64_MAX},
};

static const char *parse_setting(char *word, struct named *named)
{
    char *value = strchr(word, '=');

    if (!value)
        return "a setting is written key=value";
    *value++ = '\0';
    for (int i = 0; i < SETTINGS; i++) {
        if (strcmp(word, SETTING[i].name) != 0)
            continue;
        if (named->is[i])
            return "a setting is named twice";
        named->is[i] = true;
        return parse_number(value, SETTING[i].most, &named->value[i]) ? NULL
                                                                      : "a value is out of range";
    }
    return "unknown setting";
}

static const char *parse_settings(char **rest, struct request *request, enum way way)
{
    const char *wrong;
    char *word;

    while ((word = next_word(rest))) {
        if (strcmp(word, "/") == 0) {
            if (request->verb != JOIN || way == BACKWARD)
                return "a misplaced /";
            way = BACKWARD;
            continue;
        }
        wrong = parse_setting(word, &request->named[way]);
        if (wrong)
            return wrong;
    }
    return request->verb == JOIN && way == FORWARD ? "no / between the two directions" : NULL;
}

static const char *parse_ends(char **rest, struct request *request)
{
    for (int i = 0; i < WAYS; i++) {
        char *name = next_word(rest);

        if (!name || strlen(name) >= IFNAMSIZ)
            return "two interface names are wanted";
        strcpy(request->end[i], name);
    }
    return NULL;
}

static const char *parse_way(char **rest, struct request *request)
{
    int way = place_of(next_word(rest), WAY_NAMES, WAYS);

    if (way < 0)
        return "forward or backward is wanted";
    request->way = (enum way)way;
    return NULL;
}

static const char *parse_operands(char **rest, struct request *request)
{
    const char *wrong = NULL;
    uint64_t index;
    char *word;

    if (request->verb == JOIN || request->verb == PART || request->verb == SET) {
        word = next_word(rest);
        if (!word || !parse_number(word, UINT32_MAX, &index))
            return "a wire's index is wanted";
        request->index = (uint32_t)index;
    }
    if (request->verb == JOIN)
        wrong = parse_ends(rest, request);
    if (request->verb == SET)
        wrong = parse_way(rest, request);
    if (wrong)
        return wrong;
    if (request->verb == JOIN || request->verb == SET)
        return parse_settings(rest, request, request->way);
    return next_word(rest) ? "nothing more is wanted" : NULL;
}

const char *request_parse(char *line, struct request *request)
{
    char *rest = line;
    int verb = place_of(next_word(&rest), VERB_NAMES, VERBS);

    memset(request, 0, sizeof *request);
    if (verb < 0)
        return "unknown request";
    request->verb = (enum verb)verb;
    return parse_operands(&rest, request);
}

const char *settings_merge(const struct named *named, uint64_t set[SETTINGS])
{
    uint64_t merged[SETTINGS];

    for (int i = 0; i < SETTINGS; i++)
        merged[i] = named->is[i] ? named->value[i] : set[i];
    if (merged[JITTER] > merged[DELAY])
        return "the jitter is larger than the delay";
    if (merged[RATE] && merged[QUEUE] == 0)
        return "a direction with a rate needs a queue";
    memcpy(set, merged, sizeof merged);
    return NULL;
}

uint64_t settings_memory_bytes(const uint64_t set[SETTINGS])
{
    /* An unlimited direction carries what this machine can: no more than 10 Gbit/s so far. A block
     * is at most a third larger than the full frame in it, at the usual MTUs. */
    double rate = set[RATE] ? (double)set[RATE] : 1e10;
    double held_ns = (double)set[DELAY] + (double)set[JITTER] + (set[RATE] ? (double)set[QUEUE] : 0);

    return (uint64_t)(rate / 8 * held_ns / 1e9 * 4 / 3);
}

size_t counters_print(char *text, size_t room, uint32_t index, enum way way,
                      const struct counters *count)
{
    size_t used = 0;

#define PRINT(...) (used += (size_t)snprintf(text + used, room - used, __VA_ARGS__))
    PRINT("%u %s frames_in=%lu bytes_in=%lu frames_out=%lu bytes_out=%lu queued_frames=%lu", index,
          WAY_NAMES[way], count->frames_in, count->bytes_in, count->frames_out, count->bytes_out,
          count->queued_frames);
    for (int i = 0; i < DROP_CAUSES; i++)
        PRINT(" drop_%s=%lu", CAUSE_NAMES[i], count->dropped[i]);
    PRINT(" duplicated=%lu corrupted=%lu late_max_ns=%lu late=", count->duplicated,
          count->corrupted, count->late_max_ns);
    for (int i = 0; i < LATENESS_BUCKETS; i++)
        PRINT("%s%lu", i ? "," : "", count->late[i]);
    PRINT("\n");
#undef PRINT
    return used;
}
