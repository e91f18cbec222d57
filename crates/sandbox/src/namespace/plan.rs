//! From a policy to the steps of a view (spec/policy P4 to P13). Looks at the host as it is now: what is a file, what a
//! directory, what a link, what is missing; the steps themselves are carried out later, and look again.

use super::standing;
use crate::error::SandboxError;
use kumiko_linux::cell::{Source, Step, View};
use kumiko_linux::dir::{Dir, Kind};
use kumiko_policy::{Access, GuestPath, Policy, Real, Rule};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Most memory that each temporary place may take unless the policy says; tmpfs(5) has a half, and there are several.
const TEMPORARY_SIZE: &str = "25%";
/// A view, and for each step what to say when it fails.
pub(crate) struct Plan {
    pub view: View,
    pub about: Vec<About>,
}

/// Which rule a step comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct About {
    pub rule: String,
    pub path: String,
    pub real: String,
}

pub(crate) fn plan(policy: &Policy, job_directory: &Path) -> Result<Plan, SandboxError> {
    let mut planner = Planner {
        plan: Plan {
            view: View::default(),
            about: Vec::new(),
        },
        job: job_directory.to_path_buf(),
        made: BTreeSet::new(),
        covers: Vec::new(),
        rules: standing::expanded(policy)?,
    };
    planner.always()?;
    for rule in planner.rules.clone() {
        planner.rule(&rule)?;
    }
    planner.seal()?;
    Ok(planner.plan)
}

pub(crate) struct Planner {
    plan: Plan,
    pub(super) job: PathBuf,
    /// Directories that stand in the view already, "" is its root.
    made: BTreeSet<String>,
    /// What is mounted where, in order.
    covers: Vec<(GuestPath, Cover)>,
    rules: Vec<Rule>,
}

/// What may be done with what is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rights {
    pub writable: bool,
    pub execute: bool,
}

/// What a path below it must reckon with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cover {
    /// A real tree: places must be there already.
    Real {
        real: Real,
        rights: Rights,
    },
    /// A tmpfs of the guest's own: places can be made.
    Temporary,
    /// As above, closed for writing at the end.
    Sealed,
    Denied,
    /// A link in the view; nothing can be put below it.
    Link,
}

impl Planner {
    fn rule(&mut self, rule: &Rule) -> Result<(), SandboxError> {
        let mut about = About {
            rule: rule.origin.to_string(),
            path: rule.path.to_string(),
            real: String::new(),
        };
        let cover = self.cover(&rule.path);
        match &rule.access {
            Access::Read { real, optional } | Access::Write { real, optional } => {
                let rights = Rights {
                    writable: matches!(rule.access, Access::Write { .. }),
                    execute: rule.execute,
                };
                about.real = self.in_words(real);
                if let Some((
                    above,
                    Cover::Real {
                        real: above_real,
                        rights: above_rights,
                    },
                )) = &cover
                {
                    let same = rule
                        .path
                        .below(above)
                        .is_some_and(|rest| above_real.join(rest).is_same(real));
                    if same && rights == *above_rights {
                        return Ok(()); // seen through the rule above already
                    }
                }
                let (kind, is_link) = match self.look(real) {
                    Ok(seen) => seen,
                    Err(error) if *optional && error.kind() == std::io::ErrorKind::NotFound => {
                        return Ok(());
                    }
                    Err(error) => return Err(about.real(&error)),
                };
                let link = is_link.then(|| self.as_link(rule, real, cover.as_ref()));
                match link.flatten() {
                    Some(target) => {
                        self.parents(&rule.path, &about)?;
                        self.covers.push((rule.path.clone(), Cover::Link));
                        self.push(
                            Step::Link {
                                at: place(&rule.path)?,
                                target: c_string(&target)?,
                            },
                            &about,
                        );
                        Ok(())
                    }
                    None => self.tree(&rule.path, real, rights, kind, &about),
                }
            }
            Access::Temporary { size_mib } => {
                self.parents(&rule.path, &about)?;
                self.covers.push((rule.path.clone(), Cover::Temporary));
                self.temporary(relative(&rule.path), *size_mib, rule.execute, &about)
            }
            Access::Denied => self.denied(rule, cover, &about),
            Access::Hidden => self.hidden(rule, cover, &about),
        }
    }

