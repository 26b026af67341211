/* The control protocol: one line in, lines out, the last of them `ok` or `error WHY`.
 *
 *   hello
 *   own                         the accelerator ends with this client
 *   open KEY=VALUE...           take part in a tree: the keys of TreeConfig in config.py
 *   close job=N tree=N
 *   fault in|out KEY=VALUE...   drop, duplicate (billionths), seed
 *   counters                    a line for the process, then one a tree
 *   status                      a line about the process
 *   quit
 *
 * Addresses are written 10.0.0.1:7000, several separated by commas. */
#ifndef ACCELERATOR_CONTROL_H
#define ACCELERATOR_CONTROL_H

#include "engine.h"
#include "fault.h"

enum { LINE_MAX_BYTES = 65536, COUNTERS_LINE_BYTES = 1024 };

enum verb { HELLO, OWN, OPEN, CLOSE, FAULT, COUNTERS, STATUS, QUIT, VERBS };

enum way { IN, OUT, WAYS };

struct request {
    enum verb verb;
    enum way way;
    struct tree_config config; /* `open`; `close` uses its numbers */
    struct fault fault;
};

/* Reads a line without its newline, which it cuts up. Returns NULL or what is wrong with it; in both
 * cases `request_free` gives back what was taken. */
const char *request_parse(char *line, struct request *request);
void request_free(struct request *request);

/* Write one line of counters; return its length. */
size_t process_counters_print(char *text, size_t room, const struct process_counters *count);
size_t tree_counters_print(char *text, size_t room, const struct tree *tree);

#endif
