//! A look at an executable file: by what its calls will reach the kernel (elf(5)). Bounded, and nothing of it is executed.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// As much of a file is looked at: above the text of nearly all programs; a larger one is judged by its beginning.
const MOST_BYTES: u64 = 16 << 20;
/// Longest first line of a script that the kernel reads (BINPRM_BUF_SIZE).
const FIRST_LINE_BYTES: usize = 256;

/// What a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// A loader maps its libraries. `sites`: calls that its own code makes, by no library.
    Dynamic { sites: usize },
    /// It has its own code for everything.
    Static,
    /// Of a Go program: its own code makes the calls, with a loader or without.
    Go,
    /// A script of this interpreter.
    Script { interpreter: String },
    /// No program of 64 bits that we know.
    Other,
}

impl Looked {
    /// Will its calls come from a C library that was mapped as such?
    pub fn by_library(&self) -> bool {
        // What an interpreter is was not looked at: nearly all have a loader.
        matches!(self, Looked::Dynamic { sites: 0 } | Looked::Script { .. })
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Looked::Dynamic { sites: 0 } => "a dynamic program".to_owned(),
            Looked::Dynamic { sites } => {
                format!("a dynamic program that makes calls of its own ({sites} sites)")
            }
            Looked::Static => "a static program".to_owned(),
            Looked::Go => "a Go program".to_owned(),
            Looked::Script { interpreter } => format!("a script of {interpreter}"),
            Looked::Other => "no program of a kind that is known".to_owned(),
        }
    }
}

/// # Errors
/// It cannot be read, or is no regular file.
pub fn look(path: &Path) -> io::Result<Looked> {
    // A pipe would keep us waiting at the opening.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(of(&bytes))
}

/// Of the bytes of a file.
pub(crate) fn of(bytes: &[u8]) -> Looked {
    if let Some(rest) = bytes.strip_prefix(b"#!") {
        let line = rest.get(..FIRST_LINE_BYTES).unwrap_or(rest);
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let interpreter = line.split_ascii_whitespace().next().unwrap_or("");
        return Looked::Script {
            interpreter: interpreter.to_owned(),
        };
    }
    let Some(segments) = segments(bytes) else {
        return Looked::Other;
    };
    if segments.iter().any(|segment| is_go(segment.bytes)) {
        return Looked::Go;
    }
    if !segments.iter().any(|segment| segment.kind == INTERPRETER) {
        return Looked::Static;
    }
    let code = segments.iter().filter(|segment| segment.executable);
    Looked::Dynamic {
        sites: code.map(|segment| sites(segment.bytes)).sum(),
    }
}

/// PT_LOAD and PT_INTERP.
const LOADED: u32 = 1;
const INTERPRETER: u32 = 3;

struct Segment<'a> {
    kind: u32,
    executable: bool,
    bytes: &'a [u8],
}

/// Of a little-endian program of 64 bits for x86_64; what lies beyond the bytes is left out.
fn segments(bytes: &[u8]) -> Option<Vec<Segment<'_>>> {
    const IDENTITY: &[u8] = b"\x7fELF\x02\x01";
    const X86_64: u16 = 62;
    const HEADER_BYTES: usize = 56;
    let short = |at: usize| Some(u16::from_le_bytes(field(bytes, at)?));
    let long = |at: usize| usize::try_from(u64::from_le_bytes(field(bytes, at)?)).ok();
    if !bytes.starts_with(IDENTITY) || short(18)? != X86_64 {
        return None;
    }
    let (table, size, count) = (long(32)?, usize::from(short(54)?), short(56)?);
    if size < HEADER_BYTES {
        return None;
    }
    let mut segments = Vec::new();
    for number in 0..usize::from(count) {
        let at = number.checked_mul(size)?.checked_add(table)?;
        let Some(kind) = field(bytes, at).map(u32::from_le_bytes) else {
            break;
        };
        if kind != LOADED && kind != INTERPRETER {
            continue;
        }
        let flags = u32::from_le_bytes(field(bytes, at + 4)?);
        let (from, length) = (long(at + 8)?, long(at + 32)?);
        let rest = bytes.get(from..).unwrap_or_default();
        segments.push(Segment {
            kind,
            executable: kind == LOADED && flags & 1 != 0,
            bytes: rest.get(..length).unwrap_or(rest),
        });
    }
    Some(segments)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk::<N>().copied()
}

/// What the Go linker leaves for `go version` (debug/buildinfo): a mark, the size of an address, and flags; aligned to 16
/// bytes.
fn is_go(bytes: &[u8]) -> bool {
    const REST: [&[u8]; 2] = [&[8, 0], &[8, 2]];
    let mark = go_mark();
    bytes.chunks(16).any(|chunk| {
        let rest = chunk.strip_prefix(&mark);
        rest.is_some_and(|rest| REST.contains(&rest))
    })
}

