//! `kumiko job run --across`: one MPI program over several sites (spec/jobs/mpi.md, N30 to N34). MPICH's own launcher runs here, and
//! calls this program in the place of ssh, which has each site start its ranks. Not here: what a site does for that (the runner), which
//! sites these are (`spread`).

use crate::args::Submit;
use crate::fail::{Failure, OWN_FAILURE, While};
use crate::home::Home;
use crate::job::spread::Spread;
use crate::job::{describe, run};
use kumiko_job::description::{JobDescription, Mpi, Stdin};
use kumiko_job::placement::{Fate, Placement};
use kumiko_linux::{detach, process};
use kumiko_policy::JOB_DIRECTORY;
use std::fmt;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::str::FromStr;
use std::time::Duration;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// Of MPICH; Open MPI's ranks do not meet over its connections.
const LAUNCHERS: [&str; 2] = ["mpiexec.hydra", "mpiexec.mpich"];
const PROXY: &str = "hydra_pmi_proxy";
/// Hosts of the launcher's: names that lead nowhere, with a site's number behind, from 1.
const HOST: &str = "kumiko-site-";
const CONTROL: &str = "--control-port";
/// What is left of ranks whose launcher vanished ends after this, as what `exec` started does.
const UNATTENDED_S: u64 = 60;
/// Names the folder that the launcher's children share.
const FOLDER: &str = "KUMIKO_LAUNCH_FOLDER";
/// In it: written by one whose ranks did not come up.
const FAILED: &str = "failed";
/// In it: how the sites were chosen, if they were.
const PLACEMENT: &str = "placement";
const OPTION: &str = "--across";
/// What fails because the program ends is not why it ends.
const HEEDED_AFTER: Duration = Duration::from_secs(1);
/// A launcher that was told to end ends its ranks, and itself, within this.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

/// Where the ranks of a program are to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Across {
    /// So many, at sites that are still to be chosen.
    Chosen(u32),
    At(Parts),
}

/// SITE:RANKS, ...: consecutive ranks are at one site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    site: String,
    ranks: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part:?} is not SITE:RANKS, as in host1.example:4, and no number of ranks")]
pub struct BadPart {
    part: String,
}

impl FromStr for Across {
    type Err = BadPart;

    fn from_str(text: &str) -> Result<Across, BadPart> {
        if let Some(ranks) = text.parse().ok().filter(|ranks| *ranks > 0) {
            return Ok(Across::Chosen(ranks));
        }
        let part = |part: &str| {
            let (site, ranks) = part.rsplit_once(':')?;
            let ranks = ranks.parse().ok().filter(|ranks| *ranks > 0)?;
            let site = site.to_owned();
            (!site.is_empty()).then_some(Part { site, ranks })
        };
        let parts = text.split(',').map(|text| {
            part(text).ok_or_else(|| BadPart {
                part: text.to_owned(),
            })
        });
        Ok(Across::At(Parts(parts.collect::<Result<_, _>>()?)))
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, Part { site, ranks }) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma}{site}:{ranks}")?;
        }
        Ok(())
    }
}

impl Parts {
    fn hosts(&self) -> String {
        let host = |(number, part): (usize, &Part)| format!("{HOST}{}:{}", number + 1, part.ranks);
        let hosts: Vec<String> = self.0.iter().enumerate().map(host).collect();
        hosts.join(",")
    }

    fn part(&self, host: &str) -> Option<&Part> {
        let number: usize = host.strip_prefix(HOST)?.parse().ok()?;
        self.0.get(number.checked_sub(1)?)
    }

    fn ranks(&self) -> u64 {
        self.0.iter().map(|part| u64::from(part.ranks)).sum()
    }
}

