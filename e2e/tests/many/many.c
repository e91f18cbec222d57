/* `many CONTACT null COUNT`: so many calls, some at once; `flood`: all of them. `many CONTACT sums COUNT`: so many at once, each with arguments of its own,
 * of which every result is looked at. `many CONTACT cancel COUNT`: calls that would take minutes, one after the other, each
 * cancelled a while after it was begun: at once at first, then later and later. It ends when its stdin does. */

#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From nothing told to a process that computes: a cold start takes some tens of milliseconds. */
#define STEP_US 700
/* Of an argument. */
#define ELEMENTS 1000
/* More than a client has streams. */
#define AT_ONCE 150

static void must(grpc_error_t error) {
    if (error == GRPC_NO_ERROR) return;
    fprintf(stderr, "%s: %s\n", grpc_error_string(error), kumiko_last_message());
    exit(1);
}

/* Of small whole numbers, so that the order in which they are added does not matter. */
static void sums(int count) {
    grpc_function_handle_t sum;
    must(grpc_function_handle_default(&sum, "samples/sum"));
    double *all = calloc((size_t)count * ELEMENTS, sizeof *all), *results = calloc((size_t)count, sizeof *results);
    if (!all || !results) exit(4);
    for (int i = 0; i < count; i++) {
        grpc_sessionid_t id;
        double *x = all + (size_t)i * ELEMENTS;
        for (int j = 0; j < ELEMENTS; j++) x[j] = i + j;
        must(grpc_call_async(&sum, &id, ELEMENTS, x, &results[i]));
    }
    must(grpc_wait_all());
    for (int i = 0; i < count; i++) {
        double right = (double)i * ELEMENTS + (double)ELEMENTS * (ELEMENTS - 1) / 2;
        if (results[i] == right) continue;
        fprintf(stderr, "sum %d is %g, not %g\n", i, results[i], right);
        exit(5);
    }
    free(all), free(results);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    int count = atoi(argv[3]);
    long done[1] = {0};
    grpc_function_handle_t null, slow;
    grpc_sessionid_t id;
    must(grpc_initialize(argv[1]));
    must(grpc_function_handle_default(&null, "samples/null"));
    must(grpc_function_handle_default(&slow, "samples/slow"));
    if (!strcmp(argv[2], "sums")) sums(count), count = 0;
    for (int i = 0; i < count; i++) {
        int is_flood = !strcmp(argv[2], "flood");
        if (is_flood || !strcmp(argv[2], "null")) {
            must(grpc_call_async(&null, &id));
            if (!is_flood && i % AT_ONCE == AT_ONCE - 1) must(grpc_wait_all());
            continue;
        }
        must(grpc_call_async(&slow, &id, 60000L, 10000L, done));
        usleep((useconds_t)(i * STEP_US));
        must(grpc_cancel(id));
        if (grpc_wait(id) != GRPC_SESSION_FAILED || grpc_get_error(id) != GRPC_CANCELED_NP) return 3;
    }
    must(grpc_wait_all());
    while (getchar() != EOF) {}
    must(grpc_finalize());
    return 0;
}
