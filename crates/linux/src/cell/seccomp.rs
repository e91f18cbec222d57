//! A seccomp filter in classic BPF (seccomp(2)): a list of rules over call numbers and the low words of arguments.
//! Numbers alone cost nothing a call (the kernel keeps the answers in a bitmap); rules on arguments cost some 10 ns, for
//! the calls they name.

use super::report::errno;
use rustix::io::Errno;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// Fails with this errno.
    Fail(i32),
}

/// A filter, finished.
#[derive(Clone)]
pub struct Filter {
    code: Vec<libc::sock_filter>,
}

impl std::fmt::Debug for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Filter({} instructions)", self.code.len())
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7; // AUDIT_ARCH_AARCH64
/// Bit of the numbers of the x32 interface.
#[cfg(target_arch = "x86_64")]
const X32_BIT: u32 = 0x4000_0000;

// Offsets in struct seccomp_data.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

impl Filter {
    /// Allows everything of this machine's own interface up to call `last`; other interfaces (32-bit, x32) and later
    /// calls do not exist (ENOSYS).
    pub fn new(last: i64) -> Filter {
        let mut filter = Filter { code: Vec::new() };
        let missing = Verdict::Fail(libc::ENOSYS);
        filter.push(LOAD, 0, 0, ARCH);
        filter.push(EQUAL, 1, 0, ARCHITECTURE);
        filter.verdict(missing);
        filter.push(LOAD, 0, 0, NUMBER);
        #[cfg(target_arch = "x86_64")]
        {
            filter.push(ANY_BIT, 0, 1, X32_BIT);
            filter.verdict(missing);
        }
        filter.push(GREATER, 0, 1, u32::try_from(last).unwrap_or(u32::MAX));
        filter.verdict(missing);
        filter
    }

    /// The whole call.
    pub fn on(mut self, call: i64, verdict: Verdict) -> Filter {
        self.push(EQUAL, 0, 1, number(call));
        self.verdict(verdict);
        self
    }

    /// The call, when the low word of argument `argument` (from 0) is one of `values`; else it goes on to later rules.
    pub fn on_values(
        mut self,
        call: i64,
        argument: u32,
        values: &[u32],
        verdict: Verdict,
    ) -> Filter {
        // Per value: compare, verdict. Then the number is loaded again for the rules that follow.
        let body = values.len() * 2 + 2;
        self.push(
            EQUAL,
            0,
            u8::try_from(body).unwrap_or(u8::MAX),
            number(call),
        );
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * argument);
        for value in values {
            self.push(EQUAL, 0, 1, *value);
            self.verdict(verdict);
        }
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when none of `values` is the low word of the argument.
    pub fn unless_values(
        mut self,
        call: i64,
        argument: u32,
        values: &[u32],
        verdict: Verdict,
    ) -> Filter {
        let body = values.len() + 3;
        self.push(
            EQUAL,
            0,
            u8::try_from(body).unwrap_or(u8::MAX),
            number(call),
        );
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * argument);
        for (at, value) in values.iter().enumerate() {
            // Over the values that are left, and over the verdict.
            let over = values.len() - at;
            self.push(EQUAL, u8::try_from(over).unwrap_or(u8::MAX), 0, *value);
        }
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when any bit of `mask` is set in the low word of the argument.
    pub fn on_bits(mut self, call: i64, argument: u32, mask: u32, verdict: Verdict) -> Filter {
        self.push(EQUAL, 0, 4, number(call));
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * argument);
        self.push(ANY_BIT, 0, 1, mask);
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when no bit of `mask` is set.
    pub fn unless_bits(mut self, call: i64, argument: u32, mask: u32, verdict: Verdict) -> Filter {
        self.push(EQUAL, 0, 4, number(call));
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * argument);
        self.push(ANY_BIT, 1, 0, mask);
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// Allows what no rule has named.
    pub fn finish(mut self) -> Filter {
        self.verdict(Verdict::Allow);
        self
    }

    fn push(&mut self, code: u16, yes: u8, no: u8, k: u32) {
        self.code.push(libc::sock_filter {
            code,
            jt: yes,
            jf: no,
            k,
        });
    }

    fn verdict(&mut self, verdict: Verdict) {
        let k = match verdict {
            Verdict::Allow => libc::SECCOMP_RET_ALLOW,
            Verdict::Fail(errno) => {
                libc::SECCOMP_RET_ERRNO | (errno as u32 & libc::SECCOMP_RET_DATA)
            }
        };
        self.push(RETURN, 0, 0, k);
    }

    /// Holds from now on for this thread and all it starts. Allocates nothing.
    pub(super) fn install(&self) -> Result<(), Errno> {
        let Ok(len) = libc::c_ushort::try_from(self.code.len()) else {
            return Err(Errno::INVAL);
        };
        let program = libc::sock_fprog {
            len,
            filter: self.code.as_ptr().cast_mut(),
        };
        // SAFETY: the program points at `len` instructions that live in `self`; the kernel only reads them. SPEC_ALLOW:
        // kernels before 5.16 would else slow the guest down against a leak within its own address space.
        let result = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                &raw const program,
            )
        };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}
