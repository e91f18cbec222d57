//! The policy of a virtual organisation (P42): whose members it is for, how long it holds, and the policy itself.
//! Not here: the signature around it (kumiko-identity), and whether a subject's name is a member's (who has names).

use crate::error::{PolicyError, Problem};
use crate::toml_format::{Entry, Reader};
use crate::types::{MAX_TEXT_BYTES, Policy};
use serde::{Deserialize, Serialize};
use toml::de::{DeTable, DeValue};
use toml::value::{Date, Datetime, Offset};

/// Most members listed: 100,000 names of ordinary length are several MiB, more than a text may have.
pub const MAX_MEMBERS: usize = 20_000;
const KEYS: &str = "vo, expires, members, policy";

/// What an organisation's administrator has signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoPolicy {
    pub vo: String,
    /// Subjects as they write themselves (`/O=Grid/CN=Alice`). Nobody else is under this policy.
    pub members: Vec<String>,
    /// Unix time. A site uses it no longer, so that a policy that was replaced cannot be shown for ever.
    pub expires_s: u64,
    pub policy: Policy,
}

/// Reads the text that was signed. `source` names it in errors and origins.
pub fn parse_vo(text: &str, source: &str) -> Result<VoPolicy, PolicyError> {
    let reader = Reader { text, source };
    if text.len() > MAX_TEXT_BYTES {
        return Err(reader.error(0..0, Problem::TooLong));
    }
    let table = DeTable::parse(text).map_err(|error| {
        let problem = Problem::Toml(error.message().to_owned());
        reader.error(error.span().unwrap_or(0..0), problem)
    })?;
    let (mut vo, mut members, mut expires_s, mut policy) = (None, None, None, None);
    for (key, value) in table.get_ref() {
        match key.get_ref().as_ref() {
            "vo" => vo = Some(reader.name((key, value))?),
            "members" => members = Some(names(&reader, (key, value))?),
            "expires" => expires_s = Some(expiry(&reader, (key, value))?),
            "policy" => policy = Some(reader.policy(reader.table((key, value))?)?),
            other => return Err(reader.unknown(key, other, KEYS)),
        }
    }
    let missing = |key| reader.error(0..0, Problem::Missing { key });
    Ok(VoPolicy {
        vo: vo.ok_or_else(|| missing("vo"))?,
        members: members.ok_or_else(|| missing("members"))?,
        expires_s: expires_s.ok_or_else(|| missing("expires"))?,
        policy: policy.unwrap_or_else(|| Policy {
            layers: vec![source.to_owned()],
            ..Policy::empty()
        }),
    })
}

fn names(reader: &Reader<'_>, (key, value): Entry<'_>) -> Result<Vec<String>, PolicyError> {
    let DeValue::Array(list) = value.get_ref() else {
        return Err(reader.wrong_type((key, value), "a list of subjects"));
    };
    if list.len() > MAX_MEMBERS {
        return Err(reader.error(value.span(), Problem::TooManyMembers));
    }
    let name = |item| reader.string((key, item)).map(str::to_owned);
    list.iter().map(name).collect()
}

fn expiry(reader: &Reader<'_>, (key, value): Entry<'_>) -> Result<u64, PolicyError> {
    const FORM: &str = "a date and time with its zone, such as 2030-01-31T00:00:00Z";
    let DeValue::Datetime(at) = value.get_ref() else {
        return Err(reader.wrong_type((key, value), FORM));
    };
    unix_time(at).ok_or_else(|| reader.wrong_word((key, value), &at.to_string(), FORM))
}

/// None: it has no date, time or zone, or lies before 1970.
fn unix_time(at: &Datetime) -> Option<u64> {
    let (date, time) = (at.date?, at.time?);
    let ahead_minutes = match at.offset? {
        Offset::Z => 0,
        Offset::Custom { minutes } => i64::from(minutes),
    };
    let hours = i64::from(time.hour);
    let minutes = hours * 60 + i64::from(time.minute) - ahead_minutes;
    let seconds = days(date) * 86_400 + minutes * 60 + i64::from(time.second.unwrap_or(0));
    u64::try_from(seconds).ok()
}

/// Days since 1970 in the Gregorian calendar: years begin in March, so that the leap day is a year's last.
fn days(date: Date) -> i64 {
    let (month, day) = (i64::from(date.month), i64::from(date.day));
    let year = i64::from(date.year) - i64::from(month <= 2);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
        - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_counted_from_1970() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(unix_time(&text.parse().unwrap()), expected, "{text}");
        };
        check("1970-01-01T00:00:00Z", Some(0));
        check("1970-01-01T01:00:00+01:00", Some(0));
        check("2000-02-29T12:00:00Z", Some(951_825_600));
        check("2026-11-21T15:30:00Z", Some(1_795_275_000));
        check("2026-11-21T15:30:00-02:30", Some(1_795_284_000));
        check("2100-03-01T00:00:00Z", Some(4_107_542_400));
        check("1969-12-31T23:59:59Z", None);
        check("2026-11-21T15:30:00", None);
        check("2026-11-21", None);
    }
}
