//! Where machine code makes the calls that are looked at: `mov $number,%eax` and at once `syscall`, which is how C
//! libraries are compiled, with words of the stack loaded in between where a call came before; number 0, read(2), as
//! `xor %eax,%eax` and `syscall`. Pure. What is made in another way is not found, and goes to the supervisor.

/// Bytes of the `mov`, which a near jump takes the place of; `syscall` stays where it is.
pub const MOV_BYTES: usize = 5;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const MOV_EAX: u8 = 0xb8;

/// Bytes of the `xor`, which a short jump takes the place of.
pub const XOR_BYTES: usize = 2;
/// With the look at its result that C libraries have behind it: four bytes may be part of anything.
const READ: [u8; 10] = [0x31, 0xc0, 0x0f, 0x05, 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff];
/// What compilers fill with, of enough bytes for a near jump behind a short one.
const FILLINGS: [&[u8]; 4] = [
    &[0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0],
    &[0x0f, 0x1f, 0x80, 0, 0, 0, 0],
];
/// Prefixes of an instruction: with one before it, a filling begins there.
const PREFIXES: [u8; 2] = [0x66, 0x2e];
/// How far a short jump reaches, from before it.
const SHORT: usize = 125;

/// Where a near jump has room that a short one in place of the `xor` reaches, and how many bytes: one instruction that does
/// nothing.
pub fn room_near(code: &[u8], syscall: usize) -> Option<(usize, usize)> {
    let from = syscall.checked_sub(XOR_BYTES)?;
    (from.saturating_sub(SHORT)..from + SHORT).find_map(|at| {
        let prefixed = at.checked_sub(1).and_then(|before| code.get(before));
        if prefixed.is_none_or(|before| PREFIXES.contains(before)) {
            return None;
        }
        let rest = code.get(at..)?;
        let filling = FILLINGS.iter().find(|filling| rest.starts_with(filling))?;
        Some((at, filling.len()))
    })
}

/// Is it read(2), by an `xor`?
pub fn has_xor(code: &[u8], syscall: usize) -> bool {
    let xor = syscall.checked_sub(XOR_BYTES);
    let there = |xor: usize| code.get(xor..xor + READ.len()) == Some(&READ) && is_alone(code, xor);
    xor.is_some_and(there)
}

/// With a prefix before it, it is another instruction.
fn is_alone(code: &[u8], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| code.get(before));
    before.is_none_or(|byte| byte & 0xf0 != 0x40)
}

/// Most bytes of what is loaded in between: all arguments.
const LOADS: usize = 6 * 5;

/// The `mov` that a `syscall` has its number from. What stands between the two may as well stand before both.
pub fn mov_before(code: &[u8], syscall: usize) -> Option<usize> {
    if code.get(syscall..syscall + 2)? != SYSCALL {
        return None;
    }
    let nearest = syscall.checked_sub(MOV_BYTES)?;
    (nearest.saturating_sub(LOADS)..=nearest).rev().find(|mov| {
        let between = code.get(mov + MOV_BYTES..syscall).unwrap_or_default();
        code.get(*mov) == Some(&MOV_EAX) && is_alone(code, *mov) && are_loads(between)
    })
}

/// Each is `mov distance(%rsp),%register`, and the register not eax.
fn are_loads(mut code: &[u8]) -> bool {
    const LOAD: u8 = 0x8b;
    const STACK: u8 = 0x24;
    while let Some(first) = code.first() {
        let prefix = first & 0xf0 == 0x40;
        let upper = prefix && first & 4 != 0;
        let begin = usize::from(prefix);
        let is_load = match code.get(begin..begin + 4) {
            Some([LOAD, to, STACK, _]) => to & 0xc7 == 0x44 && (upper || to & 0x38 != 0),
            _ => false,
        };
        if !is_load {
            return false;
        }
        code = code.get(begin + 4..).unwrap_or_default();
    }
    true
}

/// The number of the call that is made at `syscall` (an offset), if it is one of that form.
pub fn number_at(code: &[u8], syscall: usize) -> Option<u32> {
    if has_xor(code, syscall) {
        return Some(0);
    }
    let mov = mov_before(code, syscall)?;
    code.get(mov + 1..mov + MOV_BYTES)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}

/// Tells the offset of every `syscall` of that form with one of these numbers. What one call of `each` gives false for,
/// ends it.
pub fn sites(code: &[u8], numbers: &[u32], mut each: impl FnMut(usize, u32) -> bool) {
    let mut at = 0;
    while let Some(found) = next_syscall(code, at) {
        if let Some(number) = number_at(code, found).filter(|number| numbers.contains(number)) {
            if !each(found, number) {
                return;
            }
        }
        at = found + 1;
    }
}

/// SSE2 is part of x86_64: libraries are megabytes.
#[cfg(target_arch = "x86_64")]
fn next_syscall(code: &[u8], from: usize) -> Option<usize> {
    use core::arch::x86_64::{
        _mm_and_si128, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
    };
    const STEP: usize = 16;
    let mut at = from;
    while let Some(chunk) = code.get(at..at + STEP + 1) {
        // SAFETY: the chunk has a byte more than a vector.
        let found = unsafe {
            let (first, second) = (_mm_set1_epi8(0x0f), _mm_set1_epi8(0x05));
            let here = _mm_cmpeq_epi8(_mm_loadu_si128(chunk.as_ptr().cast()), first);
            let after = _mm_cmpeq_epi8(_mm_loadu_si128(chunk.as_ptr().add(1).cast()), second);
            _mm_movemask_epi8(_mm_and_si128(here, after))
        };
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += STEP;
    }
    let rest = code.get(at..)?;
    rest.windows(2)
        .position(|two| two == SYSCALL)
        .map(|place| at + place)
}

