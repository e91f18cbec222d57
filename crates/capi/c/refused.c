/* The functions of grpc.h that are refused by name: remote objects, and data that stay at sites. Not here: what is said of it
 * (src/refused.rs). */

#include "grpc.h"

grpc_error_t kumiko_gridrpc_no_class(const char *name);
grpc_error_t kumiko_gridrpc_no_class_of(const grpc_handle_attr_t_np *attributes);
grpc_error_t kumiko_gridrpc_no_object(const char *function);
grpc_error_t kumiko_gridrpc_no_object_of(grpc_sessionid_t session);
grpc_error_t kumiko_gridrpc_no_data(const char *function);

typedef grpc_object_handle_t_np object;

grpc_error_t grpc_object_handle_default_np(object *handle, char *name) {
    (void)handle;
    return kumiko_gridrpc_no_class(name);
}

grpc_error_t grpc_object_handle_init_np(object *handle, char *server, char *name) {
    (void)handle, (void)server;
    return kumiko_gridrpc_no_class(name);
}

grpc_error_t grpc_object_handle_init_with_attr_np(object *handle, grpc_handle_attr_t_np *attributes) {
    (void)handle;
    return kumiko_gridrpc_no_class_of(attributes);
}

grpc_error_t grpc_object_handle_array_default_np(object *handles, size_t count, char *name) {
    (void)handles, (void)count;
    return kumiko_gridrpc_no_class(name);
}

grpc_error_t grpc_object_handle_array_init_np(object *handles, size_t count, char *server, char *name) {
    (void)handles, (void)count, (void)server;
    return kumiko_gridrpc_no_class(name);
}

grpc_error_t grpc_object_handle_array_init_with_attr_np(object *handles, size_t count, grpc_handle_attr_t_np *attributes) {
    (void)handles, (void)count;
    return kumiko_gridrpc_no_class_of(attributes);
}

grpc_error_t grpc_object_handle_get_from_session_np(object **handle, grpc_sessionid_t session) {
    (void)handle;
    return kumiko_gridrpc_no_object_of(session);
}

#define NO_OBJECT(function, ...) \
    grpc_error_t function(object *handle, __VA_ARGS__) { (void)handle; return kumiko_gridrpc_no_object(#function); }
/* An argument that is not looked at. */
#define OF(type, name) __attribute__((unused)) type name

grpc_error_t grpc_object_handle_destruct_np(object *handle) {
    (void)handle;
    return kumiko_gridrpc_no_object("grpc_object_handle_destruct_np");
}
NO_OBJECT(grpc_object_handle_array_destruct_np, OF(size_t, count))
NO_OBJECT(grpc_object_handle_get_attr_np, OF(grpc_handle_attr_t_np *, attributes))
NO_OBJECT(grpc_session_attr_initialize_with_object_handle_np, OF(grpc_session_attr_t_np *, attributes))
NO_OBJECT(grpc_invoke_np, OF(char *, method), ...)
NO_OBJECT(grpc_invoke_async_np, OF(char *, method), OF(grpc_sessionid_t *, id), ...)
NO_OBJECT(grpc_invoke_with_attr_np, OF(char *, method), OF(grpc_session_attr_t_np *, attributes), ...)
NO_OBJECT(grpc_invoke_async_with_attr_np, OF(char *, method), OF(grpc_sessionid_t *, id), OF(grpc_session_attr_t_np *, attributes), ...)
NO_OBJECT(grpc_invoke_arg_stack_np, OF(char *, method), OF(grpc_arg_stack_t *, stack))
NO_OBJECT(grpc_invoke_arg_stack_async_np, OF(char *, method), OF(grpc_arg_stack_t *, stack))

#define NO_DATA(function, type) \
    grpc_error_t function(type data, ...) { (void)data; return kumiko_gridrpc_no_data(#function); }

NO_DATA(grpc_data_init, void *)
NO_DATA(grpc_data_memory_mapping_set, const void *)
NO_DATA(grpc_data_memory_mapping_get, const void *)
NO_DATA(grpc_data_container_set, void *)
NO_DATA(grpc_data_container_get, const void *)
NO_DATA(grpc_data_transfer, void *)
NO_DATA(grpc_data_wait, const void *)
NO_DATA(grpc_data_unbind, void *)
NO_DATA(grpc_data_free, void *)
NO_DATA(grpc_data_getinfo, const void *)
NO_DATA(grpc_data_load, void *)
NO_DATA(grpc_data_save, const void *)
