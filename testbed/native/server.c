#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
        server->client[i] = (struct client){.fd = -1};
    fcntl(listener, F_SETFL, O_NONBLOCK);
    return watch(server, listener, EPOLLIN, server, EPOLL_CTL_ADD);
}

static void hang_up(struct server *server, struct client *client)
{
    if (client->owner)
        server->ended = true;
    close(client->fd);
    free(client->answer);
    free(client->line);
    *client = (struct client){.fd = -1};
}

void server_close(struct server *server)
{
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (server->client[i].fd >= 0)
            hang_up(server, &server->client[i]);
    close(server->listener);
}

bool server_owns(const struct server *server, const void *source)
{
    const char *at = source, *from = (const char *)server;

    return at >= from && at < from + sizeof *server;
}

static struct client *free_place(struct server *server)
{
    for (int i = 0; i < CLIENTS_MAX; i++)
        if (server->client[i].fd < 0)
            return &server->client[i];
    return NULL;
}

static void welcome(struct server *server)
{
    int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    struct client *client = free_place(server);

    if (fd < 0)
        return;
    if (!client) {
        close(fd);
        return;
    }
    *client = (struct client){.fd = fd, .line = malloc(server->line_max_bytes)};
    if (!client->line || !watch(server, fd, EPOLLIN, client, EPOLL_CTL_ADD))
        hang_up(server, client);
}

char *server_verdict(const char *wrong)
{
    char *text = NULL;

    if (!wrong)
        return strdup("ok\n");
    return asprintf(&text, "error %s\n", wrong) < 0 ? NULL : text;
}

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
        client->answer = server->carry_out(server, client);
        client->line_bytes -= taken;
        memmove(client->line, client->line + taken, client->line_bytes);
        if (!client->answer || !send_answer(server, client))
            return false;
    }
    return client->line_bytes < server->line_max_bytes; /* or the line never ends */
}

static bool receive(const struct server *server, struct client *client)
{
    ssize_t got = recv(client->fd, client->line + client->line_bytes,
                       server->line_max_bytes - client->line_bytes, 0);

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
    there = client->answer ? send_answer(server, client) : receive(server, client);
    if (!there || !serve_lines(server, client))
        hang_up(server, client);
}
