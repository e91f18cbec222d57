//! A few instructions in a traced program that give a register back after a call, so that nobody has to stop it for that.
//! They stand in the zeros behind the end of its vdso(7), in a copy that is its own: no memory of its program is touched.
//! x86_64. Not in it: which call is changed, and to what.

use super::tracee::{self, Registers};
use std::fs;
use std::sync::OnceLock;

/// `syscall; mov %r11, %rsi; jmp *%rcx`, and the same for %rdi: both registers that hold the way back are ones that the
/// kernel leaves undefined after a call. A call that is broken off and made again comes by the first instruction.
const CODE: [u8; 32] = [
    0x0f, 0x05, 0x4c, 0x89, 0xde, 0xff, 0xe1, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
    0xcc, //
    0x0f, 0x05, 0x4c, 0x89, 0xdf, 0xff, 0xe1, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc,
];
const WORD_BYTES: usize = 8;
/// Length of the instruction `syscall`.
const CALL_BYTES: u64 = 2;
const SECOND: u64 = 16;
/// Of a guest's table of what the kernel tells it: far above what any kernel puts there.
const MOST_WORDS: usize = 64;

/// Before them there is room for as many bytes of what a program does once, at its beginning ([`super::sealed`]).
pub(super) const BESIDE_BYTES: usize = 128;

/// Where a program has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stub(u64);

impl Stub {
    /// Puts them into a program that was just executed, and is stopped by us. None: there is no place for them.
    pub fn put(tid: i32) -> Option<Stub> {
        let stub = Stub::place(tid)?;
        for (number, word) in CODE.chunks_exact(WORD_BYTES).enumerate() {
            let word = u64::from_ne_bytes(word.try_into().ok()?);
            tracee::poke(tid, stub.0 + (number * WORD_BYTES) as u64, word).ok()?;
        }
        Some(stub)
    }

    /// Where a new process or thread has what was put into its parent, if there is any.
    pub fn inherited(tid: i32) -> Option<Stub> {
        let stub = Stub::place(tid)?;
        let mut there = [0; CODE.len()];
        super::memory::read(tid, stub.0, &mut there).ok()?;
        (there == CODE).then_some(stub)
    }

    /// Where the room before them begins.
    pub(super) fn beside(&self) -> u64 {
        self.0 - BESIDE_BYTES as u64
    }

    fn place(tid: i32) -> Option<Stub> {
        static OFFSET: OnceLock<Option<u64>> = OnceLock::new();
        let offset = (*OFFSET.get_or_init(free_in_vdso))?;
        Some(Stub(vdso_of(&format!("/proc/{tid}/auxv"))? + offset))
    }

    /// The call is made with this in place of its second argument (`second`) or its first, and the register that held it
    /// is as it was when the call is over.
    pub fn set_argument(&self, registers: &mut Registers, second: bool, value: u64) {
        let entry = if second { self.0 } else { self.0 + SECOND };
        registers.set_argument_and_way_back(second, value, entry + CALL_BYTES);
    }

    /// Is this a call that was changed so, and is made again after it was broken off?
    pub fn is_again(&self, registers: &Registers) -> bool {
        let at = registers.instruction();
        at == self.0 + CALL_BYTES || at == self.0 + SECOND + CALL_BYTES
    }
}

/// Where in a vdso there is room, from its beginning: our own is the same as every other's.
fn free_in_vdso() -> Option<u64> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (begin, end) = line.split(' ').next()?.split_once('-')?;
    let begin = u64::from_str_radix(begin, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    const ALL_BYTES: usize = BESIDE_BYTES + CODE.len();
    let place = end.checked_sub(ALL_BYTES as u64)?;
    let mut there = [0xff; ALL_BYTES];
    super::memory::read(std::process::id() as i32, place, &mut there).ok()?;
    // It was begun where the table says, or another vdso is told of than is mapped.
    let known = vdso_of("/proc/self/auxv")? == begin;
    (known && there.iter().all(|byte| *byte == 0)).then(|| place + BESIDE_BYTES as u64 - begin)
}

/// AT_SYSINFO_EHDR (getauxval(3)).
fn vdso_of(table: &str) -> Option<u64> {
    const VDSO: u64 = 33;
    let bytes = fs::read(table).ok()?;
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_ne_bytes);
    let mut pairs = bytes.chunks_exact(2 * WORD_BYTES).take(MOST_WORDS);
    pairs.find_map(|pair| {
        let (key, value) = pair.split_at(WORD_BYTES);
        (word(key)? == VDSO).then(|| word(value)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_in_the_vdso_of_this_kernel() {
        let room = free_in_vdso();
        assert!(room.is_some_and(|at| at % 16 == 0), "{room:?}");
    }
}
