#include "links.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BATCHES_A_TURN = 4, ANSWER_BYTES = 256 };

bool links_open(struct links *links, int epoll, uint64_t budget_bytes)
{
    memset(links, 0, sizeof *links);
    links->epoll = epoll;
    links->budget_bytes = budget_bytes;
    links->mover = mover_new(budget_bytes);
    return links->mover && timers_reserve(&links->timers, 0);
}

static struct link *find(const struct links *links, uint32_t index)
{
    struct link *at = links->first;

    while (at && at->index != index)
        at = at->next;
    return at;
}

static void discard(struct links *links, struct link *link)
{
    for (int way = 0; way < WAYS; way++) {
        timers_remove(&links->timers, &link->lane[way].direction);
        direction_close(&link->lane[way].direction, mover_pool(links->mover));
        if (link->fd[way] >= 0)
            close(link->fd[way]);
    }
    free(link);
}

void links_close(struct links *links)
{
    while (links->first) {
        struct link *gone = links->first;

        links->first = gone->next;
        discard(links, gone);
    }
    free(links->timers.heap);
    free(links->mover);
}

void links_receive(struct links *links, struct lane *lane)
{
    for (int i = 0; i < BATCHES_A_TURN; i++) {
        bool more = lane_receive(links->mover, lane);

        timers_update(&links->timers, &lane->direction);
        if (!more)
            break;
        links_release(links);
    }
}

void links_release(struct links *links)
{
    uint64_t now = clock_now() + links->early_ns;

    while (timers_due(&links->timers) <= now) {
        struct direction *direction = timers_first(&links->timers);

        lane_release(links->mover, (struct lane *)direction, now);
        timers_update(&links->timers, direction);
    }
}

__attribute__((format(printf, 1, 2))) static char *answer(const char *format, ...)
{
    char *text = malloc(ANSWER_BYTES);
    va_list values;

    if (!text)
        return NULL;
    va_start(values, format);
    vsnprintf(text, ANSWER_BYTES - 1, format, values);
    va_end(values);
    strcat(text, "\n");
    return text;
}

static char *refuse_memory(const struct links *links, const uint64_t set[SETTINGS])
{
    uint64_t need = settings_memory_bytes(set);

    if (need <= links->budget_bytes)
        return NULL;
    return answer("error rate x (delay + queue) needs %lu MB of memory for frames, there are %lu",
                  need >> 20, links->budget_bytes >> 20);
}

/* Settings of one direction: those in force with the named ones over them, checked. */
static char *settle(const struct links *links, const struct named *named, uint64_t set[SETTINGS])
{
    const char *wrong = settings_merge(named, set);

    return wrong ? answer("error %s", wrong) : refuse_memory(links, set);
}

static char *refuse_taken(const struct links *links, const struct request *request)
{
    if (strcmp(request->end[FORWARD], request->end[BACKWARD]) == 0)
        return answer("error both ends are %s", request->end[FORWARD]);
    for (struct link *at = links->first; at; at = at->next) {
        if (at->index == request->index)
            return answer("error wire %u is there already", at->index);
        for (int i = 0; i < WAYS; i++)
            for (int j = 0; j < WAYS; j++)
                if (strcmp(at->end[i], request->end[j]) == 0)
                    return answer("error %s belongs to wire %u", at->end[i], at->index);
    }
    return NULL;
}

static char *open_sockets(struct link *link)
{
    for (int way = 0; way < WAYS; way++) {
        link->fd[way] = packet_socket(link->end[way]);
        if (link->fd[way] < 0)
            return answer("error %s: %s", link->end[way], strerror(-link->fd[way]));
    }
    return NULL;
}

static char *watch_sockets(struct links *links, struct link *link)
{
    for (int way = 0; way < WAYS; way++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &link->lane[way]};

        if (epoll_ctl(links->epoll, EPOLL_CTL_ADD, link->fd[way], &event))
            return answer("error epoll: %s", strerror(errno));
    }
    return NULL;
}

static char *connect_ends(struct links *links, struct link *link)
{
    char *refusal = open_sockets(link);

    if (!refusal && !timers_reserve(&links->timers, links->directions + WAYS))
        refusal = answer("error no memory");
    for (int way = 0; way < WAYS; way++) {
        link->lane[way].in = link->fd[way];
        link->lane[way].out = link->fd[!way];
    }
    return refusal ? refusal : watch_sockets(links, link);
}

static struct link *new_link(const struct request *request)
{
    struct link *link = calloc(1, sizeof *link);

    if (!link)
        return NULL;
    link->index = request->index;
    memcpy(link->end, request->end, sizeof link->end);
    for (int way = 0; way < WAYS; way++) {
        link->fd[way] = -1;
        direction_open(&link->lane[way].direction, (uint64_t)request->index * WAYS + (uint64_t)way);
    }
    return link;
}

static char *join(struct links *links, const struct request *request)
{
    char *refusal = refuse_taken(links, request);
    struct link *link;

    if (refusal)
        return refusal;
    link = new_link(request);
    if (!link)
        return NULL;
    for (int way = 0; way < WAYS && !refusal; way++) {
        uint64_t set[SETTINGS] = {0};

        refusal = settle(links, &request->named[way], set);
        if (!refusal)
            direction_change(&link->lane[way].direction, set, 0);
    }
    if (!refusal)
        refusal = connect_ends(links, link);
    if (refusal) {
        discard(links, link);
        return refusal;
    }
    link->next = links->first;
    links->first = link;
    links->directions += WAYS;
    return answer("ok");
}

static char *part(struct links *links, const struct request *request)
{
    for (struct link **at = &links->first; *at; at = &(*at)->next) {
        struct link *gone = *at;

        if (gone->index != request->index)
            continue;
        *at = gone->next;
        discard(links, gone);
        links->directions -= WAYS;
        return answer("ok");
    }
    return answer("error there is no wire %u", request->index);
}

static char *change(struct links *links, const struct request *request)
{
    struct link *link = find(links, request->index);
    struct direction *direction;
    uint64_t set[SETTINGS];
    char *refusal;

    if (!link)
        return answer("error there is no wire %u", request->index);
    direction = &link->lane[request->way].direction;
    memcpy(set, direction->set, sizeof set);
    refusal = settle(links, &request->named[request->way], set);
    if (refusal)
        return refusal;
    if (!direction_change(direction, set, clock_now()))
        return answer("error no memory");
    timers_update(&links->timers, direction);
    return answer("ok");
}

static char *counters(const struct links *links)
{
    size_t room = links->directions * COUNTERS_LINE_BYTES + sizeof "ok\n", used = 0;
    char *text = malloc(room);

    if (!text)
        return NULL;
    for (struct link *at = links->first; at; at = at->next) {
        for (int way = 0; way < WAYS; way++) {
            lane_count_overflow(&at->lane[way]);
            used += counters_print(text + used, room - used, at->index, (enum way)way,
                                   &at->lane[way].direction.count);
        }
    }
    strcpy(text + used, "ok\n");
    return text;
}

char *links_answer(struct links *links, const struct request *request)
{
    switch (request->verb) {
    case JOIN:
        return join(links, request);
    case PART:
        return part(links, request);
    case SET:
        return change(links, request);
    case COUNTERS:
        return counters(links);
    case STATUS:
        return answer("mapped_bytes=%zu budget_bytes=%lu directions=%zu\nok",
                      mover_pool(links->mover)->mapped_bytes, links->budget_bytes,
                      links->directions);
    case QUIT:
        return answer("ok");
    default:
        return answer("ok linkd 1");
    }
}