    fn denied(
        &mut self,
        rule: &Rule,
        cover: Option<(GuestPath, Cover)>,
        about: &About,
    ) -> Result<(), SandboxError> {
        let directory = match self.at_real_place(rule, cover.as_ref(), about)? {
            Place::Missing => return Ok(()),
            Place::Real(kind) => kind == Kind::Directory,
            Place::Ours => {
                let directory =
                    !std::fs::metadata(rule.path.as_str()).is_ok_and(|meta| !meta.is_dir());
                self.parents(&rule.path, about)?;
                self.stand_in(&rule.path, directory, about)?;
                directory
            }
        };
        self.covers.push((rule.path.clone(), Cover::Denied));
        self.push(
            Step::Blank {
                at: place(&rule.path)?,
                directory,
                mode: 0,
            },
            about,
        );
        Ok(())
    }

    fn hidden(
        &mut self,
        rule: &Rule,
        cover: Option<(GuestPath, Cover)>,
        about: &About,
    ) -> Result<(), SandboxError> {
        let kind = match self.at_real_place(rule, cover.as_ref(), about)? {
            Place::Missing | Place::Ours => return Ok(()), // absent by itself
            Place::Real(kind) => kind,
        };
        let rules_below = self
            .rules
            .iter()
            .any(|other| other.path != rule.path && other.path.below(&rule.path).is_some());
        if kind == Kind::Directory && rules_below {
            self.covers.push((rule.path.clone(), Cover::Sealed));
            return self.temporary(relative(&rule.path), None, rule.execute, about);
        }
        let mode = if kind == Kind::Directory {
            0o555
        } else {
            0o444
        };
        self.covers.push((rule.path.clone(), Cover::Denied));
        self.push(
            Step::Blank {
                at: place(&rule.path)?,
                directory: kind == Kind::Directory,
                mode,
            },
            about,
        );
        Ok(())
    }

