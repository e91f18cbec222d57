//! The rows of issue's speed table: 10,000 hosts of 20 attributes in ours and in slapd, and three levels.

use super::raw::{self, Raw};
use super::world::{Feeder, Server, World, now_ms};
use super::{Options, hosts};
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::peers::slapd::{ROOT, Slapd};
use crate::proc;
use crate::rounds::{self, Contender};
use crate::stats::{Unit, digits};
use kumiko_directory::Op;
use kumiko_directory::ask::{Ask, News, Query};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const OURS: &str = "kumiko";
const THEIRS: &str = "slapd";
/// Searches of one sample of latency.
const BATCH: usize = 50;
const CLIENTS: usize = 16;

/// What the rows share.
pub struct Setup {
    pub options: Options,
    pub world: World,
    pub runtime: Runtime,
    pub ours: Server,
    pub feeder: Feeder,
    pub theirs: Result<Slapd, Failure>,
}

fn goal(text: &'static str, ours: &'static str, reach: Reach) -> Goal {
    Goal { text, ours, reach }
}

fn at_most(text: &'static str, times: f64) -> Vec<Goal> {
    let theirs = THEIRS;
    vec![goal(text, OURS, Reach::AtMostTimes { theirs, times })]
}

fn at_least(text: &'static str, times: f64) -> Vec<Goal> {
    let theirs = THEIRS;
    vec![goal(text, OURS, Reach::AtLeastTimes { theirs, times })]
}

impl Setup {
    fn ports(&self, row: &mut Row) -> Vec<(&'static str, u16)> {
        let mut ports = vec![(OURS, self.ours.port)];
        match &self.theirs {
            Ok(slapd) => ports.push((THEIRS, slapd.port)),
            Err(failure) => row.lacks(Some(THEIRS), failure),
        }
        ports
    }

    /// A row of searches, one after the other on one connection; each must find `expected` entries.
    fn searches(
        &self,
        mut row: Row,
        rounds: usize,
        batch: usize,
        request: impl Fn(usize) -> (Vec<u8>, usize),
    ) -> Row {
        let mut contenders = Vec::new();
        let request = &request;
        for (name, port) in self.ports(&mut row) {
            let mut raw = match Raw::connect(port) {
                Ok(raw) => raw,
                Err(failure) => {
                    row.lacks(Some(name), &failure);
                    continue;
                }
            };
            let mut turn = 0;
            contenders.push(Contender::new(name, Unit::Seconds, move || {
                let asked: Vec<_> = (0..batch)
                    .map(|n| request(turn * 7919 + n * 104_729))
                    .collect();
                turn += 1;
                let begun = Instant::now();
                for (request, expected) in &asked {
                    let answer = raw.ask(request)?;
                    if answer.code != 0 || answer.entries != *expected {
                        return Err(Failure::unexpected(format!(
                            "{name}: {answer:?}, not {expected} entries"
                        )));
                    }
                }
                Ok(begun.elapsed().as_secs_f64() / batch as f64)
            }));
        }
        rounds::take(&mut row, rounds, contenders);
        row
    }

    pub fn equality(&self) -> Row {
        let goals = at_most("≤ 1.2 × slapd's indexed time", 1.2);
        let count = self.options.hosts;
        let row = Row::new("equality", "Equality search", goals);
        let mut row = self.searches(row, self.options.rounds(60), BATCH, |n| {
            (
                raw::search(
                    hosts::BASE,
                    &raw::item(0xa3, "Mds-Host-hn", &hosts::name(n % count)),
                ),
                1,
            )
        });
        row.note(format!(
            "{BATCH} searches a sample, one connection, one after the other; indexed in slapd."
        ));
        row
    }

    pub fn range(&self) -> Row {
        let goals = at_most("≤ 1/5 of slapd's", 0.2);
        // About ten of ten thousand.
        let mut values: Vec<u64> = (0..self.options.hosts)
            .filter_map(|n| {
                hosts::host(n)
                    .get(hosts::RANGE)?
                    .values
                    .first()?
                    .parse()
                    .ok()
            })
            .collect();
        values.sort_unstable_by(|a, b| b.cmp(a));
        let row = Row::new("range", "Range filter not declared beforehand", goals);
        let values = &values;
        self.searches(row, self.options.rounds(40), 5, move |n| {
            let least = values.get(5 + n % 10).copied().unwrap_or(0);
            let found = values.iter().filter(|v| **v >= least).count();
            let filter = [
                raw::item(0xa3, "objectClass", "MdsHost"),
                raw::item(0xa5, hosts::RANGE, &least.to_string()),
            ];
            (raw::search(hosts::BASE, &raw::and(&filter)), found)
        })
    }

