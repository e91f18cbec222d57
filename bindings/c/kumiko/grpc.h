/* GridRPC for C: the interface of GFD-R.052, in the shape that Ninf-G 5 gave it. Link with -lgridrpc (see README.md).
 *
 * Names and meaning are the standard's; numbers of errors are those of Ninf-G, as are the functions that end with _np. Functions may
 * be called from several threads at once, with the same handles too, but for grpc_initialize, grpc_finalize, two waits for the same
 * session (of which grpc_wait_all and grpc_wait_any wait for all there are), and anything with the same argument stack.
 *
 * Arguments of a call are as the routine's IDL says: scalars by value (complex ones by address), texts as char *, arrays by the
 * address of the whole array; NULL for an array without elements; files by their names as char *; of arrays of texts or files an array of those. What goes in may be changed
 * when a call returns, also one that is not waited for, which copies it; but for files, which are left alone until the session is waited
 * for. What comes back is written only when all of it is here.
 *
 * A callback is a function that takes the address of every argument, of scalars too (of a text its char *), and gives back nothing: for
 * step(IN int n, IN double x[n], OUT double y[n]) it is void step(int *n, double *x, double *y). It is called on another thread, one call
 * at a time, while the session runs, and may not wait for that. Files are names of its own, arrays of texts and files arrays of char *; what it
 * puts there is read when it returns, and stays its own.
 *
 * Each text of an array that came back is memory of its own, to be given to free(), NULL for none; the caller's own texts, of INOUT too, stay
 * the caller's. */
#ifndef KUMIKO_GRPC_H
#define KUMIKO_GRPC_H

#include <stddef.h>
#include <sys/time.h>

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
    GRPC_INVALID_OBJECT_HANDLE_NP = 14,
    GRPC_CLASS_NOT_FOUND_NP = 15,
    GRPC_TIMEOUT_NP = 16,
    GRPC_CANCELED_NP = 17,
    GRPC_OTHER_ERROR_CODE = 18,
    GRPC_UNKNOWN_ERROR_CODE = 19,
    GRPC_LAST_ERROR_CODE = 20
};

/* config_file: a contact.toml (host, port, certificate, key, trust; and durability = "none", "record", "full" or "auto"); NULL:
 * that of the personal site. */
grpc_error_t grpc_initialize(char *config_file);
grpc_error_t grpc_finalize(void);

/* func_name: MODULE/NAME. server_name: HOST or HOST:PORT. */
grpc_error_t grpc_function_handle_default(grpc_function_handle_t *, char *func_name);
grpc_error_t grpc_function_handle_init(grpc_function_handle_t *, char *server_name, char *func_name);
grpc_error_t grpc_function_handle_destruct(grpc_function_handle_t *);
grpc_error_t grpc_get_handle(grpc_function_handle_t **, grpc_sessionid_t);
#define grpc_function_handle_get_from_session_np grpc_get_handle /* as Ninf-G has it */

/* As many handles of one function. */
grpc_error_t grpc_function_handle_array_default_np(grpc_function_handle_t *, size_t, char *func_name);
grpc_error_t grpc_function_handle_array_init_np(grpc_function_handle_t *, size_t, char *server_name, char *func_name);
grpc_error_t grpc_function_handle_array_destruct_np(grpc_function_handle_t *, size_t);

/* What a handle is made of. A value that is set is a char * (of which a copy is kept) or the address of an int; one that is got is
 * NULL or is to be released. PORT 0 is the configured one. JOBMANAGER, SUBJECT, the timeouts, QUEUENAME and MPI_NCPUS cannot be set: how a
 * routine is started is its site's to decide. WAIT_ARG_TRANSFER is always COPY. */
typedef struct {
    unsigned long kumiko_number;
    unsigned long kumiko_mark;
} grpc_handle_attr_t_np;

typedef enum {
    GRPC_HANDLE_ATTR_HOSTNAME,
    GRPC_HANDLE_ATTR_PORT,
    GRPC_HANDLE_ATTR_JOBMANAGER,
    GRPC_HANDLE_ATTR_SUBJECT,
    GRPC_HANDLE_ATTR_FUNCNAME,
    GRPC_HANDLE_ATTR_JOBSTARTTIMEOUT,
    GRPC_HANDLE_ATTR_JOBSTOPTIMEOUT,
    GRPC_HANDLE_ATTR_WAIT_ARG_TRANSFER,
    GRPC_HANDLE_ATTR_QUEUENAME,
    GRPC_HANDLE_ATTR_MPI_NCPUS
} grpc_handle_attr_name_t_np;

