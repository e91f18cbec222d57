//! Several jobs that are to start together, or not at all, as their client sees it (spec/jobs/together.md, T10 to T16):
//! what it hears of each makes orders. Pure. Not here: who carries orders out (`kumiko-client`), what a site does with
//! them (`state`).

/// How a subjob takes part in the start (`subjobStartType` of DUROC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// The others wait for it, and without it there is no start.
    #[default]
    Strict,
    /// The others wait for it; if it cannot, they start without it.
    Loose,
    /// It begins at once, and nobody waits for it.
    AtOnce,
}

/// What is heard of a subjob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its site has it.
    Taken,
    /// Its site has it not, for sure.
    Refused(String),
    /// Its site may have it, and cannot be asked.
    Unsure(String),
    /// All is ready but for the execution of its program.
    Held,
    /// It was held, and is to be tried again: it is not ready any more.
    Again,
    /// Its program runs.
    Begun,
    /// It is over, in these words.
    Over(String),
}

/// What is to be done at the site of a subjob; each is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Release(usize),
    Cancel(usize),
}

/// How the start stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Some that are waited for are not ready.
    Gathering,
    /// Those that were ready are told to begin.
    Released,
    /// All are told to end, for this reason.
    Freed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Asked,
    Taken,
    Held,
    Begun,
    /// It is over, was never taken, or nothing can be known of it.
    Gone,
}

#[derive(Clone, Debug)]
struct Subjob {
    start: Start,
    at: At,
    /// It is to end.
    unwanted: bool,
    /// Its site is told so.
    cancelled: bool,
}

impl Subjob {
    /// Its site has it, and it is not over.
    fn lives(&self) -> bool {
        matches!(self.at, At::Taken | At::Held | At::Begun)
    }

    fn is_waited_for(&self) -> bool {
        match self.start {
            Start::Strict => true,
            Start::Loose => self.at != At::Gone && !self.unwanted,
            Start::AtOnce => false,
        }
    }

    /// Whoever else may have released it.
    fn is_ready(&self) -> bool {
        matches!(self.at, At::Held | At::Begun)
    }

    /// What `seen` makes of it; false: nothing, since it is late or was said before.
    fn step(&mut self, seen: &Seen) -> bool {
        let next = match (self.at, seen) {
            (At::Gone, _) => return false,
            (At::Asked, Seen::Taken) | (At::Held, Seen::Again) => At::Taken,
            (At::Taken, Seen::Held) => At::Held,
            (At::Taken | At::Held, Seen::Begun) => At::Begun,
            (_, Seen::Refused(_) | Seen::Unsure(_) | Seen::Over(_)) => At::Gone,
            _ => return false,
        };
        self.at = next;
        true
    }
}

/// A start of several jobs.
#[derive(Clone, Debug)]
pub struct Barrier {
    subjobs: Vec<Subjob>,
    phase: Phase,
}

impl Barrier {
    /// All are being submitted.
    pub fn new(starts: &[Start]) -> Barrier {
        let subjob = |start: &Start| Subjob {
            start: *start,
            at: At::Asked,
            unwanted: false,
            cancelled: false,
        };
        Barrier {
            subjobs: starts.iter().map(subjob).collect(),
            phase: Phase::Gathering,
        }
    }

    pub fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Takes note of what is heard of the subjob at this place. What comes late or again changes nothing.
    pub fn see(&mut self, place: usize, seen: Seen) -> Vec<Order> {
        let Some(subjob) = self.subjobs.get_mut(place) else {
            return Vec::new();
        };
        let had_begun = subjob.at == At::Begun;
        if !subjob.step(&seen) {
            return Vec::new();
        }
        let why = match seen {
            Seen::Refused(why) => Some(format!("was refused: {why}")),
            Seen::Unsure(why) => Some(format!("cannot be asked about: {why}")),
            Seen::Over(how) if had_begun => Some(format!("ended before the others began: {how}")),
            Seen::Over(how) => Some(format!("ended before its program began: {how}")),
            Seen::Taken | Seen::Held | Seen::Again | Seen::Begun => None,
        };
        // One that ends after all were told to begin, and it began, is a job that ends.
        let is_job = had_begun && self.phase == Phase::Released;
        let why = why.filter(|_| subjob.start == Start::Strict && !is_job);
        match (&self.phase, why) {
            (Phase::Gathering | Phase::Released, Some(why)) => {
                self.free(format!("{} {why}", name(place)))
            }
            (Phase::Gathering, None) => self.gather(),
            _ => self.cancel_unwanted(),
        }
    }

