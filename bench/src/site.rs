//! A personal site in a throw-away home, as `kumiko site start` makes it, and a client of it. Not here: any measurement.

use crate::bench::Bench;
use crate::fail::{Failure, While};
use crate::guard::{self, Guard};
use crate::wait;
use kumiko_client::{Client, SiteAddress};
use kumiko_identity::{Credential, TrustStore};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use tempfile::TempDir;

/// The first start makes a CA and certificates.
const UP_WITHIN: Duration = Duration::from_secs(30);
/// Thousands of jobs are cancelled one by one.
const DOWN_WITHIN: Duration = Duration::from_secs(120);

/// How a site is started.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place<'a> {
    /// As for [`Site::prepared`].
    pub before: &'a [&'a str],
    /// Before `kumiko site start`: a program that starts it.
    pub through: &'a [&'a str],
    /// After it.
    pub start: &'a [&'a str],
    pub environment: &'a [(&'static str, OsString)],
}

/// Jobs are cancelled, the site stopped and its home removed when dropped.
#[derive(Debug)]
pub struct Site {
    _end: Guard,
    kumiko: PathBuf,
    home: PathBuf,
    contact: Contact,
}

/// What a site writes for clients of its machine.
#[derive(Clone, Debug, Deserialize)]
struct Contact {
    host: String,
    port: u16,
    certificate: PathBuf,
    key: PathBuf,
    trust: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Running {
    pid: u32,
}

impl Site {
    /// # Errors
    /// It does not come up.
    pub fn start(bench: &Bench) -> Result<Site, Failure> {
        Site::prepared(bench, &[])
    }

    /// As `start`, after `kumiko ARGUMENTS` in its home; `HOME` in them is its path.
    ///
    /// # Errors
    /// They fail, or it does not come up.
    pub fn prepared(bench: &Bench, arguments: &[&str]) -> Result<Site, Failure> {
        let place = Place {
            before: arguments,
            ..Place::default()
        };
        Site::at(bench, &place)
    }

    /// # Errors
    /// It does not come up.
    pub fn at(bench: &Bench, place: &Place<'_>) -> Result<Site, Failure> {
        let arguments = place.before;
        let _permit = guard::starting();
        let folder = tempfile::Builder::new()
            .prefix("kumiko-bench-")
            .tempdir()
            .doing(|| "making a home for a site")?;
        let home = folder.path().to_owned();
        let end = guard::on_end({
            let kumiko = bench.kumiko.clone();
            move || end(&kumiko, folder)
        });
        if !arguments.is_empty() {
            let own = home.display().to_string();
            let words: Vec<String> = arguments.iter().map(|a| a.replace("HOME", &own)).collect();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            wait::output(&mut command(&bench.kumiko, &home, &words), UP_WITHIN)?;
        }
        let own = ["site", "start", "--listen", "127.0.0.1:0"];
        let mut start = match place.through {
            [] => command(&bench.kumiko, &home, &own),
            [program, words @ ..] => {
                let mut start = command(Path::new(program), &home, words);
                start.arg(&bench.kumiko).args(own);
                start
            }
        };
        let start = start
            .args(place.start)
            .envs(place.environment.iter().map(|(name, value)| (name, value)))
            .env("KUMIKO_RUN", &bench.runner);
        wait::output(start, UP_WITHIN)?;
        let contact = read(&home.join("contact.toml"), |text| {
            toml::from_str(text).map_err(|e| e.to_string())
        })?;
        Ok(Site {
            _end: end,
            kumiko: bench.kumiko.clone(),
            home,
            contact,
        })
    }

    /// `kumiko ARGUMENTS` as a user of this site would type it.
    pub fn command(&self, arguments: &[&str]) -> Command {
        command(&self.kumiko, &self.home, arguments)
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The process that serves.
    pub fn pid(&self) -> Result<u32, Failure> {
        read(&self.home.join("run/site.json"), json::<Running>).map(|running| running.pid)
    }

    pub fn address(&self) -> SiteAddress {
        SiteAddress {
            host: self.contact.host.clone(),
            port: self.contact.port,
        }
    }

    /// Whom it and its clients trust.
    pub fn trust(&self) -> &Path {
        &self.contact.trust
    }

    /// One session, with the owner's certificate.
    pub async fn connect(&self) -> Result<Client, Failure> {
        let credential = Credential::load_pair(&self.contact.certificate, &self.contact.key)
            .map_err(|e| Failure::said("loading the owner's certificate", &e))?;
        let trust = TrustStore::load(self.trust())
            .map_err(|e| Failure::said("loading the trust directory", &e))?;
        Client::connect(&self.address(), &credential, &trust)
            .await
            .map_err(|e| Failure::said("connecting to the site", &e))
    }
}

fn command(kumiko: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(kumiko);
    command
        .args(arguments)
        .env("KUMIKO_HOME", home)
        .env_remove("KUMIKO_SITE");
    command
}

fn end(kumiko: &Path, folder: TempDir) {
    let run = |arguments: &[&str]| {
        wait::output(&mut command(kumiko, folder.path(), arguments), DOWN_WITHIN)
    };
    let told = |ended: Result<Output, Failure>| {
        if let Err(failure) = ended {
            eprintln!("bench: {failure}");
        }
    };
    // What is being submitted at this moment is refused, or is seen by the cancel.
    told(run(&["site", "drain"]));
    told(run(&["job", "cancel", "all", "--grace", "0ms"]));
    // It passes on how the jobs ended: cancelled, which is no failure here.
    let _ = run(&["job", "wait", "all"]);
    told(run(&["site", "stop"]));
    let path = folder.path().to_owned();
    if let Err(cause) = folder.close() {
        eprintln!("bench: removing {}: {cause}", path.display());
    }
}

fn read<T>(path: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Failure> {
    let text = fs::read_to_string(path).doing(|| format!("reading {}", path.display()))?;
    parse(&text).map_err(|e| Failure::said(&format!("reading {}", path.display()), &e))
}

fn json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|e| e.to_string())
}
