/* The functions of grpc.h that take a variable number of arguments: each is read as the routine's signature says, and handed
 * to Rust (src/entries.rs) as an array of slots. */

#include "grpc.h"

#include <stdarg.h>
#include <stdint.h>

union slot {
    int64_t whole;
    double real;
    void *address;
};

/* Most formals of a routine (spec/idl I4). */
#define MOST 256

/* How each argument is passed: 'i' int, 'l' 64 bits, 'd' double, 'p' address. Gives their number, or less than 0: the error. */
int kumiko_gridrpc_kinds(const grpc_function_handle_t *handle, char kinds[MOST]);
grpc_error_t kumiko_gridrpc_named(grpc_function_handle_t *handle, const char *name);
grpc_error_t kumiko_gridrpc_begin(grpc_function_handle_t *handle, grpc_session_attr_t_np *attributes, const union slot *slots, size_t count, grpc_sessionid_t *id);
/* Until it is over. */
grpc_error_t kumiko_gridrpc_call(grpc_function_handle_t *handle, grpc_session_attr_t_np *attributes, const union slot *slots, size_t count);

/* How many there are, or less than 0: the error. */
static int slots_of(const grpc_function_handle_t *handle, union slot slots[MOST], va_list given) {
    char kinds[MOST];
    int count = kumiko_gridrpc_kinds(handle, kinds);
    for (int i = 0; i < count; i++) {
        switch (kinds[i]) {
        case 'i': slots[i].whole = va_arg(given, int); break;
        case 'l': slots[i].whole = va_arg(given, int64_t); break;
        case 'd': slots[i].real = va_arg(given, double); break;
        default: slots[i].address = va_arg(given, void *); break;
        }
    }
    return count;
}

static grpc_error_t begin(grpc_function_handle_t *handle, grpc_session_attr_t_np *attributes, grpc_sessionid_t *id, va_list given) {
    union slot slots[MOST];
    int count = slots_of(handle, slots, given);
    return count < 0 ? -count : kumiko_gridrpc_begin(handle, attributes, slots, (size_t)count, id);
}

static grpc_error_t call(grpc_function_handle_t *handle, grpc_session_attr_t_np *attributes, va_list given) {
    union slot slots[MOST];
    int count = slots_of(handle, slots, given);
    return count < 0 ? -count : kumiko_gridrpc_call(handle, attributes, slots, (size_t)count);
}

grpc_error_t grpc_call(grpc_function_handle_t *handle, ...) {
    va_list given;
    va_start(given, handle);
    grpc_error_t error = call(handle, NULL, given);
    va_end(given);
    return error;
}

grpc_error_t grpc_call_async(grpc_function_handle_t *handle, grpc_sessionid_t *id, ...) {
    va_list given;
    va_start(given, id);
    grpc_error_t error = begin(handle, NULL, id, given);
    va_end(given);
    return error;
}

grpc_error_t grpc_call_with_attr_np(grpc_function_handle_t *handle, grpc_session_attr_t_np *attributes, ...) {
    va_list given;
    va_start(given, attributes);
    grpc_error_t error = call(handle, attributes, given);
    va_end(given);
    return error;
}

grpc_error_t grpc_call_async_with_attr_np(grpc_function_handle_t *handle, grpc_sessionid_t *id, grpc_session_attr_t_np *attributes, ...) {
    va_list given;
    va_start(given, attributes);
    grpc_error_t error = begin(handle, attributes, id, given);
    va_end(given);
    return error;
}

grpc_error_t Ninf_call(char *name, ...) {
    grpc_function_handle_t handle;
    grpc_error_t error = kumiko_gridrpc_named(&handle, name);
    if (error != GRPC_NO_ERROR) return error;
    va_list given;
    va_start(given, name);
    error = call(&handle, NULL, given);
    va_end(given);
    return error;
}