    /// Nobody waits any longer: for those that are not ready, or, after the release, have not begun.
    pub fn time_up(&mut self) -> Vec<Order> {
        let late: fn(&Subjob) -> bool = match self.phase {
            Phase::Gathering => |subjob| matches!(subjob.at, At::Asked | At::Taken),
            Phase::Released => |subjob| matches!(subjob.at, At::Asked | At::Taken | At::Held),
            Phase::Freed(_) => return Vec::new(),
        };
        let missing = |subjob: &Subjob| subjob.start == Start::Strict && late(subjob);
        if let Some(place) = self.subjobs.iter().position(missing) {
            return self.free(format!("{} was not ready in time", name(place)));
        }
        for subjob in &mut self.subjobs {
            subjob.unwanted |= subjob.start == Start::Loose && late(subjob);
        }
        match self.phase {
            Phase::Gathering => self.gather(),
            _ => self.cancel_unwanted(),
        }
    }

    /// It is not wanted any more, however far it is.
    pub fn cancel(&mut self, why: &str) -> Vec<Order> {
        match self.phase {
            Phase::Freed(_) => Vec::new(),
            _ => self.free(why.to_owned()),
        }
    }

    /// Its site would cancel it if nobody said that it is to be held on.
    pub fn holds(&self, place: usize) -> bool {
        let holds = |subjob: &Subjob| {
            let waits = matches!(subjob.at, At::Taken | At::Held);
            waits && subjob.start != Start::AtOnce && !subjob.unwanted
        };
        self.subjobs.get(place).is_some_and(holds)
    }

    /// The start is behind us: nothing that is still to be heard can change what becomes of it.
    pub fn is_over(&self) -> bool {
        let is_over = |subjob: &Subjob| match (&self.phase, subjob.start) {
            (Phase::Gathering, _) => false,
            (Phase::Released, Start::AtOnce) => subjob.at != At::Asked,
            (Phase::Released, _) if !subjob.unwanted => {
                matches!(subjob.at, At::Begun | At::Gone)
            }
            _ => subjob.at == At::Gone,
        };
        self.subjobs.iter().all(is_over)
    }

    /// Those whose sites have them, or may.
    pub fn left(&self) -> impl Iterator<Item = usize> {
        let left = self.subjobs.iter().enumerate();
        left.filter_map(|(place, subjob)| (subjob.at != At::Gone).then_some(place))
    }

    /// Releases all that are held, if nobody is waited for any more.
    fn gather(&mut self) -> Vec<Order> {
        let mut waited = self.subjobs.iter().filter(|subjob| subjob.is_waited_for());
        if !waited.all(Subjob::is_ready) {
            return self.cancel_unwanted();
        }
        if self
            .subjobs
            .iter()
            .all(|subjob| subjob.at == At::Gone || subjob.unwanted)
        {
            return self.free("none of its subjobs is left".to_owned());
        }
        self.phase = Phase::Released;
        let subjobs = self.subjobs.iter().enumerate();
        let held = subjobs.filter(|(_, one)| one.is_waited_for() && one.at == At::Held);
        let mut orders: Vec<Order> = held.map(|(place, _)| Order::Release(place)).collect();
        orders.extend(self.cancel_unwanted());
        orders
    }

    fn free(&mut self, why: String) -> Vec<Order> {
        self.phase = Phase::Freed(why);
        for subjob in &mut self.subjobs {
            subjob.unwanted = true;
        }
        self.cancel_unwanted()
    }

    /// Each is told once its site is known to have it.
    fn cancel_unwanted(&mut self) -> Vec<Order> {
        let mut orders = Vec::new();
        for (place, subjob) in self.subjobs.iter_mut().enumerate() {
            let due = subjob.unwanted && subjob.lives();
            if due && !std::mem::replace(&mut subjob.cancelled, true) {
                orders.push(Order::Cancel(place));
            }
        }
        orders
    }
}

fn name(place: usize) -> String {
    format!("subjob {place}")
}
