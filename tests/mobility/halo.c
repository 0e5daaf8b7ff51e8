/* halo STEPS PACE FILE: a heated plate by Jacobi's method, its rows shared out among all ranks, which exchange their edges in
 * each step. Ends after STEPS steps; where FILE is named, not before that is gone. A step takes PACE milliseconds or longer.
 *
 * Each REPORT steps rank 0 tells the checksum of the whole plate, to the last bit. It is the same however many ranks there are:
 * whoever lost, repeated or mixed up a single message or a page tells another one from then on. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIDTH 384
#define HEIGHT 384
#define REPORT 20

typedef struct Plate {
    int rank, size, first, rows; /* rows without the edges, which are before and after them */
    double *now, *next;
} Plate;

static double *
row_of(double *plate, int row)
{
    return plate + (size_t)row * WIDTH;
}

/* A source that moves: no two steps are alike. */
static void
heat(Plate *plate, int step)
{
    int row = step * 7 % HEIGHT - plate->first;
    if (row >= 0 && row < plate->rows)
        row_of(plate->now, row + 1)[step * 13 % WIDTH] += 1000.0;
}

static void
exchange(Plate *plate)
{
    int above = plate->rank > 0 ? plate->rank - 1 : MPI_PROC_NULL;
    int below = plate->rank + 1 < plate->size ? plate->rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(row_of(plate->now, 1), WIDTH, MPI_DOUBLE, above, 0, row_of(plate->now, plate->rows + 1), WIDTH, MPI_DOUBLE,
                 below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(row_of(plate->now, plate->rows), WIDTH, MPI_DOUBLE, below, 1, row_of(plate->now, 0), WIDTH, MPI_DOUBLE, above,
                 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void
spread(Plate *plate)
{
    for (int row = 1; row <= plate->rows; row++) {
        const double *above = row_of(plate->now, row - 1), *here = row_of(plate->now, row),
                     *below = row_of(plate->now, row + 1);
        double *next = row_of(plate->next, row);
        for (int x = 1; x < WIDTH - 1; x++)
            next[x] = 0.25 * ((above[x] + below[x]) + (here[x - 1] + here[x + 1]));
    }
    double *then = plate->now;
    plate->now = plate->next;
    plate->next = then;
}

/* FNV-1a of each row with its number, all of them XORed: in whatever order, with however many ranks. */
static uint64_t
checksum(Plate *plate)
{
    uint64_t own = 0, all = 0;
    for (int row = 0; row < plate->rows; row++) {
        const unsigned char *byte = (const unsigned char *)row_of(plate->now, row + 1);
        uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)(plate->first + row);
        for (size_t i = 0; i < WIDTH * sizeof(double); i++)
            sum = (sum ^ byte[i]) * UINT64_C(0x100000001b3);
        own ^= sum;
    }
    MPI_Allreduce(&own, &all, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    return all;
}

/* All go on or none does: rank 0 looks. */
static int
goes_on(const Plate *plate, int step, int steps, const char *file)
{
    int wanted = step < steps || (file && access(file, F_OK) == 0);
    if (plate->size > 1)
        MPI_Bcast(&wanted, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return wanted;
}

static void
rest_of(double began, double pace)
{
    double left = began + pace - MPI_Wtime();
    struct timespec rest = { (time_t)left, (long)((left - (double)(time_t)left) * 1e9) };
    if (left > 0)
        nanosleep(&rest, NULL);
}

static void
run(Plate *plate, int steps, double pace, const char *file)
{
    int step = 0;
    do {
        for (int end = step + REPORT; step < end; step++) {
            double began = MPI_Wtime();
            heat(plate, step);
            exchange(plate);
            spread(plate);
            rest_of(began, pace);
        }
        uint64_t sum = checksum(plate);
        if (plate->rank == 0)
            printf("step %d checksum %016llx\n", step, (unsigned long long)sum);
        fflush(stdout);
    } while (goes_on(plate, step, steps, file));
    if (plate->rank == 0)
        printf("done after %d steps with %d ranks\n", step, plate->size);
}

int
main(int argc, char **argv)
{
    Plate plate = { 0 };
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &plate.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &plate.size);
    if (argc < 3 || plate.size > HEIGHT) {
        fprintf(stderr, "usage: halo STEPS PACE [FILE], with %d ranks or fewer\n", HEIGHT);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    plate.first = HEIGHT * plate.rank / plate.size;
    plate.rows = HEIGHT * (plate.rank + 1) / plate.size - plate.first;
    plate.now = calloc((size_t)(plate.rows + 2) * WIDTH, sizeof(double));
    plate.next = calloc((size_t)(plate.rows + 2) * WIDTH, sizeof(double));
    if (!plate.now || !plate.next)
        MPI_Abort(MPI_COMM_WORLD, 1);
    run(&plate, atoi(argv[1]), 1e-3 * atof(argv[2]), argc > 3 ? argv[3] : NULL);
    free(plate.now);
    free(plate.next);
    MPI_Finalize();
    return 0;
}
