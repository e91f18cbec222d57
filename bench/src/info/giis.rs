//! Paper 004's MDS (GT 2.2) as it worked, in virtual time: three levels of caches that are filled by whoever asks too
//! late, providers on the query's way. Figure 7's tree: eight hosts; two indexes of three hosts and one of two below
//! the top. The costs are fitted to the classes that the paper itself tells (hit, partial hits, miss); the emulation is
//! exact, not measured.

/// As the paper set them, of indexes and of hosts.
const TTL_S: f64 = 30.0;
/// A host's providers one after the other (toolkit, "Performance": 1.33 to 2.13 s).
const PROVIDERS_S: f64 = 1.5;
/// A hit at the top, all eight hosts (the paper's fastest: 0.673 s).
const ANSWER_S: f64 = 0.67;
/// An index whose cache is over asks those below it, with connection and bind (1.661 to 1.690 s where those answer at
/// once).
const LEVEL_S: f64 = 1.0;
/// A host that answers from its cache; an index hears its hosts one after the other (3.693 to 3.817 s).
const HOST_S: f64 = 0.67;
/// The indexes of the second level, by how many hosts each has.
const TREE: [usize; 3] = [3, 3, 2];
/// Between the questions of others at each index of the second level, and at each host: a portal that looks there, and a
/// monitor that asks the host itself. Unknown; each fills a cache on our query's way.
const OTHERS_S: f64 = 20.0;

/// (seconds since the first query, the paper's answer in seconds)
pub const PAPER: [(f64, f64); 13] = [
    (0.0, 7.242),
    (91.0, 3.817),
    (1367.0, 9.825),
    (2038.0, 3.693),
    (2085.0, 3.750),
    (2547.0, 1.661),
    (2550.0, 0.673),
    (2599.0, 1.690),
    (2603.0, 0.673),
    (2671.0, 1.670),
    (4295.0, 9.118),
    (4329.0, 1.662),
    (5587.0, 1.073),
];

/// A cache: when what it has was measured, and until when it holds.
#[derive(Clone, Copy)]
struct Cache {
    until_s: f64,
    measured_s: f64,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache {
            until_s: f64::NEG_INFINITY,
            measured_s: f64::NEG_INFINITY,
        }
    }
}

#[derive(Default)]
struct Grid {
    top: Cache,
    middle: [Cache; TREE.len()],
    hosts: [[Cache; 3]; TREE.len()],
}

impl Grid {
    /// A host is asked at this time: how long it takes.
    fn host(&mut self, m: usize, h: usize, at: f64) -> f64 {
        let cache = &mut self.hosts[m][h];
        let mut took = HOST_S;
        if at >= cache.until_s {
            took += PROVIDERS_S;
            *cache = Cache {
                measured_s: at + took,
                until_s: at + took + TTL_S,
            };
        }
        took
    }

    fn middle(&mut self, m: usize, at: f64) -> f64 {
        if at < self.middle[m].until_s {
            return 0.0;
        }
        let mut took = 0.0;
        for h in 0..TREE[m] {
            took += self.host(m, h, at + took);
        }
        let of_hosts = self.hosts[m][..TREE[m]].iter().map(|c| c.measured_s);
        self.middle[m] = Cache {
            measured_s: of_hosts.fold(f64::INFINITY, f64::min),
            until_s: at + took + TTL_S,
        };
        took
    }

    /// All eight hosts, asked for at the top: how long it takes, and how old the oldest value is then.
    fn top(&mut self, at: f64) -> (f64, f64) {
        let mut took = ANSWER_S;
        if at >= self.top.until_s {
            // The second level is asked at once; its slowest counts.
            let slowest = (0..TREE.len())
                .map(|m| self.middle(m, at))
                .fold(0.0, f64::max);
            took += LEVEL_S + slowest;
            let measured = self.middle.iter().map(|c| c.measured_s);
            self.top = Cache {
                measured_s: measured.fold(f64::INFINITY, f64::min),
                until_s: at + took + TTL_S,
            };
        }
        (took, at + took - self.top.measured_s)
    }
}

/// xorshift64 (Marsaglia): the same numbers at every run.
struct Dice(u64);

impl Dice {
    /// Until the next of events that come at random, `mean_s` apart.
    fn pause(&mut self, mean_s: f64) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let share = ((self.0 >> 11) as f64 + 1.0) / (1u64 << 53) as f64;
        -mean_s * share.ln()
    }
}

/// Answers at the paper's times, and the age of the oldest value in each. With `others` the second level and the hosts
/// are asked by others too, and partial hits come about; without, whatever is older than the TTL is a miss to the ground.
pub fn emulate(others: bool) -> Vec<(f64, f64)> {
    let mut grid = Grid::default();
    let mut dice = Dice(0x6b75_6d69_6b6f);
    let askers: Vec<(usize, Option<usize>)> = TREE
        .iter()
        .enumerate()
        .flat_map(|(m, count)| {
            std::iter::once((m, None)).chain((0..*count).map(move |h| (m, Some(h))))
        })
        .collect();
    // They begin with the first query: before that all caches are empty.
    let mut due: Vec<f64> = askers.iter().map(|_| 10.0 + dice.pause(OTHERS_S)).collect();
    let mut told = Vec::new();
    for (at, _) in PAPER {
        while let Some(next) = (0..due.len())
            .filter(|_| others)
            .min_by(|a, b| due[*a].total_cmp(&due[*b]))
        {
            if due[next] > at {
                break;
            }
            match askers[next] {
                (m, None) => grid.middle(m, due[next]),
                (m, Some(h)) => grid.host(m, h, due[next]),
            };
            due[next] += dice.pause(OTHERS_S);
        }
        told.push(grid.top(at));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_is_fast_and_a_miss_goes_down_all_levels() {
        let told = emulate(false);
        assert_eq!(told[6].0, ANSWER_S, "3 s after the last");
        let miss = ANSWER_S + LEVEL_S + 3.0 * (HOST_S + PROVIDERS_S);
        assert!(
            (told[0].0 - miss).abs() < 1e-9 && (told[2].0 - miss).abs() < 1e-9,
            "{told:?}"
        );
        assert!(told.iter().all(|(took, age)| *took > 0.0 && *age >= 0.0));
    }

    #[test]
    fn a_partial_hit_costs_the_levels_that_missed() {
        let mut grid = Grid::default();
        grid.top(0.0);
        for m in 0..TREE.len() {
            grid.middle(m, 40.0);
        }
        assert!(grid.top.until_s < 60.0 && grid.middle.iter().all(|c| c.until_s > 60.0));
        assert!((grid.top(60.0).0 - ANSWER_S - LEVEL_S).abs() < 1e-9);
        let mut grid = Grid::default();
        for (m, count) in TREE.into_iter().enumerate() {
            (0..count).for_each(|h| assert!(grid.host(m, h, 0.0) > PROVIDERS_S));
        }
        assert!((grid.top(10.0).0 - ANSWER_S - LEVEL_S - 3.0 * HOST_S).abs() < 1e-9);
        let mixed = emulate(true);
        let partial = mixed
            .iter()
            .filter(|(took, _)| *took > 1.0 && *took < 4.0)
            .count();
        assert!(partial > 0, "{mixed:?}");
    }
}
