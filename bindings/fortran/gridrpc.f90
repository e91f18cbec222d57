! GridRPC for Fortran: the functions of bindings/c/kumiko/grpc.h, by iso_c_binding. Arguments of a call are a list of addresses, in the
! order of the routine's IDL: [c_loc(n), c_loc(a), ...], each of a variable with the target attribute. Arrays of IDL have rows side by
! side, and Fortran's columns: give the transpose. Not here: functions that a Fortran program has no use for.
module gridrpc
    use, intrinsic :: iso_c_binding
    implicit none

    integer(c_int), parameter :: GRPC_NO_ERROR = 0, GRPC_FUNCTION_NOT_FOUND = 6, GRPC_RPC_REFUSED = 9, &
        GRPC_COMMUNICATION_FAILED = 10, GRPC_SESSION_FAILED = 11, GRPC_NOT_COMPLETED = 12

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

        integer(c_int) function grpc_cancel(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        ! What comes back of an asynchronous call is written while this waits: have the variables volatile, or look at them after it.
        integer(c_int) function grpc_wait(id) bind(c)
            import :: c_int
            integer(c_int), value :: id
        end function

        integer(c_int) function grpc_wait_all() bind(c)
            import :: c_int
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
end module
