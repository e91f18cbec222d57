//! From a policy to the steps of a view (spec/policy P4 to P13). Looks at the host as it is now: what is a file, what a
//! directory, what a link, what is missing; the steps themselves are carried out later, and look again.

use crate::error::SandboxError;
use kumiko_linux::cell::{Source, Step, View};
use kumiko_linux::dir::{Dir, Kind};
use kumiko_policy::{Access, GuestPath, JOB_DIRECTORY, Policy, Real, Rule};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Most memory that each temporary place may take unless the policy says; tmpfs(5) has a half, and there are several.
const TEMPORARY_SIZE: &str = "25%";
/// Devices that every guest has: they carry nothing between guests.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// Links in /dev that programs expect (Filesystem Hierarchy Standard, 6.1.3, and common use).
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// A view, and for each step what to say when it fails.
pub(super) struct Plan {
    pub view: View,
    pub about: Vec<About>,
}

/// Which rule a step comes from.
#[derive(Clone, Debug, Default)]
pub(super) struct About {
    pub rule: String,
    pub path: String,
    pub real: String,
}

pub(super) fn plan(policy: &Policy, job_directory: &Path) -> Result<Plan, SandboxError> {
    let mut planner = Planner {
        plan: Plan {
            view: View::default(),
            about: Vec::new(),
        },
        job: job_directory.to_path_buf(),
        made: BTreeSet::new(),
        covers: Vec::new(),
        rules: expanded(policy)?,
    };
    planner.always()?;
    for rule in planner.rules.clone() {
        planner.rule(&rule)?;
    }
    planner.seal()?;
    Ok(planner.plan)
}

/// The rules, with "/" taken apart into the names of the host's root that have no rule of their own: so the root of the
/// view stays ours, and /proc, /dev and the job's directory find their place in it.
fn expanded(policy: &Policy) -> Result<Vec<Rule>, SandboxError> {
    let mut rules: Vec<Rule> = policy
        .paths
        .iter()
        .filter(|rule| rule.path.as_str() != "/")
        .cloned()
        .collect();
    let root = policy.paths.iter().find(|rule| rule.path.as_str() == "/");
    let Some(root) = root else {
        return Ok(rules);
    };
    let (Access::Read { real, .. } | Access::Write { real, .. }) = &root.access else {
        return Ok(rules);
    };
    let about = About {
        rule: root.origin.to_string(),
        path: "/".to_owned(),
        real: String::new(),
    };
    let Real::Host {
        root: host,
        beneath,
    } = real
    else {
        return Err(about.place("the job's own directory cannot be the root".to_owned()));
    };
    let names = Dir::open(Path::new(host.as_str()))
        .and_then(|dir| dir.open_dir(beneath))
        .and_then(|dir| dir.list());
    for entry in names.map_err(|error| about.real(&error))? {
        let Some(name) = entry.name.to_str() else {
            continue; // a policy is text and cannot name it
        };
        let path = GuestPath::root().join(name);
        let taken = ["/proc", "/dev", JOB_DIRECTORY].contains(&path.as_str());
        if taken || rules.iter().any(|rule| rule.path == path) {
            continue;
        }
        // A name in the trusted directory itself is as trusted as that directory.
        let real = match beneath.as_str() {
            "" => Real::Host {
                root: host.join(name),
                beneath: String::new(),
            },
            _ => real.join(name),
        };
        let access = match &root.access {
            Access::Write { .. } => Access::Write {
                real,
                optional: true,
            },
            _ => Access::Read {
                real,
                optional: true,
            },
        };
        rules.push(Rule {
            path,
            access,
            origin: root.origin.clone(),
        });
    }
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(rules)
}

struct Planner {
    plan: Plan,
    job: PathBuf,
    /// Directories that stand in the view already, "" is its root.
    made: BTreeSet<String>,
    /// What is mounted where, in order.
    covers: Vec<(GuestPath, Cover)>,
    rules: Vec<Rule>,
}

