//! One to a million simulated hosts behind real indexes of two levels: bytes, processor time and memory at each. What is
//! too much for this machine is computed from what was measured a host, and said so.

use super::curve::{Axis, Curve, Point, curves};
use super::rows::Setup;
use super::world::{Feeder, entries, late, now_ms};
use super::{hosts, rows};
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::proc;
use crate::stats::Unit;
use kumiko_directory::Op;
use std::time::{Duration, Instant};

/// A host's load moves beyond its step every five seconds, which is how often the kernel computes it.
const CHANGES_A_HOST_S: f64 = 0.2;
/// Of a hundred changes one is a host that goes and one a host that comes.
const CHURN: usize = 100;
/// For as long are changes fed, at most so many: the rest of the time of a measurement is others'.
const FED_S: f64 = 4.0;
const CHANGES_MOST: usize = 60_000;
/// Sites, each with a connection of its own, that tell the lower index.
const CONNECTIONS_MOST: usize = 10;
const COMPUTED: [usize; 2] = [300_000, 1_000_000];

/// What was measured with so many hosts.
#[derive(Clone, Copy)]
struct Level {
    memory_bytes: f64,
    /// Of one change.
    change_s: f64,
    /// Of one host that is told at first.
    arrival_s: f64,
}

struct Measured {
    hosts: usize,
    told_bytes: f64,
    change_bytes: f64,
    lower: Level,
    upper: Level,
}

impl Setup {
    pub fn scale(&self) -> Row {
        const LARGEST: &str = "memory a host of the most hosts";
        let goals = vec![Goal {
            text: "≤ 8 kB a host",
            ours: LARGEST,
            reach: Reach::AtMost { limit: 8e3 },
        }];
        let title = "1 to 1,000,000 simulated hosts, two levels of indexes";
        let mut row = Row::new("scale", title, goals);
        let steps: &[usize] = match self.options.quick {
            true => &[1, 100, 5_000],
            false => &[1, 10, 100, 1_000, 10_000, 50_000],
        };
        let mut all = Vec::new();
        for hosts in steps {
            match self.measured(*hosts) {
                Ok(one) => {
                    row.note(one.in_words());
                    all.push(one);
                }
                Err(failure) => row.lacks(None, &format!("{hosts} hosts: {failure}")),
            }
        }
        let Some(last) = all.last() else {
            return row;
        };
        let each = last.lower.memory_bytes / last.hosts as f64;
        row.series(LARGEST, Unit::Bytes).push(each);
        // Small ones tell mostly what a process costs by itself.
        for one in all.iter().filter(|m| m.hosts >= 1000) {
            for (name, value, unit) in [
                (
                    "bytes to tell a host",
                    one.told_bytes / one.hosts as f64,
                    Unit::Bytes,
                ),
                ("bytes of a change", one.change_bytes, Unit::Bytes),
                (
                    "processor time of a change, lower",
                    one.lower.change_s,
                    Unit::Seconds,
                ),
                (
                    "processor time of a change, upper",
                    one.upper.change_s,
                    Unit::Seconds,
                ),
                (
                    "processor time of a host's arrival",
                    one.lower.arrival_s,
                    Unit::Seconds,
                ),
            ] {
                row.series(name, unit).push(value);
            }
        }
        row.note("An index has, at 0.2 changes a second and host (one in fifty of them a host that goes or comes), the processor time of a change times the changes. Hosts come over ten connections at most, as from sites of many; both indexes are processes, and the upper one hears all from the lower.");
        let computed: Vec<Measured> = COMPUTED.iter().map(|n| last.times(*n)).collect();
        for one in &computed {
            row.note(format!(
                "Computed from {} hosts, not measured: {}",
                last.hosts,
                one.in_words()
            ));
        }
        row.pictures = pictures(&all, &computed);
        row
    }

