! Arrays of texts, whose lengths are the caller's (turned.idl).
subroutine turn(n, words, same, back, parts, f)
    implicit none
    integer, intent(in) :: n
    character(len=*), intent(in) :: words(n), parts(n)
    character(len=*), intent(inout) :: same(n)
    character(len=*), intent(out) :: back(n)
    external :: f
    character(len=9) :: asked(2)
    character(len=40) :: line
    integer :: i, unit
    do i = 1, n
        back(i) = words(n + 1 - i)
        open (newunit=unit, file=trim(parts(i)), status="old", action="read")
        read (unit, "(a)") line
        close (unit)
        same(i) = trim(same(i)) // "-" // trim(line)
    end do
    asked(1) = words(1)
    asked(2) = "two words"
    call f(2, asked, parts(1))
    back(1) = trim(back(1)) // "/" // trim(asked(1)) // "/" // trim(asked(2))
end subroutine
