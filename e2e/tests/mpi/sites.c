/* Ranks at several sites: who they are, what they pass each other; and how they end, by the first argument. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RING (1 << 17) /* doubles: 1 MiB */

int main(int count, char **words) {
    int rank, ranks, near;
    MPI_Comm room;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    /* Those that share memory: of one site. */
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &room);
    MPI_Comm_size(room, &near);
    const char *how = count > 1 ? words[1] : "";
    if (!strcmp(how, "fail") && rank == ranks - 1) MPI_Abort(MPI_COMM_WORLD, 3);
    if (!strcmp(how, "fail") || !strcmp(how, "wait")) {
        if (rank == 0) puts("they wait"), fflush(stdout);
        for (;;) pause();
    }
    int sum = 0, own = rank + 1;
    for (int step = 0; !strcmp(how, "steps") && step < 30; step++) {
        MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0) printf("step %d: %d\n", step, sum), fflush(stdout);
        usleep(100000);
    }
    MPI_Allreduce(&own, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    double *ring = malloc(RING * sizeof *ring);
    for (int i = 0; i < RING; i++) ring[i] = rank;
    MPI_Sendrecv_replace(ring, RING, MPI_DOUBLE, (rank + 1) % ranks, 0, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    int right = 1;
    for (int i = 0; i < RING; i++) right &= ring[i] == (rank + ranks - 1) % ranks;
    printf("rank %d of %d, %d near: sum %d, ring %s, count %s\n", rank, ranks, near, sum, right ? "right" : "WRONG", getenv("KUMIKO_COUNT"));
    fflush(stdout);
    /* MPICH 4.0's ranks at times wait for ever in MPI_Finalize where others are in it already. */
    usleep(200000);
    MPI_Finalize();
    return 0;
}
