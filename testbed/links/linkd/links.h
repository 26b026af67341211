/* All links of the daemon, and what a control request does to them. */
#ifndef LINKD_LINKS_H
#define LINKD_LINKS_H

#include "control.h"
#include "lane.h"
#include "timers.h"

struct link {
    struct link *next;
    uint32_t index;
    char end[WAYS][IFNAMSIZ]; /* the interface at which frames of each way come in */
    int fd[WAYS];
    struct lane lane[WAYS];
};

struct links {
    int epoll;
    struct mover *mover;
    struct timers timers;
    struct link *first;
    size_t directions;
    uint64_t budget_bytes;
    uint64_t early_ns; /* so long before it is due a frame may leave with those that are */
};

bool links_open(struct links *links, int epoll, uint64_t budget_bytes);
void links_close(struct links *links);

/* Frames have come in at a lane. */
void links_receive(struct links *links, struct lane *lane);

/* Puts out everything that is due. */
void links_release(struct links *links);

/* Carries a request out. The answer is complete, and to be freed; NULL without memory. */
char *links_answer(struct links *links, const struct request *request);

#endif
