//! What an info server tells of the site that serves from the same home (spec/info, P9): its gatekeeper as a service below
//! the host, and the host's part in it. Not here: the host itself (kumiko-info), accounts and their jobs.

use crate::home::{Home, Running};
use crate::job::view::now_ms;
use crate::site;
use crate::site::settings::Settings;
use crate::site::told::Told;
use kumiko_directory::provider::{Provider, ReadError, Reading};
use kumiko_directory::{Dn, Entry, Stamp};
use kumiko_identity::Certificate;
use kumiko_info::HostFacts;
use kumiko_job::census::{Census, Queue};
use kumiko_linux::this_process;
use kumiko_policy::Limited;
use kumiko_rpc::registry::Registry;
use kumiko_sandbox::{Machine, admissions};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Two small files are looked at.
const EVERY: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(5);
/// Routines that are told, by name: with names of any length they fit in an entry that an index takes.
const ROUTINES_MOST: usize = 256;
/// What is told of what is left to reserve: the attribute, what it is of, and its unit in that of limits.
const RESERVES: [(&str, Limited, Unit); 5] = [
    ("kumiko-reserve-cpus", Limited::Cpu, Unit::Hundred),
    ("kumiko-reserve-memMB", Limited::Memory, Unit::One),
    (
        "kumiko-reserve-netBytesPerSec",
        Limited::Network,
        Unit::Thousandth,
    ),
    (
        "kumiko-reserve-diskBytesPerSec",
        Limited::Disk,
        Unit::Thousandth,
    ),
    ("kumiko-reserve-processes", Limited::Processes, Unit::One),
];

enum Unit {
    Hundred,
    One,
    Thousandth,
}

impl Unit {
    fn words(&self, amount: u64) -> String {
        match self {
            Unit::Hundred => (amount as f64 / 100.0).to_string(),
            Unit::One => amount.to_string(),
            Unit::Thousandth => amount.saturating_mul(1000).to_string(),
        }
    }
}

/// The site of a home, looked at again and again.
#[derive(Clone)]
pub struct SiteProvider {
    home: Home,
    /// The host that the gatekeeper runs on, as it is called in the directory.
    host: String,
    site: String,
    many: bool,
    mechanisms: Vec<String>,
    /// Of the gatekeeper's certificate.
    subject: Option<String>,
}

impl SiteProvider {
    pub fn new(home: &Home, host: String, site: String, many: bool) -> SiteProvider {
        let mechanisms = admissions(&Machine::probe())
            .into_iter()
            .filter(|one| one.admitted.is_ok())
            .map(|one| one.name.to_owned())
            .collect();
        SiteProvider {
            home: home.clone(),
            host,
            site,
            many,
            mechanisms,
            subject: subject(&home.host_certificate()),
        }
    }

    /// The site, if it is up.
    fn running(&self) -> Option<Running> {
        let running = self.home.read_running().ok()??;
        let lives = match self.many {
            // Its lock is root's.
            true => Path::new("/proc").join(running.pid.to_string()).exists(),
            false => site::is_served(&self.home),
        };
        lives.then_some(running)
    }

    /// What a personal site tells. Agents of one for many accounts keep account each for itself, and tell nobody.
    fn told(&self) -> Option<Told> {
        Told::read(&self.home).ok()?.filter(|_| !self.many)
    }

    /// The batch system of a site for many accounts: that of its settings, which all agents go by.
    fn set(&self) -> Option<String> {
        let settings = self.many.then(|| Settings::load(&self.home))?;
        Some(settings.ok()?.batch.as_str().to_owned())
    }

    /// What it computes for who calls it.
    fn routines(&self) -> Vec<String> {
        let mut names = Registry::new(self.home.calls()).names().unwrap_or_default();
        names.truncate(ROUTINES_MOST);
        names
    }

    /// Where clients reach it from elsewhere, if they can.
    fn contact(&self, running: &Running) -> Option<(String, u16)> {
        let address: SocketAddr = running.address.parse().ok()?;
        let host = match address.ip() {
            ip if ip.is_loopback() => "localhost".to_owned(),
            ip if ip.is_unspecified() => this_process::host_name(),
            ip => ip.to_string(),
        };
        Some((host, address.port()))
    }

    /// What the host's own entry says of the site.
    pub fn of_host(&self) -> HostFacts {
        let mut facts = vec![
            ("kumiko-site".to_owned(), vec![self.site.clone()]),
            ("kumiko-mechanism".to_owned(), self.mechanisms.clone()),
        ];
        let contact = self.running().and_then(|r| self.contact(&r));
        if let Some((host, port)) = contact {
            facts.push(("kumiko-contact".to_owned(), vec![format!("{host}:{port}")]));
            let told = self.told();
            facts.extend(self.of_service(told.as_ref()));
            let drains = self.home.draining().exists();
            for (name, of, unit) in RESERVES {
                let left = told.iter().find_map(|told| told.left.get(of.key()));
                let left = left.map(|left| unit.words(if drains { 0 } else { *left }));
                facts.extend(left.map(|left| (name.to_owned(), vec![left])));
            }
        }
        facts
    }

