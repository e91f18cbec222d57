! Checkpoints for Fortran: the functions of bindings/c/kumiko/kumiko_ckpt.h, by iso_c_binding. What is named by its address, c_loc(x), has
! the target attribute, and stays: an argument, or a variable with save. A unit is no stream of C's: open its file by
! kumiko_ckpt_open first, which sets its length back, and by open(..., position="append") after kumiko_ckpt_resumed; flush it before
! each safe point.
module kumiko_ckpt
    use, intrinsic :: iso_c_binding
    implicit none

    ! Of open(2), as Linux has them on x86_64 and arm64: an existing file; one that is made if need be; one that is empty if the program
    ! begins.
    integer(c_int), parameter :: KUMIKO_CKPT_READ = 0, KUMIKO_CKPT_UPDATE = 2 + 64, KUMIKO_CKPT_NEW = 2 + 64 + 512

    interface
        integer(c_int) function state_of_c(name, memory, bytes) bind(c, name="kumiko_ckpt_state")
            import :: c_int, c_char, c_ptr, c_size_t
            character(kind=c_char), intent(in) :: name(*)
            type(c_ptr), value :: memory
            integer(c_size_t), value :: bytes
        end function

        integer(c_int) function open_of_c(name, path, flags) bind(c, name="kumiko_ckpt_open")
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: name(*), path(*)
            integer(c_int), value :: flags
        end function

        ! The number of the checkpoint that it goes on from, which is then in what was named; 0: it begins.
        integer(c_long) function kumiko_ckpt_resumed() bind(c)
            import :: c_long
        end function

        subroutine kumiko_ckpt_point() bind(c)
        end subroutine

        subroutine kumiko_ckpt_every(seconds) bind(c)
            import :: c_double
            real(c_double), value :: seconds
        end subroutine

        real(c_double) function kumiko_ckpt_frozen_s() bind(c)
            import :: c_double
        end function
    end interface

contains

    ! 0, or -1: it cannot be named (stderr says why).
    integer(c_int) function kumiko_ckpt_state(name, memory, bytes)
        character(*), intent(in) :: name
        type(c_ptr), intent(in) :: memory
        integer, intent(in) :: bytes
        kumiko_ckpt_state = state_of_c(name // c_null_char, memory, int(bytes, c_size_t))
    end function

    ! A descriptor, or -1.
    integer(c_int) function kumiko_ckpt_open(name, path, flags)
        character(*), intent(in) :: name, path
        integer(c_int), intent(in) :: flags
        kumiko_ckpt_open = open_of_c(name // c_null_char, trim(path) // c_null_char, flags)
    end function
end module
