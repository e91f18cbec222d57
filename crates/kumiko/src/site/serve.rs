//! The site's process: one lock, one manager, one gatekeeper; beside it what else is configured. Wiring only.

use crate::args::SiteStart;
use crate::fail::{Failure, While};
use crate::home::{Contact, Home, Running, write_whole};
use crate::info::{self, Kept};
use crate::job::view::now_ms;
use crate::site::calls;
use crate::site::capacity;
use crate::site::control::listen_address;
use crate::site::drained;
use crate::site::edited;
use crate::site::effective::Policies;
use crate::site::fetch;
use crate::site::gram::gram;
use crate::site::gridftp::{self, GridFtp};
use crate::site::landing;
use crate::site::pilots;
use crate::site::settings::Settings;
use crate::site::staging::{mover, stock};
use crate::site::told;
use kumiko_batch::chosen::{Chosen, Prepared};
use kumiko_gatekeeper::{Config, Front};
use kumiko_job::census::Census;
use kumiko_linux::this_process;
use kumiko_manager::{Manager, Setup};
use kumiko_staging::Mover;
use std::fs::File;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch::Receiver;

/// Who asks whether a site is up holds its lock for a moment.
const ASKERS: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(5);

/// Serves until told to end. `ready` is called once clients can connect.
pub async fn serve(
    home: &Home,
    listen: Option<SocketAddr>,
    start: &SiteStart,
    ready: impl FnOnce(&Running) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut settings = Settings::load(home)?;
    if let Some(batch) = start.batch {
        settings.batch = batch;
    }
    if let Some(range) = start.pilots {
        settings.pilots.set(range);
    }
    if let Some(landing) = &start.landing {
        settings.landing = landing.to_string();
    }
    settings.carry |= start.carry;
    let _lock = take_lock(home)?;
    this_process::raise_open_files()?;
    let policies = Policies::load(home, &settings, &home.draining())?;
    let (organisations, followed) = (policies.organisations(), policies.files());
    let stock = stock(&home.state(), settings.stock_bytes);
    let mover = mover(&home.state(), home.certificates(), stock.clone())?;
    let (manager, census) = open_manager(
        home,
        &settings,
        policies,
        home.state(),
        runner()?,
        Arc::clone(&mover),
    )
    .await?;
    let served = async {
        let listen = listen.unwrap_or(settings.listen);
        let config = Config {
            listen,
            name: this_process::host_name(),
            host_certificate: home.host_certificate(),
            host_key: home.host_key(),
            trust: home.certificates(),
            mapfile: Some(home.mapfile()),
            only_account: Some(this_process::account_name()),
            accept_limited: settings.accept_limited,
            limits: kumiko_gatekeeper::Limits::default(),
            stock,
            gram: Some(gram(&settings, &home.state(), listen.ip(), mover)),
        };
        let front = Front::bind(config, Arc::clone(&manager)).await?;
        let gridftp = start.gridftp.as_ref().unwrap_or(&settings.gridftp);
        let mut gridftp = match gridftp.as_str() {
            "" => None,
            "usual" => Some(GridFtp::start(home, gridftp::usual(front.local_addr())).await?),
            address => Some(GridFtp::start(home, listen_address(address)?).await?),
        };
        let info = info_address(start, &settings, front.local_addr())?;
        let mut info = match info {
            Some(listen) => Some(Kept::start(home, listen).await?),
            None => None,
        };
        let place = calls::Place {
            directory: home.calls(),
            policies: Policies::load(home, &settings, &home.draining())?,
        };
        let calls = calls::open(home, &settings, runner()?, place).await?;
        front.offer_calls(Arc::clone(&calls) as Arc<dyn kumiko_session::Service>);
        let running = announce(home, front.local_addr())?;
        let telling = tokio::spawn(told::tell(
            home.told(),
            settings.batch,
            capacity::slots(&settings),
            manager.watch_stats(),
            census,
        ));
        let changed = {
            let (manager, calls) = (Arc::clone(&manager), Arc::clone(&calls));
            move || {
                let (manager, calls) = (Arc::clone(&manager), Arc::clone(&calls));
                async move {
                    manager.policies_changed().await;
                    calls.policies_changed().await;
                }
            }
        };
        let following = tokio::spawn(edited::follow(followed, changed));
        let draining = [
            tokio::spawn(drained::follow(
                home.drained_hosts(),
                home.state(),
                Arc::clone(&manager),
                |manager| manager.batch(),
                drained::leave_by_jobs,
            )),
            tokio::spawn(drained::follow(
                home.drained_hosts(),
                home.calls(),
                Arc::clone(&calls),
                |calls| calls.batch(),
                calls::leave,
            )),
        ];
        let fetching = tokio::spawn(fetch::keep(organisations));
        ready(&running)?;
        tracing::info!(address = %running.address, home = %home.root().display(), "the site is up");
        let end = async {
            tokio::select! {
                () = end_asked() => {}
                () = ended(gridftp.as_mut()) => {}
                () = kept(info.as_mut()) => {}
            }
        };
        front.run(end).await;
        if let Some(info) = info {
            info.stop().await;
        }
        if let Some(gridftp) = gridftp {
            gridftp.stop().await;
        }
        telling.abort();
        following.abort();
        fetching.abort();
        for task in draining {
            task.abort();
        }
        calls.close().await;
        Ok(())
    };
    let served: Result<(), Failure> = served.await;
    // Also of a site that did not come up: its log is whole in one file then.
    manager.close().await;
    served?;
    let _ = std::fs::remove_file(home.told());
    let _ = std::fs::remove_file(home.running());
    tracing::info!("the site is down; running jobs go on");
    Ok(())
}

