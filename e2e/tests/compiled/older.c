/* What older programs call: other spellings of stacks and errors; and what is refused by name, whatever is given (rpc_c.rs). */

#define GRPC_NETSOLVE_NAMES
#include "check.h"

static void stacks(grpc_function_handle_t *handle) {
    int n = 3;
    double x[3] = {1, 2, 3}, sum = 0;
    void *popped = NULL;
    ArgStack *old = newArgStack(3);
    CHECK(pushArg(old, &sum), 0);
    CHECK(popArg(old) == &sum, 1);
    CHECK(popArg(old) == NULL, 1);
    CHECK(pushArg(old, &n), 0);
    CHECK(pushArg(old, x), 0);
    CHECK(pushArg(old, &sum), 0);
    CHECK(pushArg(old, &sum), -1);
    CHECK(grpc_call_argstack(handle, old), GRPC_NO_ERROR);
    CHECK((int)sum, 6);
    CHECK(destructArgStack(old), 0);

    CHECK(grpc_stack_create((size_t)-1) == NULL, 1);
    grpc_arg_stack_t *stack = grpc_stack_create(3);
    CHECK(grpc_stack_pop(stack, &popped), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_stack_push(stack, &n), GRPC_NO_ERROR);
    CHECK(grpc_stack_push(stack, x), GRPC_NO_ERROR);
    CHECK(grpc_stack_push(stack, &n), GRPC_NO_ERROR);
    CHECK(grpc_stack_push(stack, &n), GRPC_OTHER_ERROR_CODE);
    CHECK(grpc_stack_pop(stack, &popped), GRPC_NO_ERROR);
    CHECK(popped == &n, 1);
    CHECK(grpc_stack_push(stack, &sum), GRPC_NO_ERROR);
    n = 2;
    grpc_sessionid_t id;
    CHECK(grpc_call_argstack_async(handle, &id, stack), GRPC_NO_ERROR);
    CHECK(grpc_wait(id), GRPC_NO_ERROR);
    CHECK((int)sum, 3);
    CHECK(grpc_stack_destruct(stack), GRPC_NO_ERROR);
    CHECK(grpc_stack_destruct(NULL), GRPC_OTHER_ERROR_CODE);
}

/* Of every function that is refused: what it says before the library is initialized, or what it says then. */
static void refused(int initialized) {
    grpc_object_handle_t_np object;
    grpc_object_handle_t_np *of;
    grpc_handle_attr_t_np attributes;
    grpc_session_attr_t_np session;
    grpc_sessionid_t id = 0;
    grpc_data_t data;
    int first = 0;
#define REFUSED(is, code, text)                                        \
    do {                                                               \
        CHECK(is, initialized ? (code) : GRPC_NOT_INITIALIZED);        \
        if (initialized) SAID(text);                                   \
    } while (0)
#define CLASS(is) REFUSED(is, GRPC_CLASS_NOT_FOUND_NP, "class counter: remote objects are not built yet")
#define OBJECT(function, ...) REFUSED(function(__VA_ARGS__), GRPC_INVALID_OBJECT_HANDLE_NP, #function ": remote objects")
#define DATA(function, ...) REFUSED(function(__VA_ARGS__), GRPC_OTHER_ERROR_CODE, #function ": data that stay at sites")
    if (initialized) {
        CHECK(grpc_handle_attr_initialize_np(&attributes), GRPC_NO_ERROR);
        CHECK(grpc_handle_attr_set_np(&attributes, GRPC_HANDLE_ATTR_FUNCNAME, "counter"), GRPC_NO_ERROR);
    }
    CLASS(grpc_object_handle_default_np(&object, "counter"));
    CLASS(grpc_object_handle_init_np(&object, "localhost", "counter"));
    CLASS(grpc_object_handle_init_with_attr_np(&object, &attributes));
    CLASS(grpc_object_handle_array_default_np(&object, 1, "counter"));
    CLASS(grpc_object_handle_array_init_np(&object, 1, "localhost", "counter"));
    CLASS(grpc_object_handle_array_init_with_attr_np(&object, 1, &attributes));
    OBJECT(grpc_object_handle_destruct_np, &object);
    OBJECT(grpc_object_handle_array_destruct_np, &object, 1);
    OBJECT(grpc_object_handle_get_attr_np, &object, &attributes);
    OBJECT(grpc_session_attr_initialize_with_object_handle_np, &object, &session);
    OBJECT(grpc_invoke_np, &object, "add", 1, &first);
    OBJECT(grpc_invoke_async_np, &object, "add", &id, 1, &first);
    OBJECT(grpc_invoke_with_attr_np, &object, "add", &session, 1, &first);
    OBJECT(grpc_invoke_async_with_attr_np, &object, "add", &id, &session, 1, &first);
    OBJECT(grpc_invoke_arg_stack_np, &object, "add", NULL);
    OBJECT(grpc_invoke_arg_stack_async_np, &object, "add", NULL);
    REFUSED(grpc_object_handle_get_from_session_np(&of, 7), GRPC_INVALID_SESSION_ID, "session 7 is not an object's");
    DATA(grpc_data_init, &data, NULL, NULL, 0, NULL, GRPC_VOLATILE);
    DATA(grpc_data_memory_mapping_set, "key", &data);
    DATA(grpc_data_memory_mapping_get, "key", NULL);
    DATA(grpc_data_container_set, &data, 0, &data);
    DATA(grpc_data_container_get, &data, 0, &data);
    DATA(grpc_data_transfer, &data, NULL);
    DATA(grpc_data_wait, NULL);
    DATA(grpc_data_unbind, &data);
    DATA(grpc_data_free, &data, NULL);
    DATA(grpc_data_getinfo, &data, 0, NULL, NULL);
    DATA(grpc_data_load, &data, "file:///x");
    DATA(grpc_data_save, &data, "file:///x");
    CHECK(id, 0);
}

int main(void) {
    grpc_function_handle_t handle;
    refused(0);
    CHECK(grpc_initialize(NULL), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&handle, "samples/none"), GRPC_FUNCTION_NOT_FOUND);
    CHECK(grpc_get_last_error(), GRPC_FUNCTION_NOT_FOUND);
    CHECK(grpc_perror("older"), GRPC_NO_ERROR);
    CHECK(grpc_function_handle_default(&handle, "samples/sum"), GRPC_NO_ERROR);
    stacks(&handle);
    refused(1);
    CHECK(grpc_finalize(), GRPC_NO_ERROR);
    puts("older: all the same");
    return 0;
}