    /// Where a path that is to be closed lies.
    fn at_real_place(
        &self,
        rule: &Rule,
        cover: Option<&(GuestPath, Cover)>,
        about: &About,
    ) -> Result<Place, SandboxError> {
        let Some((above, Cover::Real { real, rights })) = cover else {
            return match cover {
                Some((_, Cover::Link)) => {
                    Err(about.place("a symbolic link leads there".to_owned()))
                }
                Some((_, Cover::Denied)) => Ok(Place::Missing), // closed from above
                _ => Ok(Place::Ours),
            };
        };
        let real = real.join(rule.path.below(above).unwrap_or_default());
        match self.look(&real) {
            Ok((Kind::Link, _)) => {
                Err(about.place("it is a symbolic link: name what it leads to".to_owned()))
            }
            Ok((kind, _)) => Ok(Place::Real(kind)),
            // Cannot be made by the guest.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !rights.writable => {
                Ok(Place::Missing)
            }
            Err(error) => Err(about.place(error.to_string())),
        }
    }

    pub(super) fn tree(
        &mut self,
        path: &GuestPath,
        real: &Real,
        rights: Rights,
        kind: Kind,
        about: &About,
    ) -> Result<(), SandboxError> {
        match self.cover(path) {
            Some((_, Cover::Real { .. })) => {} // its place must be there
            Some((_, Cover::Denied)) => {
                return Err(about.place(
                    "the rule above closes the way to it: hide rather than deny there".to_owned(),
                ));
            }
            Some((_, Cover::Link)) => {
                return Err(about.place("a symbolic link leads there".to_owned()));
            }
            Some((_, Cover::Temporary | Cover::Sealed)) | None => {
                self.parents(path, about)?;
                self.stand_in(path, kind == Kind::Directory, about)?;
            }
        }
        let source = match real {
            Real::Host { root, beneath } => Source {
                root: c_string(root.as_str())?,
                beneath: c_string(beneath)?,
            },
            Real::Job { beneath } => {
                let job = self
                    .job
                    .to_str()
                    .ok_or_else(|| SandboxError::JobDirectory {
                        path: self.job.display().to_string(),
                        cause: "its name is not UTF-8".to_owned(),
                    })?;
                Source {
                    root: c_string(job)?,
                    beneath: c_string(beneath)?,
                }
            }
        };
        let devices = path.as_str().starts_with("/dev/");
        self.covers.push((
            path.clone(),
            Cover::Real {
                real: real.clone(),
                rights,
            },
        ));
        self.push(
            Step::Tree {
                at: place(path)?,
                source,
                writable: rights.writable,
                devices,
                execute: rights.execute,
            },
            about,
        );
        Ok(())
    }

    /// A host's own link (/bin, on a machine where it is one) is told as a link where that leads to the same thing: a
    /// mount less for each.
    fn as_link(
        &self,
        rule: &Rule,
        real: &Real,
        cover: Option<&(GuestPath, Cover)>,
    ) -> Option<String> {
        let Real::Host { root, beneath } = real else {
            return None;
        };
        let plain = cover.is_none() && root == &rule.path && beneath.is_empty();
        let below = self
            .rules
            .iter()
            .any(|other| other.path != rule.path && other.path.below(&rule.path).is_some());
        if !plain || below {
            return None;
        }
        let target = std::fs::read_link(root.as_str()).ok()?;
        let target = target.to_str()?;
        let leads_to = root.follow(target)?;
        let by = self
            .rules
            .iter()
            .filter(|other| leads_to.below(&other.path).is_some())
            .max_by_key(|r| r.path.as_str().len())?;
        match (&by.access, &rule.access) {
            (Access::Read { real, .. }, Access::Read { .. })
            | (Access::Write { real, .. }, Access::Write { .. }) => {
                let own = Real::Host {
                    root: by.path.clone(),
                    beneath: String::new(),
                };
                let same = real.is_same(&own) && by.execute == rule.execute;
                (by.path != rule.path && same).then(|| target.to_owned())
            }
            _ => None,
        }
    }

    /// What stands at a real path, and whether a link leads there. Links in its trusted part are followed; a link at the
    /// end of the other is told.
    fn look(&self, real: &Real) -> std::io::Result<(Kind, bool)> {
        let (root, beneath) = match real {
            Real::Host { root, beneath } => (Path::new(root.as_str()), beneath),
            Real::Job { beneath } => (self.job.as_path(), beneath),
        };
        if !beneath.is_empty() {
            return Ok((Dir::open(root)?.stat(beneath)?.kind, false));
        }
        let named = std::fs::symlink_metadata(root)?;
        let is_link = named.is_symlink();
        let meta = if is_link {
            std::fs::metadata(root)?
        } else {
            named
        };
        let kind = if meta.is_dir() {
            Kind::Directory
        } else if meta.is_file() {
            Kind::File
        } else {
            Kind::Other
        };
        Ok((kind, is_link))
    }

    fn in_words(&self, real: &Real) -> String {
        let (root, beneath) = match real {
            Real::Host { root, beneath } => (root.to_string(), beneath),
            Real::Job { beneath } => (self.job.display().to_string(), beneath),
        };
        if beneath.is_empty() {
            root
        } else {
            format!("{root}/{beneath}")
        }
    }

    /// The nearest thing mounted above (or at) a path.
    fn cover(&self, path: &GuestPath) -> Option<(GuestPath, Cover)> {
        let above = self
            .covers
            .iter()
            .filter(|(at, _)| path.below(at).is_some());
        above.max_by_key(|(at, _)| at.as_str().len()).cloned()
    }

    /// Makes the directories above a path, where they are ours to make.
    fn parents(&mut self, path: &GuestPath, about: &About) -> Result<(), SandboxError> {
        match self.cover(path) {
            Some((_, Cover::Real { .. })) => return Ok(()),
            Some((_, Cover::Denied)) => {
                return Err(about.place(
                    "the rule above closes the way to it: hide rather than deny there".to_owned(),
                ));
            }
            Some((_, Cover::Link)) => {
                return Err(about.place("a symbolic link leads there".to_owned()));
            }
            Some((_, Cover::Temporary | Cover::Sealed)) | None => {}
        }
        let relative = relative(path);
        for (at, _) in relative.match_indices('/') {
            self.directory(&relative[..at], 0o755, about)?;
        }
        Ok(())
    }

    /// A place for a mount.
    fn stand_in(
        &mut self,
        path: &GuestPath,
        directory: bool,
        about: &About,
    ) -> Result<(), SandboxError> {
        if directory {
            return self.directory(relative(path), 0o755, about);
        }
        self.push(
            Step::File {
                at: place(path)?,
                mode: 0o644,
            },
            about,
        );
        Ok(())
    }

    pub(super) fn directory(
        &mut self,
        at: &str,
        mode: u32,
        about: &About,
    ) -> Result<(), SandboxError> {
        let above = self.covers.iter().any(|(path, cover)| {
            relative(path) == at
                && matches!(cover, Cover::Temporary | Cover::Sealed | Cover::Real { .. })
        });
        if !above && self.made.insert(at.to_owned()) {
            self.push(
                Step::Directory {
                    at: c_string(at)?,
                    mode,
                },
                about,
            );
        }
        Ok(())
    }

    pub(super) fn temporary(
        &mut self,
        at: &str,
        size_mib: Option<u64>,
        execute: bool,
        about: &About,
    ) -> Result<(), SandboxError> {
        let path = GuestPath::root().join(at);
        let on_ours = !matches!(
            self.covers
                .iter()
                .filter(|(above, _)| *above != path && path.below(above).is_some())
                .max_by_key(|(above, _)| above.as_str().len()),
            Some((_, Cover::Real { .. }))
        );
        if on_ours && self.made.insert(at.to_owned()) {
            self.push(
                Step::Directory {
                    at: c_string(at)?,
                    mode: 0o755,
                },
                about,
            );
        }
        let size = size_mib.map_or(TEMPORARY_SIZE.to_owned(), |mib| format!("{mib}m"));
        self.push(
            Step::Temporary {
                at: c_string(at)?,
                size: c_string(&size)?,
                execute,
            },
            about,
        );
        Ok(())
    }

    fn seal(&mut self) -> Result<(), SandboxError> {
        let sealed: Vec<GuestPath> = self
            .covers
            .iter()
            .filter(|(_, cover)| *cover == Cover::Sealed)
            .map(|(path, _)| path.clone())
            .collect();
        for path in sealed {
            let about = About {
                rule: "hidden".to_owned(),
                path: path.to_string(),
                real: String::new(),
            };
            self.push(Step::Seal { at: place(&path)? }, &about);
        }
        Ok(())
    }

    pub(super) fn push(&mut self, step: Step, about: &About) {
        self.plan.view.steps.push(step);
        self.plan.about.push(about.clone());
    }
}

enum Place {
    /// In the skeleton or a temporary place.
    Ours,
    /// In a real tree, where this is.
    Real(Kind),
    Missing,
}

impl About {
    pub(crate) fn place(&self, cause: String) -> SandboxError {
        SandboxError::Place {
            rule: self.rule.clone(),
            path: self.path.clone(),
            cause,
        }
    }

    pub(crate) fn real(&self, error: &std::io::Error) -> SandboxError {
        let (rule, path, real) = (self.rule.clone(), self.path.clone(), self.real.clone());
        if kumiko_linux::is_link_error(error) {
            return SandboxError::Link { rule, path, real };
        }
        SandboxError::Real {
            rule,
            path,
            real,
            cause: error.to_string(),
        }
    }
}

fn relative(path: &GuestPath) -> &str {
    path.as_str().trim_start_matches('/')
}

fn place(path: &GuestPath) -> Result<CString, SandboxError> {
    c_string(relative(path))
}

pub(super) fn c_string(text: &str) -> Result<CString, SandboxError> {
    CString::new(text).map_err(|_| SandboxError::ZeroByte {
        what: format!("{text:?}"),
    })
}
