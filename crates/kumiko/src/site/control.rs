//! Starting a site in the background, asking how it is, stopping it.

use crate::args::{Drain, Format, Site, SiteArguments, SiteStart};
use crate::connect;
use crate::fail::{Failure, While};
use crate::home::{Home, Running, write_whole};
use crate::job::view::now_ms;
use crate::output::{self, Show, say};
use crate::site::demo;
use crate::site::drained::{self, Stands};
use crate::site::gridftp;
use crate::site::make::make;
use crate::site::many;
use crate::site::serve::{is_served, serve};
use kumiko_identity::{Dn, GridMap};
use kumiko_linux::{process, this_process};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set for a site that its parent waits for: it says when it is ready, and is a session of its own.
const BACKGROUND: &str = "KUMIKO_BACKGROUND";
const SIGTERM: i32 = 15;
/// A killed process is gone within this, whatever it had mapped.
const DYING: Duration = Duration::from_secs(5);
/// Nothing tells when a lock of flock(2) becomes free but waiting for it, which would take it.
const LOCK_LOOK: Duration = Duration::from_millis(10);

/// Which site is meant: `given`, else the machine's own where root has configured one (or is about to), else the
/// personal one.
pub fn which(site: &SiteArguments, given: Option<&Path>) -> Result<Home, Failure> {
    if given.is_none() && !site.personal && kumiko_linux::is_root() {
        let machine = Home::of_machine();
        let begun = matches!(&site.verb, Site::Start(start) if start.many);
        if begun || machine.site_toml().exists() {
            return Ok(machine);
        }
    }
    Home::find(given)
}

pub async fn site(verb: Site, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Site::Start(start) => start_site(start, format, home).await,
        Site::Status => status(format, home).await,
        Site::Stop => stop(format, home).await,
        Site::Map { subject, account } => map(subject, account, home),
        Site::Drain(asked) => match &asked.host {
            None => drain(asked.undo, home),
            Some(host) => drain_host(host, &asked, home),
        },
    }
}

fn drain(undo: bool, home: &Home) -> Result<u8, Failure> {
    let path = home.draining();
    match undo {
        false => {
            write_whole(&path, "")?;
            eprintln!("kumiko: the site takes no new jobs until `kumiko site start`");
        }
        true if !path.exists() => return Err(Failure::from_text("the site does not drain")),
        true => std::fs::remove_file(&path).doing(|| format!("removing {}", path.display()))?,
    }
    Ok(0)
}

fn drain_host(host: &str, asked: &Drain, home: &Home) -> Result<u8, Failure> {
    drained::set(home, host, asked.undo, asked.now)?;
    match asked.undo {
        false => eprintln!(
            "kumiko: nothing more begins on {host}, also after a restart; `kumiko site status` says when it is free, \
             `kumiko site drain --undo {host}` takes it back"
        ),
        true => eprintln!("kumiko: {host} is used again"),
    }
    Ok(0)
}

/// Started by `in_background`.
pub fn is_background() -> bool {
    std::env::var_os(BACKGROUND).is_some()
}

/// The word that `in_background` waits for.
pub fn ready_in_background(running: &Running) -> std::io::Result<()> {
    say!("{}", serde_json::to_string(running)?)?;
    std::io::stdout().flush()
}

#[derive(Serialize)]
struct Status {
    up: bool,
    home: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    live_jobs: Option<usize>,
    /// Where its GridFTP server is.
    #[serde(skip_serializing_if = "Option::is_none")]
    gridftp: Option<String>,
    /// Where its info server is.
    #[serde(skip_serializing_if = "Option::is_none")]
    info: Option<String>,
    /// Of a site for many accounts: those with something to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    accounts: Option<Vec<String>>,
    draining: bool,
    /// Of the engine, that are drained.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    hosts: BTreeMap<String, Stands>,
}

impl Show for Status {
    fn human(&self) -> String {
        let Some(running) = &self.running else {
            return format!("the site in {} is down", self.home);
        };
        let mut text = format!(
            "the site in {} is up\n  address   {}\n  process   {} (kumiko {})\n  since     {} s\n",
            self.home,
            running.address,
            running.pid,
            running.version,
            now_ms().saturating_sub(running.since_ms) / 1000
        );
        if let Some(gridftp) = &self.gridftp {
            text.push_str(&format!("  gridftp   {gridftp}\n"));
        }
        if let Some(info) = &self.info {
            text.push_str(&format!("  info      {info}\n"));
        }
        if let Some(live) = self.live_jobs {
            text.push_str(&format!("  live jobs {live} of yours\n"));
        }
        if let Some(accounts) = &self.accounts {
            text.push_str(&format!(
                "  agents    {} {}\n",
                accounts.len(),
                accounts.join(" ")
            ));
        }
        if self.draining {
            text.push_str("  draining: no new jobs are taken\n");
        }
        for (host, stands) in &self.hosts {
            text.push_str(&format!("  host {host}   {}\n", stands.words()));
        }
        text
    }
}

