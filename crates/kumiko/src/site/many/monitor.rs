//! The monitor's process: its lock, its listening socket, and what it starts. Before any runtime is made: it is to be
//! one thread.

use crate::args::SiteStart;
use crate::fail::{Failure, While};
use crate::home::{Home, Running, write_whole};
use crate::job::view::now_ms;
use crate::site::control::{explain_start, is_background, listen_address, ready_in_background};
use crate::site::landing;
use crate::site::make::make_for_many;
use crate::site::many::{accounts, in_home};
use crate::site::serve::{info_address, runner, take_lock};
use crate::site::settings::{KeepIn, Many, Settings};
use kumiko_gatekeeper::monitor::{self, Setup};
use kumiko_linux::accounts::Account;
use kumiko_linux::groups::Groups;
use kumiko_linux::privileges::{Terms, become_account, give};
use kumiko_linux::{process, this_process};
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SIGTERM: i32 = 15;
/// What front and agents find programs with; they start none but kumiko-run, and Slurm's and HTCondor's.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Of this process's environment: what they are to have too.
const HANDED_ON: [&str; 5] = [
    "KUMIKO_LOG",
    "KUMIKO_LOG_FORMAT",
    "KUMIKO_RUN",
    "LANG",
    "TZ",
];

/// Becomes the monitor of the site for many accounts in `home`, until told to end.
pub fn monitor(start: &SiteStart, home: &Home, many: &Many) -> Result<u8, Failure> {
    if !kumiko_linux::is_root() {
        return Err(Failure::from_text(format!(
            "{} is of a site for many accounts ([accounts]): root starts that; a personal site needs another --home",
            home.site_toml().display()
        )));
    }
    if is_background() {
        this_process::new_session()?;
    }
    let settings = Settings::load(home)?;
    landing::is_for_many(&settings)?;
    let front = accounts(many).find(&many.front)?.ok_or_else(|| {
        Failure::from_text(format!(
            "there is no account {0} for the front: make it (useradd --system --no-create-home --shell /usr/sbin/nologin \
             {0}), or name another one, made for it alone, as `front` of [accounts] in {1}",
            many.front,
            home.site_toml().display()
        ))
    })?;
    let first = make_for_many(home, &start.host_names, &front)?;
    let _lock = take_lock(home)?;
    this_process::raise_open_files()?;
    let program = std::env::current_exe()?;
    runner()?;
    let listen = match &start.listen {
        Some(text) => listen_address(text)?,
        None => settings.listen,
    };
    let listener = TcpListener::bind(listen).doing(|| {
        format!(
            "listening on {listen} (say another address with --listen, port 0 for any that is free)"
        )
    })?;
    let address = listener.local_addr()?;
    let mut info = match info_address(start, &settings, address)? {
        Some(listen) => Some(info(home, &program, &front, listen)?),
        None => None,
    };
    let result = monitor::run(Setup {
        mapfile: home.mapfile(),
        accounts: accounts(many),
        least_id: many.least_id,
        agents_most: many.agents,
        processes: (many.processes > 0).then_some(many.processes),
        groups: Groups::own()?,
        marks: home.awake(),
        front,
        front_program: Box::new(|account| {
            let mut command = command(&program, account);
            command.arg("--home").arg(home.root()).arg("front");
            command.stdout(OwnedFd::from(listener.try_clone()?));
            Ok(command)
        }),
        agent_program: Box::new(|account| {
            let state = state(home, many, account)?;
            let mut command = command(&program, account);
            command.arg("--home").arg(home.root()).arg("agent");
            command.arg("--account").arg(&account.name);
            command.arg("--state").arg(state);
            command.arg("--draining").arg(home.draining());
            command
                .stdout(Stdio::null())
                .stderr(agent_log(home, account)?);
            Ok(command)
        }),
        ready: Box::new(|| up(home, address, first)),
    });
    if let Some(info) = &mut info {
        end(info);
    }
    result?;
    let _ = std::fs::remove_file(home.running());
    tracing::info!("the site is down; running jobs go on");
    Ok(0)
}

/// The info server, as the front's account: it reads what strangers send, and needs the host's key and no more.
fn info(
    home: &Home,
    program: &Path,
    front: &Account,
    listen: SocketAddr,
) -> Result<Child, Failure> {
    let state = home.info();
    own_directory(&state, front).doing(|| format!("making {}", state.display()))?;
    let mut command = command(program, front);
    command.arg("--home").arg(home.root());
    command.args(["info", "keep", "--listen", &listen.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    become_account(&mut command, front, Terms::default());
    // After the account was changed, which would undo it (prctl(2)).
    process::end_with_parent(&mut command);
    command
        .spawn()
        .doing(|| "starting the info server".to_owned())
}

/// It is told, and gone before the next one may want its port.
fn end(info: &mut Child) {
    let pid = i32::try_from(info.id()).ok();
    // Not waited for yet, so the number is still its own.
    if let Some(pidfd) = pid.and_then(|pid| process::pidfd(pid).ok()) {
        let _ = process::signal(pidfd.as_fd(), SIGTERM);
        let _ = info.wait();
    }
}

/// A program of the site as an account, in a clean environment.
fn command(program: &Path, account: &Account) -> Command {
    let mut command = Command::new(program);
    command.env_clear().current_dir("/");
    command.env("PATH", PATH).env("HOME", &account.home);
    command
        .env("USER", &account.name)
        .env("LOGNAME", &account.name);
    for name in HANDED_ON {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command
}

/// Where an account's things are kept. In the site's own state the account cannot make its directory: that is done here,
/// in a directory that only root writes to.
fn state(home: &Home, many: &Many, account: &Account) -> io::Result<PathBuf> {
    match many.keep_in {
        KeepIn::Home => Ok(in_home(account)),
        KeepIn::Site => {
            let path = home.accounts().join(&account.name);
            own_directory(&path, account)?;
            Ok(path)
        }
    }
}

/// A directory for an account alone, in one that only root writes to.
fn own_directory(path: &Path, account: &Account) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => give(File::open(path)?, account),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(e),
    }
}

/// The log of an agent: root's, so that an account cannot change what was said of it.
fn agent_log(home: &Home, account: &Account) -> io::Result<File> {
    let path = home.agent_logs().join(format!("{}.log", account.name));
    File::options()
        .create(true)
        .append(true)
        .mode(0o640)
        .open(path)
}

fn up(home: &Home, address: SocketAddr, first: bool) -> io::Result<()> {
    let running = Running {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address: address.to_string(),
        since_ms: now_ms(),
    };
    let text = serde_json::to_string(&running).map_err(io::Error::other)?;
    write_whole(&home.running(), &text).map_err(|failure| io::Error::other(failure.message))?;
    tracing::info!(%address, "the site is up");
    match is_background() {
        true => ready_in_background(&running),
        false => explain_start(home, &running, first),
    }
}
