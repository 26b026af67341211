/* What every fuzzer needs: numbers of its own, and a check that ends it. */
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state;

static uint64_t any(uint64_t below)
{
    state ^= state << 13; /* xorshift64: unlike the generators of what is tested */
    state ^= state >> 7;
    state ^= state << 17;
    return below ? state % below : 0;
}

#define MUST(what)                                                                                 \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "line %d: %s does not hold\n", __LINE__, #what);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* Writes up to `most` of these words with a space behind each, then spoils up to two characters. */
static void any_line(char *line, uint64_t most, const char *const *words, uint64_t count)
{
    *line = '\0';
    for (uint64_t left = any(most); left > 0; left--) {
        strcat(line, words[any(count)]);
        strcat(line, " ");
    }
    for (uint64_t left = any(3); left > 0 && *line; left--)
        line[any(strlen(line))] = (char)any(256);
}

#endif
