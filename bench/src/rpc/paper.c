/* Calls of paper.idl: `paper CONTACT` takes "linpack N HOW" and "long MS HOW" on stdin, or "local N 0" for the same as linpack without a
 * call, and prints the seconds that it took. Twice, for whoever reads two figures. */

#include "elimination.h"
#include <kumiko/grpc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONG_N (1 << 20)

static void must(grpc_error_t error) {
    if (error == GRPC_NO_ERROR) return;
    fprintf(stderr, "%s\n", grpc_error_string(error));
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The solution is 1 everywhere. */
static void fill(int n, double *a, double *b) {
    for (long i = 0; i < n; i++) {
        b[i] = 0;
        for (long j = 0; j < n; j++) b[i] += a[i * n + j] = i == j ? n : (double)((i * 7 + j * 3) % 11) / 11;
    }
}

int main(int argc, char **argv) {
    grpc_function_handle_t linpack, long_one;
    char what[16];
    int n, how;
    if (argc != 2) return 2;
    must(grpc_initialize(argv[1]));
    must(grpc_function_handle_default(&linpack, "paper/linpack"));
    must(grpc_function_handle_default(&long_one, "paper/long_one"));
    while (scanf("%15s %d %d", what, &n, &how) == 3) {
        int is_long = !strcmp(what, "long"), is_local = !strcmp(what, "local");
        size_t size = is_long ? LONG_N : (size_t)n * n;
        double *a = calloc(size, sizeof *a), *b = calloc((size_t)n, sizeof *b);
        if (!a || !b) return perror("memory"), 1;
        if (!is_long) fill(n, a, b);
        long column = 0, steps = 0;
        double begun = now();
        if (is_long) must(grpc_call(&long_one, n, how, LONG_N, a, &steps));
        else if (is_local) eliminate(n, a, b, &column, NULL);
        else must(grpc_call(&linpack, n, how, a, b));
        double took = now() - begun;
        for (int i = 0; !is_long && i < n; i++)
            if (!(fabs(b[i] - 1) < 1e-9)) return fprintf(stderr, "x[%d] is %g\n", i, b[i]), 1;
        printf("%.9f %.9f\n", took, took);
        fflush(stdout);
        free(a), free(b);
    }
    must(grpc_finalize());
    return 0;
}