/// What a path below it must reckon with.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cover {
    /// A real tree: places must be there already.
    Real {
        real: Real,
        writable: bool,
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
    /// What every guest has (P10).
    fn always(&mut self) -> Result<(), SandboxError> {
        let about = About {
            rule: "every guest".to_owned(),
            ..About::default()
        };
        self.directory("proc", 0o755, &about)?;
        // Files of /proc that belong to root can be written by an account that is root, capabilities or not.
        let writable = !kumiko_linux::is_root();
        self.push(
            Step::Processes {
                at: c_string("proc")?,
                writable,
            },
            &about,
        );
        self.directory("dev", 0o755, &about)?;
        for name in DEVICES {
            let at = c_string(&format!("dev/{name}"))?;
            self.push(
                Step::File {
                    at: at.clone(),
                    mode: 0o666,
                },
                &about,
            );
            let source = Source {
                root: c_string(&format!("/dev/{name}"))?,
                beneath: CString::default(),
            };
            let about = About {
                path: format!("/dev/{name}"),
                real: format!("/dev/{name}"),
                ..about.clone()
            };
            self.push(
                Step::Tree {
                    at,
                    source,
                    writable: true,
                    devices: true,
                },
                &about,
            );
        }
        for (name, target) in DEVICE_LINKS {
            self.push(
                Step::Link {
                    at: c_string(&format!("dev/{name}"))?,
                    target: c_string(target)?,
                },
                &about,
            );
        }
        self.directory("dev/pts", 0o755, &about)?;
        self.push(
            Step::Terminals {
                at: c_string("dev/pts")?,
            },
            &about,
        );
        self.temporary("dev/shm", None, &about)?;
        let job = GuestPath::root().join(JOB_DIRECTORY.trim_start_matches('/'));
        let about = About {
            path: job.to_string(),
            real: self.job.display().to_string(),
            ..about
        };
        let is_directory = std::fs::metadata(&self.job).map(|meta| meta.is_dir());
        if !is_directory.as_ref().is_ok_and(|is| *is) {
            let cause = is_directory
                .err()
                .map_or("it is no directory".to_owned(), |error| error.to_string());
            return Err(SandboxError::JobDirectory {
                path: about.real,
                cause,
            });
        }
        self.tree(
            &job,
            &Real::Job {
                beneath: String::new(),
            },
            true,
            Kind::Directory,
            &about,
        )
    }

    fn rule(&mut self, rule: &Rule) -> Result<(), SandboxError> {
        let mut about = About {
            rule: rule.origin.to_string(),
            path: rule.path.to_string(),
            real: String::new(),
        };
        let cover = self.cover(&rule.path);
        match &rule.access {
            Access::Read { real, optional } | Access::Write { real, optional } => {
                let writable = matches!(rule.access, Access::Write { .. });
                about.real = self.in_words(real);
                if let Some((
                    above,
                    Cover::Real {
                        real: above_real,
                        writable: above_writable,
                    },
                )) = &cover
                {
                    let same = rule
                        .path
                        .below(above)
                        .is_some_and(|rest| above_real.join(rest).is_same(real));
                    if same && writable == *above_writable {
                        return Ok(()); // seen through the rule above already
                    }
                }
                let kind = match self.look(real) {
                    Ok(kind) => kind,
                    Err(error) if *optional && error.kind() == std::io::ErrorKind::NotFound => {
                        return Ok(());
                    }
                    Err(error) => return Err(about.real(&error)),
                };
                match self.as_link(rule, real, cover.as_ref()) {
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
                    None => self.tree(&rule.path, real, writable, kind, &about),
                }
            }
            Access::Temporary { size_mib } => {
                self.parents(&rule.path, &about)?;
                self.covers.push((rule.path.clone(), Cover::Temporary));
                self.temporary(relative(&rule.path), *size_mib, &about)
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
            return self.temporary(relative(&rule.path), None, about);
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
        let Some((above, Cover::Real { real, writable })) = cover else {
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
            Ok(Kind::Link) => {
                Err(about.place("it is a symbolic link: name what it leads to".to_owned()))
            }
            Ok(kind) => Ok(Place::Real(kind)),
            // Cannot be made by the guest.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !writable => {
                Ok(Place::Missing)
            }
            Err(error) => Err(about.place(error.to_string())),
        }
    }

    fn tree(
        &mut self,
        path: &GuestPath,
        real: &Real,
        writable: bool,
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
                writable,
            },
        ));
        self.push(
            Step::Tree {
                at: place(path)?,
                source,
                writable,
                devices,
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
                (by.path != rule.path && real.is_same(&own)).then(|| target.to_owned())
            }
            _ => None,
        }
    }

    /// What stands at a real path. Links in its trusted part are followed; a link at the end of the other is told.
    fn look(&self, real: &Real) -> std::io::Result<Kind> {
        let (root, beneath) = match real {
            Real::Host { root, beneath } => (Path::new(root.as_str()), beneath),
            Real::Job { beneath } => (self.job.as_path(), beneath),
        };
        if !beneath.is_empty() {
            return Ok(Dir::open(root)?.stat(beneath)?.kind);
        }
        let meta = std::fs::metadata(root)?;
        Ok(if meta.is_dir() {
            Kind::Directory
        } else if meta.is_file() {
            Kind::File
        } else {
            Kind::Other
        })
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

    fn directory(&mut self, at: &str, mode: u32, about: &About) -> Result<(), SandboxError> {
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

    fn temporary(
        &mut self,
        at: &str,
        size_mib: Option<u64>,
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

    fn push(&mut self, step: Step, about: &About) {
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
    pub(super) fn place(&self, cause: String) -> SandboxError {
        SandboxError::Place {
            rule: self.rule.clone(),
            path: self.path.clone(),
            cause,
        }
    }

    pub(super) fn real(&self, error: &std::io::Error) -> SandboxError {
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
