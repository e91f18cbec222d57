//! The arguments of `kumiko sandbox`, as typed; what they mean is the entry's (kumiko-entry).

use super::Target;
use crate::sandbox::Typed;
use clap::{Args, Subcommand};
use kumiko_policy::{AmountError, Limited};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Sandbox {
    /// Run a command under a policy, without any site.
    Run {
        #[command(flatten)]
        under: Under,
        /// The writable directory that becomes the guest's own [default: a throw-away one].
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        #[arg(long = "env", value_name = "NAME[=VALUE]")]
        environment: Vec<String>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// The effective policy, and what it decides for paths and addresses.
    Check {
        #[command(flatten)]
        under: Under,
        /// The signed policy of a virtual organisation, between the site's and the others; its signer must be trusted here.
        #[arg(long, value_name = "FILE")]
        vo: Option<PathBuf>,
        /// Paths as the guest would name them; addresses as 192.0.2.1:443 or [2001:db8::1]:443.
        what: Vec<String>,
    },
    /// Change what runs: limits (net=1Gbit/s), and, narrower than it began, paths (/data=hidden) and addresses.
    Set {
        /// A job (7, last), or pid:NUMBER of a `kumiko sandbox run` that was started with limits or a policy.
        which: String,
        #[command(flatten)]
        target: Target,
        /// NAME=AMOUNT, /PATH=read|write|denied|hidden, allow=ADDRESS, deny=ADDRESS, network=none.
        #[arg(required_unless_present = "policy", value_name = "CHANGE", value_parser = Typed::read)]
        changes: Vec<Typed>,
        /// A policy file of paths and addresses, for a job.
        #[arg(long, value_name = "FILE")]
        policy: Option<PathBuf>,
    },
    /// What this machine admits.
    Probe {
        /// Measure what each mechanism costs here: less than a minute on a quiet machine, and kept for the choice.
        #[arg(long)]
        calibrate: bool,
    },
    /// Run a command in the sandbox to count what it asks of a mechanism, and keep that for the choice.
    Profile {
        #[command(flatten)]
        under: Under,
        /// The writable directory that becomes the guest's own [default: a throw-away one].
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        #[arg(long = "env", value_name = "NAME[=VALUE]")]
        environment: Vec<String>,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Which mechanism would be chosen, at what cost, and why not the others.
    Explain {
        #[command(flatten)]
        under: Under,
        /// As on a machine that does not have this mechanism.
        #[arg(long, value_name = "MECHANISM")]
        without: Vec<String>,
        /// Run the command so often without a sandbox and under each mechanism, and say what it took.
        #[arg(long, value_name = "TIMES", num_args = 0..=1, require_equals = true, default_missing_value = "3", value_parser = clap::value_parser!(u32).range(1..=1000), requires = "command")]
        measure: Option<u32>,
        /// The directory that would become the guest's own, for a command in it.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
        /// The command that it is to be chosen for; it is not executed, but for --measure.
        #[arg(last = true)]
        command: Vec<String>,
    },
}

#[derive(Clone, Debug, Args)]
pub struct Under {
    /// A policy file (TOML, or the paper's format) in the place of a site's: it may show any path of yours.
    #[arg(long, value_name = "FILE")]
    pub site_policy: Option<PathBuf>,
    /// A policy file that narrows what is above it; several narrow each other, the first is the highest.
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,
    /// A limit, such as net=100Mbit/s, disk=20MB/s, cpu=50%, memory=1GiB, processes=64.
    #[arg(long = "limit", value_name = "NAME=AMOUNT", value_parser = limit)]
    pub limits: Vec<(Limited, u64)>,
    /// As --limit net=RATE.
    #[arg(long, value_name = "RATE", value_parser = |rate: &str| amount(Limited::Network, rate))]
    pub net: Option<u64>,
    /// auto, namespace, notify, library, ptrace.
    #[arg(long)]
    pub mechanism: Option<String>,
}

fn limit(text: &str) -> Result<(Limited, u64), AmountError> {
    kumiko_policy::parse_limit(text)
}

fn amount(of: Limited, text: &str) -> Result<u64, AmountError> {
    of.amount(text)
}

impl Under {
    /// What the command line says, for whoever runs it.
    pub fn said(&self) -> kumiko_entry::sandbox::Said {
        let net = self.net.map(|rate| (Limited::Network, rate));
        kumiko_entry::sandbox::Said {
            site_policy: self.site_policy.clone(),
            policies: self.policy.clone(),
            limits: self.limits.iter().copied().chain(net).collect(),
        }
    }
}