typedef enum {
    GRPC_ARGUMENT_TRANSFER_WAIT = 1,
    GRPC_ARGUMENT_TRANSFER_NOWAIT,
    GRPC_ARGUMENT_TRANSFER_COPY
} grpc_argument_transfer_t_np;

grpc_error_t grpc_handle_attr_initialize_np(grpc_handle_attr_t_np *);
grpc_error_t grpc_handle_attr_destruct_np(grpc_handle_attr_t_np *);
grpc_error_t grpc_handle_attr_set_np(grpc_handle_attr_t_np *, grpc_handle_attr_name_t_np, void *value);
grpc_error_t grpc_handle_attr_get_np(grpc_handle_attr_t_np *, grpc_handle_attr_name_t_np, void **value);
grpc_error_t grpc_handle_attr_release_np(void *value);
grpc_error_t grpc_function_handle_init_with_attr_np(grpc_function_handle_t *, grpc_handle_attr_t_np *);
grpc_error_t grpc_function_handle_array_init_with_attr_np(grpc_function_handle_t *, size_t, grpc_handle_attr_t_np *);
/* The attributes are initialized by it, and are to be destructed. */
grpc_error_t grpc_function_handle_get_attr_np(grpc_function_handle_t *, grpc_handle_attr_t_np *);

grpc_error_t grpc_call(grpc_function_handle_t *, ...);
grpc_error_t grpc_call_async(grpc_function_handle_t *, grpc_sessionid_t *, ...);

/* What a session is to be. Values are the addresses of an int; one that is got is to be released. The timeouts are seconds, after which a
 * session fails with GRPC_TIMEOUT_NP and its call is cancelled; 0 is no limit. SESSION_TIMEOUT: from its begin to its end.
 * TRANSFER_TIMEOUT_ARGUMENT: until all arguments are sent; TRANSFER_TIMEOUT_RESULT: from when there is a result until all of it is here.
 * Those of callbacks can only be 0, for each travels in one message. WAIT_ARG_TRANSFER is always COPY. The attributes can be used again, with
 * any handle, and be destructed while sessions run. */
typedef struct {
    unsigned long kumiko_timeout_s;
    unsigned long kumiko_arguments_s;
    unsigned long kumiko_result_s;
    unsigned long kumiko_mark;
} grpc_session_attr_t_np;

typedef enum {
    GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER,
    GRPC_SESSION_ATTR_SESSION_TIMEOUT,
    GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_ARGUMENT,
    GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT,
    GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_ARGUMENT,
    GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_CALLBACK_RESULT
} grpc_session_attr_name_t_np;

grpc_error_t grpc_session_attr_initialize_np(grpc_function_handle_t *, grpc_session_attr_t_np *);
grpc_error_t grpc_session_attr_destruct_np(grpc_session_attr_t_np *);
grpc_error_t grpc_session_attr_set_np(grpc_session_attr_t_np *, grpc_session_attr_name_t_np, void *value);
grpc_error_t grpc_session_attr_get_np(grpc_session_attr_t_np *, grpc_session_attr_name_t_np, void **value);
grpc_error_t grpc_session_attr_release_np(void *value);
grpc_error_t grpc_call_with_attr_np(grpc_function_handle_t *, grpc_session_attr_t_np *, ...);
grpc_error_t grpc_call_async_with_attr_np(grpc_function_handle_t *, grpc_sessionid_t *, grpc_session_attr_t_np *, ...);

/* Arguments that are known when the program runs: each by its address, scalars too, pushed in the routine's order. A stack can be used
 * again. What is pushed is looked at when the call is made. Functions that give an int give 0, or -1 for an error. */
typedef struct grpc_arg_stack_s grpc_arg_stack_t;
grpc_arg_stack_t *grpc_arg_stack_new(int most);
int grpc_arg_stack_push_arg(grpc_arg_stack_t *, void *address);
void *grpc_arg_stack_pop_arg(grpc_arg_stack_t *);
int grpc_arg_stack_destruct(grpc_arg_stack_t *);
grpc_error_t grpc_call_arg_stack(grpc_function_handle_t *, grpc_arg_stack_t *);
grpc_error_t grpc_call_arg_stack_async(grpc_function_handle_t *, grpc_sessionid_t *, grpc_arg_stack_t *);
/* The standard's spelling. */
#define grpc_call_argstack grpc_call_arg_stack
#define grpc_call_argstack_async grpc_call_arg_stack_async
/* The same stacks as DIET spells them: what gives a grpc_error_t gives GRPC_OTHER_ERROR_CODE where others give -1. */
grpc_arg_stack_t *grpc_stack_create(size_t most);
grpc_error_t grpc_stack_push(grpc_arg_stack_t *, void *address);
grpc_error_t grpc_stack_pop(grpc_arg_stack_t *, void **address);
grpc_error_t grpc_stack_destruct(grpc_arg_stack_t *);
/* And as NetSolve does, for who asks for it: these are words that a program may have of its own. */
#ifdef GRPC_NETSOLVE_NAMES
typedef grpc_arg_stack_t ArgStack;
#define newArgStack grpc_arg_stack_new
#define pushArg grpc_arg_stack_push_arg
#define popArg grpc_arg_stack_pop_arg
#define destructArgStack grpc_arg_stack_destruct
#endif