/// The program's exit status, as the launcher passes it on; that of the signal by which this was told to end.
pub async fn run(submit: &Submit, across: &Across, home: &Home) -> Result<u8, Failure> {
    // What is wrong is said here, and not once by each site.
    let description = describe::of_submit(submit)?;
    if description.count != 1 || description.mpi.is_some() {
        return Err(Failure::misuse(
            "--across says how many ranks each site has, and they are MPICH's: leave out --count and --mpi",
        ));
    }
    if !matches!(description.stdin, Stdin::Empty | Stdin::Live) {
        return Err(Failure::misuse(
            "with --across stdin is rank 0's, and yours: leave --stdin out, or say --stdin -",
        ));
    }
    let launcher = LAUNCHERS.into_iter().find_map(in_path).ok_or_else(|| {
        Failure::from_text("there is no mpiexec of MPICH in your PATH: install mpich")
    })?;
    let Some((across, placement)) = parts(submit, &description, across, home).await? else {
        return Ok(0);
    };
    let folder = Folder::new()?;
    if let Some(placement) = placement {
        std::fs::write(folder.path.join(PLACEMENT), serde_json::to_vec(&placement)?)
            .doing(|| "keeping how sites were chosen".to_owned())?;
    }
    let script = folder.path.join("kumiko-launch");
    std::fs::write(&script, script_text(&across, &submit.command)?)
        .and_then(|()| std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)))
        .doing(|| format!("writing {}", script.display()))?;
    let mut command = Command::new(launcher);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HYDRA_") {
            command.env_remove(name);
        }
    }
    command
        .args(["-launcher", "ssh", "-launcher-exec"])
        .arg(&script);
    // Nothing of this environment is the ranks' business; the sites give them theirs.
    command.args(["-rmk", "user", "-localhost", "localhost", "-genvnone"]);
    let directory = description.directory.as_deref();
    let directory = Path::new(JOB_DIRECTORY).join(directory.unwrap_or_default());
    command.arg("-wdir").arg(directory);
    command.args(["-hosts", &across.hosts()]);
    command.args(["-n", &across.ranks().to_string()]);
    command.args(&submit.command);
    command.stdin(match description.stdin {
        Stdin::Live => Stdio::piped(),
        _ => Stdio::null(),
    });
    command.env(FOLDER, &folder.path);
    // A group of its own: what the terminal sends comes to us, once.
    command.process_group(0);
    let mut launcher = command
        .spawn()
        .doing(|| "starting MPICH's launcher".to_owned())?;
    if let Some(mut to) = launcher.stdin.take() {
        tokio::spawn(async move { tokio::io::copy(&mut tokio::io::stdin(), &mut to).await });
    }
    // What the launcher says by itself of ranks that did not come up, or of being told to end, says nothing.
    Ok(match wait(&mut launcher).await? {
        End::Told(signal) => 128 + u8::try_from(signal).unwrap_or(0),
        End::Launchers(_) if folder.path.join(FAILED).exists() => OWN_FAILURE,
        End::Launchers(status) => status,
    })
}

/// Where the ranks are to be, and how that was chosen, if it was. None: it was only to be shown.
async fn parts(
    submit: &Submit,
    description: &JobDescription,
    across: &Across,
    home: &Home,
) -> Result<Option<(Parts, Option<Placement>)>, Failure> {
    match (across, &submit.place.among.requirement) {
        (Across::At(parts), None) => Ok(Some((parts.clone(), None))),
        (Across::Chosen(ranks), Some(_)) => {
            let spread = Spread::of(submit, description, *ranks, home).await?;
            if submit.place.dry_run {
                spread.show()?;
                return Ok(None);
            }
            spread.tell();
            let part = |(site, ranks): (&str, u32)| Part {
                site: site.to_owned(),
                ranks,
            };
            let parts = Parts(spread.shares().map(part).collect());
            Ok(Some((parts, Some(spread.placement))))
        }
        (Across::At(_), Some(_)) => Err(Failure::misuse(
            "--across names the sites that --where would choose: with --where say how many ranks there are, as in --across 12",
        )),
        (Across::Chosen(ranks), None) => Err(Failure::misuse(format!(
            "--across {ranks} has no sites: name them, as in --across one.example:{ranks}, or have them chosen, by --where"
        ))),
    }
}

/// Why there are no ranks any more.
enum End {
    /// The launcher ended, with this status.
    Launchers(u8),
    /// This was told to end, by this signal, and had the launcher do so.
    Told(i32),
}

async fn wait(launcher: &mut tokio::process::Child) -> Result<End, Failure> {
    let mut interrupts = signal(SignalKind::interrupt())?;
    let mut terminations = signal(SignalKind::terminate())?;
    let mut hangups = signal(SignalKind::hangup())?;
    let told = tokio::select! {
        ended = launcher.wait() => return Ok(End::Launchers(status(ended?))),
        _ = interrupts.recv() => SIGINT,
        _ = terminations.recv() => SIGTERM,
        _ = hangups.recv() => SIGHUP,
    };
    let pid = launcher.id().and_then(|pid| i32::try_from(pid).ok());
    let held = pid.and_then(|pid| process::pidfd(pid).ok());
    if let Some(held) = &held {
        process::signal(held.as_fd(), SIGTERM)?;
    }
    if tokio::time::timeout(ENDS_WITHIN, launcher.wait())
        .await
        .is_err()
    {
        if let Some(held) = &held {
            process::signal(held.as_fd(), SIGKILL)?;
        }
        launcher.wait().await?;
    }
    Ok(End::Told(told))
}

