//! How the library gets into a program: at the exec stop a few instructions are put where the program begins. They map
//! pages at the library's address and say so by a call; the supervisor then fills the pages, and the library puts the
//! program's own instructions back. Not in it: what the library does then (kumiko-preload).

use super::Given;
use super::contents::Contents;
use crate::supervised::nr;
use kumiko_linux::supervise::{Call, Errno, memory};
use kumiko_linux::supervise::{spawn, tracee};
use kumiko_preload::{IMAGE, head, layout};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// mmap(2), mprotect(2).
const MMAP: u8 = 9;
const MPROTECT: u8 = 10;

/// ud2.
const ILLEGAL: [u8; 2] = [0x0f, 0x0b];

pub(crate) struct Arrivals {
    given: Arc<Given>,
    /// Programs that have not asked yet.
    awaited: HashMap<i32, Awaited>,
}

struct Awaited {
    /// Where it begins, and what stood there.
    entry: u64,
    before: Vec<u8>,
    /// What its pages were made for.
    contents: Arc<Contents>,
}

impl Arrivals {
    pub(crate) fn new(given: Arc<Given>) -> Arrivals {
        Arrivals {
            given,
            awaited: HashMap::new(),
        }
    }

    /// The thread is stopped before a program's first instruction. One of 32 bits makes no call that is let through,
    /// and ends there; what cannot be given the library is ended, as what lay at its address then would be believed.
    pub(crate) fn executed(&mut self, tid: i32) {
        self.awaited.remove(&tid);
        if self.put(tid).is_err() {
            // An error: it has ended.
            let _ = spawn::kill(tid);
        }
    }

    fn put(&mut self, tid: i32) -> Result<(), Errno> {
        let registers = tracee::registers(tid)?;
        let entry = registers.instruction();
        if !registers.is_wide() {
            return memory::replace_code(tid, entry, &ILLEGAL).map(drop);
        }
        let contents = Arc::clone(&self.given.now());
        let awaited = Awaited {
            entry,
            before: memory::replace_code(tid, entry, &first_instructions(&contents))?,
            contents,
        };
        self.awaited.insert(tid, awaited);
        Ok(())
    }

    /// Is this call one of those instructions'? Then their pages are filled. `lend` puts a descriptor into the program.
    pub(crate) fn asked(
        &mut self,
        tid: i32,
        call: &Call,
        lend: impl FnOnce(BorrowedFd<'_>) -> Result<i32, Errno>,
    ) -> Option<Result<(), Errno>> {
        if call.number != nr::GETCWD || call.arguments.first() != Some(&layout::ADDRESS) {
            return None;
        }
        let awaited = self.awaited.remove(&tid)?;
        let shared = self
            .given
            .inside
            .as_ref()
            .map(|inside| lend(inside.as_fd()));
        Some(
            shared
                .transpose()
                .and_then(|shared| self.fill(tid, &awaited, shared)),
        )
    }

    fn fill(&self, tid: i32, awaited: &Awaited, shared: Option<i32>) -> Result<(), Errno> {
        let shared = shared.map_or(u64::MAX, |fd| fd as u64);
        let now = self.given.now();
        // Another has not the room: all is asked for.
        let table = match Arc::ptr_eq(&now, &awaited.contents) {
            true => now.table.as_slice(),
            false => &[],
        };
        let before = &awaited.before;
        let words = [
            awaited.entry,
            before.len() as u64,
            table.len() as u64,
            shared,
        ];
        let mut arrival: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        arrival.extend(before);
        memory::write(tid, layout::ADDRESS, IMAGE)?;
        memory::write(tid, layout::DATA, &arrival)?;
        if table.is_empty() {
            return Ok(());
        }
        memory::write(tid, layout::TABLE, table)
    }
}

/// Has a program ask for everything from now on: what its table says is so no more.
pub(crate) fn forget(pid: i32) {
    let count = layout::DATA + layout::ARRIVAL_TABLE_BYTES as u64;
    // An error: it has ended, or no pages yet, and is given others.
    let _ = memory::write(pid, count, &0u64.to_le_bytes());
}

fn bytes(contents: &Contents) -> u64 {
    let table = (contents.table.len() as u64).max(1);
    (layout::TABLE - layout::ADDRESS + table).next_multiple_of(layout::PAGE_BYTES)
}

/// A program that cannot be given its pages ends by SIGILL.
fn first_instructions(contents: &Contents) -> Vec<u8> {
    const READ_WRITE: u8 = 3;
    const READ_EXECUTE: u8 = 5;
    const PRIVATE_ANONYMOUS_FIXED: u8 = 0x32;
    let half = |value: u64| (value as u32).to_le_bytes();
    let mut code = Vec::with_capacity(layout::ARRIVAL_SAVED_MOST);
    let mut failing = Vec::new();
    let syscall = [0x0f, 0x05];
    code.extend([0xb8, MMAP, 0, 0, 0]); // mov eax
    code.extend([0x48, 0xbf]); // mov rdi
    code.extend(layout::ADDRESS.to_le_bytes());
    code.push(0xbe); // mov esi
    code.extend(half(bytes(contents)));
    code.extend([0xba, READ_WRITE, 0, 0, 0]); // mov edx
    code.extend([0x41, 0xba, PRIVATE_ANONYMOUS_FIXED, 0, 0, 0]); // mov r10d
    code.extend([0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff]); // mov r8, -1
    code.extend([0x45, 0x31, 0xc9]); // xor r9d, r9d
    code.extend(syscall);
    code.extend([0x48, 0x39, 0xf8]); // cmp rax, rdi
    code.extend([0x75, 0]); // jne
    failing.push(code.len());
    code.extend([0xb8, nr::GETCWD as u8, 0, 0, 0]);
    code.extend(syscall);
    code.extend([0x85, 0xc0]); // test eax, eax
    code.extend([0x75, 0]);
    failing.push(code.len());
    code.extend([0xb8, MPROTECT, 0, 0, 0]);
    code.push(0xbe);
    code.extend(half(layout::CODE_BYTES));
    code.extend([0xba, READ_EXECUTE, 0, 0, 0]);
    code.extend(syscall);
    code.extend([0x85, 0xc0, 0x75, 0]);
    failing.push(code.len());
    code.extend([0x49, 0xbb]); // mov r11
    code.extend(head(layout::HEAD_INIT).to_le_bytes());
    code.extend([0x41, 0xff, 0xe3]); // jmp r11
    let end = code.len();
    code.extend(ILLEGAL);
    for at in failing {
        // At most ARRIVAL_SAVED_MOST: a short jump reaches it.
        if let Some(distance) = code.get_mut(at - 1) {
            *distance = (end - at) as u8;
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_instructions_fit_where_they_are_kept() {
        let contents = Contents { table: vec![0; 99] };
        let code = first_instructions(&contents);
        assert!(code.len() <= layout::ARRIVAL_SAVED_MOST, "{}", code.len());
    }

    #[test]
    fn the_image_stands_between_its_address_and_its_data() {
        assert!(!IMAGE.is_empty() && IMAGE.len() as u64 <= layout::CODE_BYTES);
        let image = layout::ADDRESS..layout::ADDRESS + IMAGE.len() as u64;
        for word in [
            layout::HEAD_INIT,
            layout::HEAD_GATE,
            layout::HEAD_HOWS,
            layout::HEAD_HOWS_END,
        ] {
            assert!(image.contains(&head(word)), "{word}");
        }
    }
}