/// Lies in no program of ours as it is: what lies beside it there could make a Go program of them.
fn go_mark() -> [u8; 14] {
    const INVERTED: [u8; 14] = {
        let mut mark = *b"\xff Go buildinf:";
        let mut at = 0;
        while at < mark.len() {
            mark[at] = !mark[at];
            at += 1;
        }
        mark
    };
    std::hint::black_box(INVERTED).map(|byte| !byte)
}

/// Instructions `mov $number, %eax; syscall`, and `syscall` with the comparison that C libraries make of its result: the
/// two bytes alone stand in other code by chance.
fn sites(code: &[u8]) -> usize {
    const MOV: usize = 5;
    let is_call = |at: usize| {
        let (before, after) = (
            at.checked_sub(MOV).and_then(|at| code.get(at..)),
            code.get(at + 2..),
        );
        let moved =
            before.is_some_and(|code| matches!(code, [0xb8, _, high, 0, 0, ..] if *high <= 2));
        moved || after.is_some_and(|code| matches!(code, [0x48, 0x3d, 0 | 1, 0xf0, 0xff, 0xff, ..]))
    };
    let calls = code.windows(2).enumerate();
    calls
        .filter(|(at, bytes)| *bytes == [0x0f, 0x05] && is_call(*at))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program of these segments: (kind, flags, bytes).
    fn program(segments: &[(u32, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
        bytes[18] = 62;
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = segments.len() as u8;
        let mut from = 64 + 56 * segments.len();
        for (kind, flags, content) in segments {
            let mut header = vec![0; 56];
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[4..8].copy_from_slice(&flags.to_le_bytes());
            header[8..16].copy_from_slice(&(from as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(content.len() as u64).to_le_bytes());
            bytes.extend(header);
            from += content.len();
        }
        segments
            .iter()
            .for_each(|(_, _, content)| bytes.extend(*content));
        bytes
    }

    #[test]
    fn a_file_is_what_its_bytes_say() {
        let check = |bytes: &[u8], expected: Looked, by_library: bool| {
            let looked = of(bytes);
            assert_eq!(looked, expected, "{bytes:02x?}");
            assert_eq!(looked.by_library(), by_library);
        };
        let loader: (u32, u32, &[u8]) = (INTERPRETER, 4, b"/lib64/ld.so");
        let raw: &[u8] = &[0xb8, 0x27, 0, 0, 0, 0x0f, 0x05, 0x90];
        let other: &[u8] = &[0x48, 0x0f, 0x05, 0x48, 0x3d, 0x01, 0xf0, 0xff, 0xff];
        let chance: &[u8] = &[0x0f, 0x05, 0xb8, 0x0f, 0x05, 0, 0];
        check(
            &program(&[loader, (LOADED, 5, chance)]),
            Looked::Dynamic { sites: 0 },
            true,
        );
        check(
            &program(&[loader, (LOADED, 5, raw)]),
            Looked::Dynamic { sites: 1 },
            false,
        );
        check(
            &program(&[loader, (LOADED, 5, other)]),
            Looked::Dynamic { sites: 1 },
            false,
        );
        // Not executable: data.
        check(
            &program(&[loader, (LOADED, 4, raw)]),
            Looked::Dynamic { sites: 0 },
            true,
        );
        check(&program(&[(LOADED, 5, raw)]), Looked::Static, false);
        let go = [b"0123456789abcdef".as_slice(), &go_mark(), b"\x08\x02"].concat();
        check(&program(&[loader, (LOADED, 6, &go)]), Looked::Go, false);
        let script = Looked::Script {
            interpreter: "/bin/sh".to_owned(),
        };
        check(b"#! /bin/sh -e\necho", script, true);
        check(b"", Looked::Other, false);
        check(b"\x7fELF\x01\x01", Looked::Other, false);
        let mut cut = program(&[loader, (LOADED, 5, raw)]);
        cut.truncate(64 + 60);
        check(&cut, Looked::Other, false);
    }

    #[test]
    fn programs_of_this_machine_are_seen_as_they_are() {
        let this = std::env::current_exe().unwrap();
        assert!(matches!(look(&this).unwrap(), Looked::Dynamic { .. }));
        let sh = look(Path::new("/bin/sh")).unwrap();
        assert!(sh.by_library() || sh == Looked::Static, "{sh:?}");
        assert!(look(Path::new("/dev/null")).is_err());
        assert!(look(Path::new("/no such file")).is_err());
    }

    proptest::proptest! {
        #[test]
        fn whatever_the_bytes_are_it_ends(
            mut bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400),
            real in proptest::prelude::any::<bool>(),
        ) {
            if real && bytes.len() > 64 {
                let header = program(&[(LOADED, 5, b"x"), (INTERPRETER, 4, b"y")]);
                bytes[..60].copy_from_slice(&header[..60]);
            }
            let _ = of(&bytes);
        }
    }
}