async fn status(format: Format, home: &Home) -> Result<u8, Failure> {
    let up = is_served(home);
    let running = if up { home.read_running()? } else { None };
    let accounts_of = many::of(home)?;
    let many = accounts_of.is_some();
    let live_jobs = match up && !many {
        true => Some(live_jobs(home).await?),
        false => None,
    };
    let accounts = match up && many {
        true => Some(awake(home)?),
        false => None,
    };
    let states = match (&accounts_of, &accounts) {
        (Some(many), Some(awake)) => {
            let states = many::states(home, many, awake);
            let calls: Vec<PathBuf> = states.iter().map(|one| one.join("rpc")).collect();
            [states, calls].concat()
        }
        _ => vec![home.state(), home.calls()],
    };
    let root = home.root().display().to_string();
    output::one(
        format,
        &Status {
            up,
            home: root,
            gridftp: gridftp::url(home).filter(|_| running.is_some()),
            info: crate::info::address(home)?.filter(|_| running.is_some()),
            running,
            live_jobs,
            accounts,
            draining: home.draining().exists(),
            hosts: drained::hosts(home, &states)?,
        },
    )?;
    Ok(u8::from(!up))
}

fn awake(home: &Home) -> Result<Vec<String>, Failure> {
    let mut accounts = Vec::new();
    for entry in std::fs::read_dir(home.awake())? {
        accounts.push(entry?.file_name().to_string_lossy().into_owned());
    }
    accounts.sort();
    Ok(accounts)
}

async fn live_jobs(home: &Home) -> Result<usize, Failure> {
    let client = connect::open(Some(crate::config::LOCAL), home).await?;
    let jobs = client.list().await?;
    client.close().await;
    Ok(jobs.iter().filter(|v| !v.state.has_ended()).count())
}

async fn start_site(start: SiteStart, format: Format, home: &Home) -> Result<u8, Failure> {
    if start.demo {
        return demo::site(start, format).await;
    }
    let _ = std::fs::remove_file(home.draining());
    if !start.foreground && answers(home).await {
        eprintln!("kumiko: it is running already");
        return status(format, home).await;
    }
    let listen = start.listen.as_deref().map(listen_address).transpose()?;
    let background = is_background();
    if start.foreground {
        let first = make(home, &start.host_names)?;
        if background {
            this_process::new_session()?;
        }
        serve(home, listen, &start, |running| {
            if background {
                Ok(ready_in_background(running)?)
            } else {
                Ok(explain_start(home, running, first)?)
            }
        })
        .await?;
        return Ok(0);
    }
    let first = !home.host_certificate().exists();
    let running = in_background(&start, home)?;
    explain_start(home, &running, first)?;
    Ok(0)
}

/// Whether a site serves this home. One that was just killed holds its lock until its last thread is gone: that is waited
/// for, so that a start right after a kill starts.
async fn answers(home: &Home) -> bool {
    let begun = Instant::now();
    while is_served(home) && begun.elapsed() < DYING {
        let up = match many::of(home) {
            Ok(Some(_)) => home.running().exists(),
            _ => live_jobs(home).await.is_ok(),
        };
        if up {
            return true;
        }
        tokio::time::sleep(LOCK_LOOK).await;
    }
    is_served(home)
}

pub fn explain_start(home: &Home, running: &Running, first: bool) -> std::io::Result<()> {
    let root = home.root().display();
    say!(
        "the site is up at {} (process {})",
        running.address,
        running.pid
    )?;
    if first && home.accounts().exists() {
        say!(
            "made for it in {root}: its own authority, the host's certificate, grid-mapfile, policy.toml"
        )?;
        say!("next: kumiko identity issue --help; kumiko site map SUBJECT ACCOUNT")?;
    } else if first {
        say!("made for it, all in {root}:")?;
        say!("  ca/ certificates/            its own authority, and whom it trusts")?;
        say!("  hostcert.pem user/           certificates of this host, and of you")?;
        say!("  grid-mapfile policy.toml     who may come in, and what their jobs may see")?;
        say!("  site.toml state/ site.log    settings, jobs, log")?;
        say!("try: kumiko job run -- uname -a")?;
    } else {
        say!("its things are in {root}")?;
    }
    Ok(())
}

