/* A farm by what Ninf-G has beside the standard: an array of handles, attributes, argument stacks, how long stages took; and by threads,
 * each with calls of its own. Compiled and run by e2e/tests/rpc_c.rs.
 *
 *   cc farm.c -I../kumiko -L... -lm -lgridrpc -lssl -lcrypto -lpthread -ldl -lm
 */

#include "grpc.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES 4
#define THREADS 6
#define CALLS 8
#define TIMES 10000l
#define CHECK(is, expected)                                                                                   \
    do {                                                                                                      \
        int found = (is);                                                                                     \
        if (found != (expected)) {                                                                            \
            fprintf(stderr, "%s:%d: %s is %d (%s), not %d; the last failure: %s\n", __FILE__, __LINE__, #is,  \
                    found, grpc_error_string(found), (expected), kumiko_last_message());                      \
            exit(1);                                                                                          \
        }                                                                                                     \
    } while (0)

static double seconds(struct timeval time) { return (double)time.tv_sec + 1e-6 * (double)time.tv_usec; }

/* The same calls by an array of handles and by stacks give the same. */
static void arrays_and_stacks(void) {
    grpc_function_handle_t handles[HANDLES];
    grpc_sessionid_t ids[HANDLES];
    long hits[HANDLES], again = 0;
    CHECK(grpc_function_handle_array_default_np(handles, HANDLES, "pi/none"), GRPC_FUNCTION_NOT_FOUND);
    CHECK(grpc_function_handle_array_default_np(handles, HANDLES, "pi/trial"), GRPC_NO_ERROR);
    for (int i = 0; i < HANDLES; i++) CHECK(grpc_call_async(&handles[i], &ids[i], i, TIMES, &hits[i]), GRPC_NO_ERROR);
    CHECK(grpc_wait_all(), GRPC_NO_ERROR);

    int seed;
    long times = TIMES;
    grpc_arg_stack_t *stack = grpc_arg_stack_new(3);
    CHECK(grpc_call_arg_stack(&handles[0], stack), GRPC_RPC_REFUSED); /* it has too few */
    CHECK(grpc_arg_stack_push_arg(stack, &again), 0);
    CHECK(grpc_arg_stack_pop_arg(stack) == &again, 1);
    CHECK(grpc_arg_stack_push_arg(stack, &seed), 0);
    CHECK(grpc_arg_stack_push_arg(stack, &times), 0);
    CHECK(grpc_arg_stack_push_arg(stack, &again), 0);
    CHECK(grpc_arg_stack_push_arg(stack, &again), -1); /* it is full */
    for (seed = 0; seed < HANDLES; seed++) {
        grpc_sessionid_t id;
        CHECK(grpc_call_arg_stack_async(&handles[seed], &id, stack), GRPC_NO_ERROR);
        CHECK(grpc_wait(id), GRPC_NO_ERROR);
        CHECK(again == hits[seed], 1);
        CHECK(grpc_call_argstack(&handles[seed], stack), GRPC_NO_ERROR);
        CHECK(again == hits[seed], 1);
    }
    CHECK(grpc_arg_stack_destruct(stack), 0);
    CHECK(grpc_function_handle_array_destruct_np(handles, HANDLES), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_array_destruct_np(handles, HANDLES), GRPC_INVALID_FUNCTION_HANDLE);
}

static void attributes(void) {
    grpc_handle_attr_t_np attributes, of;
    grpc_function_handle_t handle, again;
    char *name = "samples/sum", *host, *other = "localhost";
    int *port, queue = 1;
    double x[3] = {1, 2, 3}, sum = 0;
    memset(&of, 0x5a, sizeof of);
    CHECK(grpc_handle_attr_set_np(&of, GRPC_HANDLE_ATTR_FUNCNAME, name), GRPC_OTHER_ERROR_CODE); /* garbage */
    CHECK(grpc_handle_attr_initialize_np(&attributes), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_init_with_attr_np(&handle, &attributes), GRPC_OTHER_ERROR_CODE); /* no function */
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_FUNCNAME, name), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_MPI_NCPUS, &queue), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_function_handle_init_with_attr_np(&handle, &attributes), GRPC_NO_ERROR);
    CHECK(grpc_call(&handle, 3, x, &sum), GRPC_NO_ERROR);

    /* Where it is; and a handle of the same, made of that. */
    CHECK(grpc_function_handle_get_attr_np(&handle, &of), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_get_np(&of, GRPC_HANDLE_ATTR_HOSTNAME, (void **)&host), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_get_np(&of, GRPC_HANDLE_ATTR_PORT, (void **)&port), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_HOSTNAME, host), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_PORT, port), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_init_with_attr_np(&again, &attributes), GRPC_NO_ERROR);
    CHECK(grpc_call(&again, 2, x, &sum), GRPC_NO_ERROR);
    printf("attributes: %s:%s, sum %.0f\n", host, *port > 0 ? "its port" : "no port", sum);
    int nowhere = 1;
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_HOSTNAME, other), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_PORT, &nowhere), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_init_with_attr_np(&again, &attributes), GRPC_SERVER_NOT_FOUND);
    CHECK(grpc_handle_attr_release_np(host), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_release_np(port), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_destruct_np(&of), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_destruct_np(&attributes), GRPC_NO_ERROR);
    CHECK(grpc_handle_attr_destruct_np(&attributes), GRPC_OTHER_ERROR_CODE);
}

