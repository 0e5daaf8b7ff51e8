#include "ranks.h"

/* Its sides; what is not used is 1. Ranks count along x first. */
typedef struct Grid {
    guint x, y, z;
} Grid;

static void
add(GArray *traffic, guint a, guint b)
{
    WeftTraffic pair = { (guint16)MIN(a, b), (guint16)MAX(a, b), 1 };
    g_array_append_val(traffic, pair);
}

/* The largest divisor of n that is not above its root. */
static guint
short_side(guint n)
{
    guint side = 1;
    for (guint i = 2; i * i <= n; i++)
        if (n % i == 0)
            side = i;
    return side;
}

static Grid
square(guint n)
{
    guint x = short_side(n);
    return (Grid){ x, n / x, 1 };
}

static guint
surface(Grid grid)
{
    return grid.x * grid.y + grid.y * grid.z + grid.z * grid.x;
}

/* The one with the least surface, its shortest side first as MPI_Dims_create() has it last. */
static Grid
cube(guint n)
{
    Grid best = { 1, short_side(n), n / short_side(n) };
    for (guint x = 2; x * x * x <= n; x++) {
        Grid grid = { x, short_side(n / x), n / x / short_side(n / x) };
        if (n % x == 0 && grid.y >= x && surface(grid) < surface(best))
            best = grid;
    }
    return best;
}

static void
add_stencil(GArray *traffic, Grid grid)
{
    guint rank = 0;
    for (guint z = 0; z < grid.z; z++)
        for (guint y = 0; y < grid.y; y++)
            for (guint x = 0; x < grid.x; x++, rank++) {
                if (x + 1 < grid.x)
                    add(traffic, rank, rank + 1);
                if (y + 1 < grid.y)
                    add(traffic, rank, rank + grid.x);
                if (z + 1 < grid.z)
                    add(traffic, rank, rank + grid.x * grid.y);
            }
}

static void
add_ring(GArray *traffic, guint n)
{
    for (guint rank = 0; rank + 1 < n; rank++)
        add(traffic, rank, rank + 1);
    if (n > 2)
        add(traffic, 0, n - 1);
}

static void
add_all(GArray *traffic, guint n)
{
    for (guint a = 0; a < n; a++)
        for (guint b = a + 1; b < n; b++)
            add(traffic, a, b);
}

static void
add_matrix(GArray *traffic, const GArray *matrix, guint n)
{
    for (guint i = 0; i < matrix->len; i++) {
        const WeftTraffic *pair = &g_array_index(matrix, WeftTraffic, i);
        if (pair->b < n)
            g_array_append_vals(traffic, pair, 1);
    }
}

GArray *
weft_pattern_traffic(const WeftCluster *cluster, guint n)
{
    GArray *traffic = g_array_new(FALSE, FALSE, sizeof(WeftTraffic));
    switch (cluster->pattern) {
    case WEFT_PATTERN_ALL:
        add_all(traffic, n);
        break;
    case WEFT_PATTERN_RING:
        add_ring(traffic, n);
        break;
    case WEFT_PATTERN_STENCIL2D:
        add_stencil(traffic, square(n));
        break;
    case WEFT_PATTERN_STENCIL3D:
        add_stencil(traffic, cube(n));
        break;
    case WEFT_PATTERN_MATRIX:
        add_matrix(traffic, cluster->traffic, n);
        break;
    default:
        break;
    }
    return traffic;
}
