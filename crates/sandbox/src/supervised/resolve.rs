//! What a path leads to in a guest's view (path_resolution(7)): one name after the other, links put in their place, to
//! one end. Pure: what stands at a place is asked of [`Look`]. Not in it: what a place is on the host (view.rs).
//!
//! A *place* is an absolute path of the view without links, `.`, `..` or closing slash; the root is "/".

use kumiko_linux::supervise::Errno;
use std::collections::VecDeque;

/// Links followed in one path before ELOOP (MAXSYMLINKS of the kernel).
const MOST_LINKS: usize = 40;
/// NAME_MAX (limits.h).
const MOST_NAME_BYTES: usize = 255;

/// What stands at a place.
#[derive(Debug)]
pub(crate) enum Thing<H> {
    Directory(H),
    /// A file, a device, a socket.
    Other(H),
    /// A symbolic link, and what it says.
    Link(Vec<u8>),
    /// A link of /proc to this place.
    Jump(Vec<u8>),
    /// A link of /proc to what has no place: a pipe, a file that is inherited or gone.
    Alone(H),
}

pub(crate) trait Look {
    type Handle;
    fn look(&mut self, place: &[u8]) -> Result<Thing<Self::Handle>, Errno>;
}

/// Where a path ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End<H> {
    There {
        place: Vec<u8>,
        handle: H,
        directory: bool,
    },
    /// A link that was not to be followed.
    Link { place: Vec<u8> },
    /// Nothing, in a directory that is there. `directory`: the path says that it must be one.
    Missing { place: Vec<u8>, directory: bool },
    /// What has no place; `place` is that of the link.
    Alone { place: Vec<u8>, handle: H },
}

/// Resolves `path` from `base`, which is a place. `follow`: a link at the end, too.
pub(crate) fn resolve<L: Look>(
    look: &mut L,
    base: &[u8],
    path: &[u8],
    follow: bool,
) -> Result<End<L::Handle>, Errno> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let mut names: VecDeque<Vec<u8>> = parts(path).collect();
    let mut at = match path.first() {
        Some(b'/') => b"/".to_vec(),
        _ => base.to_vec(),
    };
    let mut links = 0;
    // Is `at` known to be a directory, because something below it was found or it was seen to be one?
    let mut seen = None;
    while let Some(name) = names.pop_front() {
        match name.as_slice() {
            b"." => continue,
            b".." => {
                if seen.is_none() {
                    directory(look, &at)?;
                }
                at = parent(&at).to_vec();
                seen = None;
                continue;
            }
            _ => {}
        }
        if name.len() > MOST_NAME_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let place = join(&at, &name);
        let last = names.is_empty();
        match look.look(&place) {
            Err(Errno::ENOENT) if names.iter().all(|name| name == b".") => {
                // The directory must be one, or what is missing is more than the last name.
                directory(look, &at)?;
                return Ok(End::Missing {
                    place,
                    directory: !last,
                });
            }
            Err(errno) => return Err(errno),
            Ok(Thing::Directory(handle)) => {
                if last {
                    return Ok(End::There {
                        place,
                        handle,
                        directory: true,
                    });
                }
                at = place;
                seen = Some(handle);
            }
            Ok(Thing::Other(handle)) if last => {
                return Ok(End::There {
                    place,
                    handle,
                    directory: false,
                });
            }
            Ok(Thing::Other(_)) => return Err(Errno::ENOTDIR),
            Ok(Thing::Link(_) | Thing::Jump(_) | Thing::Alone(_)) if last && !follow => {
                return Ok(End::Link { place });
            }
            Ok(Thing::Alone(handle)) if last => return Ok(End::Alone { place, handle }),
            Ok(Thing::Alone(_)) => return Err(Errno::ENOTDIR),
            Ok(Thing::Link(words) | Thing::Jump(words)) => {
                links += 1;
                if links > MOST_LINKS {
                    return Err(Errno::ELOOP);
                }
                match words.first() {
                    None => return Err(Errno::ENOENT),
                    Some(b'/') => at = b"/".to_vec(),
                    Some(_) => {}
                }
                seen = None;
                for part in parts(&words).collect::<Vec<_>>().into_iter().rev() {
                    names.push_front(part);
                }
            }
        }
    }
    let handle = match seen {
        Some(handle) => handle,
        None => directory(look, &at)?,
    };
    Ok(End::There {
        place: at,
        handle,
        directory: true,
    })
}

fn directory<L: Look>(look: &mut L, place: &[u8]) -> Result<L::Handle, Errno> {
    match look.look(place)? {
        Thing::Directory(handle) => Ok(handle),
        _ => Err(Errno::ENOTDIR),
    }
}

/// The names of a path; a closing slash asks for a directory, as a last "." does.
fn parts(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let closing: Option<&[u8]> = path.ends_with(b"/").then_some(b".");
    path.split(|byte| *byte == b'/')
        .filter(|part| !part.is_empty())
        .chain(closing)
        .map(<[u8]>::to_vec)
}

/// `place` and a name in it.
pub(crate) fn join(place: &[u8], name: &[u8]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(place.len() + name.len() + 1);
    if place != b"/" {
        joined.extend(place);
    }
    if !name.is_empty() {
        joined.push(b'/');
        joined.extend(name);
    }
    if joined.is_empty() {
        joined.push(b'/');
    }
    joined
}

/// The directory that a place is in; the root is in itself.
pub(crate) fn parent(place: &[u8]) -> &[u8] {
    match place.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(at) => place.get(..at).unwrap_or(b"/"),
    }
}

/// The last name of a place, "" for the root.
pub(crate) fn last_name(place: &[u8]) -> &[u8] {
    place
        .iter()
        .rposition(|byte| *byte == b'/')
        .and_then(|at| place.get(at + 1..))
        .unwrap_or_default()
}

/// How many slashes a path begins with. Long paths are often made long by them.
fn slashes(path: &[u8]) -> usize {
    const MANY: [u8; 16] = [b'/'; 16];
    let many = path
        .chunks_exact(MANY.len())
        .take_while(|some| **some == MANY);
    let many = many.count() * MANY.len();
    let few = path.iter().skip(many).take_while(|byte| **byte == b'/');
    many + few.count()
}

/// An absolute path as a place, when its words alone say so: no `..`.
pub(crate) fn as_place(path: &[u8]) -> Option<Vec<u8>> {
    if path.first() != Some(&b'/') || path.ends_with(b"/") {
        return None;
    }
    let mut place = Vec::with_capacity(path.len());
    let mut rest = path.get(slashes(path)..)?;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'/');
        let (part, after) = rest.split_at(end.unwrap_or(rest.len()));
        if part == b"." || part == b".." || part.len() > MOST_NAME_BYTES {
            return None;
        }
        place.push(b'/');
        place.extend(part);
        rest = after.get(slashes(after)..)?;
    }
    (!place.is_empty()).then_some(place)
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
