/* GridRPC for C: the interface of GFD-R.052, in the shape that Ninf-G 5 gave it. Link with -lgridrpc (see README.md).
 *
 * Names and meaning are the standard's; numbers of errors are those of Ninf-G. Functions may be called from several threads at
 * once, but for grpc_initialize, grpc_finalize, and two waits for the same session.
 *
 * Arguments of a call are as the routine's IDL says: scalars by value (complex ones by address), texts as char *, arrays by the
 * address of the whole array; NULL for an array without elements; files by their names as char *. What goes in is copied before a
 * call returns, so it may be changed then, but for files, which are left alone until the session is waited for. What comes back is
 * written only when all of it is here.
 *
 * A callback is a function that takes the address of every argument, of scalars too, and gives back nothing: for step(IN int n,
 * IN double x[n], OUT double y[n]) it is void step(int *n, double *x, double *y). It is called on another thread, one call at a time,
 * while the session runs, and may not wait for that. */
#ifndef KUMIKO_GRPC_H
#define KUMIKO_GRPC_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int grpc_error_t;
typedef int grpc_sessionid_t;
#define GRPC_SESSIONID_VOID (-1)

typedef struct {
    unsigned long kumiko_number;
    unsigned long kumiko_mark;
} grpc_function_handle_t;

enum {
    GRPC_NO_ERROR = 0,
    GRPC_NOT_INITIALIZED = 1,
    GRPC_ALREADY_INITIALIZED = 2,
    GRPC_CONFIGFILE_NOT_FOUND = 3,
    GRPC_CONFIGFILE_ERROR = 4,
    GRPC_SERVER_NOT_FOUND = 5,
    GRPC_FUNCTION_NOT_FOUND = 6,
    GRPC_INVALID_FUNCTION_HANDLE = 7,
    GRPC_INVALID_SESSION_ID = 8,
    GRPC_RPC_REFUSED = 9,
    GRPC_COMMUNICATION_FAILED = 10,
    GRPC_SESSION_FAILED = 11,
    GRPC_NOT_COMPLETED = 12,
    GRPC_NONE_COMPLETED = 13,
    GRPC_CANCELED_NP = 17,
    GRPC_OTHER_ERROR_CODE = 18,
    GRPC_UNKNOWN_ERROR_CODE = 19,
    GRPC_LAST_ERROR_CODE = 20
};

/* config_file: a contact.toml (host, port, certificate, key, trust; and durability = "none", "record" or "full"); NULL: that
 * of the personal site. */
grpc_error_t grpc_initialize(char *config_file);
grpc_error_t grpc_finalize(void);

/* func_name: MODULE/NAME. server_name: HOST or HOST:PORT. */
grpc_error_t grpc_function_handle_default(grpc_function_handle_t *, char *func_name);
grpc_error_t grpc_function_handle_init(grpc_function_handle_t *, char *server_name, char *func_name);
grpc_error_t grpc_function_handle_destruct(grpc_function_handle_t *);
grpc_error_t grpc_get_handle(grpc_function_handle_t **, grpc_sessionid_t);

grpc_error_t grpc_call(grpc_function_handle_t *, ...);
grpc_error_t grpc_call_async(grpc_function_handle_t *, grpc_sessionid_t *, ...);

grpc_error_t grpc_probe(grpc_sessionid_t);
grpc_error_t grpc_probe_or(grpc_sessionid_t *, size_t, grpc_sessionid_t *idPtr);
grpc_error_t grpc_cancel(grpc_sessionid_t);
grpc_error_t grpc_cancel_all(void);

grpc_error_t grpc_wait(grpc_sessionid_t);
grpc_error_t grpc_wait_and(grpc_sessionid_t *, size_t);
grpc_error_t grpc_wait_or(grpc_sessionid_t *, size_t, grpc_sessionid_t *idPtr);
grpc_error_t grpc_wait_all(void);
grpc_error_t grpc_wait_any(grpc_sessionid_t *idPtr);

/* The text is the library's, and stays. */
char *grpc_error_string(grpc_error_t);
grpc_error_t grpc_get_error(grpc_sessionid_t);
grpc_error_t grpc_get_failed_sessionid(grpc_sessionid_t *idPtr);

/* Not of the standard: as grpc_call and grpc_call_async, with every argument by its address, scalars too (a text by its own), for
 * languages without variable numbers of arguments. */
grpc_error_t kumiko_call(grpc_function_handle_t *, void *const addresses[], size_t count);
grpc_error_t kumiko_call_async(grpc_function_handle_t *, grpc_sessionid_t *, void *const addresses[], size_t count);

/* Not of the standard: what the last failed function of this thread had to say; the text stays until the next one fails. */
const char *kumiko_last_message(void);

#ifdef __cplusplus
}
#endif
#endif
