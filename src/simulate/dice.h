/* Numbers that look random and are the same for the same seed, everywhere: xoshiro256** as its authors published it, seeded by
 * splitmix64. Not for secrets. */
#pragma once

#include <glib.h>

typedef struct WeftDice {
    guint64 state[4];
} WeftDice;

void weft_dice_init(WeftDice *dice, guint64 seed);
guint64 weft_dice_next(WeftDice *dice);
/* Evenly from [0, 1). */
double weft_dice_unit(WeftDice *dice);
/* Evenly from [low, high). */
double weft_dice_between(WeftDice *dice, double low, double high);
/* Of mean 0 and standard deviation 1. */
double weft_dice_normal(WeftDice *dice);
gboolean weft_dice_chance(WeftDice *dice, double share);
