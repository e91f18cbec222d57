/* Handlers of signals that call the library, and what is there again when it is finalized (rpc_c.rs). */

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t before, direct;
static pthread_t where;
static grpc_error_t cancelled = -1;

static void older(int signal) { before += signal; }
static void met(int signal) { direct += signal == SIGPIPE && pthread_equal(pthread_self(), where); }
static void cancel_all(int signal) { cancelled = signal == SIGUSR1 ? grpc_cancel_all() : -1; }
static void another(int signal) { cancelled = signal; }

int main(void) {
    grpc_function_handle_t slow;
    grpc_sessionid_t id;
    long done[1] = {0};
    where = pthread_self();
    signal(SIGUSR1, older);
    CHECK(grpc_signal_handler_set_np(SIGUSR1, cancel_all), GRPC_NOT_INITIALIZED);
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_signal_handler_set_np(SIGKILL, cancel_all), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_signal_handler_set_np(0, cancel_all), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_signal_handler_set_np(1000, cancel_all), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_signal_handler_set_np(SIGUSR1, SIG_ERR), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_signal_handler_set_np(SIGUSR1, another), GRPC_NO_ERROR);
    CHECK(grpc_signal_handler_set_np(SIGUSR1, cancel_all), GRPC_NO_ERROR); /* in its place */
    CHECK(grpc_signal_handler_set_np(SIGPIPE, met), GRPC_NO_ERROR);
    CHECK(grpc_signal_handler_set_np(SIGUSR2, SIG_IGN), GRPC_NO_ERROR);
    kill(getpid(), SIGUSR2);

    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    CHECK(grpc_call_async(&slow, &id, 100000l, 10000l, done), GRPC_NO_ERROR);
    pthread_kill(where, SIGPIPE);
    CHECK(direct, 1);
    kill(getpid(), SIGUSR1);
    CHECK(grpc_wait(id), GRPC_SESSION_FAILED); /* for the handler has cancelled it */
    CHECK(grpc_get_error(id), GRPC_CANCELED_NP);
    while (cancelled < 0) usleep(1000);
    CHECK(cancelled, GRPC_NO_ERROR);
    CHECK(before, 0);

    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    raise(SIGUSR1);
    CHECK(before, SIGUSR1);
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_signal_handler_set_np(SIGUSR1, SIG_IGN), GRPC_NO_ERROR);
    raise(SIGUSR1);
    CHECK(before, SIGUSR1);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    raise(SIGUSR1);
    CHECK(before, 2 * SIGUSR1);
    puts("signals: cancelled, and as before");
    return 0;
}
