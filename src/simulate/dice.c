#include "dice.h"

#include <math.h>

static guint64
splitmix(guint64 *state)
{
    guint64 z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static guint64
rotate(guint64 x, guint bits)
{
    return x << bits | x >> (64 - bits);
}

void
weft_dice_init(WeftDice *dice, guint64 seed)
{
    for (guint i = 0; i < G_N_ELEMENTS(dice->state); i++)
        dice->state[i] = splitmix(&seed);
}

guint64
weft_dice_next(WeftDice *dice)
{
    guint64 *s = dice->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

double
weft_dice_unit(WeftDice *dice)
{
    return (double)(weft_dice_next(dice) >> 11) * 0x1p-53;
}

double
weft_dice_between(WeftDice *dice, double low, double high)
{
    return low + (high - low) * weft_dice_unit(dice);
}

/* Box and Muller; the second of each pair is not used, so that the state is all there is. */
double
weft_dice_normal(WeftDice *dice)
{
    double radius = sqrt(-2 * log(1 - weft_dice_unit(dice)));
    return radius * cos(2 * G_PI * weft_dice_unit(dice));
}

gboolean
weft_dice_chance(WeftDice *dice, double share)
{
    return weft_dice_unit(dice) < share;
}
