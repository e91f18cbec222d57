//! The launcher of an MPI job (spec/jobs/mpi.md): which program of the guest's view starts the ranks, and by what
//! variables. It is the one guest of its room; the ranks are its children. Not here: its start (start.rs).

use crate::hosts;
use kumiko_job::attempt::AttemptSpec;
use kumiko_job::description::Mpi;
use kumiko_linux::limits::tasks;
use kumiko_linux::process;
use kumiko_policy::{JOB_DIRECTORY, MechanismKind};
use kumiko_sandbox::{Guest, Program};
use std::collections::HashSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// As much of a program is searched for the name of its library: above the tables of nearly all programs.
const SEARCHED_BYTES: u64 = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

/// Processes of which descriptors are held at a time: a runner has 1024, and other uses for them.
const HELD_AT_ONCE: usize = 256;

// signal(7).
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// An MPI library, with launchers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Mpich,
    Openmpi,
}

impl Library {
    /// The launchers that have a name of their own.
    fn launchers(self) -> &'static [&'static str] {
        match self {
            Library::Mpich => &["mpiexec.hydra", "mpiexec.mpich"],
            Library::Openmpi => &["mpiexec.openmpi", "orterun"],
        }
    }

    /// The Debian package that has them.
    fn package(self) -> &'static str {
        match self {
            Library::Mpich => "mpich",
            Library::Openmpi => "openmpi-bin",
        }
    }

    /// What the environment says where the description does not: all ranks are on this host, which others use as well.
    fn variables_of_one_host(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Library::Mpich => &[
                // By fork, whatever an engine's variables suggest; the control connection stays on the loopback.
                ("HYDRA_LAUNCHER", "fork"),
                ("HYDRA_RMK", "user"),
                ("HYDRA_IFACE", "lo"),
                // Each rank's UCX complains of a list of networks in /sys, which it does not need on one host; what stops
                // it MPICH tells as well.
                ("UCX_LOG_LEVEL", "fatal"),
            ],
            Library::Openmpi => &[
                // It asks for this of an account that is root; the guest has no capability, whatever its number.
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                // No other hosts, so no ssh, which it would look for; its control connections stay on the loopback.
                ("OMPI_MCA_plm", "isolated"),
                ("OMPI_MCA_oob_tcp_if_include", "lo"),
                // Shared memory, without a search for networks at each start.
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "self,vader"),
                // How many ranks there are is the job's word; where they run is the kernel's, for several jobs that are
                // each bound to the first processors share these.
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
                // The same to the launcher of Open MPI 5, which goes by other names.
                ("PRTE_MCA_plm", "^ssh"),
                ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
                ("PRTE_MCA_hwloc_default_binding_policy", "none"),
                ("PMIX_MCA_ptl_tcp_if_include", "lo"),
            ],
        }
    }
}

impl Library {
    /// The same, where ranks are on several hosts: the others are called in the manner of ssh, and found by their addresses.
    fn variables_of_hosts(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Library::Mpich => &[
                ("HYDRA_LAUNCHER", "ssh"),
                ("HYDRA_RMK", "user"),
                ("UCX_LOG_LEVEL", "fatal"),
            ],
            Library::Openmpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_plm", "rsh"),
                // The first host calls each of the others itself.
                ("OMPI_MCA_plm_rsh_no_tree_spawn", "1"),
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "self,vader,tcp"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
                ("PRTE_MCA_plm", "ssh"),
                ("PRTE_MCA_plm_ssh_no_tree_spawn", "1"),
                // By cores, its default, it would put all ranks on the first host.
                (
                    "PRTE_MCA_rmaps_default_mapping_policy",
                    "slot:oversubscribe",
                ),
                ("PRTE_MCA_hwloc_default_binding_policy", "none"),
            ],
        }
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Library::Mpich => "MPICH",
            Library::Openmpi => "Open MPI",
        })
    }
}

/// Nothing in the guest's view can start the ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLauncher {
    #[error(
        "mpiexec not found at the site: none is in the guest's PATH; the site's owner may install mpich or openmpi-bin, and \
         a job may name another PATH"
    )]
    Any,
    #[error(
        "mpiexec of {0} not found at the site: none is in the guest's PATH; the site's owner may install {package}, and a \
         job may name another PATH", package = .0.package()
    )]
    Of(Library),
    #[error(
        "{0} not found at the site: it is not in the guest's PATH; the site's owner may install mpich, and a job may name another PATH"
    )]
    Proxy(String),
}

/// A launcher that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launcher {
    /// In the guest's view.
    pub path: String,
    pub library: Library,
    /// It is called by a launcher that is elsewhere.
    is_proxy: bool,
}