    pub fn dump(&self) -> Row {
        let goals = at_most("≤ 0.6 × slapd's", 0.6);
        let row = Row::new("dump", "Dump of all", goals);
        let count = self.options.hosts;
        self.searches(row, self.options.rounds(20), 1, |_| {
            (
                raw::search(hosts::BASE, &raw::item(0xa3, "objectClass", "MdsHost")),
                count,
            )
        })
    }

    pub fn rate(&self) -> Row {
        let goals = at_least("≥ 1.3 × slapd's", 1.3);
        let mut row = Row::new("rate", "Queries a second, 16 clients", goals);
        let ports = self.ports(&mut row);
        let count = self.options.hosts;
        let contenders = ports.into_iter().map(|(name, port)| {
            Contender::new(name, Unit::PerSecond, move || {
                let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
                let run = |client: usize| -> Result<(), Failure> {
                    let mut raw = Raw::connect(port)?;
                    let mut n = client * 7919;
                    while !stop.load(Ordering::Relaxed) {
                        let filter = raw::item(0xa3, "Mds-Host-hn", &hosts::name(n % count));
                        raw.ask(&raw::search(hosts::BASE, &filter))?;
                        done.fetch_add(1, Ordering::Relaxed);
                        n += 104_729;
                    }
                    Ok(())
                };
                std::thread::scope(|scope| {
                    let clients: Vec<_> = (0..CLIENTS)
                        .map(|c| scope.spawn(move || run(c)))
                        .collect::<Vec<_>>();
                    let begun = Instant::now();
                    std::thread::sleep(Duration::from_secs(1));
                    let (count, time) = (done.load(Ordering::Relaxed), begun.elapsed());
                    stop.store(true, Ordering::Relaxed);
                    for client in clients {
                        client
                            .join()
                            .map_err(|_| Failure::unexpected("a client panicked"))??;
                    }
                    Ok(count as f64 / time.as_secs_f64())
                })
            })
        });
        let contenders = contenders.collect();
        rounds::take(&mut row, self.options.rounds(10), contenders);
        row.note("Clients and server share the machine's processors.");
        row
    }

    pub fn changes(&mut self) -> Row {
        let goals = at_least("≥ 8 × slapd's modifies", 8.0);
        let mut row = Row::new("changes", "Attribute changes taken in, a second", goals);
        row.note("Ours by a registration's stream (TLS), until the index says that all is taken in; slapd by modifies, 8 connections with 50 requests under way each, no flush to disk.");
        let (hosts, runtime) = (self.options.hosts, &self.runtime);
        let slapd = self.theirs.as_ref().ok().map(|s| s.port);
        let feeder = &mut self.feeder;
        let many = 100_000;
        let mut turn = 0;
        let mut contenders = vec![Contender::new(OURS, Unit::PerSecond, move || {
            turn += 1;
            let ops: Vec<Op> = (0..many)
                .map(|n| hosts::change(n % hosts, (n + turn * 13) as u64 % 997, now_ms()))
                .collect();
            let begun = Instant::now();
            runtime.block_on(async {
                for piece in ops.chunks(1000) {
                    feeder.tell(piece).await?;
                }
                feeder.settled().await
            })?;
            Ok(many as f64 / begun.elapsed().as_secs_f64())
        })];
        if let Some(port) = slapd {
            let mut turn = 0;
            contenders.push(Contender::new(THEIRS, Unit::PerSecond, move || {
                turn += 1;
                modifies(port, hosts, turn)
            }));
        }
        rounds::take(&mut row, self.options.rounds(10), contenders);
        row
    }

