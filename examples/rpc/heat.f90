! A routine in Fortran with checkpoints: a stretch of u is smoothed at a step, and each step is told in a file of its own.
subroutine heat(steps, pause_us, n, u, told)
    use kumiko_ckpt
    implicit none
    integer(c_long), intent(in) :: steps, pause_us
    integer(c_int), intent(in) :: n
    real(c_double), intent(inout), target :: u(n)
    integer(c_long), intent(out) :: told(3)
    integer(c_long), target, save :: i
    integer(c_long) :: first, line
    integer :: j, from, unit, status
    interface
        integer(c_int) function usleep(us) bind(c)
            import :: c_int
            integer(c_int), value :: us
        end function
    end interface

    i = 0
    if (kumiko_ckpt_state("u", c_loc(u), n * 8) /= 0) error stop "u"
    if (kumiko_ckpt_state("i", c_loc(i), 8) /= 0) error stop "i"
    if (kumiko_ckpt_open("steps", "steps.txt", KUMIKO_CKPT_NEW) < 0) error stop "steps.txt"
    call kumiko_ckpt_every(0d0)     ! a routine that is in earnest leaves this to the library
    told(3) = kumiko_ckpt_resumed()
    open(newunit=unit, file="steps.txt", position="append", action="readwrite")
    first = i
    do while (i < steps)
        flush(unit)
        call kumiko_ckpt_point()
        from = int(mod(i * 400, int(n - 400, c_long))) + 1
        do j = from + 1, from + 399
            u(j) = (u(j - 1) + 2 * u(j) + u(j + 1)) / 4
        end do
        write(unit, *) i
        i = i + 1
        status = usleep(int(pause_us, c_int))
    end do
    ! How many lines there are, each as it should be.
    rewind(unit)
    told(1) = 0
    do
        read(unit, *, iostat=status) line
        if (status /= 0 .or. line /= told(1)) exit
        told(1) = told(1) + 1
    end do
    close(unit, status="delete")
    told(2) = i - first
end subroutine
