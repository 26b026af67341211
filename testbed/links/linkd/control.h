/* The control protocol: one line in, lines out, the last of them `ok` or `error WHY`.
 *
 *   hello
 *   own                                                    the daemon ends with this client
 *   join INDEX END_A END_B KEY=VALUE... / KEY=VALUE...     forward, then backward
 *   part INDEX
 *   set INDEX forward|backward KEY=VALUE...
 *   counters                                               a line per direction
 *   status                                                 a line about the process
 *   quit
 *
 * Values are whole numbers in the units of `enum setting`; a key may be named once. */
#ifndef LINKD_CONTROL_H
#define LINKD_CONTROL_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "direction.h"

enum { LINE_MAX_BYTES = 2048, WAYS = 2, COUNTERS_LINE_BYTES = 2048 };

enum verb { HELLO, OWN, JOIN, PART, SET, COUNTERS, STATUS, QUIT, VERBS };

enum way { FORWARD, BACKWARD };

/* The settings that were named, and their values. */
struct named {
    bool is[SETTINGS];
    uint64_t value[SETTINGS];
};

struct request {
    enum verb verb;
    uint32_t index;
    enum way way;
    char end[WAYS][IFNAMSIZ];
    struct named named[WAYS]; /* `set` uses the one of its way */
};

/* Reads a line without its newline, which it cuts up. Returns NULL or what is wrong with it. */
const char *request_parse(char *line, struct request *request);

/* Puts what was named over what is in force. Returns NULL or what does not fit together. */
const char *settings_merge(const struct named *named, uint64_t set[SETTINGS]);

/* Memory that frames of a direction may come to occupy at once. */
uint64_t settings_memory_bytes(const uint64_t set[SETTINGS]);

/* Writes one direction's counters with a newline; returns its length. */
size_t counters_print(char *text, size_t room, uint32_t index, enum way way,
                      const struct counters *count);

#endif