/// Starts this program again as the site, and waits until it serves or has said why not.
fn in_background(start: &SiteStart, home: &Home) -> Result<Running, Failure> {
    let log_path = home.log();
    for folder in [home.root(), log_path.parent().unwrap_or(home.root())] {
        std::fs::create_dir_all(folder).doing(|| format!("making {}", folder.display()))?;
    }
    let log = File::options()
        .create(true)
        .append(true)
        .open(&log_path)
        .doing(|| format!("opening {}", log_path.display()))?;
    let begins = log.metadata()?.len();
    let mut command = Command::new(std::env::current_exe()?);
    if !home.is_of_machine() {
        command.arg("--home").arg(home.root());
    }
    command.args(["site", "start", "--foreground"]);
    if let Some(listen) = &start.listen {
        command.args(["--listen", listen]);
    }
    if let Some(gridftp) = &start.gridftp {
        command.arg(format!("--gridftp={gridftp}"));
    }
    if let Some(batch) = start.batch {
        command.arg(format!("--batch={}", batch.as_str()));
    }
    if let Some(pilots) = start.pilots {
        command.arg(format!("--pilots={pilots}"));
    }
    if let Some(landing) = &start.landing {
        command.arg(format!("--landing={landing}"));
    }
    if start.carry {
        command.arg("--carry");
    }
    if let Some(info) = &start.info {
        command.arg(format!("--info={info}"));
    }
    for name in &start.host_names {
        command.args(["--host-name", name]);
    }
    command
        .env(BACKGROUND, "1")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log);
    let mut child = command
        .spawn()
        .doing(|| "starting the site's process".to_owned())?;
    let mut word = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut word)?;
    }
    if word.is_empty() {
        child.wait()?;
        let said = std::fs::read(&log_path)?;
        let said =
            String::from_utf8_lossy(said.get(begins as usize..).unwrap_or_default()).into_owned();
        return Err(Failure::from_text(format!(
            "the site did not start: {}",
            said.trim().trim_start_matches("kumiko: ")
        )));
    }
    serde_json::from_str(&word).doing(|| "reading the site's word that it is ready".to_owned())
}

pub fn listen_address(text: &str) -> Result<SocketAddr, Failure> {
    text.parse().map_err(|_| {
        Failure::misuse(format!("\"{text}\" is no address to listen on: write ADDRESS:PORT, as 127.0.0.1:2119 or [::]:2119"))
    })
}

async fn stop(format: Format, home: &Home) -> Result<u8, Failure> {
    if !is_served(home) {
        return Err(Failure::from_text(format!(
            "no site serves {}",
            home.root().display()
        )));
    }
    let running = home
        .read_running()?
        .ok_or_else(|| Failure::from_text("the site is just starting: try again"))?;
    let live = match many::of(home)? {
        Some(_) => None,
        None => live_jobs(home).await.ok(),
    };
    let pid = i32::try_from(running.pid)
        .map_err(|_| Failure::from_text("run/site.json names no process"))?;
    let process = process::pidfd(pid).doing(|| format!("finding process {pid}"))?;
    if !is_served(home) {
        return Ok(0); // it ended by itself meanwhile, and the number may be somebody else's
    }
    process::signal(process.as_fd(), SIGTERM)?;
    tokio::task::block_in_place(|| process::until_ended(process.as_fd()))?;
    if format == Format::Human {
        match live {
            Some(0) => say!("the site is down")?,
            None => {
                say!("the site is down; running jobs go on and are picked up at the next start")?
            }
            Some(1) => say!("the site is down; 1 job goes on and is picked up at the next start")?,
            Some(n) => {
                say!("the site is down; {n} jobs go on and are picked up at the next start")?
            }
        }
    }
    Ok(0)
}

fn map(subject: Option<String>, account: Option<String>, home: &Home) -> Result<u8, Failure> {
    let path = home.mapfile();
    let text = std::fs::read_to_string(&path).doing(|| format!("reading {}", path.display()))?;
    let Some(subject) = subject else {
        say!("{}", text.trim_end())?;
        return Ok(0);
    };
    let subject = Dn::parse(&subject)?;
    let account = match many::of(home)? {
        Some(many) => many::mappable(&many, account)?,
        None => account.unwrap_or_else(this_process::account_name),
    };
    if GridMap::parse(&text)?.lookup(&subject).contains(&account) {
        eprintln!("kumiko: {subject} is mapped to {account} already");
        return Ok(0);
    }
    let separator = if text.is_empty() || text.ends_with('\n') {
        ""
    } else {
        "\n"
    };
    let line = GridMap::line(&subject, &[&account]);
    let more = format!("{text}{separator}{}\n", line.trim_end());
    GridMap::parse(&more)?;
    write_whole(&path, &more)?;
    Ok(0)
}

impl Show for Running {
    fn human(&self) -> String {
        self.address.clone()
    }
}
