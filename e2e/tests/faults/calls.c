/* Calls routines as it is told by lines, and says of each whether its result is what it must be. The argument: a contact file. */

#include <grpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long asked, out_of_order;

/* What a caller's function does it does once for each question, in order. */
static void tell(int *i, long *total) {
    if (*i != asked) out_of_order++;
    asked++;
    *total += *i + 1;
}

static grpc_function_handle_t handle(char *name) {
    grpc_function_handle_t handle;
    grpc_error_t error = grpc_function_handle_default(&handle, name);
    if (error != GRPC_NO_ERROR) {
        printf("%s: %s\n", name, kumiko_last_message());
        exit(1);
    }
    return handle;
}

static void say(grpc_error_t error, int right) {
    if (error != GRPC_NO_ERROR) printf("%s: %s\n", grpc_error_string(error), kumiko_last_message());
    else puts(right ? "right" : "wrong");
    fflush(stdout);
}

int main(int argc, char **argv) {
    if (argc != 2 || grpc_initialize(argv[1]) != GRPC_NO_ERROR) return 2;
    grpc_function_handle_t sum = handle("samples/sum"), every = handle("samples/every_other"),
                           turn = handle("samples/conjugate"), slow = handle("samples/slow"), count = handle("callback/count");
    char line[100], what[16];
    long n, pause_us;
    say(GRPC_NO_ERROR, 1);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%15s %ld %ld", what, &n, &pause_us) != 3) return 3;
        if (strcmp(what, "slow") == 0) {
            long done[1] = {7};
            grpc_error_t error = grpc_call(&slow, n, pause_us, done);
            say(error, done[0] == 7 + n);
        } else if (strcmp(what, "count") == 0) {
            long total = 0;
            asked = out_of_order = 0;
            grpc_error_t error = grpc_call(&count, (int)n, (int)pause_us, &total, tell);
            say(error, total == n * (n + 1) / 2 && asked == n && out_of_order == 0);
        } else if (strcmp(what, "turn") == 0) {
            double *z = malloc((size_t)n * 2 * sizeof *z), *c = malloc((size_t)n * 2 * sizeof *c);
            if (!z || !c) return 4;
            for (long i = 0; i < 2 * n; i++) z[i] = (double)i, c[i] = -1;
            grpc_error_t error = grpc_call(&turn, (int)n, z, c, NULL);
            int right = 1;
            for (long i = 0; i < 2 * n; i++) right &= c[i] == (i % 2 ? -z[i] : z[i]);
            say(error, right);
            free(z), free(c);
        } else {
            double *x = malloc((size_t)(n + 1) * sizeof *x), s = -1;
            if (!x) return 4;
            for (long i = 0; i < n; i++) x[i] = (double)i;
            if (strcmp(what, "sum") == 0) {
                grpc_error_t error = grpc_call(&sum, (int)n, x, &s);
                say(error, s == (double)n * (double)(n - 1) / 2);
            } else {
                grpc_error_t error = grpc_call(&every, (int)n, x);
                int right = 1;
                for (long i = 0; i < n; i++) right &= x[i] == (double)(i % 2 ? 2 * i : i);
                say(error, right);
            }
            free(x);
        }
    }
    return grpc_finalize() != GRPC_NO_ERROR;
}