impl Launcher {
    pub fn find(mpi: Mpi, attempt: &AttemptSpec) -> Result<Launcher, NoLauncher> {
        let wanted = match mpi {
            Mpi::Mpich => Some(Library::Mpich),
            Mpi::Openmpi => Some(Library::Openmpi),
            Mpi::Auto => linked_with(attempt),
            Mpi::Proxy => None,
        };
        let path = attempt.environment.get("PATH");
        let path = path.map_or(kumiko_sandbox::PATH, String::as_str);
        let mut places = path.split(':').filter(|place| place.starts_with('/'));
        if mpi == Mpi::Proxy {
            let name = &attempt.executable;
            let there = |place| {
                let path = format!("{place}/{name}");
                on_host(&path, attempt).map(|_| Launcher {
                    path,
                    library: Library::Mpich,
                    is_proxy: true,
                })
            };
            return places
                .find_map(there)
                .ok_or_else(|| NoLauncher::Proxy(name.clone()));
        }
        places
            .find_map(|place| in_place(place, wanted, attempt))
            .ok_or(wanted.map_or(NoLauncher::Any, NoLauncher::Of))
    }

    /// Makes it the one guest of the attempt, which starts the ranks.
    pub fn take_over(self, attempt: &mut AttemptSpec) -> io::Result<Library> {
        let ranks = std::mem::replace(&mut attempt.count, 1);
        let program = std::mem::replace(&mut attempt.executable, self.path);
        if !self.is_proxy {
            let words = ["-n".to_owned(), ranks.to_string(), program];
            attempt.arguments.splice(0..0, words);
        }
        let environment = &mut attempt.environment;
        environment.insert("KUMIKO_COUNT".to_owned(), ranks.to_string());
        let variables = match hosts::count(attempt) {
            1 if self.is_proxy => {
                hosts::at_site(attempt)?;
                self.library.variables_of_hosts()
            }
            1 => self.library.variables_of_one_host(),
            _ => {
                hosts::at_first(attempt, ranks, self.library)?;
                self.library.variables_of_hosts()
            }
        };
        for (name, value) in variables {
            let place = attempt.environment.entry((*name).to_owned());
            place.or_insert_with(|| (*value).to_owned());
        }
        Ok(self.library)
    }
}

/// The mechanism to try first where nobody names one: under `namespace` the kernel alone is between ranks. Under the
/// others, what Debian's MPICH passes messages by (UCX) lacks its UNIX datagrams.
pub fn mechanism(attempt: &AttemptSpec) -> Option<&'static str> {
    let left_to_us = attempt
        .mechanism
        .as_deref()
        .is_none_or(|name| name == "auto")
        && attempt.policy.mechanism == MechanismKind::Auto;
    (attempt.mpi.is_some() && left_to_us).then_some("namespace")
}

/// A signal for a launcher and its ranks, which are in process groups of their own (spec/jobs/mpi.md, N7).
pub fn signal(library: Library, launcher: &Guest, signal: i32) {
    match signal {
        // It cannot see these. Parents before their children, so that one that is stopped starts no more.
        SIGSTOP | SIGCONT => {
            launcher.signal(signal);
            send(|| tasks::below(launcher.pid()), signal);
        }
        // Open MPI's would pass it on and kill them one second later, whatever the grace.
        SIGTERM if library == Library::Openmpi => {
            if !send(|| tasks::children(launcher.pid()), signal) {
                launcher.signal(signal);
            }
        }
        // It passes these on.
        _ => launcher.signal(signal),
    }
}

/// Signals those that are listed; false: there are none. A number is listed again once a descriptor holds what has it, for
/// what had it may have ended, and another may have it.
fn send(list: impl Fn() -> Vec<i32>, signal: i32) -> bool {
    let first = list();
    for some in first.chunks(HELD_AT_ONCE) {
        // Some may have ended.
        let held = some
            .iter()
            .filter_map(|pid| Some((pid, process::pidfd(*pid).ok()?)));
        let held: Vec<(&i32, OwnedFd)> = held.collect();
        let again: HashSet<i32> = list().into_iter().collect();
        for (_, pidfd) in held.iter().filter(|(pid, _)| again.contains(pid)) {
            let _ = process::signal(pidfd.as_fd(), signal);
        }
    }
    !first.is_empty()
}

/// The launcher of a directory of the view.
fn in_place(place: &str, wanted: Option<Library>, attempt: &AttemptSpec) -> Option<Launcher> {
    let of = |name: &str, library| {
        let path = format!("{place}/{name}");
        let file = on_host(&path, attempt)?;
        let library = match library {
            Some(library) => library,
            None => library_of(&file)?,
        };
        let fits = wanted.is_none_or(|wanted| wanted == library);
        fits.then_some(Launcher {
            path,
            library,
            is_proxy: false,
        })
    };
    let named = || {
        let all = [Library::Mpich, Library::Openmpi].into_iter();
        all.flat_map(|library| library.launchers().iter().map(move |name| (name, library)))
            .find_map(|(name, library)| of(name, Some(library)))
    };
    let plain = || of("mpiexec", None);
    match wanted {
        Some(_) => named().or_else(plain),
        // The site's own choice.
        None => plain().or_else(named),
    }
}

/// A path of the view, which begins with a slash, on the host.
fn on_host(path: &str, attempt: &AttemptSpec) -> Option<PathBuf> {
    let program = Program {
        policy: &attempt.policy,
        job_directory: &attempt.job_directory,
        program: path,
        arguments: &[],
        path: None,
    };
    program.file()
}

