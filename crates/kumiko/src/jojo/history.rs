//! What a Jojo program told of itself (spec/jojo J21, J22), line by line: the last of each node, rates between the last two, and
//! how it went, for a report. Pure. Not in it: where lines come from, how they are shown.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Moments that a report has; when there are more, every second one is dropped.
const MOMENTS_MOST: usize = 4_000;
/// Losses that are kept: a report of more is not read.
const LOSSES_MOST: usize = 1_000;
/// A line of a thousand nodes has a quarter of that.
pub const LINE_MOST_BYTES: u64 = 16 << 20;

/// Any line of the stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line {
    jojo: Option<u32>,
    code: String,
    places: u64,
    t: f64,
    nodes: Option<Vec<Node>>,
    lost: Option<String>,
    name: String,
    why: String,
    end: Option<String>,
    status: Option<u8>,
}

/// Messages and bytes, from the beginning or in a second.
pub type Pair<T> = [T; 2];

/// A node as it is now.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Ranks with dots between; empty at the client.
    pub place: String,
    pub name: String,
    pub state: String,
    /// What it sent to its parent, since it began.
    pub up: Pair<u64>,
    /// What its parent sent to it.
    pub down: Pair<u64>,
    /// What it sent to siblings directly.
    pub aside: Pair<u64>,
    pub handlers: u64,
    pub faults: u64,
    pub figures: BTreeMap<String, f64>,
    /// The same, in the last second.
    #[serde(skip)]
    pub up_rate: Pair<f64>,
    #[serde(skip)]
    pub down_rate: Pair<f64>,
    #[serde(skip)]
    pub work_rate: f64,
}

impl Node {
    pub fn depth(&self) -> usize {
        if self.place.is_empty() {
            0
        } else {
            self.place.split('.').count()
        }
    }

    fn work(&self) -> f64 {
        self.figures.get("work").copied().unwrap_or(0.0)
    }
}

/// All nodes together at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moment {
    /// Since the program began.
    pub seconds: f64,
    pub nodes_up: u64,
    /// Over all links, in a second.
    pub messages: f64,
    pub bytes: f64,
    pub work: f64,
    pub work_rate: f64,
    pub best: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub seconds: f64,
    pub place: String,
    pub name: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct End {
    pub seconds: f64,
    pub how: String,
    pub status: u8,
}

/// A program from when it was first looked at.
#[derive(Debug, Default)]
pub struct History {
    pub code: String,
    /// Nodes that its configuration has.
    pub places: u64,
    pub nodes: Vec<Node>,
    pub moments: Vec<Moment>,
    pub losses: Vec<Loss>,
    /// Losses of which nothing else is kept.
    pub more_losses: usize,
    pub end: Option<End>,
    begun: bool,
    /// What nodes that are no more, or began anew, had done.
    work_of_lost: f64,
}

/// What a line was.
#[derive(Debug, PartialEq)]
pub enum Told {
    Begin,
    Tick,
    Lost,
    End,
}

/// Why a line is none of such a stream.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    #[error("it is no JSON of a Jojo program: {0}")]
    Json(#[from] serde_json::Error),
    #[error("the stream does not begin with {{\"jojo\":1,...}}")]
    Begin,
    #[error("version {0} of the stream, this program knows 1")]
    Version(u32),
    #[error("neither nodes, lost nor end")]
    Nothing,
}

impl History {
    /// Takes the next line.
    pub fn line(&mut self, text: &str) -> Result<Told, Wrong> {
        let line: Line = serde_json::from_str(text)?;
        if !self.begun {
            let version = line.jojo.ok_or(Wrong::Begin)?;
            if version != 1 {
                return Err(Wrong::Version(version));
            }
            self.begun = true;
            self.code = line.code;
            self.places = line.places;
            return Ok(Told::Begin);
        }
        if let Some(nodes) = line.nodes {
            self.tick(line.t, nodes);
            return Ok(Told::Tick);
        }
        if let Some(place) = line.lost {
            if self.losses.len() < LOSSES_MOST {
                self.losses.push(Loss {
                    seconds: line.t,
                    place,
                    name: line.name,
                    why: line.why,
                });
            } else {
                self.more_losses += 1;
            }
            return Ok(Told::Lost);
        }
        let how = line.end.ok_or(Wrong::Nothing)?;
        self.end = Some(End {
            seconds: line.t,
            how,
            status: line.status.unwrap_or(1),
        });
        Ok(Told::End)
    }

