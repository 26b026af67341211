#include "words.h"

#include <string.h>

char *next_word(char **rest)
{
    char *word;

    do
        word = strsep(rest, " ");
    while (word && *word == '\0');
    return word;
}

int place_of(const char *word, const char *const *names, int count)
{
    for (int i = 0; word && i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return i;
    return -1;
}

bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    uint64_t sum = 0, digit;

    if (*text == '\0')
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        digit = (uint64_t)(*text - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return sum <= most;
}