    fn measured(&self, count: usize) -> Result<Measured, Failure> {
        let index = "kind = \"index\"\nhost = false\n";
        let upper = self.world.serve(&format!("upper{count}"), index)?;
        let below = format!(
            "{index}[[register]]\naddress = \"localhost:{}\"\nttl_ms = 600000\n",
            upper.port
        );
        let lower = self.world.serve(&format!("lower{count}"), &below)?;
        let (of_lower, of_upper) = (Look::at(lower.pid)?, Look::at(upper.pid)?);
        self.runtime.block_on(async {
            let connections = CONNECTIONS_MOST.min(count);
            let mut sites = Vec::new();
            for site in 0..connections {
                let own = (site..count)
                    .step_by(connections)
                    .map(|n| Op::Put(hosts::host(n)));
                let name = format!("site{site}");
                sites.push(self.world.feed_as(&lower, &name, own).await?);
            }
            let told_bytes: u64 = sites.iter().map(|s| s.bytes).sum();
            let top = self.world.client(&upper).await?;
            let begun = Instant::now();
            while entries(&top).await? < count {
                late(begun, "the hosts arriving at the upper index")?;
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let (full_lower, full_upper) = (Look::at(lower.pid)?, Look::at(upper.pid)?);
            let changes = feed(&mut sites, count).await?;
            let change_bytes = sites.iter().map(|s| s.bytes).sum::<u64>() - told_bytes;
            // What is under way to the upper one.
            tokio::time::sleep(Duration::from_millis(300)).await;
            let (end_lower, end_upper) = (Look::at(lower.pid)?, Look::at(upper.pid)?);
            let level = |before: &Look, full: &Look, end: &Look| Level {
                memory_bytes: end.memory_bytes - before.memory_bytes,
                change_s: (end.processor_s - full.processor_s) / changes as f64,
                arrival_s: (full.processor_s - before.processor_s) / count as f64,
            };
            Ok(Measured {
                hosts: count,
                told_bytes: told_bytes as f64,
                change_bytes: change_bytes as f64 / changes as f64,
                lower: level(&of_lower, &full_lower, &end_lower),
                upper: level(&of_upper, &full_upper, &end_upper),
            })
        })
    }
}

/// Changes at their pace, spread over the sites; how many there were.
async fn feed(sites: &mut [Feeder], count: usize) -> Result<usize, Failure> {
    const TICKS: usize = 40;
    let realistic = (count as f64 * CHANGES_A_HOST_S * FED_S) as usize;
    // A few hosts change too seldom to be measured: they hurry.
    let changes = realistic.clamp(4_000, CHANGES_MOST);
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(FED_S / TICKS as f64));
    let (mut told, connections) = (0, sites.len());
    for tick in 0..TICKS {
        ticks.tick().await;
        let upto = changes * (tick + 1) / TICKS;
        for (number, site) in sites.iter_mut().enumerate() {
            let mut ops = Vec::new();
            for n in (told..upto).skip(number).step_by(connections) {
                // Only a host of its own: others are another source's.
                let host = (n / connections * connections + number) % count;
                let host = if host % connections == number {
                    host
                } else {
                    number
                };
                if n % CHURN == 0 {
                    ops.push(Op::Remove {
                        dn: hosts::relative(host),
                    });
                    ops.push(Op::Put(hosts::host(host)));
                } else {
                    ops.push(hosts::change(host, (n % 997) as u64, now_ms()));
                }
            }
            if !ops.is_empty() {
                site.tell(&ops).await?;
            }
        }
        told = upto;
    }
    for site in sites.iter() {
        site.settled().await?;
    }
    Ok(changes)
}

/// A process at one time.
struct Look {
    memory_bytes: f64,
    processor_s: f64,
}

impl Look {
    fn at(pid: u32) -> Result<Look, Failure> {
        let memory = proc::memory(pid)?.ok_or_else(|| Failure::unexpected("an index is gone"))?;
        Ok(Look {
            memory_bytes: memory.private_bytes as f64,
            processor_s: proc::processor_s(pid)?,
        })
    }
}

impl Measured {
    fn changes_s(&self) -> f64 {
        self.hosts as f64 * CHANGES_A_HOST_S
    }

    /// The same costs a host and a change, with more hosts.
    fn times(&self, hosts: usize) -> Measured {
        let factor = hosts as f64 / self.hosts as f64;
        let level = |level: Level| Level {
            memory_bytes: level.memory_bytes * factor,
            ..level
        };
        Measured {
            hosts,
            told_bytes: self.told_bytes * factor,
            change_bytes: self.change_bytes,
            lower: level(self.lower),
            upper: level(self.upper),
        }
    }

    fn in_words(&self) -> String {
        let show = |level: &Level| {
            format!(
                "{} and {} of a processor",
                Unit::Bytes.show(level.memory_bytes),
                rows::percent(level.change_s * self.changes_s())
            )
        };
        format!(
            "{} hosts: {} to tell them all, {} of changes; lower index {}, upper {}.",
            self.hosts,
            Unit::Bytes.show(self.told_bytes),
            Unit::BytesPerSecond.show(self.change_bytes * self.changes_s()),
            show(&self.lower),
            show(&self.upper)
        )
    }
}

fn pictures(measured: &[Measured], computed: &[Measured]) -> Vec<String> {
    let curve = |name, value: fn(&Measured) -> f64| {
        let point = |one: &Measured, computed| Point {
            x: one.hosts as f64,
            y: value(one),
            computed,
        };
        let points = measured.iter().map(|m| point(m, false));
        let points = points.chain(computed.iter().map(|m| point(m, true)));
        Curve {
            name,
            points: points.filter(|p| p.y > 0.0).collect(),
        }
    };
    let axis = |label, show| Axis {
        label,
        log: true,
        show,
    };
    let hosts = axis("hosts (hollow: computed)", |v| format!("{v}"));
    [
        (
            axis("memory", |v| Unit::Bytes.show(v)),
            vec![
                curve("lower index", |m| m.lower.memory_bytes),
                curve("upper index", |m| m.upper.memory_bytes),
            ],
        ),
        (
            axis("processors", rows::percent),
            vec![
                curve("lower index", |m| m.lower.change_s * m.changes_s()),
                curve("upper index", |m| m.upper.change_s * m.changes_s()),
            ],
        ),
        (
            axis("bytes a second", |v| Unit::BytesPerSecond.show(v)),
            vec![curve("changes to an index", |m| {
                m.change_bytes * m.changes_s()
            })],
        ),
    ]
    .iter()
    .map(|(y, all)| curves(&hosts, y, all))
    .collect()
}
