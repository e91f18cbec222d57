//! `site.toml`: what the owner of a site may set. Everything has a default, which the file shows as comments.

use crate::fail::{Failure, While};
use crate::home::{Home, read_optional};
use crate::site::capacity::Reservable;
use crate::site::organisations::Organisation;
use crate::site::pilots::PilotSettings;
use kumiko_batch::chosen::Name;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::net::SocketAddr;

/// Written at the first start.
pub const TEMPLATE: &str = r#"# A kumiko site. Everything here may be left out; what is commented out shows the default.
# Read at the start of the site.

# Where the gatekeeper listens; port 0 takes a free one.
# listen = "127.0.0.1:2119"

# What runs jobs: "fork" (this machine), "slurm" or "condor" (their hosts, by the engine's own commands).
# batch = "fork"

# What runs routines that are called (GridRPC): "fork", "slurm" or "condor"; "": what runs jobs.
# calls = ""

# Pilots before an engine: each holds one of its slots, in which jobs that ask for processors only start at once; further
# ones are asked for while jobs wait, and idle ones go. Of each may be said: least, most, cpus, memory_mib, queue, project,
# time_limit_s.
# pilots = { least = 0, most = 0, cpus = 1 }

# Where hosts of an engine, which are other machines, reach this one, as HOST or HOST:PORT: from there they call the site, what runs
# routines at the port after that. "": not at all.
# landing = ""

# May hosts of the engine lack the folders in which this site keeps its jobs? Then they get them over the network from the landing's host,
# two ports further, for what runs there: no file system need be shared. Not for MPI programs on several hosts.
# carry = false

# Run the packaged GridFTP server there too (globus-gridftp-server-progs); "" for none. Of a personal site.
# gridftp = ""

# Run an information service there too; "usual": on port 2135 of the gatekeeper's address; "" for none. What it tells,
# and whom, is in info.toml beside this file.
# info = ""

# Keys of credentials that Globus clients delegate: "p256", or "rsa" where jobs delegate on to Globus servers (GridFTP),
# which take no other.
# delegated_keys = "p256"

# May a limited proxy start jobs? As with GRAM, it may not.
# accept_limited = false

# Between SIGTERM and SIGKILL, where neither the job nor its cancellation say, milliseconds.
# grace_ms = 5000

# Longest a job may run, seconds; 0: as long as it likes.
# time_limit_s = 0

# stdout and stderr of a job, each, bytes.
# output_quota_bytes = 1073741824

# Files that came from other hosts and have a `sha256` in their job's description are kept, so that they do not travel
# again: at most so many bytes (of each account, and half of what its disk has free); 0: none.
# stock_bytes = 17179869184

# Jobs that have not ended, of one caller.
# live_jobs_per_caller = 10000

# How long an ended job is kept, hours.
# keep_h = 168

# Virtual organisations whose members' jobs are under the policy that its administrator signed (`kumiko identity sign`):
# a list of { name, administrator (a subject), policy (the signed file, or an https address of it) }. Of several that list somebody, the one that
# the job's policy names, else the first.
# organisations = []

# What jobs can reserve of this host, where fork runs them: cpu_percent (100: one processor), memory_mib,
# network_kbyte_s, disk_kbyte_s, processes. What is left out: the processors and the memory that the host has, and
# nothing of the others. At a site for many accounts it is of each account, and nothing where nothing is said.
# capacity = {}
"#;

/// Written after the others at the first start of a site for many accounts.
pub const MANY_TEMPLATE: &str = r#"
# With this table the site is one for many accounts, and root starts it: see docs/guide/site.md.
[accounts]

# The account of the front, which meets strangers and holds the host's key. Made for it alone, it owns nothing else.
# front = "kumiko"

# Accounts and groups with lower numbers are the system's, and are never served; root is not, whatever stands here.
# least_id = 1000

# Accounts that have an agent at once. Each has a process of some 15 MB.
# agents = 500

# An agent with no job and no connection ends after this, seconds.
# idle_s = 300

# Where an account's jobs and their output are kept: "site" (in the site's own state) or "home" (in ~/.kumiko).
# keep_in = "site"

# Processes and threads of an account at most; 0: what the system says.
# processes = 0

