#include "answers.h"

#include <stdio.h>
#include <stdlib.h>

#include "control.h"

static char *answer_counters(const struct engine *engine)
{
    size_t room = COUNTERS_LINE_BYTES * ((size_t)engine->tree_count + 2), used;
    char *text = malloc(room);

    if (!text)
        return NULL;
    used = process_counters_print(text, room, &engine->count);
    for (int i = 0; i < engine->tree_count; i++)
        used += tree_counters_print(text + used, room - used, engine->trees[i]);
    snprintf(text + used, room - used, "ok\n");
    return text;
}

static char *answer_status(const struct engine *engine)
{
    char *text = NULL;
    int bytes = asprintf(&text, "trees=%d slots_taken=%u slots=%u fan_in=%u rate_bps=%lu "
                                "incarnation=%u\nok\n",
                         engine->tree_count, engine->slots_taken, engine->limits.slots,
                         engine->limits.fan_in, engine->limits.rate_bps, engine->incarnation);

    return bytes < 0 ? NULL : text;
}

static char *open_tree(struct engine *engine, struct request *request)
{
    const char *wrong = engine_open_tree(engine, &request->config);

    if (!wrong) /* the addresses are the tree's now */
        memset(&request->config, 0, sizeof request->config);
    return server_verdict(wrong);
}

static char *obey(struct server *server, struct request *request)
{
    struct parts *parts = server->daemon;

    switch (request->verb) {
    case OPEN:
        return open_tree(parts->engine, request);
    case CLOSE:
        return server_verdict(
            engine_close_tree(parts->engine, request->config.job, request->config.tree));
    case FAULT:
        wire_set_faults(parts->wire, request->way == IN ? &request->fault : NULL,
                        request->way == OUT ? &request->fault : NULL);
        return server_verdict(NULL);
    case COUNTERS:
        return answer_counters(parts->engine);
    case STATUS:
        return answer_status(parts->engine);
    case QUIT:
        server->ended = true;
        return server_verdict(NULL);
    default:
        return server_verdict(NULL);
    }
}

char *carry_out(struct server *server, struct client *client)
{
    struct request request;
    const char *wrong = request_parse(client->line, &request);
    char *answer;

    client->owner |= !wrong && request.verb == OWN;
    answer = wrong ? server_verdict(wrong) : obey(server, &request);
    request_free(&request);
    return answer;
}
