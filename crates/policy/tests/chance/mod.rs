//! Policies drawn at random, of few names, so that rules meet.

use kumiko_policy::{Access, GuestPath, Origin, Policy, Real, Rule};

/// xorshift64* (Vigna 2016): the same policies for the same seed, everywhere.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % most
    }

    pub fn one_in(&mut self, most: usize) -> bool {
        self.below(most) == 0
    }

    /// Of one to so many names.
    pub fn path(&mut self, most: usize) -> GuestPath {
        const NAMES: [&str; 3] = ["/a", "/b", "/c"];
        let names = 1 + self.below(most);
        path(&(0..names).map(|_| NAMES[self.below(3)]).collect::<String>())
    }

    /// Fewer rules than `rules`, at paths of one to `names` names; `real`: what one shows of the host, by where it shows it.
    pub fn rules(
        &mut self,
        rules: usize,
        names: usize,
        mut real: impl FnMut(&mut Random, &GuestPath) -> GuestPath,
    ) -> Policy {
        let mut policy = Policy::empty();
        for _ in 0..self.below(rules) {
            let place = self.path(names);
            let real = Real::Host {
                root: real(self, &place),
                beneath: String::new(),
            };
            let optional = false;
            let access = match self.below(8) {
                0..=2 => Access::Read { real, optional },
                3..=4 => Access::Write { real, optional },
                5 => Access::Denied,
                6 => Access::Hidden,
                _ => Access::Temporary { size_mib: None },
            };
            policy.paths.retain(|rule| rule.path != place);
            policy.paths.push(Rule {
                path: place,
                execute: matches!(access, Access::Denied | Access::Hidden) || !self.one_in(4),
                access,
                origin: Origin {
                    source: "chance".to_owned(),
                    line: 1,
                },
            });
        }
        policy.paths.sort_by(|a, b| a.path.cmp(&b.path));
        policy
    }
}

pub fn path(text: &str) -> GuestPath {
    GuestPath::new(text).unwrap()
}