# A file in the format of passwd(5) to look accounts up in, instead of asking the system.
# file = ""
"#;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub listen: SocketAddr,
    #[serde(deserialize_with = "batch_name")]
    pub batch: Name,
    /// None: as `batch`.
    #[serde(deserialize_with = "calls_name")]
    pub calls: Option<Name>,
    pub pilots: PilotSettings,
    pub landing: String,
    pub carry: bool,
    /// An address to listen on, or empty.
    pub gridftp: String,
    /// An address to listen on, `usual`, or empty.
    pub info: String,
    pub accept_limited: bool,
    pub delegated_keys: DelegatedKeys,
    pub grace_ms: u64,
    pub time_limit_s: u64,
    pub output_quota_bytes: u64,
    pub stock_bytes: u64,
    pub live_jobs_per_caller: usize,
    pub keep_h: u64,
    pub organisations: Vec<Organisation>,
    pub capacity: Reservable,
    /// There: a site for many accounts.
    pub accounts: Option<Many>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelegatedKeys {
    P256,
    Rsa,
}

/// Of a site for many accounts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Many {
    pub front: String,
    pub least_id: u32,
    pub agents: usize,
    pub idle_s: u64,
    pub keep_in: KeepIn,
    pub processes: u64,
    pub file: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepIn {
    Site,
    Home,
}

impl Default for Many {
    fn default() -> Self {
        Many {
            front: "kumiko".to_owned(),
            least_id: 1000,
            agents: 500,
            idle_s: 300,
            keep_in: KeepIn::Site,
            processes: 0,
            file: String::new(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 2119)),
            batch: Name::Fork,
            calls: None,
            pilots: PilotSettings::default(),
            landing: String::new(),
            carry: false,
            gridftp: String::new(),
            info: String::new(),
            accept_limited: false,
            delegated_keys: DelegatedKeys::P256,
            grace_ms: 5_000,
            time_limit_s: 0,
            output_quota_bytes: 1 << 30,
            stock_bytes: 16 << 30,
            live_jobs_per_caller: 10_000,
            keep_h: 168,
            organisations: Vec::new(),
            capacity: Reservable::default(),
            accounts: None,
        }
    }
}

fn batch_name<'de, D: Deserializer<'de>>(source: D) -> Result<Name, D::Error> {
    String::deserialize(source)?
        .parse()
        .map_err(D::Error::custom)
}

fn calls_name<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Name>, D::Error> {
    match String::deserialize(source)?.as_str() {
        "" => Ok(None),
        name => name.parse().map(Some).map_err(D::Error::custom),
    }
}

impl Settings {
    pub fn runs_calls(&self) -> Name {
        self.calls.unwrap_or(self.batch)
    }

    pub fn load(home: &Home) -> Result<Settings, Failure> {
        let path = home.site_toml();
        match read_optional(&path)? {
            Some(text) => toml::from_str(&text).doing(|| format!("reading {}", path.display())),
            None => Ok(Settings::default()),
        }
    }

    pub fn limits(&self) -> kumiko_manager::Limits {
        kumiko_manager::Limits {
            live_jobs_per_caller: self.live_jobs_per_caller,
            keep: std::time::Duration::from_secs(self.keep_h.saturating_mul(3600)),
            output_quota_bytes: self.output_quota_bytes,
            grace_ms: self.grace_ms,
            time_limit_ms: (self.time_limit_s > 0).then(|| self.time_limit_s.saturating_mul(1000)),
            ..kumiko_manager::Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is commented out, as if it were not; and all of it as it stands.
    fn check(template: &str, expected: &Settings) {
        let spelled: Vec<&str> = template
            .lines()
            .filter_map(|l| match l.starts_with('[') {
                true => Some(l),
                false => l.strip_prefix("# ").filter(|l| l.contains(" = ")),
            })
            .collect();
        for text in [template, &spelled.join("\n")] {
            let settings: Settings = toml::from_str(text).unwrap();
            assert_eq!(format!("{settings:?}"), format!("{expected:?}"));
        }
    }

    #[test]
    fn the_templates_say_the_defaults() {
        check(TEMPLATE, &Settings::default());
        let many = Settings {
            accounts: Some(Many::default()),
            ..Settings::default()
        };
        check(&format!("{TEMPLATE}{MANY_TEMPLATE}"), &many);
    }
}
