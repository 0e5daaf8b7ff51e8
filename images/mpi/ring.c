/* mpi-ring: a token goes once around all ranks, then all add up what they saw: a first sign that MPI works across a cluster. */
#include <mpi.h>
#include <stdio.h>

static int
pass_token(int rank, int size)
{
    int token = 1;
    if (size == 1)
        return token;
    if (rank == 0)
        MPI_Send(&token, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    MPI_Recv(&token, 1, MPI_INT, (rank + size - 1) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0) {
        token++;
        MPI_Send(&token, 1, MPI_INT, (rank + 1) % size, 0, MPI_COMM_WORLD);
    }
    return token;
}

int
main(int argc, char **argv)
{
    char name[MPI_MAX_PROCESSOR_NAME];
    int rank, size, length, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    double began = MPI_Wtime();
    int token = pass_token(rank, size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf("rank %d of %d on %s\n", rank, size, name);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    int right = token == (rank == 0 ? size : rank + 1) && sum == size * (size - 1) / 2;
    if (rank == 0)
        printf("the token came back after %d ranks and %.1f ms; the sum of all ranks is %d: %s\n", token,
               1e3 * (MPI_Wtime() - began), sum, right ? "right" : "WRONG");
    MPI_Finalize();
    return !right;
}
