/* A routine that calls back: roots of functions that are known here, found elsewhere (examples/rpc/callback.idl). */

#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls;

/* x^2 - a, of as many numbers as there are: arguments by address, the scalar too. */
static void squares(int *n, double *x, double *y, double *slope) {
    calls++;
    for (int i = 0; i < *n; i++) {
        y[i] = x[i] * x[i] - (i + 2);
        slope[i] = 2 * x[i];
    }
}

/* Also counts how often it is asked: no matter what dies in between, once for each i. */
static void tell(int *i, long *total) {
    calls++;
    *total += *i + 1;
    printf("tell %d\n", *i);
    fflush(stdout);
}

/* A text is where it stands, or NULL. */
static void look(int *number, char *word, long *letters) {
    *letters = word ? (long)strlen(word) : 0;
    printf("word %d: %s\n", *number, word ? word : "none");
}

static void must(grpc_error_t error) {
    if (error == GRPC_NO_ERROR) return;
    fprintf(stderr, "%s: %s\n", grpc_error_string(error), kumiko_last_message());
    exit(1);
}

int main(int argc, char **argv) {
    grpc_function_handle_t newton, words, count;
    must(grpc_initialize(NULL));
    if (argc > 1) { /* how many times, and how long between two, in microseconds */
        long sum = 0;
        must(grpc_function_handle_default(&count, "callback/count"));
        must(grpc_call(&count, atoi(argv[1]), argc > 2 ? atoi(argv[2]) : 0, &sum, tell));
        printf("sum %ld, asked %d times\n", sum, calls);
    } else {
        double x[3] = {1, 1, 1}, rest;
        int steps;
        must(grpc_function_handle_default(&newton, "callback/newton"));
        must(grpc_call(&newton, 3, x, &steps, &rest, squares));
        printf("roots %.6f %.6f %.6f, %s\n", x[0], x[1], x[2], calls == steps + 1 ? "as often as said" : "too often");
        long letters;
        must(grpc_function_handle_default(&words, "callback/words"));
        must(grpc_call(&words, "to be", &letters, look));
        printf("%ld letters\n", letters);
    }
    must(grpc_finalize());
    return 0;
}
