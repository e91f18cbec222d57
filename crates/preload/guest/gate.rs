//! The way in and the way out. In: a patched site jumps to a few instructions beside its library, these to
//! `kumiko_gate`, with the call's number in eax and the site's own `syscall` in rcx, which a call overwrites anyway. Out:
//! one `syscall` instruction, whose address the filter knows.
//!
//! A call changes rax, rcx and r11 alone; all else, vectors and the red zone included, is kept for the site.

use core::arch::global_asm;

/// A call as it came: registers in the order that `kumiko_gate` pushes them in.
#[repr(C)]
pub struct Call {
    pub number: u64,
    pub r9: u64,
    pub r8: u64,
    pub r10: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    /// The `syscall` of the site.
    pub site: u64,
}

/// What becomes of it.
#[repr(C)]
pub struct Done {
    pub value: i64,
    /// 0: the site makes the call itself.
    pub answered: u64,
}

pub const ASK: Done = Done {
    value: 0,
    answered: 0,
};

pub fn told(value: i64) -> Done {
    Done { value, answered: 1 }
}

// The red zone is stepped over; vectors are kept, as code of ours uses them (none of it touches their upper halves).
global_asm!(
    ".section .kumiko_gate,\"ax\",@progbits",
    ".globl kumiko_gate",
    "kumiko_gate:",
    "lea rsp, [rsp - 128]",
    "push rbp",
    "mov rbp, rsp",
    "push rcx",
    "push rdi",
    "push rsi",
    "push rdx",
    "push r10",
    "push r8",
    "push r9",
    "push rax",
    "mov rdi, rsp",
    "sub rsp, 256",
    "and rsp, -16",
    "movaps [rsp], xmm0",
    "movaps [rsp + 16], xmm1",
    "movaps [rsp + 32], xmm2",
    "movaps [rsp + 48], xmm3",
    "movaps [rsp + 64], xmm4",
    "movaps [rsp + 80], xmm5",
    "movaps [rsp + 96], xmm6",
    "movaps [rsp + 112], xmm7",
    "movaps [rsp + 128], xmm8",
    "movaps [rsp + 144], xmm9",
    "movaps [rsp + 160], xmm10",
    "movaps [rsp + 176], xmm11",
    "movaps [rsp + 192], xmm12",
    "movaps [rsp + 208], xmm13",
    "movaps [rsp + 224], xmm14",
    "movaps [rsp + 240], xmm15",
    "cld",
    "call kumiko_answer",
    "movaps xmm0, [rsp]",
    "movaps xmm1, [rsp + 16]",
    "movaps xmm2, [rsp + 32]",
    "movaps xmm3, [rsp + 48]",
    "movaps xmm4, [rsp + 64]",
    "movaps xmm5, [rsp + 80]",
    "movaps xmm6, [rsp + 96]",
    "movaps xmm7, [rsp + 112]",
    "movaps xmm8, [rsp + 128]",
    "movaps xmm9, [rsp + 144]",
    "movaps xmm10, [rsp + 160]",
    "movaps xmm11, [rsp + 176]",
    "movaps xmm12, [rsp + 192]",
    "movaps xmm13, [rsp + 208]",
    "movaps xmm14, [rsp + 224]",
    "movaps xmm15, [rsp + 240]",
    "mov r11, rdx",
    "lea rsp, [rbp - 64]",
    "pop rcx",
    "test r11, r11",
    "cmovz rax, rcx",
    "pop r9",
    "pop r8",
    "pop r10",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "pop rcx",
    "pop rbp",
    "lea rsp, [rsp + 128]",
    // To the site's syscall, or over it.
    "lea rcx, [rcx + 2*r11]",
    "jmp rcx",
    ".globl kumiko_call",
    "kumiko_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    ".globl kumiko_called",
    "kumiko_called:",
    "ret",
    ".section .kumiko_head,\"a\",@progbits",
    ".quad kumiko_arrive",
    ".quad kumiko_called",
    ".quad kumiko_hows",
    ".quad kumiko_hows + 32 * 18",
    ".text",
);

unsafe extern "C" {
    pub fn kumiko_gate();
    fn kumiko_call(number: u64, a: u64, b: u64, c: u64, d: u64, e: u64, f: u64) -> i64;
}

