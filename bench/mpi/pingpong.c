/* Messages of the second argument's size (bytes), there and back between two ranks, the third argument's times; prints as
 * the kernels do: the seconds are of all of them. Right means: what comes back is what was sent. */
#include "../../examples/mpi/kernel.h"

int main(int count, char **words) {
    char class = begin(&count, &words);
    int bytes = count > 2 ? atoi(words[2]) : 8, trips = count > 3 ? atoi(words[3]) : 1000, good = ranks == 2;
    char *message = room((size_t)bytes, 1);
    for (int trip = -trips / 10; good && trip < trips; trip++) {
        static double began;
        if (trip == 0) began = MPI_Wtime();
        if (rank == 0) {
            message[0] = message[bytes - 1] = (char)trip;
            MPI_Send(message, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            memset(message, 0, 1);
            MPI_Recv(message, bytes, MPI_CHAR, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            good &= message[0] == (char)trip && message[bytes - 1] == (char)trip;
        } else {
            MPI_Recv(message, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Send(message, bytes, MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
        if (trip == trips - 1) return end("pingpong", class, MPI_Wtime() - began, good, "there and back");
    }
    return end("pingpong", class, 0, 0, "two ranks are needed, and what is sent has to come back");
}
