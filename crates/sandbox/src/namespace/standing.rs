//! What a plan holds whatever the rules say (P10), and the rule for "/" taken apart.

use super::plan::{About, Planner, Rights, c_string};
use crate::error::SandboxError;
use kumiko_linux::cell::{Source, Step};
use kumiko_linux::dir::{Dir, Kind};
use kumiko_policy::{Access, GuestPath, JOB_DIRECTORY, Policy, Real, Rule};
use std::ffi::CString;
use std::path::Path;

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

impl Planner {
    /// What every guest has (P10).
    pub(super) fn always(&mut self) -> Result<(), SandboxError> {
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
                // Devices take writes all the same (mount(2), MS_RDONLY); what is refused is changing the node itself,
                // which an account that is root owns on the host, capabilities or not.
                Step::Tree {
                    at,
                    source,
                    writable: false,
                    devices: true,
                    execute: true,
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
        self.temporary("dev/shm", None, true, &about)?;
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
            Rights {
                writable: true,
                execute: true,
            },
            Kind::Directory,
            &about,
        )
    }
}

/// The rules, with "/" taken apart into the names of the host's root that have no rule of their own: so the root of the
/// view stays ours, and /proc, /dev and the job's directory find their place in it.
pub(super) fn expanded(policy: &Policy) -> Result<Vec<Rule>, SandboxError> {
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
            execute: root.execute,
            origin: root.origin.clone(),
        });
    }
    rules.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(rules)
}
