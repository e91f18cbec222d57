! GridRPC for Fortran: the functions of bindings/c/kumiko/grpc.h, by iso_c_binding. Arguments of a call are a list of addresses, in the
! order of the routine's IDL: [c_loc(n), c_loc(a), ...], each of a variable with the target attribute; of a function that the routine is to
! call, grpc_callback(c_funloc(f)), where f is bind(c) and takes all by reference. A text ends with c_null_char. Arrays of IDL have rows side by
! side, and Fortran's columns: give the transpose. Not here: argument stacks, grpc_get_handle, and what ends with _np.
module gridrpc
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int), parameter :: GRPC_NO_ERROR = 0, GRPC_NOT_INITIALIZED = 1, GRPC_ALREADY_INITIALIZED = 2, &
        GRPC_CONFIGFILE_NOT_FOUND = 3, GRPC_CONFIGFILE_ERROR = 4, GRPC_SERVER_NOT_FOUND = 5, GRPC_FUNCTION_NOT_FOUND = 6, &
        GRPC_INVALID_FUNCTION_HANDLE = 7, GRPC_INVALID_SESSION_ID = 8, GRPC_RPC_REFUSED = 9, GRPC_COMMUNICATION_FAILED = 10, &
        GRPC_SESSION_FAILED = 11, GRPC_NOT_COMPLETED = 12, GRPC_NONE_COMPLETED = 13, GRPC_TIMEOUT_NP = 16, &
        GRPC_CANCELED_NP = 17, GRPC_OTHER_ERROR_CODE = 18, GRPC_UNKNOWN_ERROR_CODE = 19
    integer(c_int), parameter :: GRPC_SESSIONID_VOID = -1

    private :: text_at

    type, bind(c) :: grpc_function_handle_t
        integer(c_long) :: kumiko_number = 0, kumiko_mark = 0
    end type

    interface
        integer(c_int) function initialize_of_c(file) bind(c, name="grpc_initialize")
            import :: c_int, c_ptr
            type(c_ptr), value :: file
        end function

        integer(c_int) function grpc_finalize() bind(c)
            import :: c_int
        end function

        integer(c_int) function handle_of_c(handle, name) bind(c, name="grpc_function_handle_default")
            import :: c_int, c_char, grpc_function_handle_t
            type(grpc_function_handle_t), intent(out) :: handle
            character(kind=c_char), intent(in) :: name(*)
        end function

        integer(c_int) function handle_at_of_c(handle, server, name) bind(c, name="grpc_function_handle_init")
            import :: c_int, c_char, grpc_function_handle_t
            type(grpc_function_handle_t), intent(out) :: handle
            character(kind=c_char), intent(in) :: server(*), name(*)
        end function

        integer(c_int) function grpc_function_handle_destruct(handle) bind(c)
            import :: c_int, grpc_function_handle_t
            type(grpc_function_handle_t), intent(inout) :: handle
        end function

        integer(c_int) function call_of_c(handle, addresses, count) bind(c, name="kumiko_call")
            import :: c_int, c_ptr, c_size_t, grpc_function_handle_t
            type(grpc_function_handle_t), intent(in) :: handle
            type(c_ptr), intent(in) :: addresses(*)
            integer(c_size_t), value :: count
        end function

        integer(c_int) function call_async_of_c(handle, id, addresses, count) bind(c, name="kumiko_call_async")
            import :: c_int, c_ptr, c_size_t, grpc_function_handle_t
            type(grpc_function_handle_t), intent(in) :: handle
            integer(c_int), intent(out) :: id
            type(c_ptr), intent(in) :: addresses(*)
            integer(c_size_t), value :: count
        end function

        integer(c_int) function grpc_probe(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        integer(c_int) function probe_or_of_c(ids, count, id) bind(c, name="grpc_probe_or")
            import :: c_int, c_size_t
            integer(c_int), intent(in) :: ids(*)
            integer(c_size_t), value :: count
            integer(c_int), intent(out) :: id
        end function

        integer(c_int) function grpc_cancel(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        integer(c_int) function grpc_cancel_all() bind(c)
            import :: c_int
        end function

        ! What comes back of an asynchronous call is written while this waits: have the variables volatile, or look at them after it.
        integer(c_int) function grpc_wait(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        integer(c_int) function wait_and_of_c(ids, count) bind(c, name="grpc_wait_and")
            import :: c_int, c_size_t
            integer(c_int), intent(in) :: ids(*)
            integer(c_size_t), value :: count
        end function

        integer(c_int) function wait_or_of_c(ids, count, id) bind(c, name="grpc_wait_or")
            import :: c_int, c_size_t
            integer(c_int), intent(in) :: ids(*)
            integer(c_size_t), value :: count
            integer(c_int), intent(out) :: id
        end function

        integer(c_int) function grpc_wait_all() bind(c)
            import :: c_int
        end function

        integer(c_int) function grpc_wait_any(id) bind(c)
            import :: c_int
            integer(c_int), intent(out) :: id
        end function

        integer(c_int) function grpc_get_error(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        ! One after the other; GRPC_SESSIONID_VOID when there is no more.
        integer(c_int) function grpc_get_failed_sessionid(id) bind(c)
            import :: c_int
            integer(c_int), intent(out) :: id
        end function

        type(c_ptr) function error_string_of_c(error) bind(c, name="grpc_error_string")
            import :: c_int, c_ptr
            integer(c_int), value :: error
        end function

        type(c_ptr) function last_message_of_c() bind(c, name="kumiko_last_message")
            import :: c_ptr
        end function

        integer(c_size_t) function strlen_of_c(text) bind(c, name="strlen")
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function
    end interface

contains

    ! A contact file; blank or absent: the personal site's.
    integer(c_int) function grpc_initialize(file)
        character(len=*), intent(in), optional :: file
        character(kind=c_char, len=:), allocatable, target :: text
        if (present(file)) then
            if (len_trim(file) > 0) then
                text = trim(file) // c_null_char
                grpc_initialize = initialize_of_c(c_loc(text))
                return
            end if
        end if
        grpc_initialize = initialize_of_c(c_null_ptr)
    end function

    ! name: MODULE/NAME
    integer(c_int) function grpc_function_handle_default(handle, name)
        type(grpc_function_handle_t), intent(out) :: handle
        character(len=*), intent(in) :: name
        grpc_function_handle_default = handle_of_c(handle, trim(name) // c_null_char)
    end function

    ! server: HOST or HOST:PORT
    integer(c_int) function grpc_function_handle_init(handle, server, name)
        type(grpc_function_handle_t), intent(out) :: handle
        character(len=*), intent(in) :: server, name
        grpc_function_handle_init = handle_at_of_c(handle, trim(server) // c_null_char, trim(name) // c_null_char)
    end function

    ! A function as an argument.
    type(c_ptr) function grpc_callback(function)
        type(c_funptr), intent(in) :: function
        grpc_callback = transfer(function, c_null_ptr)
    end function

    integer(c_int) function grpc_call(handle, addresses)
        type(grpc_function_handle_t), intent(in) :: handle
        type(c_ptr), intent(in) :: addresses(:)
        grpc_call = call_of_c(handle, addresses, size(addresses, kind=c_size_t))
    end function

    integer(c_int) function grpc_call_async(handle, id, addresses)
        type(grpc_function_handle_t), intent(in) :: handle
        integer(c_int), intent(out) :: id
        type(c_ptr), intent(in) :: addresses(:)
        grpc_call_async = call_async_of_c(handle, id, addresses, size(addresses, kind=c_size_t))
    end function

    integer(c_int) function grpc_probe_or(ids, id)
        integer(c_int), intent(in) :: ids(:)
        integer(c_int), intent(out) :: id
        grpc_probe_or = probe_or_of_c(ids, size(ids, kind=c_size_t), id)
    end function

    integer(c_int) function grpc_wait_and(ids)
        integer(c_int), intent(in) :: ids(:)
        grpc_wait_and = wait_and_of_c(ids, size(ids, kind=c_size_t))
    end function

    integer(c_int) function grpc_wait_or(ids, id)
        integer(c_int), intent(in) :: ids(:)
        integer(c_int), intent(out) :: id
        grpc_wait_or = wait_or_of_c(ids, size(ids, kind=c_size_t), id)
    end function

    function grpc_error_string(error) result(text)
        integer(c_int), intent(in) :: error
        character(len=:), allocatable :: text
        text = text_at(error_string_of_c(error))
    end function

    ! What the last failure of this thread was, in a sentence.
    function kumiko_last_message() result(text)
        character(len=:), allocatable :: text
        text = text_at(last_message_of_c())
    end function

    function text_at(address) result(text)
        type(c_ptr), intent(in) :: address
        character(len=:), allocatable :: text
        character(kind=c_char), pointer :: bytes(:)
        integer :: i
        text = ""
        if (.not. c_associated(address)) return
        call c_f_pointer(address, bytes, [strlen_of_c(address)])
        text = repeat(" ", size(bytes))
        do i = 1, size(bytes)
            text(i:i) = bytes(i)
        end do
    end function
end module
