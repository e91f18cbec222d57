/* By default handles, which are made once: `one` calls samples/sum, `many` has six calls of samples/slow at once (rpc_found.rs). A line of
   input is answered by a line. */

#include "check.h"

#define MANY 6

int main(void) {
    grpc_function_handle_t sum, slow;
    char line[16];
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&sum, "samples/sum"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&slow, "samples/slow"), GRPC_NO_ERROR);
    fputs(kumiko_last_message(), stderr);
    while (fgets(line, sizeof line, stdin)) {
        double x[3] = {1, 2, 4}, s = 0;
        int64_t done[MANY] = {0}, all = 0;
        grpc_sessionid_t session;
        if (line[0] == 'o') {
            CHECK(grpc_call(&sum, 3, x, &s), GRPC_NO_ERROR);
            printf("sum %g\n", s);
        } else {
            for (int i = 0; i < MANY; i++)
                CHECK(grpc_call_async(&slow, &session, (int64_t)10, (int64_t)100000, &done[i]), GRPC_NO_ERROR);
            CHECK(grpc_wait_all(), GRPC_NO_ERROR);
            for (int i = 0; i < MANY; i++) all += done[i];
            printf("sum %ld\n", (long)all);
        }
        fflush(stdout);
    }
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    return 0;
}