fn status(ended: std::process::ExitStatus) -> u8 {
    let number = ended.code().or(ended.signal().map(|signal| 128 + signal));
    number
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or(OWN_FAILURE)
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|place| place.join(name));
    places.find(|place| place.is_file())
}

/// In the place of ssh: this command line, with `launch` for `run`, the sites for how many ranks there are, and the launcher's words for the
/// program.
fn script_text(across: &Parts, program: &[String]) -> Result<String, Failure> {
    let own = std::env::current_exe().doing(|| "finding this program".to_owned())?;
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let own = own.to_string_lossy();
    Ok(script_of(&own, &words, &across.to_string(), program.len()))
}

fn script_of(own: &str, words: &[String], across: &str, program: usize) -> String {
    let options = words.len().saturating_sub(program);
    let mut options = words.get(..options).unwrap_or_default().to_vec();
    if options.last().is_some_and(|last| last == "--") {
        options.pop();
    }
    let noun = options.iter().position(|word| word == "job").unwrap_or(0);
    let verb = options.iter().skip(noun).position(|word| word == "run");
    if let Some(verb) = verb.and_then(|verb| options.get_mut(noun + verb)) {
        "launch".clone_into(verb);
    }
    let parts = [OPTION.to_owned(), across.to_owned()];
    if let Some(at) = options.iter().position(|word| word == OPTION) {
        options.splice(at..(at + 2).min(options.len()), parts);
    } else if let Some(at) = options
        .iter()
        .position(|word| word.starts_with("--across="))
    {
        options.splice(at..=at, parts);
    }
    let words: Vec<String> = std::iter::once(own.to_owned())
        .chain(options)
        .map(|word| format!("'{}'", word.replace('\'', "'\\''")))
        .collect();
    format!("#!/bin/sh\nexec {} -- \"$@\"\n", words.join(" "))
}

/// What the launcher calls: `[OPTION...] HOST "PROXY" ARGUMENT...`.
#[derive(Debug, PartialEq, Eq)]
struct Called {
    host: String,
    /// Where the launcher listens, as HOST:PORT.
    control: String,
    arguments: Vec<String>,
}

fn called(words: &[String]) -> Option<Called> {
    // Quoted, as for the shell that ssh has.
    let plain = |word: &String| word.trim_matches('"').to_owned();
    let mut words = words.iter().skip_while(|word| word.starts_with('-'));
    let host = words.next()?.clone();
    let proxy = plain(words.next()?);
    if Path::new(&proxy).file_name()? != PROXY {
        return None;
    }
    let mut arguments: Vec<String> = words.map(plain).collect();
    let at = arguments.iter().position(|word| word == CONTROL)?;
    let control = arguments.drain(at..(at + 2).min(arguments.len())).nth(1)?;
    Some(Called {
        host,
        control,
        arguments,
    })
}

/// As the launcher calls it: the ranks of one site, until they have ended. The launcher would wait for some that never come up, so it is told
/// to end if there are any.
pub async fn launch(submit: Submit, home: &Home) -> Result<u8, Failure> {
    let parent = i32::try_from(std::os::unix::process::parent_id()).ok();
    let launcher = parent.and_then(|parent| process::pidfd(parent).ok());
    let ended = ranks_of_one_site(submit, home).await;
    if let Err(failure) = &ended {
        eprintln!("kumiko: {}", failure.message);
    }
    if let (Err(_) | Ok(OWN_FAILURE), Some(folder)) = (&ended, shared_folder()) {
        let _ = std::fs::write(folder.join(FAILED), ""); // it is gone if nobody waits any more
    }
    if !matches!(ended, Ok(0)) {
        tokio::time::sleep(HEEDED_AFTER).await;
        if let Some(launcher) = launcher {
            let _ = process::signal(launcher.as_fd(), SIGTERM); // it may have ended
        }
    }
    Ok(ended.unwrap_or(OWN_FAILURE))
}

fn shared_folder() -> Option<PathBuf> {
    std::env::var_os(FOLDER).map(PathBuf::from)
}

/// How this site was chosen, if it was.
fn placement(part: &Part) -> Option<Placement> {
    let text = std::fs::read(shared_folder()?.join(PLACEMENT)).ok()?;
    let mut placement: Placement = serde_json::from_slice(&text).ok()?;
    let mut considered = placement.considered.iter_mut();
    considered.find(|one| one.contact == part.site)?.fate = Fate::Chosen;
    Some(placement)
}

