#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static bool watch(const struct server *server, int fd, uint32_t events, void *source, int how)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    return epoll_ctl(server->epoll, how, fd, &event) == 0;
}

bool server_open(struct server *server, int listener, int epoll)
{
    server->listener = listener;
    server->epoll = epoll;
    for (int i = 0; i < CLIENTS_MAX; i++)
        server->client[i].fd = -1;
    fcntl(listener, F_SETFL, O_NONBLOCK);
    return watch(server, listener, EPOLLIN, server, EPOLL_CTL_ADD);
}

static void hang_up(struct server *server, struct client *client)
{
    if (client->owner)
        server->ended = true;
    close(client->fd);
    free(client->answer);
    client->fd = -1;
    client->owner = false;
    client->answer = NULL;
    client->line_bytes = client->answer_sent = 0;
}

void server_close(struct server *server)
{
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (server->client[i].fd >= 0)
            hang_up(server, &server->client[i]);
    close(server->listener);
}

static void welcome(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    for (int i = 0; fd >= 0 && i < CLIENTS_MAX; i++) {
        if (server->client[i].fd >= 0)
            continue;
        server->client[i].fd = fd;
        if (!watch(server, fd, EPOLLIN, &server->client[i], EPOLL_CTL_ADD))
            hang_up(server, &server->client[i]);
        return;
    }
    if (fd >= 0)
        close(fd);
}

/* --- answers ---------------------------------------------------------------------------------- */

static char *verdict(const char *wrong)
{
    char *text = NULL;

    if (!wrong)
        return strdup("ok\n");
    return asprintf(&text, "error %s\n", wrong) < 0 ? NULL : text;
}

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
    return verdict(wrong);
}

static char *carry_out(struct server *server, struct request *request)
{
    switch (request->verb) {
    case OPEN:
        return open_tree(server->engine, request);
    case CLOSE:
        return verdict(
            engine_close_tree(server->engine, request->config.job, request->config.tree));
    case FAULT:
        wire_set_faults(server->wire, request->way == IN ? &request->fault : NULL,
                        request->way == OUT ? &request->fault : NULL);
        return verdict(NULL);
    case COUNTERS:
        return answer_counters(server->engine);
    case STATUS:
        return answer_status(server->engine);
    case QUIT:
        server->ended = true;
        return verdict(NULL);
    default:
        return verdict(NULL);
    }
}

static char *answer_line(struct server *server, struct client *client)
{
    struct request request;
    const char *wrong = request_parse(client->line, &request);
    char *answer;

    client->owner |= !wrong && request.verb == OWN;
    answer = wrong ? verdict(wrong) : carry_out(server, &request);
    request_free(&request);
    return answer;
}

/* --- lines ------------------------------------------------------------------------------------ */

/* Sends what the client takes now. False if it is gone. */
static bool send_answer(struct server *server, struct client *client)
{
    size_t bytes = strlen(client->answer + client->answer_sent);
    ssize_t sent = send(client->fd, client->answer + client->answer_sent, bytes, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN && errno != EINTR)
        return false;
    client->answer_sent += sent > 0 ? (size_t)sent : 0;
    if (client->answer[client->answer_sent] == '\0') {
        free(client->answer);
        client->answer = NULL;
        client->answer_sent = 0;
    }
    return watch(server, client->fd, client->answer ? EPOLLOUT : EPOLLIN, client, EPOLL_CTL_MOD);
}

/* Carries out the lines that are complete, until an answer does not fit into the socket. */
static bool serve_lines(struct server *server, struct client *client)
{
    char *end;

    while (!client->answer && (end = memchr(client->line, '\n', client->line_bytes)) != NULL) {
        size_t taken = (size_t)(end - client->line) + 1;

        *end = '\0';
        client->answer = answer_line(server, client);
        client->line_bytes -= taken;
        memmove(client->line, client->line + taken, client->line_bytes);
        if (!client->answer || !send_answer(server, client))
            return false;
    }
    return client->line_bytes < sizeof client->line; /* or the line never ends */
}

static bool receive(struct client *client)
{
    ssize_t got = recv(client->fd, client->line + client->line_bytes,
                       sizeof client->line - client->line_bytes, 0);

    if (got > 0)
        client->line_bytes += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

void server_handle(struct server *server, void *source)
{
    struct client *client = source;
    bool there;

    if (source == server) {
        welcome(server);
        return;
    }
    there = client->answer ? send_answer(server, client) : receive(client);
    if (!there || !serve_lines(server, client))
        hang_up(server, client);
}
