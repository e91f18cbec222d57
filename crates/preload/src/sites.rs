//! Where machine code makes the calls that are looked at: `mov $number,%eax` and at once `syscall`, which is how C
//! libraries are compiled. Pure. What is made in another way is not found, and goes to the supervisor.

/// Bytes of the `mov`, which a near jump takes the place of; `syscall` stays where it is.
pub const MOV_BYTES: usize = 5;
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const MOV_EAX: u8 = 0xb8;

/// The number of the call that is made at `syscall` (an offset), if it is one of that form.
pub fn number_at(code: &[u8], syscall: usize) -> Option<u32> {
    let mov = syscall.checked_sub(MOV_BYTES)?;
    if *code.get(mov)? != MOV_EAX || code.get(syscall..syscall + 2)? != SYSCALL {
        return None;
    }
    // With a prefix before it, it is another instruction.
    if mov > 0 && code.get(mov - 1).is_some_and(|byte| byte & 0xf0 == 0x40) {
        return None;
    }
    code.get(mov + 1..syscall)?
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
