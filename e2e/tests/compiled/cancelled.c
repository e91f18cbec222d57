/* A routine that sets something right when its call is cancelled (rpc_c.rs). */

#include "check.h"

#include <pthread.h>
#include <unistd.h>

/* Somebody says so. */
static void until_it_computes(void) {
    while (unlink("computes")) usleep(10 * 1000);
}

static void *cancels(void *unused) {
    until_it_computes();
    CHECK(grpc_cancel_all(), GRPC_NO_ERROR);
    return unused;
}

int main(void) {
    pthread_t other;
    grpc_function_handle_t until;
    grpc_sessionid_t id;
    int rounds = 0;
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&until, "fill/until_cancelled"), GRPC_NO_ERROR);
    CHECK(grpc_call(&until, 3, &rounds), GRPC_NO_ERROR); /* nobody cancels it */
    CHECK(rounds, 3);
    CHECK(grpc_call_async(&until, &id, 1000000, &rounds), GRPC_NO_ERROR);
    until_it_computes();
    CHECK(grpc_cancel(id), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_SESSION_FAILED);
    CHECK(grpc_get_error(id), GRPC_CANCELED_NP);
    CHECK(pthread_create(&other, NULL, cancels, NULL), 0);
    CHECK(grpc_call(&until, 1000000, &rounds), GRPC_SESSION_FAILED); /* who waits for it hears so */
    CHECK(pthread_join(other, NULL), 0);
    rounds = 0;
    CHECK(grpc_call(&until, 3, &rounds), GRPC_NO_ERROR); /* another process has it */
    CHECK(rounds, 3);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    puts("cancelled: and another is not");
    return 0;
}
