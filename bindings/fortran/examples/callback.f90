! Routines that call back: roots of functions that are known here, found elsewhere (examples/rpc/callback.idl). Compiled and run by
! e2e/tests/rpc_fortran.rs, as dgesv.f90 is.
module functions
    use, intrinsic :: iso_c_binding
    implicit none
    integer :: calls = 0

contains

    ! x^2 - a, of as many numbers as there are.
    subroutine squares(n, x, y, slope) bind(c)
        integer(c_int), intent(in) :: n
        real(c_double), intent(in) :: x(n)
        real(c_double), intent(out) :: y(n), slope(n)
        integer :: i
        calls = calls + 1
        y = x**2 - [(i + 1, i = 1, n)]
        slope = 2 * x
    end subroutine

    ! A text goes to its c_null_char; what is NULL in C is absent.
    subroutine look(number, word, letters) bind(c)
        integer(c_int), intent(in) :: number
        character(kind=c_char), intent(in), optional :: word(*)
        integer(c_long), intent(out) :: letters
        letters = 0
        if (.not. present(word)) return
        do while (word(letters + 1) /= c_null_char)
            letters = letters + 1
        end do
        print "(a, i0, a, i0, a)", "word ", number, " has ", letters, " letters"
    end subroutine
end module

program example
    use gridrpc
    use functions
    implicit none
    type(grpc_function_handle_t) :: newton, words
    integer(c_int), target :: n = 3, steps
    real(c_double), target :: x(3) = 1, rest
    character(kind=c_char, len=6), target :: text = "to be" // c_null_char
    integer(c_long), target :: letters

    call must(grpc_initialize())
    call must(grpc_function_handle_default(newton, "callback/newton"))
    call must(grpc_call(newton, [c_loc(n), c_loc(x), c_loc(steps), c_loc(rest), grpc_callback(c_funloc(squares))]))
    print "(a, 3f9.6, a, l1)", "roots", x, ", as often as said: ", calls == steps + 1
    call must(grpc_function_handle_default(words, "callback/words"))
    call must(grpc_call(words, [c_loc(text), c_loc(letters), grpc_callback(c_funloc(look))]))
    print "(i0, a)", letters, " letters"
    call must(grpc_finalize())

contains

    subroutine must(error)
        integer(c_int), intent(in) :: error
        if (error == GRPC_NO_ERROR) return
        print "(3a)", grpc_error_string(error), ": ", kumiko_last_message()
        stop 1
    end subroutine
end program
