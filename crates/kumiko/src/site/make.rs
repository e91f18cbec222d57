//! The first start of a site: CA, certificates, grid-mapfile, policy and settings, all in its home or its operator's.
//! Each thing is made only if it is not there: the owner may have put another in its place.

use crate::fail::{Failure, While};
use crate::home::{Home, write_whole};
use crate::site::settings;
use kumiko_identity::ca::{Authority, Kind, Options};
use kumiko_identity::{Credential, Dn, GridMap, KeyKind};
use kumiko_linux::accounts::Account;
use kumiko_linux::{privileges, this_process};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::time::Duration;

/// Of host and user certificates of a personal site; the CA lives as long, and nobody else trusts either.
const LIFETIME: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Written at the first start: the default policy, with what an owner changes most.
const POLICY: &str = r#"# What every job of this site may see and use at most; a job's own policy can only narrow it.
# Here nothing is said, so the default policy holds: `kumiko sandbox check` prints it. For example:
#
# network = "none"
#
# [paths]
# "/opt/tools" = "read"
"#;

/// True if this was the first start.
pub fn make(home: &Home, host_names: &[String]) -> Result<bool, Failure> {
    let first = !home.host_certificate().exists();
    for folder in [
        home.root().to_path_buf(),
        home.run(),
        home.root().join("user"),
        home.state(),
    ] {
        private_folder(&folder)?;
    }
    if first {
        certificates(home, host_names)?;
    }
    if !home.mapfile().exists() {
        let user = Credential::load_pair(&home.user_certificate(), &home.user_key())?;
        write_whole(
            &home.mapfile(),
            &GridMap::line(user.subject(), &[&this_process::account_name()]),
        )?;
    }
    for (path, text) in [
        (home.policy(), POLICY),
        (home.site_toml(), settings::TEMPLATE),
    ] {
        if !path.exists() {
            write_whole(&path, text)?;
        }
    }
    Ok(first)
}

/// The first start of a site for many accounts: as for a personal one, but that nobody is mapped yet, and that what
/// front and agents read is theirs to read. True if this was the first start.
pub fn make_for_many(home: &Home, host_names: &[String], front: &Account) -> Result<bool, Failure> {
    privileges::make_readable_files();
    let first = !home.host_certificate().exists();
    for folder in [
        home.root().to_path_buf(),
        home.run(),
        home.agent_logs(),
        home.state(),
        home.accounts(),
    ] {
        std::fs::create_dir_all(&folder).doing(|| format!("making {}", folder.display()))?;
    }
    if first {
        let authority = authority(home, "site")?;
        host_pair(home, &authority, host_names)?;
    }
    give_key(&home.host_key(), front)
        .doing(|| format!("giving {} to {}", home.host_key().display(), front.name))?;
    let nobody = "# Who may come in, and as which account: \"/O=.../CN=...\" account\n";
    for (path, text) in [(home.mapfile(), nobody), (home.policy(), POLICY)] {
        if !path.exists() {
            write_whole(&path, text)?;
        }
    }
    Ok(first)
}

/// The host's key is the front's alone. One that was brought from elsewhere is root's; one that is a link stays as it is.
fn give_key(key: &Path, front: &Account) -> std::io::Result<()> {
    let metadata = std::fs::symlink_metadata(key)?;
    match metadata.is_file() && metadata.uid() == 0 {
        true => privileges::give(File::open(key)?, front),
        false => Ok(()),
    }
}

fn certificates(home: &Home, host_names: &[String]) -> Result<(), Failure> {
    let account = this_process::account_name();
    let authority = authority(home, &account)?;
    let space = authority.name_space();
    let user = authority.enrol(
        &space.with("CN", &account),
        KeyKind::P256,
        &Kind::User,
        LIFETIME,
    )?;
    user.save_pair(&home.user_certificate(), &home.user_key())?;
    // The host's pair last: its certificate marks the first start as complete.
    host_pair(home, &authority, host_names)
}

/// The site's own authority, trusted here. Its name has the owner's, so that several sites can be trusted side by side.
fn authority(home: &Home, owner: &str) -> Result<Authority, Failure> {
    let host = this_process::host_name();
    let space = Dn::parse("/O=kumiko")?.with("OU", &format!("{owner}@{host}"));
    let authority = if home.ca().join("ca-cert.pem").exists() {
        Authority::load(&home.ca())?
    } else {
        Authority::init(&home.ca(), &space.with("CN", "CA"), &Options::default())?
    };
    authority.install_trust(&home.certificates())?;
    Ok(authority)
}

fn host_pair(home: &Home, authority: &Authority, host_names: &[String]) -> Result<(), Failure> {
    let host = this_process::host_name();
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1", &host]
        .map(str::to_owned)
        .to_vec();
    names.extend_from_slice(host_names);
    names.dedup();
    let kind = Kind::Host { names };
    let subject = authority.name_space().with("CN", &format!("host/{host}"));
    authority
        .enrol(&subject, KeyKind::P256, &kind, LIFETIME)?
        .save_pair(&home.host_certificate(), &home.host_key())?;
    Ok(())
}

fn private_folder(path: &Path) -> Result<(), Failure> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .doing(|| format!("making {}", path.display()))
}
