//! The command line: noun, verb (design: the nouns are the vocabulary's). Only what is typed; what it does is elsewhere.

mod sandbox;

pub use sandbox::{Sandbox, Under};

use crate::job::files::Files;
use crate::job::serve::Serve;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A grid of small pieces: runs your programs on other people's machines, fenced, watched and carried through failures.
#[derive(Debug, Parser)]
#[command(
    name = "kumiko",
    version,
    max_term_width = 110,
    propagate_version = true
)]
pub struct Cli {
    /// How results are printed.
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "human",
        env = "KUMIKO_OUTPUT"
    )]
    pub output: Format,
    /// Where a personal site and its certificates live [default: $XDG_DATA_HOME/kumiko].
    #[arg(long, global = true, value_name = "DIR", env = "KUMIKO_HOME")]
    pub home: Option<PathBuf>,
    #[command(subcommand)]
    pub noun: Noun,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// One JSON document.
    Json,
    /// One JSON document a line.
    Lines,
}

#[derive(Debug, Subcommand)]
#[allow(clippy::large_enum_variant)] // there is one, made once
pub enum Noun {
    /// Start and look after a site on this machine.
    Site(SiteArguments),
    /// Submit jobs, watch them, take their results.
    #[command(subcommand)]
    Job(Job),
    /// Run a command at a site as ssh would, inside the sandbox.
    Exec(Exec),
    /// Certificates, proxies, trust.
    #[command(subcommand)]
    Identity(Identity),
    /// What hosts there are and how they stand: the information service.
    #[command(subcommand)]
    Info(crate::info::Info),
    /// Numerical routines: make, register and call them (GridRPC).
    #[command(subcommand)]
    Rpc(crate::rpc::Rpc),
    /// The process virtual machine by itself.
    #[command(subcommand)]
    Sandbox(Sandbox),
    /// Message-passing Java over a tree of machines, started over ssh with nothing installed there.
    Jojo(Jojo),
    /// What this machine can do for a site, and what is missing.
    Doctor,
    /// A guided tour with timings, in a throw-away place.
    Demo,
    /// The front of a site for many accounts; started by its monitor.
    #[command(hide = true)]
    Front,
    /// One account's agent at a site for many accounts; started by its monitor.
    #[command(hide = true)]
    Agent(Agent),
}

#[derive(Debug, Args)]
pub struct Agent {
    /// As the grid-mapfile names it.
    #[arg(long)]
    pub account: String,
    /// Where its jobs are kept.
    #[arg(long, value_name = "DIR")]
    pub state: PathBuf,
    /// While this file is there, no job is taken.
    #[arg(long, value_name = "FILE")]
    pub draining: PathBuf,
}

#[derive(Debug, Args)]
pub struct SiteArguments {
    /// Your own site, though this machine has one in /etc/kumiko and you are root.
    #[arg(long, global = true)]
    pub personal: bool,
    #[command(subcommand)]
    pub verb: Site,
}

#[derive(Debug, Subcommand)]
pub enum Site {
    /// Start the site; at the first start make its CA, certificates, policy and directories.
    Start(SiteStart),
    /// Is it up, where, with how many jobs.
    Status,
    /// Stop the site; running jobs go on and are picked up at the next start.
    Stop,
    /// Show who is mapped to which account, or add a line to the grid-mapfile.
    Map {
        /// A certificate subject, /C=../O=../CN=..
        subject: Option<String>,
        /// The account of this machine it is mapped to [default: yours].
        account: Option<String>,
    },
    /// Take no new jobs until started again; or begin nothing more on one host of the engine, so that it becomes free.
    Drain(Drain),
}

#[derive(Debug, Args)]
pub struct Drain {
    /// As the engine names it; what runs there comes to its end [default: the whole site, which takes no new jobs].
    pub host: Option<String>,
    /// Not any more.
    #[arg(long)]
    pub undo: bool,
    /// Jobs that were submitted with --rerun are ended and run again elsewhere, and calls of routines go on elsewhere at once; without
    /// it those calls do whose routines make checkpoints.
    #[arg(long, requires = "host", conflicts_with = "undo")]
    pub now: bool,
}

