#include "engine.h"

#include <stdlib.h>

static int find(const struct engine *engine, uint64_t job, uint16_t tree)
{
    for (int i = 0; i < engine->tree_count; i++) {
        const struct tree_config *config = &engine->trees[i]->config;

        if (config->job == job && config->tree == tree)
            return i;
    }
    return -1;
}

static void remove_at(struct engine *engine, int index)
{
    engine->slots_taken -= engine->trees[index]->config.window;
    tree_free(engine->trees[index]);
    engine->trees[index] = engine->trees[--engine->tree_count];
    engine->last_found = 0;
}

const char *engine_open_tree(struct engine *engine, const struct tree_config *config)
{
    int before = find(engine, config->job, config->tree);
    uint32_t taken = engine->slots_taken;
    struct tree **trees, *tree;

    if (before >= 0)
        taken -= engine->trees[before]->config.window;
    if ((uint32_t)config->children.count > engine->limits.fan_in)
        return "more children than this accelerator can sum";
    if (config->window > engine->limits.slots - taken)
        return "fewer slots are free than the window has";
    trees = realloc(engine->trees, (size_t)(engine->tree_count + 1) * sizeof(struct tree *));
    if (!trees)
        return "no memory";
    engine->trees = trees;
    tree = tree_new(config, engine->incarnation);
    if (!tree)
        return "no memory";
    if (before >= 0)
        remove_at(engine, before);
    engine->trees[engine->tree_count++] = tree;
    engine->slots_taken += config->window;
    return NULL;
}

const char *engine_close_tree(struct engine *engine, uint64_t job, uint16_t tree)
{
    int index = find(engine, job, tree);

    if (index < 0)
        return "no such tree is open";
    remove_at(engine, index);
    return NULL;
}

void engine_close(struct engine *engine)
{
    while (engine->tree_count)
        remove_at(engine, engine->tree_count - 1);
    free(engine->trees);
    engine->trees = NULL;
}

/* Packets of one tree tend to come together. */
static struct tree *tree_of(struct engine *engine, const struct atoll_header *header)
{
    const struct tree_config *config;

    if (engine->tree_count == 0)
        return NULL;
    config = &engine->trees[engine->last_found]->config;
    if (config->job != header->job || config->tree != header->tree) {
        int index = find(engine, header->job, header->tree);

        if (index < 0)
            return NULL;
        engine->last_found = index;
    }
    return engine->trees[engine->last_found];
}

void engine_handle(struct engine *engine, const struct arrived *arrived, struct outbox *outbox)
{
    struct atoll_header header;
    struct tree *tree;

    if (!atoll_decode(arrived->packet, arrived->bytes, &header)) {
        engine->count.malformed++;
        return;
    }
    tree = tree_of(engine, &header);
    if (tree)
        tree_handle(tree, &header, arrived, outbox);
    else
        engine->count.unknown++;
}