    fn tick(&mut self, seconds: f64, mut nodes: Vec<Node>) {
        let before = self.moments.last().map(|m| m.seconds);
        let passed = before.map_or(seconds, |b| seconds - b).max(1e-3);
        let mut known: BTreeMap<String, Node> = std::mem::take(&mut self.nodes)
            .into_iter()
            .map(|node| (node.place.clone(), node))
            .collect();
        let mut now = Moment {
            seconds,
            ..Moment::default()
        };
        for node in &mut nodes {
            let last = known.remove(&node.place).unwrap_or_default();
            node.up_rate = rate(node.up, last.up, passed);
            node.down_rate = rate(node.down, last.down, passed);
            let aside = rate(node.aside, last.aside, passed);
            let (work, done) = (node.work(), last.work());
            if work < done {
                self.work_of_lost += done; // another has taken its place, and counts from 0
                node.work_rate = work / passed;
            } else {
                node.work_rate = (work - done) / passed;
            }
            now.nodes_up += u64::from(node.state == "up");
            now.messages += node.up_rate[0] + node.down_rate[0] + aside[0];
            now.bytes += node.up_rate[1] + node.down_rate[1] + aside[1];
            now.work += work;
            now.work_rate += node.work_rate;
        }
        self.work_of_lost += known.values().map(Node::work).sum::<f64>();
        now.work += self.work_of_lost;
        now.best = nodes
            .iter()
            .find(|n| n.place.is_empty())
            .and_then(|n| n.figures.get("best").copied());
        self.nodes = nodes;
        if self.moments.len() >= MOMENTS_MOST {
            let mut even = false;
            self.moments.retain(|_| {
                even = !even;
                even
            });
        }
        self.moments.push(now);
    }

    pub fn now(&self) -> Moment {
        self.moments.last().copied().unwrap_or_default()
    }
}

/// What was added in a second; all of it where it is less than before, for then it began anew.
fn rate(now: Pair<u64>, before: Pair<u64>, seconds: f64) -> Pair<f64> {
    let one = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now) as f64 / seconds;
    [one(now[0], before[0]), one(now[1], before[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = r#"{"jojo":1,"code":"Queens","places":3,"pid":7,"t":0.1}"#;

    fn tick(seconds: f64, messages: u64, work: u64) -> String {
        format!(
            r#"{{"t":{seconds},"nodes":[{{"place":"","name":"client","state":"up","down":[0,0],"figures":{{"best":73}}}},
            {{"place":"0","name":"n0","state":"up","up":[{messages},{}],"down":[1,1],"figures":{{"work":{work}}}}}]}}"#,
            messages * 10
        )
    }

    #[test]
    fn rates_are_of_the_time_between_two_ticks() {
        let mut history = History::default();
        for line in [BEGIN, &tick(1.0, 10, 100), &tick(3.0, 30, 500)] {
            history.line(line).unwrap();
        }
        let now = history.now();
        assert_eq!((now.messages, now.bytes), (10.0, 100.0));
        assert_eq!(
            (now.work, now.work_rate, now.best),
            (500.0, 200.0, Some(73.0))
        );
        assert_eq!((now.nodes_up, history.places), (2, 3));
    }

    #[test]
    fn what_a_lost_node_had_done_is_not_forgotten() {
        let mut history = History::default();
        let gone = r#"{"t":5,"nodes":[{"place":"","name":"client","state":"up"}]}"#;
        for line in [
            BEGIN,
            &tick(1.0, 10, 100),
            &tick(2.0, 1, 40), // started again
            r#"{"t":4.5,"lost":"0","name":"n0","why":"closed"}"#,
            gone,
        ] {
            history.line(line).unwrap();
        }
        assert_eq!(history.now().work, 140.0);
        assert_eq!(history.losses[0].name, "n0");
    }

    #[test]
    fn moments_are_thinned_and_keep_their_span() {
        let mut history = History::default();
        history.line(BEGIN).unwrap();
        for i in 0..3 * MOMENTS_MOST as u64 {
            history.line(&tick(i as f64, i, i)).unwrap();
        }
        assert!(history.moments.len() <= MOMENTS_MOST);
        assert_eq!(history.moments[0].seconds, 0.0);
        assert_eq!(history.now().seconds, 3.0 * MOMENTS_MOST as f64 - 1.0);
    }

    #[test]
    fn what_is_no_such_stream_is_refused() {
        for (first, wrong) in [
            ("PI = 3.14", "no JSON"),
            (r#"{"jpop":1,"kind":"bb"}"#, "does not begin"),
            (r#"{"jojo":2}"#, "version 2"),
        ] {
            let said = History::default().line(first).unwrap_err().to_string();
            assert!(said.contains(wrong), "{said}");
        }
        let mut history = History::default();
        history.line(BEGIN).unwrap();
        assert!(history.line(r#"{"t":1}"#).is_err());
        assert!(history.line(r#"{"t":1,"nodes":[{"up":[1]}]}"#).is_err());
    }
}
