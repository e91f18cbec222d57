//! The rate of a job divided among its sockets (P52). Pure.

/// What one socket had and did since the rates were divided last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Bytes a second; None: it is new.
    pub share: Option<u64>,
    /// Bytes a second.
    pub used: u64,
    /// Bytes wait for their turn.
    pub waits: bool,
}

/// What sockets that rest may begin with, one part in so many of the rate: until it is divided again.
const AT_REST: u64 = 64;

/// A share for each. Those that could use more divide equally what the others leave; these have what they use and a
/// quarter, so that growing is seen.
pub fn divide(rate: u64, claims: &[Claim]) -> Vec<u64> {
    let hungry = |claim: &Claim| {
        let full = |share: u64| claim.used.saturating_mul(10) >= share.saturating_mul(9);
        claim.waits || claim.share.is_none_or(full)
    };
    let count = claims.iter().filter(|claim| hungry(claim)).count() as u64;
    let left = |others: u64| rate.saturating_sub(others) / count.max(1);
    let used = claims
        .iter()
        .filter(|claim| !hungry(claim))
        .map(|claim| claim.used);
    // No share below a fair one for those that could use more, whatever the others use.
    let fair = rate / (claims.len() as u64).max(1);
    let share = left(used.fold(0, u64::saturating_add)).max(fair).max(1);
    let small = |claim: &Claim| {
        let grown = claim.used.saturating_add(claim.used / 4);
        grown.max(rate / AT_REST).min(rate).max(1)
    };
    let each = claims.iter();
    each.map(|claim| if hungry(claim) { share } else { small(claim) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_could_use_more_has_what_the_others_leave() {
        let claim = |share: u64, used: u64| Claim {
            share: Some(share),
            used,
            waits: false,
        };
        let new = Claim {
            share: None,
            used: 0,
            waits: false,
        };
        let waits = Claim {
            waits: true,
            ..claim(640, 10)
        };
        let check = |claims: &[Claim], expected: &[u64]| {
            assert_eq!(divide(6400, claims), expected, "{claims:?}");
        };
        check(&[], &[]);
        check(&[new], &[6400]);
        check(&[new, new], &[3200, 3200]);
        check(&[claim(6400, 6300), claim(100, 0)], &[6400, 100]);
        check(&[claim(3200, 3100), claim(3200, 1600)], &[4800, 2000]);
        check(&[waits, claim(3200, 0)], &[6400, 100]);
        check(&[claim(3200, 0), claim(3200, 0)], &[100, 100]);
        assert_eq!(divide(1, &[new, new, new]), [1, 1, 1]);
    }
}
