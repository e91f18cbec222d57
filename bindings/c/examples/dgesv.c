/* Solves a x = b at a site, waits for several calls at once, and shows what errors look like. Compiled and run by e2e/tests/rpc_c.rs.
 *
 *   cc dgesv.c -I../kumiko -L... -lm -lgridrpc -lssl -lcrypto -lpthread -ldl -lm
 */

#include "grpc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N 3
#define CHECK(is, expected)                                                                                   \
    do {                                                                                                      \
        int found = (is);                                                                                     \
        if (found != (expected)) {                                                                            \
            fprintf(stderr, "%s:%d: %s is %d (%s), not %d; the last failure: %s\n", __FILE__, __LINE__, #is,  \
                    found, grpc_error_string(found), (expected), kumiko_last_message());                      \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

static void solve(grpc_function_handle_t *handle) {
    double a[N][N] = {{4, 1, 0}, {1, 5, 2}, {0, 2, 6}}, b[N] = {6, 17, 22};
    int ipiv[N] = {0}, info = -1;
    CHECK(grpc_call(handle, N, a, ipiv, b, &info), GRPC_NO_ERROR);
    printf("dgesv: info %d, x %.3f %.3f %.3f\n", info, b[0], b[1], b[2]);
}

int main(void) {
    grpc_function_handle_t garbage, dgesv, trial, slow, text, texts;
    memset(&garbage, 0x5a, sizeof garbage);
    /* Before anything else, whatever is given. */
    CHECK(grpc_call(&garbage, 1), GRPC_NOT_INITIALIZED);
    CHECK(grpc_wait(7), GRPC_NOT_INITIALIZED);
    CHECK(grpc_finalize(), GRPC_NOT_INITIALIZED);
    CHECK(grpc_initialize("/no/such/file"), GRPC_CONFIGFILE_NOT_FOUND);
    for (int i = 0; i < 20; i++) {
        CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
        CHECK(grpc_finalize(), GRPC_NO_ERROR);
    }
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_initialize(NULL), GRPC_ALREADY_INITIALIZED);
    CHECK(grpc_call(&garbage, 1), GRPC_INVALID_FUNCTION_HANDLE);
    CHECK(grpc_function_handle_default(&dgesv, "linpack/none"), GRPC_FUNCTION_NOT_FOUND);
    CHECK(grpc_function_handle_default(&dgesv, "linpack/dgesv"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&trial, "pi/trial"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&text, "samples/measure"), GRPC_NO_ERROR);

    solve(&dgesv);
    solve(&dgesv); /* by the same handle */

    int length = 0;
    char first[1] = {0};
    CHECK(grpc_call(&text, "kumiko", &length, first), GRPC_NO_ERROR);
    printf("measure: %d %c\n", length, first[0]);
    CHECK(grpc_call(&text, NULL, &length, first), GRPC_NO_ERROR);
    printf("measure of NULL: %d\n", length);
    char *words[] = {"no", "ab", "no", NULL};
    long lengths[4];
    CHECK(grpc_function_handle_default(&texts, "samples/measure_all"), GRPC_NO_ERROR);
    CHECK(grpc_call(&texts, 4, 1, words, lengths), GRPC_NO_ERROR);
    printf("measure_all: %ld %ld %ld %ld\n", lengths[0], lengths[1], lengths[2], lengths[3]);
    CHECK(grpc_call(&texts, 4, 1, NULL, lengths), GRPC_RPC_REFUSED);

    /* A farm. */
    grpc_sessionid_t ids[8], id;
    long hits[8], all = 0;
    CHECK(grpc_wait_any(&id), GRPC_NO_ERROR);
    CHECK(id, GRPC_SESSIONID_VOID);
    for (int i = 0; i < 8; i++) CHECK(grpc_call_async(&trial, &ids[i], i, 10000l, &hits[i]), GRPC_NO_ERROR);
    CHECK(grpc_get_error(ids[0]), GRPC_NO_ERROR);
    grpc_function_handle_t *of = NULL;
    CHECK(grpc_get_handle(&of, ids[3]), GRPC_NO_ERROR);
    CHECK(of == &trial, 1);
    CHECK(grpc_wait_and(ids, 8), GRPC_NO_ERROR);
    for (int i = 0; i < 8; i++) all += hits[i];
    printf("pi: %.2f\n", 4.0 * all / 80000);
    CHECK(grpc_wait(ids[0]), GRPC_INVALID_SESSION_ID); /* it was waited for */

    /* One that is cancelled is still to be waited for. */
    long done[1] = {7};
    CHECK(grpc_call_async(&slow, &id, 100000l, 10000l, done), GRPC_NO_ERROR);
    CHECK(grpc_probe(id), GRPC_NOT_COMPLETED);
    grpc_sessionid_t none = 0;
    CHECK(grpc_probe_or(&id, 1, &none), GRPC_NONE_COMPLETED);
    CHECK(none, GRPC_SESSIONID_VOID);
    CHECK(grpc_cancel(id), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_SESSION_FAILED);
    CHECK(grpc_get_error(id), GRPC_CANCELED_NP);
    CHECK(done[0], 7);
    CHECK(grpc_get_failed_sessionid(&none), GRPC_NO_ERROR);
    CHECK(none, id);
    CHECK(grpc_get_failed_sessionid(&none), GRPC_NO_ERROR);
    CHECK(none, GRPC_SESSIONID_VOID);

    CHECK(grpc_function_handle_destruct(&dgesv), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_destruct(&dgesv), GRPC_INVALID_FUNCTION_HANDLE);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    return 0;
}
