//! `site.toml`: what the owner of a site may set. Everything has a default, which the file shows as comments.

use crate::fail::{Failure, While};
use crate::home::{Home, read_optional};
use serde::Deserialize;
use std::net::SocketAddr;

/// Written at the first start.
pub const TEMPLATE: &str = r#"# A kumiko site. Everything here may be left out; what is commented out shows the default.
# Read at the start of the site.

# Where the gatekeeper listens; port 0 takes a free one.
# listen = "127.0.0.1:2119"

# May a limited proxy start jobs? As with GRAM, it may not.
# accept_limited = false

# Between SIGTERM and SIGKILL, where neither the job nor its cancellation say, milliseconds.
# grace_ms = 5000

# Longest a job may run, seconds; 0: as long as it likes.
# time_limit_s = 0

# stdout and stderr of a job, each, bytes.
# output_quota_bytes = 1073741824

# Jobs that have not ended, of one caller.
# live_jobs_per_caller = 10000

# How long an ended job is kept, hours.
# keep_h = 168
"#;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    pub listen: SocketAddr,
    pub accept_limited: bool,
    pub grace_ms: u64,
    pub time_limit_s: u64,
    pub output_quota_bytes: u64,
    pub live_jobs_per_caller: usize,
    pub keep_h: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 2119)),
            accept_limited: false,
            grace_ms: 5_000,
            time_limit_s: 0,
            output_quota_bytes: 1 << 30,
            live_jobs_per_caller: 10_000,
            keep_h: 168,
        }
    }
}

impl Settings {
    pub fn load(home: &Home) -> Result<Settings, Failure> {
        let path = home.site_toml();
        match read_optional(&path)? {
            Some(text) => toml::from_str(&text).doing(|| format!("reading {}", path.display())),
            None => Ok(Settings::default()),
        }
    }

    pub fn limits(&self) -> kumiko_manager::Limits {
        kumiko_manager::Limits {
            live_jobs_per_caller: self.live_jobs_per_caller,
            keep: std::time::Duration::from_secs(self.keep_h.saturating_mul(3600)),
            output_quota_bytes: self.output_quota_bytes,
            grace_ms: self.grace_ms,
            time_limit_ms: (self.time_limit_s > 0).then(|| self.time_limit_s.saturating_mul(1000)),
            ..kumiko_manager::Limits::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_says_the_defaults() {
        let spelled: Vec<&str> = TEMPLATE
            .lines()
            .filter_map(|l| l.strip_prefix("# ").filter(|l| l.contains(" = ")))
            .collect();
        let spelled = spelled.join("\n");
        let settings: Settings = toml::from_str(&spelled).unwrap();
        assert_eq!(
            format!("{settings:?}"),
            format!("{:?}", Settings::default())
        );
        let unchanged: Settings = toml::from_str(TEMPLATE).unwrap();
        assert_eq!(
            format!("{unchanged:?}"),
            format!("{:?}", Settings::default())
        );
    }
}
