//! A seccomp filter in classic BPF (seccomp(2)): rules over call numbers and the low words of arguments.
//! Numbers alone cost nothing a call (the kernel keeps the answers in a bitmap); rules on arguments cost some 10 ns, for
//! the calls they name. To make that bitmap the kernel walks the filter for every number there is, at each start: so the
//! numbers are a search tree.

use super::report::errno;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::os::fd::{FromRawFd, OwnedFd};

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allow,
    /// Fails with this errno.
    Fail(i32),
    /// Waits for who listens to the filter.
    Ask,
    /// Stops for who traces the thread; without one it does not exist.
    Trace,
}

#[derive(Clone)]
pub struct Filter {
    code: Vec<libc::sock_filter>,
    /// By number, what becomes of whole calls; until it is finished.
    calls: BTreeMap<u32, Verdict>,
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
const INSTRUCTION: u32 = 8;
const ARGUMENTS: u32 = 16;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const GREATER: u16 = (libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K) as u16;
const ANY_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Does this kernel take filters at all? Some have none, and some containers keep seccomp(2) from their processes.
///
/// # Errors
/// It does not; what it said.
pub fn takes_filters() -> io::Result<()> {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: it reads the one number, and changes nothing.
    let said = unsafe {
        let operation = libc::SECCOMP_GET_ACTION_AVAIL;
        libc::syscall(libc::SYS_seccomp, operation, 0, &raw const action)
    };
    match said {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Filter {
    /// Allows everything of this machine's own interface up to call `last`; other interfaces (32-bit, x32) and later
    /// calls do not exist (ENOSYS).
    pub fn new(last: i64) -> Filter {
        let mut filter = Filter {
            code: Vec::new(),
            calls: BTreeMap::new(),
        };
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

    /// The whole call, where no rule on its arguments says otherwise.
    pub fn on(mut self, call: i64, verdict: Verdict) -> Filter {
        self.calls.insert(number(call), verdict);
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

    /// The call, when this bit is set in the low word of the argument, and that one is not.
    pub fn on_bit_without(
        mut self,
        call: i64,
        argument: u32,
        [set, unset]: [u32; 2],
        verdict: Verdict,
    ) -> Filter {
        self.push(EQUAL, 0, 5, number(call));
        self.push(LOAD, 0, 0, ARGUMENTS + 8 * argument);
        self.push(ANY_BIT, 0, 2, set);
        self.push(ANY_BIT, 1, 0, unset);
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when an argument is an address (both its words; null is none).
    pub fn unless_null(mut self, call: i64, argument: u32, verdict: Verdict) -> Filter {
        let at = ARGUMENTS + 8 * argument;
        self.push(EQUAL, 0, 6, number(call));
        self.push(LOAD, 0, 0, at);
        self.push(EQUAL, 0, 2, 0);
        self.push(LOAD, 0, 0, at + 4);
        self.push(EQUAL, 1, 0, 0);
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when the low words of two arguments, of which the second follows the first, are these.
    pub fn on_both(mut self, call: i64, first: u32, values: [u32; 2], verdict: Verdict) -> Filter {
        let at = ARGUMENTS + 8 * first;
        self.push(EQUAL, 0, 6, number(call));
        self.push(LOAD, 0, 0, at);
        self.push(EQUAL, 0, 3, values[0]);
        self.push(LOAD, 0, 0, at + 8);
        self.push(EQUAL, 0, 1, values[1]);
        self.verdict(verdict);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// The call, when the instruction before `after` makes it, is made as it stands. `only`: and when an argument (from
    /// 0) is an address in this range that is a multiple of 32.
    pub fn made_at(mut self, call: i64, after: u64, only: Option<(u32, Range<u64>)>) -> Filter {
        const UNALIGNED: u32 = 31;
        // Each load, and the condition that leads to the end where it does not hold.
        let mut conditions = vec![
            (INSTRUCTION, EQUAL, after as u32, true),
            (INSTRUCTION + 4, EQUAL, (after >> 32) as u32, true),
        ];
        if let Some((argument, range)) = only {
            let at = ARGUMENTS + 8 * argument;
            // A range does not reach over a multiple of 4 GiB.
            conditions.extend([
                (at + 4, EQUAL, (range.start >> 32) as u32, true),
                (at, AT_LEAST, range.start as u32, true),
                (at, AT_LEAST, range.end as u32, false),
                (at, ANY_BIT, UNALIGNED, false),
            ]);
        }
        let body = conditions.len() * 2 + 2;
        self.push(
            EQUAL,
            0,
            u8::try_from(body).unwrap_or(u8::MAX),
            number(call),
        );
        for (index, (at, condition, value, holds)) in conditions.iter().enumerate() {
            self.push(LOAD, 0, 0, *at);
            // Over the conditions that are left, and over the verdict.
            let over = u8::try_from((conditions.len() - index - 1) * 2 + 1).unwrap_or(u8::MAX);
            let (yes, no) = if *holds { (0, over) } else { (over, 0) };
            self.push(*condition, yes, no, *value);
        }
        self.verdict(Verdict::Allow);
        self.push(LOAD, 0, 0, NUMBER);
        self
    }

    /// Allows what no rule has named.
    pub fn finish(mut self) -> Filter {
        // Where a verdict begins to hold, in order.
        let mut begins = vec![(0, Verdict::Allow)];
        for (number, verdict) in std::mem::take(&mut self.calls) {
            if begins.last().is_some_and(|(begin, _)| *begin == number) {
                begins.pop();
            }
            begins.extend([(number, verdict), (number + 1, Verdict::Allow)]);
        }
        begins.dedup_by_key(|(_, verdict)| *verdict);
        self.search(&begins);
        self
    }

    /// Finds the last of `begins` that is not above the number.
    fn search(&mut self, begins: &[(u32, Verdict)]) {
        let (lower, upper) = begins.split_at(begins.len() / 2);
        let Some((begin, verdict)) = upper.first() else {
            return;
        };
        if lower.is_empty() {
            return self.verdict(*verdict);
        }
        let branch = self.code.len();
        self.push(AT_LEAST, 0, 0, *begin);
        self.search(lower);
        let over = self.code.len() - branch - 1;
        match u8::try_from(over) {
            Ok(over) => self.code[branch].jt = over,
            // A condition leads no farther than this; an unconditional jump does.
            Err(_) => {
                self.code[branch].jf = 1;
                let jump = (libc::BPF_JMP | libc::BPF_JA) as u16;
                let jump = libc::sock_filter {
                    code: jump,
                    jt: 0,
                    jf: 0,
                    k: over as u32,
                };
                self.code.insert(branch + 1, jump);
            }
        }
        self.search(upper);
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
            Verdict::Ask => libc::SECCOMP_RET_USER_NOTIF,
            Verdict::Trace => libc::SECCOMP_RET_TRACE,
        };
        self.push(RETURN, 0, 0, k);
    }

    /// Holds from now on for this thread and all it starts. Allocates nothing.
    pub(crate) fn install(&self) -> Result<(), Errno> {
        self.install_as(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW)
            .map(drop)
    }

    /// As [`Filter::install`]; what has [`Verdict::Ask`] is answered through the descriptor. A call that was received is
    /// broken off by death alone (Linux 5.19).
    pub(crate) fn install_with_listener(&self) -> Result<OwnedFd, Errno> {
        let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW
            | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER
            | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
        let fd = self.install_as(flags)?;
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    fn install_as(&self, flags: libc::c_ulong) -> Result<libc::c_long, Errno> {
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
                flags,
                &raw const program,
            )
        };
        if result >= 0 {
            Ok(result)
        } else {
            Err(errno())
        }
    }
}

fn number(call: i64) -> u32 {
    u32::try_from(call).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel would do, for a call with these arguments (seccomp(2), bpf(4)).
    fn run(filter: &Filter, architecture: u32, number: u32, arguments: [u32; 6]) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let step = filter.code[at];
            at += 1;
            let (yes, no) = (step.jt as usize, step.jf as usize);
            let jump = |taken: bool| if taken { yes } else { no };
            match step.code {
                LOAD => {
                    word = match step.k {
                        NUMBER => number,
                        ARCH => architecture,
                        INSTRUCTION => MADE_AT as u32,
                        at if at == INSTRUCTION + 4 => (MADE_AT >> 32) as u32,
                        // The upper half of an argument is that of the range below.
                        argument if argument % 8 == 4 => (HOWS >> 32) as u32,
                        argument => arguments[((argument - ARGUMENTS) / 8) as usize],
                    }
                }
                EQUAL => at += jump(word == step.k),
                AT_LEAST => at += jump(word >= step.k),
                GREATER => at += jump(word > step.k),
                ANY_BIT => at += jump(word & step.k != 0),
                RETURN => return step.k,
                other if other == (libc::BPF_JMP | libc::BPF_JA) as u16 => at += step.k as usize,
                other => panic!("code {other}"),
            }
        }
    }

    fn fails(errno: i32) -> u32 {
        libc::SECCOMP_RET_ERRNO | errno as u32
    }

    #[test]
    fn each_call_gets_the_verdict_of_its_rule_however_many_there_are() {
        let rows: [Vec<i64>; 6] = [
            vec![],
            vec![0],
            vec![400],
            vec![0, 1, 2, 7, 9, 10, 399, 400],
            (0..401).collect(),
            (0..401).step_by(2).collect(),
        ];
        for calls in rows {
            let errno = |call: i64| if call % 3 == 0 { 1 } else { 38 };
            let mut filter = Filter::new(400);
            for call in &calls {
                filter = filter.on(*call, Verdict::Fail(errno(*call)));
            }
            let filter = filter.finish();
            for call in 0..=401 {
                let expected = match call {
                    401 => fails(libc::ENOSYS),
                    _ if calls.contains(&call) => fails(errno(call)),
                    _ => libc::SECCOMP_RET_ALLOW,
                };
                let told = run(&filter, ARCHITECTURE, call as u32, [0; 6]);
                assert_eq!(told, expected, "call {call} of {calls:?}");
            }
            assert_eq!(run(&filter, 1, 39, [0; 6]), fails(libc::ENOSYS));
        }
    }

    /// Where all calls of these tests are made, and addresses of the arguments.
    const MADE_AT: u64 = 0x4a5b_0000_0390;
    const HOWS: u64 = 0x4a5b_0000_0020;

    #[test]
    fn what_one_instruction_makes_is_let_through_with_the_addresses_that_are_meant() {
        let allowed = libc::SECCOMP_RET_ALLOW;
        let asked = libc::SECCOMP_RET_USER_NOTIF;
        let check = |after: u64, only: Option<u64>, call: u32, address: u32, expected: u32| {
            let filter = Filter::new(500)
                .made_at(437, after, only.map(|begin| (2, begin..begin + 0x60)))
                .on(437, Verdict::Ask)
                .on(262, Verdict::Ask)
                .finish();
            let told = run(&filter, ARCHITECTURE, call, [1, 1, address, 1, 1, 1]);
            assert_eq!(told, expected, "{after:x} {only:x?} {call} {address:x}");
        };
        check(MADE_AT, None, 437, 7, allowed);
        check(MADE_AT, None, 262, 7, asked);
        check(MADE_AT, None, 39, 7, allowed);
        check(MADE_AT + 1, None, 437, 7, asked);
        check(MADE_AT + (1 << 32), None, 437, 7, asked);
        for (address, expected) in [
            (0x00, asked),
            (0x20, allowed),
            (0x21, asked),
            (0x30, asked),
            (0x40, allowed),
            (0x60, allowed),
            (0x7f, asked),
            (0x80, asked),
            (0xa0, asked),
        ] {
            check(MADE_AT, Some(HOWS), 437, address, expected);
            check(MADE_AT, Some(HOWS + (1 << 32)), 437, address, asked);
            check(MADE_AT + 2, Some(HOWS), 437, address, asked);
        }
    }

    #[test]
    fn rules_on_arguments_come_before_those_on_numbers() {
        let refused = Verdict::Fail(libc::EPERM);
        let filter = Filter::new(400)
            .on(41, Verdict::Fail(libc::EAGAIN))
            .on_values(41, 1, &[7], refused)
            .on_bits(56, 0, 0x30, refused)
            .finish();
        let told = |call, arguments| run(&filter, ARCHITECTURE, call, arguments);
        assert_eq!(told(41, [0, 7, 0, 0, 0, 0]), fails(libc::EPERM));
        assert_eq!(told(41, [7, 0, 0, 0, 0, 0]), fails(libc::EAGAIN));
        assert_eq!(told(56, [0x10, 0, 0, 0, 0, 0]), fails(libc::EPERM));
        assert_eq!(told(56, [0x40; 6]), libc::SECCOMP_RET_ALLOW);
    }

    /// The upper words of these tests' arguments are not null: the lower word of an address may be.
    #[test]
    fn an_address_is_null_when_both_its_words_are() {
        let filter = Filter::new(400).unless_null(44, 4, Verdict::Ask).finish();
        let told = |arguments| run(&filter, ARCHITECTURE, 44, arguments);
        assert_eq!(told([0; 6]), libc::SECCOMP_RET_USER_NOTIF);
        assert_eq!(told([0, 0, 0, 0, 9, 0]), libc::SECCOMP_RET_USER_NOTIF);
        // Of the same filter with the upper word's load in the place of the lower's: null is let through.
        let lower = filter.code.iter().position(|step| step.k == ARGUMENTS + 32);
        let mut filter = filter.clone();
        let upper = ARGUMENTS + 36;
        let at = filter.code.iter().position(|step| step.k == upper);
        let (lower, at) = (lower.unwrap(), at.unwrap());
        filter.code[at].k = filter.code[lower].k;
        let told = |arguments| run(&filter, ARCHITECTURE, 44, arguments);
        assert_eq!(told([0; 6]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(told([0, 0, 0, 0, 9, 0]), libc::SECCOMP_RET_USER_NOTIF);
    }

    #[test]
    fn one_bit_is_looked_at_where_another_is_not_set() {
        let refused = Verdict::Fail(libc::EPERM);
        let filter = Filter::new(400)
            .on_bit_without(56, 0, [0x10, 0x4], refused)
            .on(57, refused)
            .finish();
        let told = |call, flags| run(&filter, ARCHITECTURE, call, [flags, 0, 0, 0, 0, 0]);
        assert_eq!(told(56, 0x13), fails(libc::EPERM));
        for flags in [0x17, 0x4, 0x3] {
            assert_eq!(told(56, flags), libc::SECCOMP_RET_ALLOW, "{flags}");
        }
        assert_eq!(told(57, 0x17), fails(libc::EPERM));
        assert_eq!(told(58, 0x10), libc::SECCOMP_RET_ALLOW);
    }

    #[test]
    fn two_arguments_together_are_named() {
        let refused = Verdict::Fail(libc::EPERM);
        let filter = Filter::new(400).on_both(54, 1, [41, 57], refused).finish();
        let told =
            |call, level, option| run(&filter, ARCHITECTURE, call, [3, level, option, 0, 0, 0]);
        assert_eq!(told(54, 41, 57), fails(libc::EPERM));
        for (call, level, option) in [(54, 41, 56), (54, 40, 57), (55, 41, 57)] {
            assert_eq!(told(call, level, option), libc::SECCOMP_RET_ALLOW);
        }
    }
}