/* The older one-liner: name is MODULE/NAME, or ninf://HOST:PORT/MODULE/NAME. The library is initialized by it if it is not. */
grpc_error_t Ninf_call(char *name, ...);

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
grpc_error_t grpc_last_error_get_np(void);
grpc_error_t grpc_perror_np(char *before);
/* Their older names. */
#define grpc_get_last_error_np grpc_last_error_get_np
#define grpc_get_last_error grpc_last_error_get_np
#define grpc_perror grpc_perror_np

/* handler is called with the signal's number, by a thread of the library, so that it may call these functions, such as grpc_cancel_all, and
 * all others; SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGPIPE, SIGCONT and SIGSYS by the thread that they meet, as sigaction(2) has
 * it. SIG_DFL and SIG_IGN are what they are. grpc_finalize sets back what was there before the first. The library itself handles none. */
grpc_error_t grpc_signal_handler_set_np(int signal, void (*handler)(int));

/* How far a session is, and how long its stages took, as this end sees them: arguments are sent, the routine waits its turn and computes,
 * the result comes; the caller's functions work. Known of the newest 4096 sessions that were waited for, too. Times of processors, of the
 * executable, and of what a call has no stage for are 0; nothing is compressed. */
#define GRPC_SESSION_DONE 1
#define GRPC_SESSION_ARG_IS_NOT_TRANSMITED 2
#define GRPC_SESSION_EXECUTING 3
#define GRPC_SESSION_DOWN 4
#define GRPC_SESSION_UNKNOWN_STATUS 5

typedef struct {
    int callbackNtimesCalled;
    struct timeval transferArgumentToRemoteRealTime, transferArgumentToRemoteCpuTime;
    struct timeval transferFileToRemoteRealTime, transferFileToRemoteCpuTime;
    struct timeval calculationRealTime, calculationCpuTime;
    struct timeval transferResultToClientRealTime, transferResultToClientCpuTime;
    struct timeval transferFileToClientRealTime, transferFileToClientCpuTime;
    struct timeval callbackTransferArgumentToClientRealTime, callbackTransferArgumentToClientCpuTime;
    struct timeval callbackCalculationRealTime, callbackCalculationCpuTime;
    struct timeval callbackTransferResultToRemoteRealTime, callbackTransferResultToRemoteCpuTime;
} grpc_exec_info_executable_t_np;

typedef struct {
    int callbackNtimesCalled;
    struct timeval remoteMachineInfoRequestRealTime, remoteMachineInfoRequestCpuTime;
    struct timeval remoteClassInfoRequestRealTime, remoteClassInfoRequestCpuTime;
    struct timeval gramInvokeRealTime, gramInvokeCpuTime;
    struct timeval transferArgumentToRemoteRealTime, transferArgumentToRemoteCpuTime;
    struct timeval calculationRealTime, calculationCpuTime;
    struct timeval transferResultToClientRealTime, transferResultToClientCpuTime;
    struct timeval callbackTransferArgumentToClientRealTime, callbackTransferArgumentToClientCpuTime;
    struct timeval callbackCalculationRealTime, callbackCalculationCpuTime;
    struct timeval callbackTransferResultToRemoteRealTime, callbackTransferResultToRemoteCpuTime;
} grpc_exec_info_client_t_np;

typedef struct {
    grpc_exec_info_executable_t_np gei_measureExecutable;
    grpc_exec_info_client_t_np gei_measureClient;
    struct {
        int nElements;
        void *toRemote, *toClient;
    } gei_compressionInformation;
} grpc_session_info_t_np;

/* info or status may be NULL; what is put into info is to be released. */
grpc_error_t grpc_session_info_get_np(grpc_sessionid_t, grpc_session_info_t_np **info, int *status);
grpc_error_t grpc_session_info_release_np(grpc_session_info_t_np *);

