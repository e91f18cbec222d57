//! From what the policies leave of a running guest's view (kumiko-policy) to covers for its places (P78). Not in it: how
//! they are laid (kumiko-linux's cells).

use kumiko_linux::cell::{Cover, Open, Step, With, Without};
use kumiko_policy::{Followed, GuestPath, JOB_DIRECTORY, Now};
use std::collections::BTreeMap;
use std::ffi::CString;

/// What holds at a place where something is mounted: what every guest has stays (P10), but for devices that a rule of their
/// own shows.
pub(crate) fn holds_at(path: &GuestPath, followed: &Followed) -> Now {
    let is_below = |top: &str| GuestPath::new(top).is_ok_and(|top| path.below(&top).is_some());
    let always = ["/proc", "/dev", JOB_DIRECTORY].into_iter().any(is_below);
    match always && followed.paths.iter().all(|(at, _)| at != path) {
        true => Now::AsBegun,
        false => followed.at(path),
    }
}

/// In the order in which they are to be laid. `steps`: what was mounted at first.
pub(super) fn covers(steps: &[Step], followed: &Followed) -> Vec<Cover> {
    let mounted = steps.iter().filter_map(|step| match step {
        Step::Tree { at, .. } | Step::Temporary { at, .. } => {
            GuestPath::new(&format!("/{}", at.to_str().ok()?)).ok()
        }
        _ => None,
    });
    let mounted = mounted.map(|path| {
        let now = holds_at(&path, followed);
        (path, now)
    });
    let mut all: BTreeMap<GuestPath, Now> = mounted.collect();
    all.extend(followed.paths.iter().cloned());
    // Nothing but places for other things stands in it.
    all.remove(&GuestPath::root());
    let changed = all.iter().filter(|(_, now)| **now != Now::AsBegun);
    let visible = changed.filter(|(path, _)| !is_in_closed(path, &all));
    let covers = visible.filter_map(|(path, now)| {
        let with = match now {
            Now::AsBegun => return None,
            Now::ReadOnly | Now::NotExecuted | Now::ReadAlone => With::Same(without(*now)),
            Now::Denied | Now::Hidden => nothing(path, *now, &all)?,
        };
        Some(Cover {
            at: relative(path)?,
            with,
        })
    });
    covers.collect()
}

/// Is a path below one that is closed, and below none in it that is open?
fn is_in_closed(path: &GuestPath, all: &BTreeMap<GuestPath, Now>) -> bool {
    let above = all
        .iter()
        .filter(|(above, _)| *above != path && path.below(above).is_some())
        .max_by_key(|(above, _)| above.as_str().len());
    above.is_some_and(|(_, now)| now.is_closed())
}

fn nothing(path: &GuestPath, now: Now, all: &BTreeMap<GuestPath, Now>) -> Option<With> {
    let mut open = Vec::new();
    for (below, holds) in all.range(path.clone()..) {
        let Some(rest) = below.below(path).filter(|rest| !rest.is_empty()) else {
            continue;
        };
        if !holds.is_closed() && is_in_closed(below, all) {
            let ends = rest.match_indices('/').map(|(end, _)| end);
            let parents = ends.filter_map(|end| CString::new(rest.get(..end)?).ok());
            open.push(Open {
                at: relative(below)?,
                parents: parents.collect(),
                name: CString::new(rest).ok()?,
                without: without(*holds),
            });
        }
    }
    let (directory_mode, file_mode) = match (now, open.is_empty()) {
        (Now::Denied, true) => (c"0000", 0),
        // The way to what is open is open.
        (Now::Denied, false) => (c"0555", 0),
        _ => (c"0555", 0o444),
    };
    Some(With::Nothing {
        directory_mode: directory_mode.to_owned(),
        file_mode,
        open,
    })
}

fn without(now: Now) -> Without {
    Without {
        writing: !now.writes(),
        executing: !now.executes(),
    }
}

fn relative(path: &GuestPath) -> Option<CString> {
    CString::new(path.as_str().trim_start_matches('/')).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_closed_is_covered_once_and_what_stays_open_in_it_is_kept() {
        let path = |text: &str| GuestPath::new(text).unwrap();
        let text = |text: &str| CString::new(text).unwrap();
        let tree = |at: &str| Step::Temporary {
            at: text(at),
            size: text("1"),
            execute: true,
        };
        let steps = [
            tree("usr"),
            tree("data"),
            tree("data/in"),
            tree("job"),
            tree("srv"),
        ];
        let followed = Followed {
            paths: vec![
                (path("/"), Now::Hidden),
                (path("/data/in"), Now::Hidden),
                (path("/data/pub/a"), Now::ReadAlone),
                (path("/data/pub/a/own"), Now::Denied),
                (path("/usr"), Now::AsBegun),
                (path("/usr/share"), Now::ReadOnly),
            ],
            ..Followed::default()
        };
        let got = covers(&steps, &followed);
        let at: Vec<&str> = got.iter().map(|cover| cover.at.to_str().unwrap()).collect();
        assert_eq!(at, ["data", "data/pub/a/own", "srv", "usr/share"]);
        let With::Nothing { open, .. } = &got[0].with else {
            panic!("{got:?}");
        };
        assert_eq!(
            open,
            &[Open {
                at: text("data/pub/a"),
                parents: vec![text("pub")],
                name: text("pub/a"),
                without: Without {
                    writing: true,
                    executing: true,
                },
            }]
        );
    }
}
