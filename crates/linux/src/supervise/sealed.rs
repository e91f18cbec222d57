//! Words of a traced program that it cannot change: pages at one address, mapped and sealed (mseal(2), Linux 6.10) before
//! its first instruction, that nobody writes to but who traces it (proc_pid_mem(5)). No thread of the program can put
//! others there, nor anything else in their place. x86_64. Not in it: which words.

use super::errno::Errno;
use super::memory;
use super::stub::Stub;
use super::tracee::{self, Registers};

/// Far from what programs, their heaps, stacks and libraries are given by the kernel, and from the places that the
/// address, memory and thread sanitizers of LLVM keep for themselves.
const ADDRESS: u64 = 0x4a5d_0000_0000;
/// Of one thread: a path (PATH_MAX).
pub const BYTES: usize = memory::PATH_BYTES;
/// Threads that have their own at once: room that is kept, and memory only where words are put.
const MOST: u32 = 8192;

/// mmap(2), getcwd(2), mseal(2).
const MMAP: u32 = 9;
const GETCWD: u32 = 79;
const MSEAL: u32 = 462;
/// ud2.
const ILLEGAL: [u8; 2] = [0x0f, 0x0b];

/// A program that is to make its pages by its first instructions, which are ours until then.
#[derive(Debug)]
pub struct Arrival {
    begin: Registers,
    saved: Vec<u8>,
}

impl Arrival {
    /// For a thread that is stopped before its program's first instruction. Where there is a stub, the instructions stand
    /// beside that, the program goes on by itself, and nothing is told: None, as for one of 32 bits, which makes no call.
    /// A program that cannot have its pages ends by SIGILL.
    pub fn begin(tid: i32, stub: Option<&Stub>) -> Result<Option<Arrival>, Errno> {
        let mut begin = tracee::registers(tid)?;
        if !begin.is_wide() {
            return Ok(None);
        }
        if let Some(stub) = stub {
            let code = instructions(Some(begin.instruction()));
            memory::put_code(tid, stub.beside(), &code)?;
            begin.set_instruction(stub.beside());
            tracee::set_registers(tid, &begin)?;
            return Ok(None);
        }
        let saved = memory::replace_code(tid, begin.instruction(), &instructions(None))?;
        Ok(Some(Arrival { begin, saved }))
    }

    /// At the first call that the filter picks, which is the one that says that the pages are there: the program gets
    /// its own instructions, and begins. EPERM: it is another call.
    pub fn end(mut self, tid: i32, call: &super::Call) -> Result<(), Errno> {
        if call.number as u32 != GETCWD || call.arguments.first() != Some(&ADDRESS) {
            return Err(Errno::EPERM);
        }
        memory::replace_code(tid, self.begin.instruction(), &self.saved)?;
        self.begin.set_result(Ok(0));
        tracee::set_registers(tid, &self.begin)
    }
}

/// `then`: where the program begins, with registers as a new program has them, all zero; else a call tells that it is done.
fn instructions(then: Option<u64>) -> Vec<u8> {
    const READ: u8 = 1;
    /// MAP_PRIVATE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_FIXED_NOREPLACE.
    const FLAGS: u32 = 0x2 | 0x20 | 0x4000 | 0x10_0000;
    let syscall = [0x0f, 0x05];
    let mut code = Vec::new();
    code.push(0xb8); // mov eax
    code.extend(MMAP.to_le_bytes());
    code.extend([0x48, 0xbf]); // mov rdi
    code.extend(ADDRESS.to_le_bytes());
    code.push(0xbe); // mov esi
    code.extend((MOST * BYTES as u32).to_le_bytes());
    code.extend([0xba, READ, 0, 0, 0]); // mov edx
    code.extend([0x41, 0xba]); // mov r10d
    code.extend(FLAGS.to_le_bytes());
    code.extend([0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff]); // mov r8, -1
    code.extend([0x45, 0x31, 0xc9]); // xor r9d, r9d
    code.extend(syscall);
    code.extend([0x48, 0x39, 0xf8, 0x75, 0]); // cmp rax, rdi; jne
    let first = code.len();
    code.push(0xb8);
    code.extend(MSEAL.to_le_bytes());
    code.extend([0x31, 0xd2]); // xor edx, edx
    code.extend(syscall);
    code.extend([0x85, 0xc0, 0x75, 0]); // test eax, eax; jne
    let second = code.len();
    match then {
        Some(entry) => {
            code.extend([0x31, 0xff, 0x31, 0xf6, 0x31, 0xc9]); // xor edi, esi, ecx
            code.extend([0x45, 0x31, 0xc0, 0x45, 0x31, 0xd2, 0x45, 0x31, 0xdb]); // xor r8d, r10d, r11d
            code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp to what follows
            code.extend(entry.to_le_bytes());
        }
        None => {
            code.push(0xb8);
            code.extend(GETCWD.to_le_bytes());
            code.extend(syscall);
        }
    }
    let end = code.len();
    code.extend(ILLEGAL);
    for at in [first, second] {
        if let Some(distance) = code.get_mut(at - 1) {
            *distance = (end - at) as u8; // less than a hundred
        }
    }
    code
}

/// Which threads have their place in those pages, by number.
#[derive(Debug, Default)]
pub struct Places {
    free: Vec<u32>,
    next: u32,
}

impl Places {
    /// A place for a thread; EAGAIN: there are more threads than places.
    pub fn take(&mut self, tid: i32) -> Result<Place, Errno> {
        let memory = memory::Over::of(tid)?;
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.next < MOST => {
                self.next += 1;
                self.next - 1
            }
            None => return Err(Errno::EAGAIN),
        };
        Ok(Place { number, memory })
    }

    pub fn give_back(&mut self, place: &Place) {
        self.free.push(place.number);
    }
}

/// A thread's place in the pages of the program that it executes now. Of all threads of one tracer no two have the same,
/// so that it does not matter which of them share their memory.
#[derive(Debug)]
pub struct Place {
    number: u32,
    memory: memory::Over,
}

impl Place {
    /// What is put first stands there.
    pub fn address(&self) -> u64 {
        ADDRESS + u64::from(self.number) * BYTES as u64
    }

    /// Puts these bytes there, and tells where; ENAMETOOLONG.
    pub fn put(&self, bytes: &[u8]) -> Result<u64, Errno> {
        if bytes.len() > BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        self.memory.put(self.address(), bytes)?;
        Ok(self.address())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instructions_fit_beside_the_stub() {
        let code = instructions(Some(u64::MAX));
        assert!(
            code.len() <= super::super::stub::BESIDE_BYTES,
            "{}",
            code.len()
        );
    }

    #[test]
    fn no_two_threads_have_one_place_and_one_that_is_given_back_is_taken_again() {
        let me = std::process::id() as i32;
        let mut places = Places::default();
        let all: Vec<Place> = (0..3).map(|_| places.take(me).unwrap()).collect();
        let addresses: Vec<u64> = all.iter().map(Place::address).collect();
        assert!(
            addresses
                .windows(2)
                .all(|two| two[1] - two[0] == BYTES as u64)
        );
        places.give_back(&all[1]);
        assert_eq!(places.take(me).unwrap().address(), addresses[1]);
    }
}
