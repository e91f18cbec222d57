//! Limits as people type them: `net=100Mbit/s`, `memory=2GiB`, `cpu=250%` (P51). One is rounded down to the whole unit
//! that policies have, and never to nothing.

use crate::types::Limited;

/// Most digits after the point: more would be below any unit.
const MOST_DECIMALS: usize = 9;

/// What was typed is no limit; who typed it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("\"{found}\" is no limit: there are {}", NAMES.map(|(name, _)| name).join(", "))]
    Name { found: String },
    #[error("\"{found}\" is no amount for {name}: write for example {example}")]
    Amount {
        name: &'static str,
        found: String,
        example: &'static str,
    },
    #[error("write NAME=AMOUNT, not \"{found}\"")]
    Form { found: String },
}

/// The short names, in the order in which they are told.
const NAMES: [(&str, Limited); 9] = [
    ("net", Limited::Network),
    ("disk", Limited::Disk),
    ("cpu", Limited::Cpu),
    ("memory", Limited::Memory),
    ("processes", Limited::Processes),
    ("open-files", Limited::OpenFiles),
    ("cpu-time", Limited::CpuTime),
    ("wall-time", Limited::WallTime),
    ("written", Limited::Written),
];

/// Bytes per second, thousandths of a bit for those that count bits.
const RATES: [(&str, u64); 11] = [
    ("bit/s", 125),
    ("kbit/s", 125_000),
    ("Mbit/s", 125_000_000),
    ("Gbit/s", 125_000_000_000),
    ("B/s", 1_000),
    ("KB/s", 1_000_000),
    ("MB/s", 1_000_000_000),
    ("GB/s", 1_000_000_000_000),
    ("KiB/s", 1_024_000),
    ("MiB/s", 1_048_576_000),
    ("GiB/s", 1_073_741_824_000),
];
const SIZES: [(&str, u64); 6] = [
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];
const TIMES: [(&str, u64); 5] = [("s", 1), ("", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];

impl Limited {
    /// As it is typed.
    pub fn short_name(self) -> &'static str {
        let named = NAMES.into_iter().find(|(_, limited)| *limited == self);
        named.map_or("", |(name, _)| name)
    }

    pub fn from_short_name(name: &str) -> Option<Limited> {
        let named = NAMES.into_iter().find(|(known, _)| *known == name);
        named.map(|(_, limited)| limited)
    }

    /// Reads an amount, in the unit of [`crate::Limits`].
    pub fn amount(self, text: &str) -> Result<u64, AmountError> {
        let (units, one, example): (&[(&str, u64)], u64, &'static str) = match self {
            Self::Network | Self::Disk => (&RATES, 1_000_000, "100Mbit/s or 10MB/s"),
            Self::Cpu => (&[("%", 1)], 1, "250% (two and a half processors)"),
            Self::Memory | Self::Written => (&SIZES, 1 << 20, "512MiB or 4GB"),
            Self::Processes | Self::OpenFiles => (&[("", 1)], 1, "100"),
            Self::CpuTime | Self::WallTime => (&TIMES, 1, "90s, 30m or 2h"),
        };
        read(text.trim(), units)
            .map(|amount| amount / u128::from(one) / 10u128.pow(MOST_DECIMALS as u32))
            .and_then(|amount| u64::try_from(amount).ok())
            .filter(|amount| (1..=self.most()).contains(amount))
            .ok_or_else(|| AmountError::Amount {
                name: self.short_name(),
                found: text.to_owned(),
                example,
            })
    }
}

/// NAME=AMOUNT.
pub fn parse_limit(text: &str) -> Result<(Limited, u64), AmountError> {
    let (name, amount) = text.split_once('=').ok_or_else(|| AmountError::Form {
        found: text.to_owned(),
    })?;
    let limited = Limited::from_short_name(name).ok_or_else(|| AmountError::Name {
        found: name.to_owned(),
    })?;
    Ok((limited, limited.amount(amount)?))
}

/// The number times its unit, in billionths.
fn read(text: &str, units: &[(&str, u64)]) -> Option<u128> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    let (whole, decimals) = match number.split_once('.') {
        Some((whole, decimals)) if !decimals.is_empty() => (whole, decimals),
        Some(_) => return None,
        None => (number, "0"),
    };
    if decimals.len() > MOST_DECIMALS {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let padded = format!("{decimals:0<MOST_DECIMALS$}");
    let part: u64 = padded.parse().ok()?;
    let billionths = u128::from(whole) * 10u128.pow(MOST_DECIMALS as u32) + u128::from(part);
    billionths.checked_mul(u128::from(*factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_with_their_units() {
        let check = |text: &str, expected: Option<(Limited, u64)>| {
            assert_eq!(parse_limit(text).ok(), expected, "{text}");
        };
        check("net=100Mbit/s", Some((Limited::Network, 12_500)));
        check("net=10MB/s", Some((Limited::Network, 10_000)));
        check("net=1Gbit/s", Some((Limited::Network, 125_000)));
        check("net=1.5 MB/s", Some((Limited::Network, 1_500)));
        check("net=8kbit/s", Some((Limited::Network, 1)));
        check("net=7kbit/s", None);
        check("disk=1KiB/s", Some((Limited::Disk, 1)));
        check("disk=20MiB/s", Some((Limited::Disk, 20_971)));
        check("cpu=250%", Some((Limited::Cpu, 250)));
        check("cpu=0%", None);
        check("cpu=2.5", None);
        check("memory=2GiB", Some((Limited::Memory, 2048)));
        check("memory=4GB", Some((Limited::Memory, 3814)));
        check("memory=1MB", None);
        check("processes=64", Some((Limited::Processes, 64)));
        check("open-files=1024", Some((Limited::OpenFiles, 1024)));
        check("cpu-time=2h", Some((Limited::CpuTime, 7200)));
        check("wall-time=90", Some((Limited::WallTime, 90)));
        check("written=1TiB", Some((Limited::Written, 1 << 20)));
        for wrong in [
            "",
            "net",
            "net=",
            "=5",
            "net=MB/s",
            "net=-1MB/s",
            "net=1.MB/s",
            "net=.5MB/s",
            "net=1.2.3MB/s",
            "net=99999999999999999999MB/s",
            "net=9999999999999GB/s",
            "net=1mb/s",
            "bandwidth=1MB/s",
            "net=1.0000000001MB/s",
            "memory=9999999999999TiB",
        ] {
            check(wrong, None);
        }
    }

    #[test]
    fn every_limit_has_one_short_name() {
        for limited in Limited::ALL {
            assert_eq!(
                Limited::from_short_name(limited.short_name()),
                Some(limited)
            );
        }
    }
}