#[derive(Debug, Args)]
pub struct SiteStart {
    /// Address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDR:PORT", env = "KUMIKO_LISTEN")]
    pub listen: Option<String>,
    /// Run the packaged GridFTP server too; alone: on port 2811 of the same address.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "usual", conflicts_with = "many")]
    pub gridftp: Option<String>,
    /// Run an info server too, as info.toml says; alone: on port 2135 of the same address.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "usual")]
    pub info: Option<String>,
    /// What runs jobs: fork (this machine), slurm or condor (their hosts); default: as site.toml says.
    #[arg(long, value_name = "SYSTEM")]
    pub batch: Option<kumiko_batch::chosen::Name>,
    /// How many pilots hold slots of the engine at least and at most: jobs that ask for processors only start in them at once.
    #[arg(long, value_name = "LEAST..MOST")]
    pub pilots: Option<crate::site::pilots::Range>,
    /// Where hosts of the engine, which are other machines, reach this one; from there they call the site.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub landing: Option<kumiko_batch::LandingAddress>,
    /// Hosts of the engine may lack the site's folders: they get them from there, over the network.
    #[arg(long)]
    pub carry: bool,
    /// Names and addresses that the host certificate carries, besides localhost and this host's own.
    #[arg(long = "host-name", value_name = "NAME")]
    pub host_names: Vec<String>,
    /// Make it a site for many accounts, which root starts; from then on it is one without this.
    #[arg(long, conflicts_with = "demo")]
    pub many: bool,
    /// Stay in the foreground and log to stderr.
    #[arg(long)]
    pub foreground: bool,
    /// A throw-away place, a free port, and some routines to call; all is removed when it stops.
    #[arg(long)]
    pub demo: bool,
}

/// Which site, and as whom.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// A short name from the configuration, or HOST[:PORT] [default: your personal site].
    #[arg(long = "site", short = 's', value_name = "SITE", env = "KUMIKO_SITE")]
    pub site: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Job {
    /// Submit and print the job's number.
    Submit(Submit),
    /// Submit, stream the output, pass on the exit status.
    Run(Submit),
    /// Called by the launcher of `run --across`.
    #[command(hide = true)]
    Launch(Submit),
    /// Your jobs at the site.
    List {
        #[command(flatten)]
        target: Target,
        /// Only jobs that have not ended.
        #[arg(long)]
        live: bool,
    },
    /// All about some jobs.
    Show(Select),
    /// Wait for the end; exit status is the job's.
    Wait(Select),
    /// Print a job's output, following it while it runs.
    Log {
        #[command(flatten)]
        select: Select,
        /// stderr instead of stdout.
        #[arg(long)]
        stderr: bool,
        /// What is there now, without waiting for more.
        #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new(), value_name = "yes|no")]
        follow: bool,
        /// Begin at this byte.
        #[arg(long, default_value_t = 0, value_name = "BYTE")]
        from: u64,
    },
    /// The events of a job as they happen.
    Watch {
        #[command(flatten)]
        select: Select,
        /// Begin after this event number.
        #[arg(long, default_value_t = 0)]
        after: u64,
    },
    /// SIGTERM, then SIGKILL after the grace.
    Cancel {
        #[command(flatten)]
        select: Select,
        /// Between SIGTERM and SIGKILL, e.g. 500ms, 5s.
        #[arg(long, value_parser = duration)]
        grace: Option<Duration>,
    },
    /// Have a job that was submitted with --rerun end and run again, from its newest checkpoint if its program links the library, or from its newest dump
    /// where the site has it dumped.
    Migrate {
        #[command(flatten)]
        select: Select,
        /// On this host of the site's engine, where the site has a pilot.
        #[arg(long = "to", value_name = "HOST")]
        to: Option<String>,
    },
    /// Send a signal, by name or number.
    Signal {
        signal: String,
        #[command(flatten)]
        select: Select,
    },
    /// Give a running job a fresh credential, made from the one you have now.
    Renew {
        #[command(flatten)]
        select: Select,
        /// limited, or full if the job is to start jobs elsewhere.
        #[arg(long, value_enum, default_value = "limited")]
        rights: Rights,
    },
    /// Give the site a credential for a job yet to be submitted; prints what its description is to name.
    Delegate {
        #[command(flatten)]
        target: Target,
        /// limited, or full if the job is to start jobs elsewhere.
        #[arg(long, value_enum, default_value = "limited")]
        rights: Rights,
    },
    /// Bring the files of a job's directory back.
    Fetch {
        #[command(flatten)]
        select: Select,
        /// Into this folder.
        #[arg(long, default_value = ".")]
        into: PathBuf,
    },
    /// Give files of yours to jobs, and take theirs (GASS): prints the beginning of the URLs, serves until ended.
    Serve(Serve),
    /// Why it waits, or why it failed, in words.
    Explain(Select),
    /// Forget ended jobs with their output and files.
    Remove(Select),
}

#[derive(Debug, Args)]
pub struct Select {
    /// 7, 3-5, last, all; several are allowed.
    #[arg(required = true, value_name = "JOB")]
    pub jobs: Vec<String>,
    /// All jobs that were started together with these, at their sites.
    #[arg(long)]
    pub whole: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Args)]
