/* The accelerator's UDP socket: batches in, batches out. */
#ifndef ACCELERATOR_WIRE_H
#define ACCELERATOR_WIRE_H

#include "engine.h"
#include "fault.h"

struct wire;

/* Opens a socket bound to the address; multicast leaves by the interface, if one is named. Returns
 * NULL with errno. */
struct wire *wire_open(const struct sockaddr_in *address, const char *interface,
                       struct engine *engine);
void wire_close(struct wire *wire);

int wire_socket(const struct wire *wire);
void wire_set_faults(struct wire *wire, const struct fault *in, const struct fault *out);

/* Takes in at most one batch and sends what comes of it. Returns whether there may be more. */
bool wire_receive(struct wire *wire);

uint64_t clock_us(void);

#endif
