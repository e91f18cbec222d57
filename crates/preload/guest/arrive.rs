//! Before the first instruction of a program: what the supervisor changed there is put back, our own pages are sealed,
//! and the loader's calls are turned to us. A program without a loader is left as it is.

use crate::gate::{call, nr};
use crate::layout::{
    ADDRESS, ARRIVAL_COUNT, ARRIVAL_ENTRY, ARRIVAL_SAVED, ARRIVAL_SAVED_MOST, ARRIVAL_SHARED,
    ARRIVAL_TABLE_BYTES,
    CODE_BYTES, DATA, PAGE_BYTES, SHARED, TABLE,
};
use crate::patch::{self, EXECUTE, FIXED, READ, WRITE};
use core::arch::global_asm;

// All registers but the stack's are zero when a program begins (the kernel's ELF_PLAT_INIT), but for those that a jump
// needs.
global_asm!(
    ".text",
    ".globl kumiko_arrive",
    "kumiko_arrive:",
    "mov rbp, rsp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call kumiko_arrived",
    "mov rsp, rbp",
    "mov r11, rax",
    "xor eax, eax",
    "xor ebx, ebx",
    "xor ecx, ecx",
    "xor edx, edx",
    "xor esi, esi",
    "xor edi, edi",
    "xor ebp, ebp",
    "xor r8d, r8d",
    "xor r9d, r9d",
    "xor r10d, r10d",
    "jmp r11",
);

/// `stack` is as the kernel leaves it to a program; tells where that begins.
#[unsafe(no_mangle)]
extern "C" fn kumiko_arrived(stack: *const u64) -> u64 {
    // SAFETY: the supervisor has written an arrival, and the table's length with it.
    let (entry, count, table) = unsafe {
        (
            word(DATA + ARRIVAL_ENTRY as u64),
            word(DATA + ARRIVAL_COUNT as u64).min(ARRIVAL_SAVED_MOST as u64),
            word(DATA + ARRIVAL_TABLE_BYTES as u64),
        )
    };
    let first = entry & !(PAGE_BYTES - 1);
    let length = (entry + count).next_multiple_of(PAGE_BYTES) - first;
    let table = table.next_multiple_of(PAGE_BYTES);
    // SAFETY: nothing else runs in this program yet.
    unsafe {
        call(nr::MPROTECT, [first, length, READ | WRITE, 0, 0, 0]);
        for at in 0..count {
            let saved = (DATA + ARRIVAL_SAVED as u64 + at) as *const u8;
            ((entry + at) as *mut u8).write(saved.read());
        }
        call(nr::MPROTECT, [first, length, READ | EXECUTE, 0, 0, 0]);
        call(nr::MPROTECT, [TABLE, table, READ, 0, 0, 0]);
        share();
        call(nr::MSEAL, [ADDRESS, CODE_BYTES, 0, 0, 0, 0]);
        call(nr::MSEAL, [TABLE, table, 0, 0, 0, 0]);
        if let Some(base) = loader(stack) {
            turn(base);
        }
    }
    entry
}

/// The page that all programs of the job share takes its place.
///
/// # Safety
/// An arrival was written.
unsafe fn share() {
    const MAP_SHARED: u64 = 1;
    // SAFETY: the place is ours, and nobody has looked at it yet.
    unsafe {
        let fd = word(DATA + ARRIVAL_SHARED as u64);
        if fd == u64::MAX {
            return;
        }
        let flags = MAP_SHARED | FIXED;
        if call(nr::MMAP, [SHARED, PAGE_BYTES, READ | WRITE, flags, fd, 0]) < 0 {
            // Without it there would be no limit.
            core::arch::asm!("ud2");
        }
        call(nr::CLOSE, [fd, 0, 0, 0, 0, 0]);
    }
}

/// # Safety
/// There is a word.
unsafe fn word(at: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe { (at as *const u64).read() }
}

/// AT_BASE of the auxiliary vector (getauxval(3)), behind the arguments and the environment.
///
/// # Safety
/// `stack` is as the kernel leaves it.
unsafe fn loader(stack: *const u64) -> Option<u64> {
    const BASE: u64 = 7;
    // SAFETY: the caller's; each list ends with a zero.
    unsafe {
        let mut at = stack.add(1 + stack.read() as usize + 1);
        while at.read() != 0 {
            at = at.add(1);
        }
        at = at.add(1);
        while at.read() != 0 {
            if at.read() == BASE {
                return Some(at.add(1).read()).filter(|base| *base != 0);
            }
            at = at.add(2);
        }
    }
    None
}

/// Every executable segment of an ELF file of 64 bits (elf(5)) that is mapped at its base.
///
/// # Safety
/// It is.
unsafe fn turn(base: u64) {
    const TABLE_AT: u64 = 32;
    const SIZE_AT: u64 = 54;
    const COUNT_AT: u64 = 56;
    const LOAD: u32 = 1;
    const EXECUTABLE: u32 = 1;
    // SAFETY: the kernel has mapped it by these same numbers.
    unsafe {
        let half = |at: u64| u64::from((at as *const u16).read_unaligned());
        let headers = base + word(base + TABLE_AT);
        for index in 0..half(base + COUNT_AT) {
            let header = headers + index * half(base + SIZE_AT);
            let (kind, flags) = (
                (header as *const u32).read(),
                ((header + 4) as *const u32).read(),
            );
            if kind == LOAD && flags & EXECUTABLE != 0 {
                let begin = base + word(header + 16);
                patch::patch_loader(
                    begin & !(PAGE_BYTES - 1),
                    word(header + 32) + begin % PAGE_BYTES,
                );
            }
        }
    }
}
