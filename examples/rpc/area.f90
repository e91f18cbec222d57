! Simpson's rule, of a function that the caller has (area.idl).
subroutine area(a, b, panels, total, f, tell)
    implicit none
    double precision, intent(in) :: a, b
    integer, intent(in) :: panels
    double precision, intent(out) :: total
    external :: f, tell
    character(len=60) :: what
    double precision :: x, y
    integer :: i, weight
    total = 0
    do i = 0, 2 * panels
        x = a + (b - a) * i / (2 * panels)
        call f(x, y)
        weight = 2 + 2 * mod(i, 2)
        if (i == 0 .or. i == 2 * panels) weight = 1
        total = total + weight * y
    end do
    total = total * (b - a) / (6 * panels)
    write (what, "(i0, a, i0, a)") panels, " panels, ", 2 * panels + 1, " values"
    call tell(what)
end subroutine
