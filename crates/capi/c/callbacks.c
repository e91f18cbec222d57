/* How a function of the caller's is called: with so many addresses, each as the routine's IDL says (src/functions.rs). C has no call
 * with a number of arguments that is known later, so each number has its own. */

#include <stddef.h>

#define P1 void *
#define P2 P1, void *
#define P3 P2, void *
#define P4 P3, void *
#define P5 P4, void *
#define P6 P5, void *
#define P7 P6, void *
#define P8 P7, void *
#define P9 P8, void *
#define P10 P9, void *
#define P11 P10, void *
#define P12 P11, void *
#define P13 P12, void *
#define P14 P13, void *
#define P15 P14, void *
#define P16 P15, void *
#define P17 P16, void *
#define P18 P17, void *
#define P19 P18, void *
#define P20 P19, void *
#define P21 P20, void *
#define P22 P21, void *
#define P23 P22, void *
#define P24 P23, void *
#define P25 P24, void *
#define P26 P25, void *
#define P27 P26, void *
#define P28 P27, void *
#define P29 P28, void *
#define P30 P29, void *
#define P31 P30, void *
#define P32 P31, void *

#define A1 with[0]
#define A2 A1, with[1]
#define A3 A2, with[2]
#define A4 A3, with[3]
#define A5 A4, with[4]
#define A6 A5, with[5]
#define A7 A6, with[6]
#define A8 A7, with[7]
#define A9 A8, with[8]
#define A10 A9, with[9]
#define A11 A10, with[10]
#define A12 A11, with[11]
#define A13 A12, with[12]
#define A14 A13, with[13]
#define A15 A14, with[14]
#define A16 A15, with[15]
#define A17 A16, with[16]
#define A18 A17, with[17]
#define A19 A18, with[18]
#define A20 A19, with[19]
#define A21 A20, with[20]
#define A22 A21, with[21]
#define A23 A22, with[22]
#define A24 A23, with[23]
#define A25 A24, with[24]
#define A26 A25, with[25]
#define A27 A26, with[26]
#define A28 A27, with[27]
#define A29 A28, with[28]
#define A30 A29, with[29]
#define A31 A30, with[30]
#define A32 A31, with[31]

#define CASE(n) case n: ((void (*)(P##n))function)(A##n); break;

void kumiko_gridrpc_answer(void (*function)(void), void *const *with, size_t count) {
    switch (count) {
    case 0: function(); break;
    CASE(1)
    CASE(2)
    CASE(3)
    CASE(4)
    CASE(5)
    CASE(6)
    CASE(7)
    CASE(8)
    CASE(9)
    CASE(10)
    CASE(11)
    CASE(12)
    CASE(13)
    CASE(14)
    CASE(15)
    CASE(16)
    CASE(17)
    CASE(18)
    CASE(19)
    CASE(20)
    CASE(21)
    CASE(22)
    CASE(23)
    CASE(24)
    CASE(25)
    CASE(26)
    CASE(27)
    CASE(28)
    CASE(29)
    CASE(30)
    CASE(31)
    CASE(32)
    default: break; /* refused when the routine was made */
    }
}
