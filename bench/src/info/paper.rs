//! Paper 004, table 1: eight hosts in three levels, asked for after the paper's pauses.

use super::curve::{Axis, Curve, Point, curves};
use super::raw::{self, Raw};
use super::rows::Setup;
use super::{giis, hosts};
use crate::fail::Failure;
use crate::goal::{Goal, Reach, Row};
use crate::stats::Unit;
use kumiko_directory::Op;
use std::time::{Duration, Instant};

/// In place of the paper's pauses, 93 minutes in all: ours does not depend on them.
const PAUSE: Duration = Duration::from_millis(100);

impl Setup {
    pub fn paper(&self) -> Row {
        let goals = vec![Goal {
            text: "≤ 1/100 of the paper's fastest",
            ours: "ours",
            reach: Reach::AtMost { limit: 0.0067 },
        }];
        let title = "Paper 004, table 1: all that is known of eight hosts, three levels";
        let mut row = Row::new("paper", title, goals);
        let ours = match self.eight() {
            Ok(samples) => samples,
            Err(failure) => {
                row.lacks(Some("ours"), &failure);
                Vec::new()
            }
        };
        row.series("ours", Unit::Seconds).extend(&ours);
        let (alone, among) = (giis::emulate(false), giis::emulate(true));
        let paper: Vec<f64> = giis::PAPER.iter().map(|(_, took)| *took).collect();
        let mut drawn = vec![("ours", ours), ("the paper's MDS 2.2", paper)];
        for (name, told) in [
            ("emulated, others ask too", &among),
            ("emulated, nobody else asks", &alone),
        ] {
            drawn.push((name, told.iter().map(|(took, _)| *took).collect()));
            let oldest = told.iter().map(|(_, age)| *age).fold(0.0, f64::max);
            row.note(format!(
                "{name}: the oldest value in an answer is {oldest:.0} s old."
            ));
        }
        for (name, samples) in drawn.iter().skip(1) {
            row.series(name, Unit::Seconds).extend(samples);
        }
        let curve = |(name, samples): &(&'static str, Vec<f64>)| Curve {
            name,
            points: (1..)
                .zip(samples)
                .map(|(number, took)| Point {
                    x: f64::from(number),
                    y: *took,
                    computed: name.starts_with("emulated"),
                })
                .collect(),
        };
        let all: Vec<Curve> = drawn.iter().map(curve).collect();
        let x = Axis {
            label: "query (table 1)",
            log: false,
            show: |v| v.to_string(),
        };
        let y = Axis {
            label: "answer",
            log: true,
            show: |v| Unit::Seconds.show(v),
        };
        row.pictures.push(curves(&x, &y, &all));
        row.note("Ours: three levels of processes, connecting included, as `time grid-info-search` included it. It does not depend on the time since the last query: the paper's pauses, 93 minutes, are 0.1 s here.");
        row.note("The emulation is GIIS and GRIS with TTL 30 s and providers of 1.5 s, in virtual time with the paper's pauses; its costs are fitted to the paper's four classes (0.67 s hit, 1.67 s one level missed, 3.7 s two, 7.2 to 9.8 s all). Partial hits after pauses beyond the TTL need others who ask at the second level or at hosts; their rate (each once in 20 s) is not the paper's, so single queries may fall in other classes than there.");
        row
    }

    /// The paper's tree, hosts as their sites tell them: an index above three, above three, three and two hosts.
    fn eight(&self) -> Result<Vec<f64>, Failure> {
        let index = "kind = \"index\"\nhost = false\n";
        let top = self.world.serve("paper", index)?;
        let below = format!(
            "{index}[[register]]\naddress = \"localhost:{}\"\nttl_ms = 60000\n",
            top.port
        );
        let mut middle = Vec::new();
        for (name, range) in [("west", 0..3), ("north", 3..6), ("east", 6..8)] {
            let server = self.world.serve(name, &below)?;
            let all = range.map(|n| Op::Put(hosts::host(n)));
            let feeder = self.runtime.block_on(self.world.feed(&server, all))?;
            middle.push((server, feeder));
        }
        let search = raw::search("o=grid", &raw::item(0xa3, "objectClass", "MdsHost"));
        let begun = Instant::now();
        while Raw::connect(top.port)?.ask(&search)?.entries < 8 {
            super::world::late(begun, "eight hosts at the top")?;
            std::thread::sleep(PAUSE);
        }
        let ask = |_: &(f64, f64)| {
            let begun = Instant::now();
            Raw::connect(top.port)?.ask(&search)?;
            let took = begun.elapsed().as_secs_f64();
            std::thread::sleep(PAUSE);
            Ok(took)
        };
        giis::PAPER.iter().map(ask).collect()
    }
}