#[cfg(all(test, not(kumiko_guest)))]
mod tests {
    use super::*;

    fn found(code: &[u8]) -> Vec<(usize, u32)> {
        let mut all = Vec::new();
        sites(code, &[2, 257], |at, number| {
            all.push((at, number));
            true
        });
        all
    }

    #[test]
    fn a_site_is_found_wherever_it_stands_and_nothing_else_is() {
        let openat = [0xb8, 1, 1, 0, 0, 0x0f, 0x05];
        for before in 0..70 {
            for after in 0..40 {
                let code = [vec![0x90; before], openat.to_vec(), vec![0x90; after]].concat();
                assert_eq!(found(&code), [(before + 5, 257)], "{before} {after}");
            }
        }
        let check = |code: &[u8]| assert_eq!(found(code), [], "{code:02x?}");
        check(&[]);
        check(&[0x0f, 0x05]);
        check(&[0, 0, 0, 0x0f, 0x05]);
        check(&openat[..6]);
        check(&[0xb8, 3, 0, 0, 0, 0x0f, 0x05]); // another call
        check(&[0x41, 0xb8, 2, 0, 0, 0, 0x0f, 0x05]); // mov $2,%r8d
        check(&[0x48, 0xb8, 2, 0, 0, 0, 0x0f, 0x05]); // movabs
        check(&[0x89, 0xf8, 0x90, 0x90, 0x90, 0x0f, 0x05]); // mov %edi,%eax
    }

    #[test]
    fn a_number_is_found_before_what_is_loaded_from_the_stack() {
        let mov = [0xb8, 2, 0, 0, 0];
        let check = |between: &[u8], expected: &[(usize, u32)]| {
            let code = [&[0xc3][..], &mov, between, &SYSCALL].concat();
            assert_eq!(found(&code), expected, "{between:02x?}");
        };
        let (rsi, edi, r8) = (
            [0x48, 0x8b, 0x74, 0x24, 0x10],
            [0x8b, 0x7c, 0x24, 0x08],
            [0x4c, 0x8b, 0x44, 0x24, 0x20],
        );
        check(&rsi, &[(11, 2)]);
        check(&edi, &[(10, 2)]);
        check(&[&rsi[..], &edi, &r8].concat(), &[(20, 2)]);
        check(&rsi.repeat(6), &[(36, 2)]);
        check(&rsi.repeat(7), &[]);
        check(&[0x8b, 0x44, 0x24, 0x08], &[]); // to eax
        check(&[0x48, 0x8b, 0x44, 0x24, 0x08], &[]); // to rax
        check(&[0x8b, 0x7d, 0x08, 0x90], &[]); // from elsewhere
        check(&edi[..3], &[]);
        check(&[0xe8, 0, 0, 0, 0], &[]); // a call
    }

    #[test]
    fn reading_is_found_by_what_is_around_it_and_room_for_a_jump_beside_it() {
        let of = |code: &[u8]| {
            let mut all = Vec::new();
            sites(code, &[0], |at, number| {
                all.push((at, number));
                true
            });
            all
        };
        assert_eq!(of(&READ), [(2, 0)]);
        assert_eq!(of(&[&[0x90, 0x08][..], &READ].concat()), [(4, 0)]);
        assert_eq!(of(&[&[0x45][..], &READ].concat()), []); // xor %r8d,%r8d
        assert_eq!(of(&READ[..9]), []);
        let room = |before: usize, filling: &[u8], between: usize| {
            let code = [&vec![0xc3; before], filling, &vec![0xc3; between], &READ].concat();
            room_near(&code, before + filling.len() + between + XOR_BYTES)
        };
        for filling in FILLINGS {
            let bytes = filling.len();
            assert_eq!(room(3, filling, 2), Some((3, bytes)), "{filling:02x?}");
            let far = SHORT - bytes;
            assert_eq!(room(3, filling, far), Some((3, bytes)), "{filling:02x?}");
            assert_eq!(room(3, filling, far + 1), None, "{filling:02x?}");
        }
        // What begins with more prefixes is of another length.
        let longer = [&[0x66][..], FILLINGS[0]].concat();
        assert_eq!(room(3, &longer, 2), None);
        let behind = [&[0xc3][..], &READ, &[0xc3], FILLINGS[3]].concat();
        assert_eq!(room_near(&behind, 3), Some((12, 7)));
    }

    #[test]
    fn all_are_found_until_one_is_too_many() {
        let open = [0xb8, 2, 0, 0, 0, 0x0f, 0x05];
        let code = open.repeat(9);
        assert_eq!(found(&code).len(), 9);
        let mut count = 0;
        sites(&code, &[2], |_, _| {
            count += 1;
            count < 4
        });
        assert_eq!(count, 4);
    }
}
