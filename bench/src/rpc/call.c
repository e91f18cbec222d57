/* Calls by the interface of the GridRPC standard: `call CONTACT` takes "null COUNT", "big COUNT" and "pipelined COUNT" on stdin, and
 * prints the mean and the 99th percentile of its calls in seconds, or calls a second twice. */

#include <kumiko/grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BIG_IN (1 << 20)
#define BIG_OUT (12 * 128)

static void must(grpc_error_t error) {
    if (error == GRPC_NO_ERROR) return;
    fprintf(stderr, "%s\n", grpc_error_string(error));
    exit(1);
}

static int upwards(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    static double in[BIG_IN], out[BIG_OUT];
    grpc_function_handle_t null, big;
    char word[16];
    int count;
    if (argc != 2) return 2;
    must(grpc_initialize(argv[1]));
    must(grpc_function_handle_default(&null, "bench/null"));
    must(grpc_function_handle_default(&big, "bench/big"));
    while (scanf("%15s %d", word, &count) == 2) {
        int is_big = !strcmp(word, "big");
        double *took = calloc((size_t)count, sizeof *took), sum = 0;
        if (!strcmp(word, "pipelined")) {
            grpc_sessionid_t id;
            double begun = now();
            for (int i = 0; i < count; i++) must(grpc_call_async(&null, &id));
            must(grpc_wait_all());
            printf("%.3f %.3f\n", count / (now() - begun), count / (now() - begun));
        } else {
            for (int i = 0; i < count; i++) {
                double begun = now();
                must(is_big ? grpc_call(&big, BIG_IN, in, BIG_OUT, out) : grpc_call(&null));
                sum += took[i] = now() - begun;
            }
            qsort(took, (size_t)count, sizeof *took, upwards);
            printf("%.9f %.9f\n", sum / count, took[count * 99 / 100]);
        }
        fflush(stdout);
        free(took);
    }
    must(grpc_finalize());
    return 0;
}