    pub fn memory(&self, before: u64) -> Row {
        let goals = vec![goal("≤ 8 kB a host", OURS, Reach::AtMost { limit: 8e3 })];
        let mut row = Row::new("memory", "Memory a host", goals);
        let measured = proc::memory(self.ours.pid);
        match measured {
            Ok(Some(now)) => {
                let each =
                    now.private_bytes.saturating_sub(before) as f64 / self.options.hosts as f64;
                row.series(OURS, Unit::Bytes).push(each);
            }
            _ => row.lacks(Some(OURS), &"its memory cannot be read"),
        }
        if let Ok(slapd) = &self.theirs {
            if let Ok(Some(now)) = proc::memory(slapd.pid) {
                row.series(THEIRS, Unit::Bytes)
                    .push(now.share_bytes as f64 / self.options.hosts as f64);
            }
        }
        row.note(format!("{} hosts of 20 attributes.", self.options.hosts));
        row
    }

    /// A change at a leaf until a watcher at the top of three levels hears of it, while 10,000 other changes a second
    /// go the same way.
    pub fn levels(&self) -> Row {
        let goals = vec![
            goal("≤ 50 ms median", OURS, Reach::AtMost { limit: 0.050 }),
            goal("≤ 250 ms p99", OURS, Reach::P99AtMost { limit: 0.250 }),
        ];
        let mut row = Row::new(
            "levels",
            "Change at a leaf, seen at the top of three levels, at 10,000 changes/s",
            goals,
        );
        match self.through_levels() {
            Ok(samples) => row.series(OURS, Unit::Seconds).extend(samples),
            Err(failure) => row.lacks(Some(OURS), &failure),
        }
        row.note("Paper 004: TTL 30 s on each of three levels, or a stall of 10 s.");
        row
    }