static int asked;

static void tell(int *i, long *total) {
    asked++;
    *total += *i;
}

/* While it computes, when it is over, and when it has failed. */
static void stages(void) {
    grpc_function_handle_t slow, count, crash;
    grpc_session_info_t_np *info;
    grpc_sessionid_t id;
    int status = 0;
    long done[1] = {0}, sum = 0;
    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&count, "callback/count"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&crash, "samples/crash"), GRPC_NO_ERROR);
    CHECK(grpc_call_async(&slow, &id, 30l, 10000l, done), GRPC_NO_ERROR);
    do {
        CHECK(grpc_session_info_get_np(id, NULL, &status), GRPC_NO_ERROR);
        CHECK(status == GRPC_SESSION_DOWN || status == GRPC_SESSION_UNKNOWN_STATUS, 0);
    } while (status == GRPC_SESSION_ARG_IS_NOT_TRANSMITED);
    CHECK(grpc_wait(id), GRPC_NO_ERROR);
    CHECK(grpc_session_info_get_np(id, &info, &status), GRPC_NO_ERROR);
    CHECK(status, GRPC_SESSION_DONE);
    grpc_exec_info_client_t_np *here = &info->gei_measureClient;
    double all = seconds(here->transferArgumentToRemoteRealTime) + seconds(here->calculationRealTime) +
                 seconds(here->transferResultToClientRealTime);
    CHECK(seconds(here->calculationRealTime) > 0, 1);
    CHECK(info->gei_compressionInformation.nElements, 0);
    CHECK(grpc_session_info_release_np(info), GRPC_NO_ERROR);

    CHECK(grpc_call_async(&count, &id, 5, 0, &sum, tell), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_NO_ERROR);
    CHECK(grpc_session_info_get_np(id, &info, NULL), GRPC_NO_ERROR);
    CHECK(info->gei_measureClient.callbackNtimesCalled, asked);
    CHECK(grpc_session_info_release_np(info), GRPC_NO_ERROR);

    CHECK(grpc_call_async(&crash, &id, 2), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_SESSION_FAILED);
    CHECK(grpc_last_error_get_np(), GRPC_SESSION_FAILED);
    CHECK(grpc_session_info_get_np(id, NULL, &status), GRPC_NO_ERROR);
    CHECK(status, GRPC_SESSION_DOWN);
    CHECK(grpc_session_info_get_np(id + 1000, NULL, &status), GRPC_INVALID_SESSION_ID);
    printf("stages: %s, asked %d times\n", all >= 0.3 ? "as long as it slept" : "too short", asked);
}

