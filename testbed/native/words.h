/* A line of a control protocol, word by word. */
#ifndef ATOLL_WORDS_H
#define ATOLL_WORDS_H

#include <stdbool.h>
#include <stdint.h>

/* Cuts the next word off what is left of a line; NULL at its end. */
char *next_word(char **rest);

/* Returns the place of a word among some names, or -1; a word of NULL has none. */
int place_of(const char *word, const char *const *names, int count);

/* Reads a whole number of decimal digits alone, up to `most`. */
bool parse_number(const char *text, uint64_t most, uint64_t *value);

#endif
