//! What the record of a job says of its sandbox: which mechanism and why, and under whose policies.

use crate::choose::{Choice, Predicted, in_ms};
use crate::limits::kept;
use kumiko_policy::{MechanismKind, Policy};

impl Predicted {
    /// In words.
    fn words(&self) -> String {
        let by = match self.measured {
            true => "as measured on this machine",
            false => "by defaults, as this machine was not measured",
        };
        let overhead = in_ms(self.overhead_us);
        format!("predicted to cost {overhead}: {}, {by}", self.known)
    }
}

impl Choice {
    /// In words, each a line of the record. `wanted`: the mechanism that was asked for outside the policy.
    pub fn why(&self, policy: &Policy, wanted: Option<&str>) -> Vec<String> {
        let wanted = wanted.filter(|name| *name != MechanismKind::Auto.name());
        let reason = match (wanted, policy.mechanism) {
            (Some(_), _) => "asked for with the job".to_owned(),
            (None, MechanismKind::Auto) => match &self.predicted {
                Some(predicted) => {
                    format!("the cheapest that is admissible, {}", predicted.words())
                }
                None => "the only one that is admissible".to_owned(),
            },
            (None, _) => format!("asked for by {}", policy.origin("mechanism")),
        };
        let others = self.why_not.iter();
        let others: Vec<String> = others
            .map(|(name, why)| format!("not {name}: {why}"))
            .collect();
        let mechanism = format!(
            "mechanism {}: {reason} ({})",
            self.mechanism,
            others.join("; ")
        );
        let layers = (!policy.layers.is_empty())
            .then(|| format!("policies, the highest first: {}", policy.layers.join("; ")));
        let kind = MechanismKind::from_name(self.mechanism).unwrap_or_default();
        let limits = kept(policy, kind).by;
        let limits = (!limits.is_empty()).then(|| limits.join("; "));
        std::iter::once(mechanism)
            .chain(layers)
            .chain(limits)
            .collect()
    }
}