pub struct Submit {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub place: crate::job::Where,
    /// Send this folder; it becomes the job's directory, and what is new or changed comes back (run).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A variable of the job's environment; NAME alone copies yours.
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub environment: Vec<String>,
    /// A file of the job's directory, or a URL, as standard input; "-" for yours (run).
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<String>,
    /// Wall-clock limit, e.g. 90s, 30m, 2h.
    #[arg(long = "time", value_parser = duration)]
    pub time: Option<Duration>,
    /// It may run again from its start, if its host is lost or drained now.
    #[arg(long)]
    pub rerun: bool,
    #[command(flatten)]
    pub instances: crate::job::Instances,
    /// One MPI program over several sites, with so many ranks at each (run): MPICH's launcher runs here, ranks in the sandbox of each site.
    /// With --where only the number of ranks: they go to few sites that are near.
    #[arg(long, value_name = "SITE:RANKS,...|RANKS", conflicts_with_all = ["description", "rsl", "site", "key"])]
    pub across: Option<crate::job::Across>,
    #[command(flatten)]
    pub resources: crate::job::Resources,
    /// Working directory, as the job sees it.
    #[arg(long, value_name = "PATH")]
    pub workdir: Option<String>,
    #[arg(long)]
    pub name: Option<String>,
    #[command(flatten)]
    pub delegation: Delegation,
    #[command(flatten)]
    pub files: Files,
    /// A policy file (TOML, or the paper's format) that narrows the site's.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// auto, namespace.
    #[arg(long)]
    pub mechanism: Option<String>,
    /// A job description in JSON instead of a command; "-" reads standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "rsl"])]
    pub description: Option<PathBuf>,
    /// RSL instead of a command, or a file of it ("-": standard input): '&(...)', or '+(&...)(&...)' for jobs at several
    /// sites that start together or not at all.
    #[arg(long, value_name = "RSL", conflicts_with = "command")]
    pub rsl: Option<String>,
    /// The same key again submits nothing new.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// The program and its arguments.
    #[arg(
        last = true,
        value_name = "COMMAND",
        required_unless_present_any = ["description", "rsl"]
    )]
    pub command: Vec<String>,
}

/// Whether the job gets a credential of yours.
#[derive(Clone, Copy, Debug, Args)]
pub struct Delegation {
    /// Give the job a proxy of your credential (X509_USER_PROXY): limited, or full if it is to start jobs elsewhere.
    #[arg(
        long,
        value_enum,
        value_name = "RIGHTS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "limited"
    )]
    pub delegate: Option<Rights>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Rights {
    /// All but the starting of jobs.
    #[default]
    Limited,
    Full,
}

impl From<Rights> for kumiko_client::Rights {
    fn from(rights: Rights) -> kumiko_client::Rights {
        match rights {
            Rights::Limited => kumiko_client::Rights::Limited,
            Rights::Full => kumiko_client::Rights::Full,
        }
    }
}

