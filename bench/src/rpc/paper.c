/* Calls of paper.idl, a line of stdin each, and the seconds that each took:
 * "linpack N HOW", "local N 0" (the same without a call), "long MS HOW", "huge MILLIONS HOW" (of
 * doubles that go in, or, if HOW is 1, come back, or, if HOW is 2, both). The second figure is by how
 * many bytes this process was larger than before the call, at most. */

#include "elimination.h"
#include <kumiko/grpc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

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

static double *room(size_t count) {
    double *made = calloc(count, sizeof *made);
    if (!made) perror("memory"), exit(1);
    return made;
}

static double memory_bytes(void) {
    long whole, present = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%ld %ld", &whole, &present) != 2) perror("statm"), exit(1);
    fclose(statm);
    return (double)present * (double)sysconf(_SC_PAGESIZE);
}

static grpc_function_handle_t handle(char *name) {
    grpc_function_handle_t handle;
    must(grpc_function_handle_default(&handle, name));
    return handle;
}

static double begun, bytes;

static void begin(void) {
    bytes = memory_bytes();
    begun = now();
}

static void say(void) {
    double took = now() - begun;
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%.9f %.0f\n", took, fmax(0, 1024.0 * (double)used.ru_maxrss - bytes));
    fflush(stdout);
}

/* The solution is 1 everywhere. */
static void linpack(int n, int how, int is_local) {
    static grpc_function_handle_t routine;
    static int is_there;
    if (!is_there) routine = handle("paper/linpack"), is_there = 1;
    double *a = room((size_t)n * n), *b = room((size_t)n);
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++) b[i] += a[i * n + j] = i == j ? n : (double)((i * 7 + j * 3) % 11) / 11;
    long column = 0;
    begin();
    if (is_local) eliminate(n, a, b, &column, NULL);
    else must(grpc_call(&routine, n, how, a, b));
    say();
    for (int i = 0; i < n; i++)
        if (!(fabs(b[i] - 1) < 1e-9)) fprintf(stderr, "x[%d] is %g\n", i, b[i]), exit(1);
    free(a), free(b);
}

static void long_one(int ms, int how) {
    grpc_function_handle_t routine = handle("paper/long_one");
    double *x = room(LONG_N);
    long steps = 0;
    begin();
    must(grpc_call(&routine, ms, how, LONG_N, x, &steps));
    say();
    free(x);
}

static void huge(int millions, int how) {
    char *names[] = {"paper/ends", "paper/count", "paper/one_more"};
    grpc_function_handle_t routine = handle(names[how]);
    long n = 1000000L * millions;
    double *x = room((size_t)n), ends[2] = {0};
    for (long i = 0; i < n; i++) x[i] = (double)i - (how > 0);
    begin();
    if (how) must(grpc_call(&routine, n, x)), ends[0] = x[0], ends[1] = x[n - 1];
    else must(grpc_call(&routine, n, x, ends));
    say();
    if (ends[0] != 0 || ends[1] != (double)(n - 1)) fprintf(stderr, "the ends are %g and %g\n", ends[0], ends[1]), exit(1);
    free(x);
}

int main(int argc, char **argv) {
    char what[16];
    int n, how;
    if (argc != 2) return 2;
    must(grpc_initialize(argv[1]));
    while (scanf("%15s %d %d", what, &n, &how) == 3) {
        if (!strcmp(what, "long")) long_one(n, how);
        else if (!strcmp(what, "huge")) huge(n, how);
        else linpack(n, how, !strcmp(what, "local"));
    }
    must(grpc_finalize());
    return 0;
}