/// Says so when the GridFTP server ends before the site; never answers.
async fn ended(gridftp: Option<&mut GridFtp>) {
    match gridftp {
        Some(gridftp) => gridftp.ended().await,
        None => std::future::pending().await,
    }
}

async fn kept(info: Option<&mut Kept>) {
    match info {
        Some(info) => info.keep().await,
        None => std::future::pending().await,
    }
}

/// Where the site's info server listens; None: there is to be none.
pub fn info_address(
    start: &SiteStart,
    settings: &Settings,
    gatekeeper: SocketAddr,
) -> Result<Option<SocketAddr>, Failure> {
    match start.info.as_ref().unwrap_or(&settings.info).as_str() {
        "" => Ok(None),
        "usual" => Ok(Some(info::usual(gatekeeper))),
        address => Ok(Some(listen_address(address)?)),
    }
}

/// The manager of one account, with its batch systems, on what is kept in `state`; and how full its engine is, if it has one.
pub async fn open_manager(
    home: &Home,
    settings: &Settings,
    policies: Policies,
    state: PathBuf,
    runner: PathBuf,
    mover: Arc<Mover>,
) -> Result<(Arc<Manager<Chosen>>, Receiver<Option<Census>>), Failure> {
    let machine = policies.machine();
    if let (Err(obstacle), Err(other)) = (&machine.user_namespaces, &machine.supervision) {
        tracing::warn!(why = %obstacle.why, remedy = %obstacle.remedy, other = %other.why, "no mechanism can be used here: jobs will be refused");
    }
    let spool = state.join("spool");
    let drained = drained::before(home, &state)?;
    let policies = Arc::new(policies);
    let draining = Arc::clone(&policies);
    let kept = state.clone();
    let setup = Setup {
        directory: state,
        limits: settings.limits(),
        capacity: capacity::of(settings)?,
        closed: Box::new(move || draining.closed()),
        effective: Box::new(move |caller, description| policies.effective(caller, description)),
        transfer: Some(mover),
        after_commit: None,
    };
    let pilots = pilots::of(settings)?;
    let batch = Prepared::new(settings.batch, spool.clone(), runner, pilots)
        .doing(|| format!("preparing {}", spool.display()))?
        .without(drained);
    let batch = landing::of_jobs(batch, settings, &kept)?;
    let census = batch.census();
    let manager = Manager::open(setup, |sink| batch.open(sink)).await?;
    Ok((manager, census))
}

/// Writes where clients of this machine find the site, and who serves it.
fn announce(home: &Home, address: SocketAddr) -> Result<Running, Failure> {
    // The certificate has the name localhost; a site that listens on one address only is named by it.
    let host = if address.ip().is_loopback() || address.ip().is_unspecified() {
        "localhost".to_owned()
    } else {
        address.ip().to_string()
    };
    // One that cannot be read has nothing to keep.
    let before = home.read_contact().ok().flatten();
    let (durability, index) = before.map_or((None, None), |one| (one.durability, one.index));
    let contact = Contact {
        durability,
        index,
        host,
        port: address.port(),
        certificate: home.user_certificate(),
        key: home.user_key(),
        trust: home.certificates(),
    };
    write_whole(&home.contact(), &toml::to_string(&contact)?)?;
    let running = Running {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        address: address.to_string(),
        since_ms: now_ms(),
    };
    write_whole(&home.running(), &serde_json::to_string(&running)?)?;
    Ok(running)
}

/// Held by the serving process, and let go by the kernel however that ends.
pub fn take_lock(home: &Home) -> Result<File, Failure> {
    std::fs::create_dir_all(home.run())?;
    let path = home.lock();
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)?;
    let begun = Instant::now();
    while !kumiko_linux::spooling::try_lock(&file)
        .doing(|| format!("locking {}", path.display()))?
    {
        if begun.elapsed() > ASKERS {
            let home = home.root().display();
            return Err(Failure::from_text(format!("a site already serves {home}")));
        }
        std::thread::sleep(LOOK);
    }
    Ok(file)
}

/// Whether a site serves this home now.
pub fn is_served(home: &Home) -> bool {
    File::options()
        .write(true)
        .open(home.lock())
        .is_ok_and(|file| matches!(kumiko_linux::spooling::is_locked(&file), Ok(true)))
}

/// kumiko-run, absolutely: KUMIKO_RUN, else beside this program.
pub fn runner() -> Result<PathBuf, Failure> {
    program("kumiko-run", "KUMIKO_RUN")
}

/// What belongs to this program; hosts start it from directories of their own.
pub fn program(name: &str, variable: &str) -> Result<PathBuf, Failure> {
    if let Some(path) = std::env::var_os(variable) {
        return std::path::absolute(&path)
            .map_err(|error| Failure::from_text(format!("{variable} names no program: {error}")));
    }
    let path = std::env::current_exe()?.with_file_name(name);
    if path.is_file() {
        Ok(path)
    } else {
        Err(Failure::from_text(format!(
            "{} is missing: it belongs beside kumiko (or set {variable})",
            path.display()
        )))
    }
}

pub async fn end_asked() {
    let (Ok(mut term), Ok(mut int)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
