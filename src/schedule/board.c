#include "board.h"

#include <string.h>

#define MAPS 6 /* by place or leaf */

static void
list_maps(WeftBoard *board, guint32 **ret_maps[MAPS])
{
    ret_maps[0] = &board->stamps;
    ret_maps[1] = &board->used;
    ret_maps[2] = &board->leaf_stamps;
    ret_maps[3] = &board->used_leaves;
    ret_maps[4] = &board->far;
    ret_maps[5] = &board->ranks;
}

WeftBoard *
weft_board_new(void)
{
    return g_new0(WeftBoard, 1);
}

void
weft_board_free(WeftBoard *board)
{
    guint32 **maps[MAPS];
    list_maps(board, maps);
    for (guint i = 0; i < MAPS; i++)
        g_free(*maps[i]);
    g_free(board->seats);
    g_free(board->best);
    g_free(board->block);
    g_free(board);
}

static void
forget_stamps(WeftBoard *board)
{
    guint32 **maps[MAPS];
    list_maps(board, maps);
    for (guint i = 0; i < MAPS; i++)
        memset(*maps[i], 0, board->n_places * sizeof **maps[i]);
}

static void
grow_maps(WeftBoard *board, guint places)
{
    guint32 **maps[MAPS];
    list_maps(board, maps);
    for (guint i = 0; i < MAPS; i++)
        *maps[i] = g_renew(guint32, *maps[i], places);
    board->n_places = places;
    forget_stamps(board);
}

void
weft_board_reserve(WeftBoard *board, guint places, gsize block)
{
    if (!board->seats) {
        board->seats = g_new(WeftSeat, WEFT_NODES_MAX);
        board->best = g_new(WeftSeat, WEFT_NODES_MAX);
    }
    if (board->n_places < places)
        grow_maps(board, places);
    if (board->block_size < block) {
        board->block = g_realloc(board->block, block);
        board->block_size = block;
    }
}

guint32
weft_board_stamp(WeftBoard *board)
{
    if (++board->stamp == 0) {
        forget_stamps(board);
        board->stamp = 1;
    }
    return board->stamp;
}
