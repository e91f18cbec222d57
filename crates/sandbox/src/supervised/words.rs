//! Words that a guest's thread is to execute a program by: the program's path on the host, and below its stack a list of
//! arguments where there are more than it gave.

use super::caller::Caller;
use super::serve::{Execution, nr};
use kumiko_linux::supervise::tracee::Registers;
use kumiko_linux::supervise::{Call, Errno, memory};

/// Most arguments that are read for a script: what fits on half of a usual stack.
const MOST_ARGUMENTS: usize = 500_000;
const POINTER: usize = 8;

/// A path as the kernel reads it; ENAMETOOLONG.
pub(super) fn path(path: &[u8]) -> Result<Vec<u8>, Errno> {
    if path.len() >= memory::PATH_BYTES {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok([path, b"\0"].concat())
}

/// Puts a path below the thread's stack, and tells where.
pub(super) fn put_path(tid: i32, registers: &Registers, real: &[u8]) -> Result<u64, Errno> {
    let bytes = path(real)?;
    let at = registers.scratch(bytes.len());
    memory::write(tid, at, &bytes)?;
    Ok(at)
}

/// The call that executes it, by a path that stands at `path`.
pub(super) fn put(
    caller: &Caller<'_>,
    registers: &Registers,
    execution: &Execution,
    path: u64,
) -> Result<Call, Errno> {
    let call = |arguments| Call {
        number: nr::EXECVE,
        arguments: [path, arguments, execution.environment, 0, 0, 0],
    };
    let Some(before) = &execution.program.before else {
        return Ok(call(execution.arguments));
    };
    let strings: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
    let given = pointers(caller.tid, execution.arguments)?;
    let list = (strings.len() + given.len().saturating_sub(1) + 1) * POINTER;
    let room = strings.iter().map(|string| string.len() + 1).sum::<usize>() + list + POINTER;
    // A path may stand right below the stack.
    let begin = registers.scratch(room + memory::PATH_BYTES);
    let mut bytes = Vec::with_capacity(room);
    let mut at = Vec::new();
    for string in strings {
        at.push(begin + bytes.len() as u64);
        bytes.extend(string);
        bytes.push(0);
    }
    bytes.resize(bytes.len().next_multiple_of(POINTER), 0);
    let arguments = begin + bytes.len() as u64;
    for pointer in at.iter().chain(given.iter().skip(1)).chain([&0]) {
        bytes.extend(pointer.to_ne_bytes());
    }
    memory::write(caller.tid, begin, &bytes)?;
    Ok(call(arguments))
}

/// A list of pointers that ends with a null; a null list is an empty one (execve(2)).
fn pointers(tid: i32, list: u64) -> Result<Vec<u64>, Errno> {
    let mut found = Vec::new();
    if list == 0 {
        return Ok(found);
    }
    while found.len() < MOST_ARGUMENTS {
        let mut bytes = [0; POINTER];
        memory::read(tid, list + (found.len() * POINTER) as u64, &mut bytes)?;
        match u64::from_ne_bytes(bytes) {
            0 => return Ok(found),
            pointer => found.push(pointer),
        }
    }
    Err(Errno::E2BIG)
}
