//! The work by which mechanisms are measured: scripts of /bin/sh, which every machine has, and which open, look and fork
//! by themselves. What of it a mechanism answers is not assumed but counted ([`crate::Room::cost`]).

/// A script: what it does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Nothing: `/bin/true`.
    Start,
    Open,
    Look,
    Answer,
    Pass,
    Process,
    Exec,
    /// As Open, by a crowd of processes.
    Crowd,
}

impl Work {
    pub(super) const ALL: [Work; 8] = [
        Work::Start,
        Work::Open,
        Work::Look,
        Work::Answer,
        Work::Pass,
        Work::Process,
        Work::Exec,
        Work::Crowd,
    ];

    /// How often it is done in one run: some 30 ms under a mechanism that answers in 10 us.
    pub(super) fn times(self) -> u64 {
        match self {
            Work::Start => 1,
            Work::Open | Work::Look | Work::Answer | Work::Pass => 2_000,
            Work::Process => 60,
            Work::Exec => 20,
            Work::Crowd => 3_200,
        }
    }

    /// For `sh -c`; None: `/bin/true` itself.
    pub(super) fn script(self) -> Option<String> {
        // Five in a row, so that the loop itself weighs little.
        let again = |what: &str, times: u64| {
            let five = [what; 5].join("; ");
            let rounds = times / 5;
            format!("i=0; while [ $i -lt {rounds} ]; do {five}; i=$((i+1)); done")
        };
        let times = self.times();
        Some(match self {
            Work::Start => return None,
            Work::Open => again(": </job/f", times),
            Work::Look => again("[ -e /job/f ]", times),
            Work::Answer => again(": >>/job/f", times),
            Work::Pass => again("kill -0 $$", times),
            Work::Process => again("(:)", times),
            Work::Exec => again("/bin/true", times),
            Work::Crowd => {
                let each = again(": </job/f", times / super::CROWD);
                let crowd = super::CROWD;
                format!("k=0; while [ $k -lt {crowd} ]; do ({each}) & k=$((k+1)); done; wait")
            }
        })
    }
}
