//! Instants: a clock that never goes back, and generalized time (RFC 4517, section 3.3.13) as MDS writes it.

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Unix time as it was when the server started, and what has passed since: a clock that somebody sets does not make
/// sources old.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
    begun_ms: u64,
}

impl Clock {
    pub fn start() -> Clock {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Clock {
            begun: Instant::now(),
            // Before 1970 is a clock that was never set; 0 is as good as any.
            begun_ms: millis(now.unwrap_or_default()),
        }
    }

    pub fn now_ms(&self) -> u64 {
        self.begun_ms + millis(self.begun.elapsed())
    }
}

pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// `20040503202836Z`.
pub fn generalized(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(0);
    let stamp = Timestamp::from_second(seconds).unwrap_or_default();
    stamp.strftime("%Y%m%d%H%M%SZ").to_string()
}

/// Reads `20040503202836Z`, also with a fraction, as MDS providers print it; seconds may be missing.
pub fn parse_generalized(text: &str) -> Option<u64> {
    let text = text.trim().strip_suffix('Z')?;
    let (digits, _fraction) = text.split_once('.').unwrap_or((text, ""));
    let format = match digits.len() {
        14 => "%Y%m%d%H%M%S",
        12 => "%Y%m%d%H%M",
        _ => return None,
    };
    let civil = DateTime::strptime(format, digits).ok()?;
    let stamp = civil.to_zoned(TimeZone::UTC).ok()?.timestamp();
    u64::try_from(stamp.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generalized_time_is_written_and_read() {
        for (text, seconds) in [
            ("20040503202836Z", 1_083_616_116),
            ("19700101000000Z", 0),
            ("20040503202836.123Z", 1_083_616_116),
            ("200405032028Z", 1_083_616_080),
        ] {
            assert_eq!(parse_generalized(text), Some(seconds * 1000), "{text}");
        }
        assert_eq!(generalized(1_083_616_116_999), "20040503202836Z");
        for text in ["", "Z", "20041303202836Z", "2004", "20040503202836"] {
            assert_eq!(parse_generalized(text), None, "{text}");
        }
    }
}