    /// What is told of the gatekeeper in both places.
    fn of_service(&self, told: Option<&Told>) -> HostFacts {
        let draining = match self.home.draining().exists() {
            true => "yes",
            false => "no",
        };
        let batch = told.map(|told| told.batch.clone()).or_else(|| self.set());
        let mut facts = vec![
            ("kumiko-batch".to_owned(), batch.into_iter().collect()),
            ("kumiko-draining".to_owned(), vec![draining.to_owned()]),
        ];
        let subject = self.subject.iter().cloned().collect();
        facts.push(("kumiko-subject".to_owned(), subject));
        facts.push(("kumiko-routine".to_owned(), self.routines()));
        if let Some(census) = told.and_then(|told| told.census.as_ref()) {
            let open = census.queues.iter().filter(|queue| queue.open);
            let open = open.map(|queue| queue.name.clone()).collect();
            facts.push(("kumiko-queue".to_owned(), open));
            let all = Counts::of(census).facts();
            facts.extend(all.map(|(name, count)| (name.to_owned(), vec![count.to_string()])));
            let together = census.slots_host.to_string();
            facts.push(("kumiko-slots-host".to_owned(), vec![together]));
            if let Some(pilots) = census.pilots {
                let (ready, idle) = (pilots.ready.to_string(), pilots.idle.to_string());
                facts.push(("kumiko-pilots".to_owned(), vec![ready]));
                facts.push(("kumiko-pilots-idle".to_owned(), vec![idle]));
            }
        }
        facts
    }

    fn entries(&self) -> Vec<Entry> {
        let contact = self.running().and_then(|running| self.contact(&running));
        let Some((host, port)) = contact else {
            return Vec::new();
        };
        let told = self.told();
        let dn = Dn::default()
            .child("Mds-Host-hn", &self.host)
            .child("Mds-Software-deployment", "gatekeeper");
        let mut gatekeeper = Entry::new(dn.clone())
            .with("objectClass", ["top", "Mds", "MdsSoftware", "MdsService"])
            .with("Mds-Software-deployment", ["gatekeeper"])
            .with("Mds-Service-type", ["gram"])
            .with("Mds-Service-protocol", ["2", "kumiko/1", "h2", "http/1.1"])
            .with("Mds-Service-hn", [&host])
            .with("Mds-Service-port", [port])
            .with("kumiko-site", [&self.site])
            .with("kumiko-contact", [format!("{host}:{port}")])
            .with("kumiko-mechanism", &self.mechanisms);
        for (name, values) in self.of_service(told.as_ref()) {
            gatekeeper.add(&name, values);
        }
        gatekeeper.attributes.retain(|a| !a.values.is_empty());
        let census = told.and_then(|told| told.census);
        let queues = census.into_iter().flat_map(|census| census.queues);
        let queues = queues.map(|queue| {
            let open = if queue.open { "yes" } else { "no" };
            let entry = Entry::new(dn.child("kumiko-queue", &queue.name))
                .with("objectClass", ["top", "Mds", "kumikoQueue"])
                .with("kumiko-queue", [&queue.name])
                .with("kumiko-queue-open", [open]);
            let facts = Counts::of_queue(&queue).facts();
            facts.fold(entry, |entry, (name, count)| entry.with(name, [count]))
        });
        let stamp = Stamp {
            measured_ms: now_ms(),
            holds_ms: 0,
        };
        let all = std::iter::once(gatekeeper).chain(queues);
        all.map(|entry| entry.stamped(stamp)).collect()
    }
}

/// What is counted of a batch system, and of each of its queues.
struct Counts([u64; 4]);

impl Counts {
    fn of(census: &Census) -> Counts {
        let Census {
            slots,
            slots_free,
            waiting,
            running,
            ..
        } = *census;
        Counts([slots, slots_free, waiting, running])
    }

    fn of_queue(queue: &Queue) -> Counts {
        Counts([queue.slots, queue.slots_free, queue.waiting, queue.running])
    }

    fn facts(self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = [
            "kumiko-slots",
            "kumiko-slots-free",
            "kumiko-jobs-waiting",
            "kumiko-jobs-running",
        ];
        names.into_iter().zip(self.0)
    }
}

/// None: it cannot be read, which the gatekeeper itself complains of.
fn subject(certificate: &Path) -> Option<String> {
    let pem = std::fs::read(certificate).ok()?;
    let chain = Certificate::bundle_from_pem(&pem).ok()?;
    Some(chain.first()?.subject().to_string())
}

impl Provider for SiteProvider {
    fn name(&self) -> &str {
        "site"
    }

    fn every(&self) -> Duration {
        EVERY
    }

    fn limit(&self) -> Duration {
        LIMIT
    }

    fn read(&mut self) -> Reading<'_> {
        let own = self.clone();
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || own.entries()).await;
            read.map_err(|e| ReadError::Io {
                what: "looking at the site".to_owned(),
                cause: std::io::Error::other(e),
            })
        })
    }
}