/// Whose launcher a file with the name `mpiexec` is: by what the name leads to, or by what stands beside it.
fn library_of(mpiexec: &Path) -> Option<Library> {
    let file = mpiexec.canonicalize().ok()?;
    let name = file.file_name()?.to_str()?;
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let beside = |name: &str| file.with_file_name(name).is_file();
    if has(&["hydra", "mpich"]) {
        Some(Library::Mpich)
    } else if has(&["orterun", "prterun", "openmpi"]) {
        Some(Library::Openmpi)
    } else if beside("hydra_pmi_proxy") {
        Some(Library::Mpich)
    } else if beside("ompi_info") {
        Some(Library::Openmpi)
    } else {
        None
    }
}

/// The library that the program's own file names; None: no program that tells (a script, one linked statically).
fn linked_with(attempt: &AttemptSpec) -> Option<Library> {
    let program = &attempt.executable;
    let directory = attempt.directory.as_deref().unwrap_or("");
    let absolute = match directory.starts_with('/') {
        true => format!("{directory}/{program}"),
        false => format!("{JOB_DIRECTORY}/{directory}/{program}"),
    };
    let file = match program.contains('/') && !program.starts_with('/') {
        true => on_host(&absolute.replace("/./", "/").replace("//", "/"), attempt),
        false => Program {
            policy: &attempt.policy,
            job_directory: &attempt.job_directory,
            program,
            arguments: &[],
            path: attempt.environment.get("PATH").map(String::as_str),
        }
        .file(),
    };
    library_in(File::open(file?).ok()?.take(SEARCHED_BYTES)).ok()?
}

/// A dynamic program has the name of its library as a word between zero bytes (elf(5), DT_NEEDED); so has one that loads
/// it itself.
fn library_in(mut program: impl Read) -> io::Result<Option<Library>> {
    // MPICH and its descendants have had 12 since 2014 (the common ABI); Open MPI 20, 40 and on.
    const WORDS: [(&[u8], Library); 4] = [
        (b"\0libmpich.so.", Library::Mpich),
        (b"\0libmpi.so.12\0", Library::Mpich),
        (b"\0libmpi.so.", Library::Openmpi),
        (b"\0libmpi_mpifh.so.", Library::Openmpi),
    ];
    /// What is looked at from each place on: no less than the longest of these.
    const LONGEST: usize = 18;
    let begins = |bytes: &[u8]| {
        let row = WORDS.iter().find(|(word, _)| bytes.starts_with(word));
        row.map(|(_, library)| *library)
    };
    let mut bytes = Vec::with_capacity(CHUNK_BYTES + LONGEST);
    loop {
        let mut chunk = (&mut program).take(CHUNK_BYTES as u64);
        let over = chunk.read_to_end(&mut bytes)? == 0;
        let last = match over {
            true => bytes.len(),
            false => bytes.len().saturating_sub(LONGEST),
        };
        let found = (0..last).find_map(|at| begins(&bytes[at..]));
        if found.is_some() || over {
            return Ok(found);
        }
        bytes.drain(..last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_of_a_program_is_the_one_that_its_file_names() {
        let check = |words: &[u8], expected| {
            for before in [0, 100, CHUNK_BYTES - 5, CHUNK_BYTES, 3 * CHUNK_BYTES - 13] {
                let mut file = vec![b'x'; before];
                file.extend(words);
                file.extend(vec![b'y'; 1000]);
                let found = library_in(&file[..]).unwrap();
                assert_eq!(found, expected, "{words:?} after {before}");
            }
        };
        check(b"\0libc.so.6\0libmpich.so.12\0", Some(Library::Mpich));
        check(b"\0libmpi.so.12\0", Some(Library::Mpich));
        check(b"\0libmpi.so.40\0", Some(Library::Openmpi));
        check(b"\0libmpi.so.12x\0", Some(Library::Openmpi));
        check(b"\0libc.so.6\0", None);
        check(b" libmpi.so.40 in a text", None);
        check(b"", None);
    }

    #[test]
    fn an_mpiexec_is_of_the_library_that_its_name_leads_to_or_that_stands_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            std::fs::write(place.path().join(name), "").unwrap();
            place.path().join(name)
        };
        let link = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, place.path().join(name)).unwrap();
            place.path().join(name)
        };
        file("orterun");
        file("mpiexec.hydra");
        let plain = file("mpiexec");
        assert_eq!(library_of(&plain), None);
        assert_eq!(library_of(&link("a", "orterun")), Some(Library::Openmpi));
        assert_eq!(
            library_of(&link("b", "mpiexec.hydra")),
            Some(Library::Mpich)
        );
        file("ompi_info");
        assert_eq!(library_of(&plain), Some(Library::Openmpi));
        file("hydra_pmi_proxy");
        assert_eq!(library_of(&plain), Some(Library::Mpich));
        assert_eq!(library_of(Path::new("/no/such")), None);
    }
}
