! Solves a x = b at a site, and farms out tasks. Compiled and run by e2e/tests/rpc_fortran.rs.
!
!   gfortran gridrpc.f90 examples/dgesv.f90 -L... -lm -lgridrpc -lssl -lcrypto -lpthread -ldl -lm
program example
    use gridrpc
    implicit none
    integer(c_int), parameter :: tasks = 4
    type(grpc_function_handle_t) :: solve, trial, widths
    integer(c_int), target :: n = 3, ipiv(3), info, seeds(tasks)
    integer(c_int) :: ids(tasks), i, first
    integer(c_long), target :: times = 10000
    integer(c_long), target, volatile :: hits(tasks)
    real(c_double), target :: a(3, 3), b(3), all(6)
    integer(c_signed_char), target :: c1 = -1
    integer(c_short), target :: c2 = -300
    integer(c_int), target :: c4 = 70000
    integer(c_long), target :: c8 = 5000000000_c_long
    real(c_float), target :: r4 = 0.5
    real(c_double), target :: r8 = -2.25d0

    call check(grpc_initialize(), GRPC_NO_ERROR)
    call check(grpc_function_handle_default(solve, "linpack/none"), GRPC_FUNCTION_NOT_FOUND)
    print "(a)", kumiko_last_message()
    call check(grpc_function_handle_default(solve, "linpack/dgesv"), GRPC_NO_ERROR)
    call check(grpc_function_handle_default(trial, "pi/trial"), GRPC_NO_ERROR)
    call check(grpc_function_handle_default(widths, "samples/widths"), GRPC_NO_ERROR)

    a = transpose(reshape([4d0, 1d0, 0d0, -1d0, 5d0, 2d0, 0d0, -2d0, 6d0], [3, 3]))
    b = matmul(a, [1d0, 2d0, 3d0])
    a = transpose(a) ! rows side by side
    call check(grpc_call(solve, [c_loc(n), c_loc(a), c_loc(ipiv), c_loc(b), c_loc(info)]), GRPC_NO_ERROR)
    print "(a, i0, a, 3f7.3)", "dgesv: info ", info, ", x", b

    call check(grpc_call(widths, [c_loc(c1), c_loc(c2), c_loc(c4), c_loc(c8), c_loc(r4), c_loc(r8), c_loc(all)]), &
        GRPC_NO_ERROR)
    print "(a, 4f14.1, 2f6.2)", "widths:", all

    call check(grpc_call(solve, [c_loc(n)]), GRPC_RPC_REFUSED)
    call check(grpc_call(solve, [c_null_ptr, c_loc(a), c_loc(ipiv), c_loc(b), c_loc(info)]), GRPC_RPC_REFUSED)

    do i = 1, tasks
        seeds(i) = i
        call check(grpc_call_async(trial, ids(i), [c_loc(seeds(i)), c_loc(times), c_loc(hits(i))]), GRPC_NO_ERROR)
    end do
    call check(grpc_wait_or(ids, first), GRPC_NO_ERROR)
    call check(grpc_get_error(first), GRPC_NO_ERROR)
    call check(grpc_wait_all(), GRPC_NO_ERROR)
    print "(a, f5.2)", "pi:", 4d0 * sum(hits) / (tasks * times)

    call check(grpc_function_handle_destruct(solve), GRPC_NO_ERROR)
    call check(grpc_finalize(), GRPC_NO_ERROR)

contains

    subroutine check(found, expected)
        integer(c_int), intent(in) :: found, expected
        if (found /= expected) then
            print "(5a)", grpc_error_string(found), ", not ", grpc_error_string(expected), "; the last failure: ", &
                kumiko_last_message()
            stop 1
        end if
    end subroutine
end program