#[derive(Debug, Args)]
pub struct Exec {
    /// A short name from the configuration, or HOST[:PORT]; "local" is your personal site.
    pub site: String,
    /// Always a pseudo-terminal.
    #[arg(short = 't', conflicts_with = "no_terminal")]
    pub terminal: bool,
    /// Never a pseudo-terminal.
    #[arg(short = 'T')]
    pub no_terminal: bool,
    /// How long the program goes on when we have vanished [default: 60s]; losing this terminal ends it at once.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub unattended: Option<Duration>,
    /// The program goes on without us until it ends by itself.
    #[arg(long, conflicts_with = "unattended")]
    pub keep: bool,
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    pub environment: Vec<String>,
    #[command(flatten)]
    pub delegation: Delegation,
    /// A policy file that narrows the site's.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    #[arg(long)]
    pub mechanism: Option<String>,
    /// The program and its arguments [default: a shell].
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Jojo {
    /// Where the program's classes are [default: .].
    #[arg(long, visible_alias = "cp", value_name = "PATH", env = "CLASSPATH")]
    pub class_path: Option<OsString>,
    /// The java command of this host [default: of JAVA_HOME, else in PATH].
    #[arg(long, value_name = "FILE")]
    pub java: Option<PathBuf>,
    /// CONF PROPS runs a program; check CONF shows the tree and reaches every host; watch shows what a program does (watch --help).
    #[arg(
        required = true,
        value_name = "CONF PROPS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub arguments: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
pub enum Identity {
    /// Make a certificate authority for a site or a virtual organisation.
    InitCa {
        /// Its folder.
        dir: PathBuf,
        /// Its name, /C=../O=../CN=..
        #[arg(long, default_value = "/O=kumiko/CN=CA")]
        subject: String,
        /// RSA instead of P-256 (for peers that delegate to Globus gatekeepers).
        #[arg(long)]
        rsa: bool,
        /// Days it is valid.
        #[arg(long, default_value_t = 3650)]
        days: u32,
    },
    /// Make a key and a certificate request.
    Request {
        /// The subject asked for.
        #[arg(long)]
        subject: String,
        #[arg(long)]
        rsa: bool,
        /// Where the key goes (mode 0600).
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
        /// Where the request goes.
        #[arg(long = "out", value_name = "FILE")]
        request: PathBuf,
    },
    /// Sign a request.
    Issue {
        /// The authority's folder.
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        request: PathBuf,
        /// For a host: a name or address its certificate carries [default: the one in the subject, if it is host/NAME].
        #[arg(long = "host", value_name = "NAME")]
        hosts: Vec<String>,
        #[arg(long = "out", value_name = "FILE")]
        certificate: PathBuf,
        #[arg(long, default_value_t = 365)]
        days: u32,
    },
    /// Withdraw a certificate and write a new revocation list.
    Revoke {
        #[arg(long, value_name = "DIR")]
        ca: PathBuf,
        certificate: PathBuf,
    },
    /// Make a proxy certificate in the usual place.
    Proxy {
        #[arg(long, value_parser = duration, default_value = "12h")]
        valid: Duration,
        /// May authenticate and move files, not start jobs.
        #[arg(long)]
        limited: bool,
        /// How many further proxies may hang below it.
        #[arg(long)]
        path_length: Option<u32>,
        /// With keys (RSA) from which Globus programs can delegate; they cannot from others.
        #[arg(long, conflicts_with = "path_length")]
        globus: bool,
        #[arg(long, value_name = "FILE")]
        cert: Option<PathBuf>,
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        #[arg(long = "out", value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Sign the policy of a virtual organisation, for sites that trust you as its administrator.
    Sign {
        policy: PathBuf,
        #[arg(long, value_name = "FILE")]
        cert: Option<PathBuf>,
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        #[arg(long = "out", value_name = "FILE")]
        out: PathBuf,
    },
    /// Who you are: subject, kind, time left.
    Show {
        /// A proxy or certificate file [default: what a client here would use].
        file: Option<PathBuf>,
    },
    /// Trust an authority: add its certificate (and policy, revocation list) to a trust directory.
    Trust {
        /// The authority's folder or certificate.
        ca: PathBuf,
        /// The trust directory [default: ~/.globus/certificates].
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
}

/// "1500ms", "90s", "30m", "2h", "1d"; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong =
        || format!("\"{text}\" is no duration: write for example 1500ms, 90s, 30m, 2h or 1d");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let unit_ms = match unit {
        "ms" => 1,
        "" | "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(unit_ms)
        .map(Duration::from_millis)
        .ok_or_else(wrong)
}

/// NAME=VALUE as given, NAME alone from this process's environment.
pub fn environment(given: &[String]) -> Result<std::collections::BTreeMap<String, String>, String> {
    kumiko_entry::sandbox::environment(given).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn what_is_run_before_the_rest_is_loaded_is_read_alike_here() {
        let rows = [
            "sandbox run -- true",
            "sandbox run --dir /d --policy=p --mechanism namespace -- sh -c x",
            "sandbox run --env A=b=c --env D --dir=/d=e -- prog -- --dir x",
            "sandbox run --policy a --site-policy s --policy b --limit cpu=50% --net 1MB/s -- true",
        ];
        for row in rows {
            let words = row.split(' ').map(OsString::from);
            let there = kumiko_entry::line::sandbox_run(words.clone()).unwrap();
            let here = Cli::try_parse_from([OsString::from("kumiko")].into_iter().chain(words));
            let Noun::Sandbox(Sandbox::Run {
                under,
                dir,
                environment,
                command,
            }) = here.unwrap().noun
            else {
                panic!("{row}")
            };
            let here = kumiko_entry::sandbox::Run {
                said: under.said(),
                mechanism: under.mechanism,
                directory: dir,
                environment,
                command,
            };
            assert_eq!(there, here, "{row}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_carry_their_unit() {
        let check = |text: &str, ms: Option<u64>| {
            assert_eq!(duration(text).ok(), ms.map(Duration::from_millis), "{text}");
        };
        check("1500ms", Some(1500));
        check("90", Some(90_000));
        check("90s", Some(90_000));
        check("30m", Some(1_800_000));
        check("2h", Some(7_200_000));
        check("1d", Some(86_400_000));
        check("", None);
        check("h", None);
        check("1w", None);
        check("-1s", None);
        check("99999999999999999999s", None);
        check("999999999999999999d", None);
    }
}
