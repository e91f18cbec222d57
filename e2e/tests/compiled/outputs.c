/* Big results: written where they belong as they come, and of what goes in as well when all is there (rpc_c.rs). */

#include "check.h"

#define N 9000000l /* 72 MB */
#define ROOM (16 << 10) /* KiB: of blocks that are under way */

static double *room(double with) {
    double *x = malloc(N * sizeof *x);
    for (long i = 0; i < N; i++) x[i] = with;
    return x;
}

static void all(const double *x, double is) {
    for (long i = 0; i < N; i++) CHECK(x[i] == is, 1);
}

/* KiB of memory that this process had at most. */
static long peak(void) {
    char line[256];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld", &kib);
    fclose(status);
    return kib;
}

int main(void) {
    grpc_function_handle_t fill, add;
    grpc_sessionid_t id;
    double ends[2];
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&fill, "fill/fill"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&add, "fill/add"), GRPC_NO_ERROR);
    double *x = room(1), *y = room(2), *z = room(3);

    CHECK(grpc_call(&fill, 2l, 1.5, y), GRPC_NO_ERROR);
    CHECK(y[1] == 1.5 && y[2] == 2, 1);
    long before = peak();
    CHECK(grpc_call(&fill, N, 2.5, y), GRPC_NO_ERROR);
    all(y, 2.5);
    CHECK(grpc_call_async(&fill, &id, N, 3.5, y), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_NO_ERROR);
    all(y, 3.5);

    /* What stands around it in the result is where it belongs too. */
    CHECK(grpc_call(&add, N, 10.0, x, ends, y, z), GRPC_NO_ERROR);
    all(x, 1), all(y, 11), all(z, 14);
    CHECK(ends[0] == 11 && ends[1] == 14, 1);
    /* One array for what goes in and what comes out; and a part of one, which is small enough to wait in memory. */
    CHECK(grpc_call(&add, N, 10.0, x, ends, x, z), GRPC_NO_ERROR);
    all(x, 11), all(z, 25);
    long more = peak() - before;
    CHECK(before > 0 && more < ROOM, 1);
    for (long i = 0; i < N; i++) x[i] = (double)i;
    CHECK(grpc_call(&add, N / 2, 0.5, x + N / 4, ends, x, z), GRPC_NO_ERROR);
    for (long i = 0; i < N; i++) CHECK(x[i] == (i < N / 2 ? (double)(i + N / 4) + 0.5 : (double)i), 1);
    CHECK(z[0] == 25 + (double)(N / 4) + 0.5 && z[N / 2] == 25, 1);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    puts("outputs: where they belong, and once");
    return 0;
}