/* One that takes too long ends when it was to, and its call with it; the others take what they take. */
static void limits(void) {
    grpc_function_handle_t slow;
    grpc_session_attr_t_np limited, unlimited;
    grpc_sessionid_t ids[2], id;
    struct timeval begun, now;
    long done[2] = {0, 0};
    int *limit, second = 1, before = -1, queue = 7;
    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    memset(&limited, 0x5a, sizeof limited);
    CHECK(grpc_call_with_attr_np(&slow, &limited, 0l, 0l, done), GRPC_OTHER_ERROR_CODE); /* garbage */
    CHECK(grpc_session_attr_initialize_np(&slow, &limited), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_initialize_np(&slow, &unlimited), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_set_np(&limited, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &before), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_session_attr_set_np(&limited, GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER, &queue), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_session_attr_set_np(&limited, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &second), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_get_np(&limited, GRPC_SESSION_ATTR_SESSION_TIMEOUT, (void **)&limit), GRPC_NO_ERROR);
    CHECK(*limit, 1);
    CHECK(grpc_session_attr_release_np(limit), GRPC_NO_ERROR);

    gettimeofday(&begun, NULL);
    CHECK(grpc_call_async_with_attr_np(&slow, &ids[0], &limited, 600000l, 1000l, &done[0]), GRPC_NO_ERROR);
    CHECK(grpc_call_async_with_attr_np(&slow, &ids[1], &unlimited, 150l, 10000l, &done[1]), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_destruct_np(&limited), GRPC_NO_ERROR);
    CHECK(grpc_session_attr_destruct_np(&limited), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_wait(ids[0]), GRPC_SESSION_FAILED);
    gettimeofday(&now, NULL);
    CHECK(seconds(now) - seconds(begun) >= 0.99, 1);
    CHECK(grpc_get_error(ids[0]), GRPC_TIMEOUT_NP);
    CHECK(grpc_get_failed_sessionid(&id), GRPC_NO_ERROR);
    CHECK(id, ids[0]);
    CHECK(grpc_wait(ids[1]), GRPC_NO_ERROR);
    CHECK(done[1] == 150 && done[0] == 0, 1);
    CHECK(grpc_call_with_attr_np(&slow, &unlimited, 2l, 0l, &done[1]), GRPC_NO_ERROR);
    printf("limits: %ld steps, %s\n", done[1], grpc_error_string(GRPC_TIMEOUT_NP));
}

static grpc_function_handle_t shared;

static void *thread(void *argument) {
    long from = (long)argument, *all = malloc(sizeof *all), hits[CALLS];
    grpc_sessionid_t ids[CALLS], id;
    *all = 0;
    for (int i = 0; i < CALLS; i++) CHECK(grpc_call_async(&shared, &ids[i], (int)from + i, TIMES, &hits[i]), GRPC_NO_ERROR);
    for (int i = 0; i < CALLS; i++) {
        int probed = grpc_probe(ids[i]);
        CHECK(probed == GRPC_NO_ERROR || probed == GRPC_NOT_COMPLETED, 1);
    }
    /* Half of them by wait_or, until those are over; the others together. */
    for (int left = CALLS / 2; left > 0; left--) {
        CHECK(grpc_wait_or(ids, (size_t)left, &id), GRPC_NO_ERROR);
        int at = 0;
        while (ids[at] != id) at++;
        ids[at] = ids[left - 1];
    }
    CHECK(grpc_wait_and(ids + CALLS / 2, CALLS / 2), GRPC_NO_ERROR);
    for (int i = 0; i < CALLS; i++) *all += hits[i];
    return all;
}

/* As many threads at once as one after another: the same hits. */
static void threads(void) {
    pthread_t running[THREADS];
    long all = 0, alone = 0, hits;
    CHECK(grpc_function_handle_default(&shared, "pi/trial"), GRPC_NO_ERROR);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&running[i], NULL, thread, (void *)(i * CALLS)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *had;
        pthread_join(running[i], &had);
        all += *(long *)had;
        free(had);
    }
    for (int seed = 0; seed < THREADS * CALLS; seed++) {
        CHECK(grpc_call(&shared, seed, TIMES, &hits), GRPC_NO_ERROR);
        alone += hits;
    }
    printf("threads: %s\n", all == alone ? "the same" : "another sum");
}

int main(void) {
    double x[2] = {20, 22}, sum = 0;
    grpc_sessionid_t failed;
    CHECK(Ninf_call("samples/sum", 2, x, &sum), GRPC_NO_ERROR); /* initializes */
    printf("one line: %.0f\n", sum);
    CHECK(Ninf_call("samples/none", 2, x, &sum), GRPC_FUNCTION_NOT_FOUND);
    arrays_and_stacks();
    attributes();
    stages();
    while (grpc_get_failed_sessionid(&failed) == GRPC_NO_ERROR && failed != GRPC_SESSIONID_VOID) continue;
    limits();
    threads();
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    CHECK(grpc_session_info_get_np(0, NULL, NULL), GRPC_NOT_INITIALIZED);
    CHECK(grpc_call_arg_stack(&shared, (grpc_arg_stack_t *)&shared), GRPC_NOT_INITIALIZED);
    return 0;
}