/// Makes a call with these arguments.
///
/// # Safety
/// As the call's manual says.
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller's.
    unsafe { kumiko_call(number, a, b, c, d, e, f) }
}

/// Numbers of calls (x86_64).
pub mod nr {
    pub const READ: u64 = 0;
    pub const OPEN: u64 = 2;
    pub const CLOSE: u64 = 3;
    pub const STAT: u64 = 4;
    pub const FSTAT: u64 = 5;
    pub const LSTAT: u64 = 6;
    pub const MMAP: u64 = 9;
    pub const MPROTECT: u64 = 10;
    pub const MUNMAP: u64 = 11;
    pub const RT_SIGPROCMASK: u64 = 14;
    pub const READV: u64 = 19;
    pub const ACCESS: u64 = 21;
    pub const RECVFROM: u64 = 45;
    pub const RECVMSG: u64 = 47;
    pub const GETSOCKOPT: u64 = 55;
    pub const GETCWD: u64 = 79;
    pub const READLINK: u64 = 89;
    pub const CLOCK_GETTIME: u64 = 228;
    pub const CLOCK_NANOSLEEP: u64 = 230;
    pub const OPENAT: u64 = 257;
    pub const NEWFSTATAT: u64 = 262;
    pub const READLINKAT: u64 = 267;
    pub const FACCESSAT: u64 = 269;
    pub const SPLICE: u64 = 275;
    pub const RECVMMSG: u64 = 299;
    pub const SENDMMSG: u64 = 307;
    pub const COPY_FILE_RANGE: u64 = 326;
    pub const STATX: u64 = 332;
    pub const OPENAT2: u64 = 437;
    pub const FACCESSAT2: u64 = 439;
    pub const MSEAL: u64 = 462;
}

/// struct open_how (openat2(2)). There are no others: the filter lets a call through with one of these alone, which say
/// that nothing is written, made or cut off, and no link followed.
#[repr(C, align(32))]
struct How {
    flags: u64,
    mode: u64,
    resolve: u64,
}

const NO_LINKS: u64 = 4;
const CLOSE_ON_EXEC: u64 = 0o2_000_000;
const DIRECTORY: u64 = 0o200_000;
const NONBLOCK: u64 = 0o4000;
const NO_TERMINAL: u64 = 0o400;
const NOFOLLOW: u64 = 0o400_000;
const PATH: u64 = 0o10_000_000;
/// O_LARGEFILE of the kernel: nothing on this machine.
const LARGE: u64 = 0o100_000;

/// Flags that a reader's open may have, in the order of the bits of an index.
const READERS: [u64; 4] = [CLOSE_ON_EXEC, DIRECTORY, NONBLOCK, NO_TERMINAL];

const HOWS: usize = 18;
/// For their path alone: a link itself, or not.
const PATH_HOW: usize = 16;
const LINK_HOW: usize = 17;

#[unsafe(link_section = ".kumiko_hows")]
#[unsafe(export_name = "kumiko_hows")]
static TABLE: [How; HOWS] = hows();

const fn hows() -> [How; HOWS] {
    const NONE: How = How {
        flags: 0,
        mode: 0,
        resolve: NO_LINKS,
    };
    let mut table = [NONE; HOWS];
    let mut index = 0;
    while index < PATH_HOW {
        let mut bit = 0;
        while bit < READERS.len() {
            if index >> bit & 1 != 0 {
                table[index].flags |= READERS[bit];
            }
            bit += 1;
        }
        index += 1;
    }
    table[PATH_HOW].flags = PATH | CLOSE_ON_EXEC;
    table[LINK_HOW].flags = PATH | CLOSE_ON_EXEC | NOFOLLOW;
    table
}

/// How to open as these flags of open(2) say; None: they say more than reading.
pub fn how(flags: u64) -> Option<u64> {
    let mut index = 0;
    let mut left = flags & !LARGE;
    for (bit, flag) in READERS.iter().enumerate() {
        if left & flag != 0 {
            index |= 1 << bit;
            left &= !flag;
        }
    }
    (left == 0).then(|| address(index))
}

/// How to open for the path alone.
pub fn path_how(follow: bool) -> u64 {
    address(if follow { PATH_HOW } else { LINK_HOW })
}

fn address(index: usize) -> u64 {
    TABLE.as_ptr() as u64 + (index * size_of::<How>()) as u64
}

pub const HOW_BYTES: u64 = 24;
