/* A test's way to the pure parts of a program: one command a line in, answer lines out, then `.`. */
#ifndef TESTS_DRIVER_H
#define TESTS_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Reads bytes written as hexadecimal digits; returns how many. */
static size_t read_hex(const char *text, uint8_t *to)
{
    size_t bytes = 0;
    unsigned value;

    while (sscanf(text, "%2x", &value) == 1) {
        to[bytes++] = (uint8_t)value;
        text += 2;
    }
    return bytes;
}

/* Has every command obeyed that comes in, each in a line that has this much room. */
static void obey_all(char *line, int room, void (*obey)(const char *verb, char *rest))
{
    while (fgets(line, room, stdin)) {
        char *rest = line, *verb;

        line[strcspn(line, "\n")] = '\0';
        verb = strsep(&rest, " ");
        obey(verb, rest ? rest : line + strlen(line));
        printf(".\n");
        fflush(stdout);
    }
}

#endif
