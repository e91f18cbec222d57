//! Sites that keep failing calls of this account before they begin, which are asked last for a while (spec/rpc P43, P44): a file for
//! each, a byte for each failure in a row, and when the last was is when the file was written. Best effort: it is advice.
//! Not here: which sites there are.

use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// One or two failures are a restart.
const PATIENT: u64 = 3;
/// For so long it is asked last after the third failure, and twice as long after each further one.
const FIRST: Duration = Duration::from_secs(30);
/// But no longer than this.
const LONGEST: Duration = Duration::from_secs(600);

/// The folder of sites that failed.
#[derive(Clone, Debug)]
pub struct Failing {
    folder: PathBuf,
}

impl Failing {
    /// `home`: the kumiko folder.
    pub fn of(home: &Path) -> Failing {
        Failing {
            folder: home.join("rpc").join("failing"),
        }
    }

    fn path(&self, site: &str) -> PathBuf {
        self.folder.join(site.replace('/', "_"))
    }

    pub fn failed(&self, site: &str) {
        let mut options = File::options();
        options.create(true).append(true).mode(0o600);
        let noted = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)
            .and_then(|()| options.open(self.path(site))?.write_all(b"."));
        if let Err(error) = noted {
            tracing::debug!(site, %error, "that it fails is not noted");
        }
    }

    pub fn answered(&self, site: &str) {
        let _ = std::fs::remove_file(self.path(site));
    }

    /// Whether others are to be asked first.
    pub fn is_last(&self, site: &str, now: SystemTime) -> bool {
        let Ok(meta) = std::fs::metadata(self.path(site)) else {
            return false;
        };
        let (Some(beyond), Ok(last)) = (meta.len().checked_sub(PATIENT), meta.modified()) else {
            return false;
        };
        let doublings = u32::try_from(beyond).unwrap_or(u32::MAX);
        let times = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let wait = FIRST.saturating_mul(times).min(LONGEST);
        // Where a clock was set back it was just now.
        now.duration_since(last).unwrap_or_default() < wait
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_site_that_fails_three_times_in_a_row_is_asked_last_for_a_while_that_doubles() {
        let home = tempfile::tempdir().unwrap();
        let failing = Failing::of(home.path());
        let (site, now) = ("[::1]:2119", SystemTime::now());
        let last_after = |failures: u32, seconds: u64| {
            failing.answered(site);
            (0..failures).for_each(|_| failing.failed(site));
            failing.is_last(site, now + Duration::from_secs(seconds))
        };
        for (failures, seconds, expected) in [
            (0, 0, false),
            (2, 0, false),
            (3, 0, true),
            (3, 25, true),
            (3, 95, false),
            (4, 55, true),
            (4, 125, false),
            (40, 500, true),
            (40, 700, false),
        ] {
            let last = last_after(failures, seconds);
            assert_eq!(last, expected, "{failures} failures, {seconds} s ago");
        }
        assert!(!failing.is_last("elsewhere:2119", now));
    }
}
