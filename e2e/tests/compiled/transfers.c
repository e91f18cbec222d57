/* Arguments, and a result, that stand still on their way for longer than they may: transfers SITE, whose process is stopped for a while (rpc_c.rs). */

#include "check.h"

#include <signal.h>
#include <unistd.h>

#define N 1448l /* 16 MiB: more than may be under way */

static pid_t site;
static double *a, *c;

static void limit(grpc_session_attr_t_np *attributes, grpc_session_attr_name_t_np name, int seconds) {
    int *is;
    CHECK(grpc_session_attr_set_np(attributes, name, &seconds), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_get_np(attributes, name, (void **)&is), GRPC_NO_ERROR);
    CHECK(*is, seconds);
    CHECK(grpc_session_attr_release_np(is), GRPC_NO_ERROR);
}

static void takes_too_long(grpc_sessionid_t id) {
    CHECK(grpc_wait(id), GRPC_SESSION_FAILED);
    CHECK(kill(site, SIGCONT), 0);
    CHECK(grpc_get_error(id), GRPC_TIMEOUT_NP);
}

static int is_on_its_way(grpc_sessionid_t id) {
    grpc_session_info_t_np *info;
    CHECK(grpc_session_info_get_np(id, &info, NULL), GRPC_NO_ERROR);
    struct timeval took = info->gei_measureClient.transferResultToClientRealTime;
    CHECK(grpc_session_info_release_np(info), GRPC_NO_ERROR);
    return took.tv_sec > 0 || took.tv_usec > 0;
}

static void arguments(grpc_function_handle_t *sum) {
    grpc_session_attr_t_np limited;
    grpc_sessionid_t id;
    double total = -1;
    CHECK(grpc_session_attr_initialize_np(sum, &limited), GRPC_NO_ERROR);
    limit(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_ARGUMENT, 1);
    CHECK(grpc_call_with_attr_np(sum, &limited, 2, a, &total), GRPC_NO_ERROR); /* nothing stands still */
    CHECK(kill(site, SIGSTOP), 0);
    CHECK(grpc_call_async_with_attr_np(sum, &id, &limited, (int)(N * N), a, &total), GRPC_NO_ERROR);
    takes_too_long(id);
    CHECK(grpc_call(sum, 2, a, &total), GRPC_NO_ERROR);
}

/* A result may be here before the site is stopped: then once more. */
static void result(grpc_function_handle_t *fill) {
    grpc_session_attr_t_np limited;
    grpc_sessionid_t id;
    CHECK(grpc_session_attr_initialize_np(fill, &limited), GRPC_NO_ERROR);
    limit(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT, 1);
    for (;;) {
        CHECK(grpc_call_async_with_attr_np(fill, &id, &limited, N * N, 1.5, c), GRPC_NO_ERROR);
        while (!is_on_its_way(id)) continue;
        CHECK(kill(site, SIGSTOP), 0);
        usleep(100 * 1000);
        if (grpc_probe(id) != GRPC_NO_ERROR) break;
        CHECK(kill(site, SIGCONT), 0);
        CHECK(grpc_wait(id), GRPC_NO_ERROR);
    }
    takes_too_long(id);
    /* It is the caller's again, though more of it still comes. */
    memset(c, 0, N * N * sizeof *c);
    usleep(500 * 1000);
    for (long i = 0; i < N * N; i++) CHECK(c[i] == 0, 1);
    /* As long as it computes, nothing is on its way. */
    CHECK(grpc_call(fill, N * N, 2.5, c), GRPC_NO_ERROR);
    CHECK(c[0] == 2.5 && c[N * N - 1] == 2.5, 1);
}

int main(int count, char **words) {
    grpc_function_handle_t sum, fill, slow;
    grpc_session_attr_t_np limited;
    int second = 1, before = -1;
    long done[1] = {0};
    CHECK(count, 2);
    site = (pid_t)atol(words[1]);
    a = calloc(N * N, sizeof *a), c = calloc(N * N, sizeof *c);
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&sum, "samples/sum"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&fill, "fill/fill"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    arguments(&sum);
    result(&fill);

    CHECK(grpc_session_attr_initialize_np(&slow, &limited), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_set_np(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT, &before), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_session_attr_set_np(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_RESULT, &second), GRPC_OTHER_ERROR_CODE);
    SAID("TRANSFER_TIMEOUT_CALLBACK");
    limit(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_ARGUMENT, 0);
    limit(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_ARGUMENT, 1);
    limit(&limited, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT, 1);
    CHECK(grpc_call_with_attr_np(&slow, &limited, 150l, 10000l, done), GRPC_NO_ERROR); /* neither is about computing */
    CHECK((int)done[0], 150);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    puts("transfers: too long, and told so");
    return 0;
}
