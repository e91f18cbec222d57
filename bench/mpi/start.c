/* Ranks that begin and end. */
#include <mpi.h>

int main(int count, char **words) {
    MPI_Init(&count, &words);
    return MPI_Finalize();
}
