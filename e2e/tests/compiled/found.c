/* One call by the default handle: found ROUTINE, which takes n and x[n], and gives a sum (rpc_found.rs). */

#include "check.h"

int main(int count, char **words) {
    grpc_function_handle_t handle;
    double x[3] = {1, 2, 4}, sum = 0;
    if (count < 2) return 2;
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&handle, words[1]), GRPC_NO_ERROR);
    CHECK(grpc_call(&handle, 3, x, &sum), GRPC_NO_ERROR);
    printf("sum %g\n", sum);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    return 0;
}
