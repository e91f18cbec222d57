//! For how long no site has been connected, and what is due for that (spec/jobs/runner.md, R17 and R18). Pure.

use std::time::{Duration, Instant};

/// How often a runner without a site looks whether its spool is there: nobody tells it, and a look is one call to the kernel.
const LOOK: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
pub struct Alone {
    /// None: a site is connected.
    since: Option<Instant>,
    /// For so long its guests may wait for one. None: for ever, or no longer.
    most: Option<Duration>,
}

impl Alone {
    pub fn wait_at_most(&mut self, most: Option<Duration>) {
        self.most = most;
    }

    pub fn note(&mut self, connected: bool, now: Instant) {
        self.since = match connected {
            true => None,
            false => self.since.or(Some(now)),
        };
    }

    /// When to look next.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let since = self.since?;
        let look = now.checked_add(LOOK);
        let enough = self.most.and_then(|most| since.checked_add(most));
        look.into_iter().chain(enough).min()
    }

    /// True, once: no site came for as long as one is waited for.
    pub fn is_enough(&mut self, now: Instant) -> bool {
        let alone = self.since.map(|since| now.saturating_duration_since(since));
        let enough = alone
            .zip(self.most)
            .is_some_and(|(alone, most)| alone >= most);
        if enough {
            self.most = None;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_without_any_site_counts_and_is_told_once() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut alone = Alone::default();
        alone.wait_at_most(Some(2 * second));
        alone.note(false, start);
        assert_eq!(alone.due(start), Some(start + 2 * second));
        assert!(!alone.is_enough(start + second));
        alone.note(true, start + second);
        assert_eq!(alone.due(start + second), None);
        alone.note(false, start + 2 * second);
        alone.note(false, start + 3 * second);
        assert!(!alone.is_enough(start + 3 * second));
        assert!(alone.is_enough(start + 4 * second));
        assert!(!alone.is_enough(start + 9 * second));
        assert_eq!(
            alone.due(start + 9 * second),
            Some(start + 9 * second + LOOK)
        );
    }
}