async fn ranks_of_one_site(mut submit: Submit, home: &Home) -> Result<u8, Failure> {
    let what = || Failure::misuse("this is called by the launcher of `kumiko job run --across`");
    let Some(Across::At(across)) = submit.across.take() else {
        return Err(what());
    };
    let called = called(&submit.command).ok_or_else(what)?;
    let part = across.part(&called.host).ok_or_else(what)?;
    let link = TcpStream::connect(&called.control)
        .doing(|| format!("connecting to MPICH's launcher at {}", called.control))?;
    link.set_nodelay(true)?;
    detach::put_stdin_and_stdout(&link)?;
    drop(link);
    submit.target.site = Some(part.site.clone());
    submit.stdin = Some("-".to_owned());
    submit.command = vec![PROXY.to_owned()];
    submit.command.extend(called.arguments);
    let mut description = describe::of_submit(&submit)?;
    // Those of the launcher's words.
    description.directory = None;
    description.count = part.ranks;
    description.mpi = Some(Mpi::Proxy);
    description.attended_s = Some(UNATTENDED_S);
    description.placement = placement(part).map(Box::new);
    let ended = run::to_its_end(&submit, description, home).await;
    ended.map_err(|failure| Failure {
        message: format!("{}: {}", part.site, failure.message),
        ..failure
    })
}

/// Removed when dropped.
struct Folder {
    path: PathBuf,
}

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let name = format!("kumiko-across-{}", kumiko_client::fresh_key());
        let path = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .doing(|| format!("making {}", path.display()))?;
        Ok(Folder { path })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It holds a script of two lines.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn sites_are_read_with_their_ranks() {
        let parts = |text: &str| match text.parse().unwrap() {
            Across::At(parts) => parts,
            Across::Chosen(ranks) => panic!("{ranks}"),
        };
        assert_eq!("12".parse(), Ok(Across::Chosen(12)));
        let across = parts("a:2,localhost:2119:3");
        assert_eq!(across.to_string(), "a:2,localhost:2119:3");
        assert_eq!(across.hosts(), "kumiko-site-1:2,kumiko-site-2:3");
        assert_eq!(across.ranks(), 5);
        let many = parts("a:4294967295,b:1");
        assert_eq!(many.ranks(), 1 << 32);
        let site = |host| across.part(host).map(|part| part.site.as_str());
        assert_eq!(site("kumiko-site-2"), Some("localhost:2119"));
        assert_eq!(site("kumiko-site-0"), None);
        assert_eq!(site("kumiko-site-3"), None);
        assert_eq!(site("elsewhere"), None);
        for wrong in ["", "0", "-1", "4294967296", "a", "a:0", "a:x", ":2", "a:2,"] {
            assert!(wrong.parse::<Across>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_the_launcher_calls_is_understood() {
        let found = called(&words(
            "-x kumiko-site-2 \"/usr/bin/hydra_pmi_proxy\" --control-port localhost:41187 --rmk user --proxy-id 1",
        ));
        let expected = Called {
            host: "kumiko-site-2".to_owned(),
            control: "localhost:41187".to_owned(),
            arguments: words("--rmk user --proxy-id 1"),
        };
        assert_eq!(found, Some(expected));
        for wrong in [
            "",
            "-x",
            "-x host",
            "host orted --control-port a:1",
            "host hydra_pmi_proxy --control-port",
            "host hydra_pmi_proxy --rmk user",
        ] {
            assert_eq!(called(&words(wrong)), None, "{wrong}");
        }
    }

    #[test]
    fn the_script_is_this_command_line_with_launch_for_run() {
        let text = script_of(
            "/usr/bin/kumiko",
            &words("job run --across a:1 --name it's -- ./run x"),
            "a:1",
            2,
        );
        let line =
            "exec '/usr/bin/kumiko' 'job' 'launch' '--across' 'a:1' '--name' 'it'\\''s' -- \"$@\"";
        assert_eq!(text, format!("#!/bin/sh\n{line}\n"));
        for number in ["--across 3", "--across=3"] {
            let line = words(&format!("job run {number} --where x -- ./run"));
            let text = script_of("kumiko", &line, "a:2,b:1", 1);
            let line = "exec 'kumiko' 'job' 'launch' '--across' 'a:2,b:1' '--where' 'x' -- \"$@\"";
            assert_eq!(text, format!("#!/bin/sh\n{line}\n"));
        }
    }
}