    fn through_levels(&self) -> Result<Vec<f64>, Failure> {
        const PER_SECOND: usize = 10_000;
        const TICK: Duration = Duration::from_millis(10);
        let index = "kind = \"index\"\nhost = false\n";
        let above = |server: &Server| {
            format!(
                "{index}\n[[register]]\naddress = \"localhost:{}\"\nttl_ms = 60000\nheartbeat_ms = 1000\n",
                server.port
            )
        };
        let top = self.world.serve("top", index)?;
        let middle = self.world.serve("middle", &above(&top))?;
        let site = self.world.serve("site", &above(&middle))?;
        let seconds = self.options.rounds(20).max(5);
        let count = self.options.hosts;
        self.runtime.block_on(async {
            let all = (0..count).map(|n| Op::Put(hosts::host(n)));
            let mut feeder = self.world.feed(&site, all).await?;
            let client = self.world.client(&top).await?;
            let said = |e| Failure::said("watching the top", &e);
            let query = Query {
                expression: format!("host = {}", hosts::name(0)),
                ..Query::default()
            };
            let begun = Instant::now();
            let mut watch = loop {
                let mut watch = client.ask(&Ask::Watch(query.clone())).await.map_err(said)?;
                if matches!(watch.next().await.map_err(said)?, Some(News::Entry(_))) {
                    break watch;
                }
                super::world::late(begun, "the hosts arriving at the top")?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            // The hosts themselves must have arrived: their snapshot is not what is measured here.
            while super::world::entries(&client).await? < count {
                super::world::late(begun, "the hosts arriving at the top")?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            let heard = tokio::spawn(async move {
                let mut heard = Vec::new();
                while let Ok(Some(news)) = watch.next::<News>().await {
                    if let News::Entry(entry) = news {
                        let value = entry
                            .first(hosts::CHANGING)
                            .and_then(|v| v.parse::<u64>().ok());
                        heard.extend(value.map(|v| (v, Instant::now())));
                    }
                }
                heard
            });
            let mut sent = Vec::new();
            let mut ticks = tokio::time::interval(TICK);
            let per_tick = PER_SECOND / (1000 / TICK.as_millis() as usize);
            let ticks_in_all = seconds * 100;
            for tick in 0..ticks_in_all {
                ticks.tick().await;
                let mut ops: Vec<Op> = (0..per_tick)
                    .map(|n| {
                        hosts::change(
                            1 + (tick * per_tick + n) % (count - 1),
                            (tick + n) as u64 % 997,
                            now_ms(),
                        )
                    })
                    .collect();
                // Not in step with anything.
                if tick % 7 == 0 {
                    let value = 1_000_000 + tick as u64;
                    ops.push(hosts::change(0, value, now_ms()));
                    sent.push((value, Instant::now()));
                }
                feeder.tell(&ops).await?;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
            client.close().await;
            let heard = heard
                .await
                .map_err(|e| Failure::said("watching the top", &e))?;
            let samples: Vec<f64> = sent
                .iter()
                .map(|(value, at)| {
                    // A value that a later one overtook is known by the later one.
                    let seen = heard.iter().find(|(v, _)| v >= value && *v >= 1_000_000);
                    seen.map_or(f64::INFINITY, |(_, seen)| {
                        seen.saturating_duration_since(*at).as_secs_f64()
                    })
                })
                .collect();
            match samples.iter().all(|s| s.is_finite()) {
                true => Ok(samples),
                false => Err(Failure::unexpected("some changes never arrived at the top")),
            }
        })
    }

    /// Queries at a server whose providers hang, beside one without any.
    pub fn hung(&self) -> Row {
        let goals = vec![goal(
            "unaffected: ≤ 1.2 × without providers",
            "providers hung",
            Reach::AtMostTimes {
                theirs: "none",
                times: 1.2,
            },
        )];
        let mut row = Row::new("hung", "A query while providers hang", goals);
        let hang = "\n[[provider]]\nname = \"hung\"\ncommand = [\"sleep\", \"1000\"]\nevery_ms = 1000\nlimit_ms = 900\nsandbox = false\n";
        let servers = self
            .world
            .serve("plain", "host = true\n")
            .and_then(|plain| {
                let hung = self.world.serve(
                    "hung",
                    &format!(
                        "host = true\n{}{}",
                        hang,
                        hang.replace("\"hung\"", "\"also\"")
                    ),
                )?;
                Ok([("none", plain), ("providers hung", hung)])
            });
        let servers = match servers {
            Ok(servers) => servers,
            Err(failure) => {
                row.lacks(None, &failure);
                return row;
            }
        };
        std::thread::sleep(Duration::from_secs(2));
        // Who asks and who answers share a core, or the scheduler's choice of one for either is what would be measured.
        let asking = || -> Result<(), Failure> {
            let mut contenders = Vec::new();
            for (name, server) in &servers {
                proc::pin(server.pid)?;
                let mut raw = Raw::connect(server.port)?;
                contenders.push(Contender::new(name, Unit::Seconds, move || {
                    let request = raw::search("o=grid", &raw::item(0xa3, "objectClass", "MdsHost"));
                    let begun = Instant::now();
                    for _ in 0..BATCH {
                        raw.ask(&request)?;
                    }
                    Ok(begun.elapsed().as_secs_f64() / BATCH as f64)
                }));
            }
            proc::pin_thread()?;
            rounds::take(&mut row, self.options.rounds(40), contenders);
            Ok(())
        };
        let asked = std::thread::scope(|scope| scope.spawn(asking).join());
        match asked {
            Ok(Ok(())) => row.note("All on one core."),
            Ok(Err(failure)) => row.lacks(None, &failure),
            Err(panic) => std::panic::resume_unwind(panic),
        }
        row
    }
}

/// A share of one processor.
pub fn percent(processors: f64) -> String {
    format!("{} %", digits(processors * 100.0))
}

fn modifies(port: u16, hosts: usize, turn: usize) -> Result<f64, Failure> {
    const CONNECTIONS: usize = 8;
    const EACH: usize = 1500;
    const UNDER_WAY: usize = 50;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|c| {
                scope.spawn(move || -> Result<(), Failure> {
                    let mut raw = Raw::connect(port)?;
                    raw.ask(&raw::bind(ROOT.0, ROOT.1))?;
                    let request = |n: usize| {
                        let dn = format!(
                            "Mds-Host-hn={},{}",
                            hosts::name((c * EACH + n) % hosts),
                            hosts::BASE
                        );
                        raw::modify(&dn, hosts::CHANGING, &((n + turn) % 997).to_string())
                    };
                    for n in 0..EACH + UNDER_WAY {
                        if n < EACH {
                            raw.send(&request(n))?;
                        }
                        if n >= UNDER_WAY {
                            let answer = raw.answer()?;
                            if answer.code != 0 {
                                return Err(Failure::unexpected(format!(
                                    "a modify was answered by {answer:?}"
                                )));
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        for client in clients {
            client
                .join()
                .map_err(|_| Failure::unexpected("a client panicked"))??;
        }
        Ok((CONNECTIONS * EACH) as f64 / begun.elapsed().as_secs_f64())
    })
}