/* What is not built is refused by its name, in kumiko_last_message too. Remote objects: no site has a class (GRPC_CLASS_NOT_FOUND_NP), so
 * nothing is an object's handle (GRPC_INVALID_OBJECT_HANDLE_NP), nor any session one of an object (GRPC_INVALID_SESSION_ID). */
typedef struct {
    unsigned long kumiko_none;
} grpc_object_handle_t_np;

grpc_error_t grpc_object_handle_default_np(grpc_object_handle_t_np *, char *class_name);
grpc_error_t grpc_object_handle_init_np(grpc_object_handle_t_np *, char *server_name, char *class_name);
grpc_error_t grpc_object_handle_init_with_attr_np(grpc_object_handle_t_np *, grpc_handle_attr_t_np *);
grpc_error_t grpc_object_handle_destruct_np(grpc_object_handle_t_np *);
grpc_error_t grpc_object_handle_array_default_np(grpc_object_handle_t_np *, size_t, char *class_name);
grpc_error_t grpc_object_handle_array_init_np(grpc_object_handle_t_np *, size_t, char *server_name, char *class_name);
grpc_error_t grpc_object_handle_array_init_with_attr_np(grpc_object_handle_t_np *, size_t, grpc_handle_attr_t_np *);
grpc_error_t grpc_object_handle_array_destruct_np(grpc_object_handle_t_np *, size_t);
grpc_error_t grpc_object_handle_get_attr_np(grpc_object_handle_t_np *, grpc_handle_attr_t_np *);
grpc_error_t grpc_object_handle_get_from_session_np(grpc_object_handle_t_np **, grpc_sessionid_t);
grpc_error_t grpc_session_attr_initialize_with_object_handle_np(grpc_object_handle_t_np *, grpc_session_attr_t_np *);
grpc_error_t grpc_invoke_np(grpc_object_handle_t_np *, char *method_name, ...);
grpc_error_t grpc_invoke_async_np(grpc_object_handle_t_np *, char *method_name, grpc_sessionid_t *, ...);
grpc_error_t grpc_invoke_with_attr_np(grpc_object_handle_t_np *, char *method_name, grpc_session_attr_t_np *, ...);
grpc_error_t grpc_invoke_async_with_attr_np(grpc_object_handle_t_np *, char *method_name, grpc_sessionid_t *, grpc_session_attr_t_np *, ...);
grpc_error_t grpc_invoke_arg_stack_np(grpc_object_handle_t_np *, char *method_name, grpc_arg_stack_t *);
grpc_error_t grpc_invoke_arg_stack_async_np(grpc_object_handle_t_np *, char *method_name, grpc_arg_stack_t *);

/* Data that stay at sites between calls (GFD-R-P.186): GRPC_OTHER_ERROR_CODE, whatever is given. Arguments and results travel with their
 * call, which is what that document's GRPC_VOLATILE means. */
typedef struct {
    unsigned long kumiko_none;
} grpc_data_t;

typedef enum {
    GRPC_VOLATILE,
    GRPC_STICKY,
    GRPC_UNIQUE_VOLATILE,
    GRPC_UNIQUE_STICKY
} grpc_data_mode_t;

grpc_error_t grpc_data_init(void *, ...);
grpc_error_t grpc_data_memory_mapping_set(const void *, ...);
grpc_error_t grpc_data_memory_mapping_get(const void *, ...);
grpc_error_t grpc_data_container_set(void *, ...);
grpc_error_t grpc_data_container_get(const void *, ...);
grpc_error_t grpc_data_transfer(void *, ...);
grpc_error_t grpc_data_wait(const void *, ...);
grpc_error_t grpc_data_unbind(void *, ...);
grpc_error_t grpc_data_free(void *, ...);
grpc_error_t grpc_data_getinfo(const void *, ...);
grpc_error_t grpc_data_load(void *, ...);
grpc_error_t grpc_data_save(const void *, ...);

/* Not of the standard: as grpc_call and grpc_call_async, with every argument by its address, scalars too (a text by its own), for
 * languages without variable numbers of arguments. */
grpc_error_t kumiko_call(grpc_function_handle_t *, void *const addresses[], size_t count);
grpc_error_t kumiko_call_async(grpc_function_handle_t *, grpc_sessionid_t *, void *const addresses[], size_t count);

/* Not of the standard: what the last failed function of this thread had to say, or a default handle that is for the configured site since the
 * index did not answer; the text stays until the next one. */
const char *kumiko_last_message(void);

#ifdef __cplusplus
}
#endif
#endif
