//! A site for many accounts: what its three kinds of processes are made of. `kumiko site start` as root becomes the
//! monitor, which starts `kumiko front` and, one an account, `kumiko agent`. Wiring only.

mod agent;
mod front;
mod monitor;

pub use agent::agent;
pub use front::{Given, front};
pub use monitor::monitor;

use crate::fail::{Failure, While};
use crate::home::{Home, read_optional, write_whole};
use crate::site::settings::{KeepIn, MANY_TEMPLATE, Many, Settings, TEMPLATE};
use kumiko_gatekeeper::monitor::{Accounts, Rules};
use kumiko_gatekeeper::{Gram, Service};
use kumiko_linux::accounts::Account;
use kumiko_linux::this_process;
use kumiko_staging::stock::Stock;
use std::path::PathBuf;
use std::sync::Arc;

/// The settings of a site for many accounts; None: it is a personal one.
pub fn of(home: &Home) -> Result<Option<Many>, Failure> {
    Ok(Settings::load(home)?.accounts)
}

/// Makes the site one for many accounts if it is none yet. What its operator has written is kept.
pub fn configure(home: &Home) -> Result<Many, Failure> {
    if let Some(many) = of(home)? {
        return Ok(many);
    }
    let path = home.site_toml();
    let before = read_optional(&path)?.unwrap_or_else(|| TEMPLATE.to_owned());
    std::fs::create_dir_all(home.root()).doing(|| format!("making {}", home.root().display()))?;
    write_whole(&path, &format!("{before}{MANY_TEMPLATE}"))?;
    Ok(Many::default())
}

/// The account of a line for the grid-mapfile, if it would be served.
pub fn mappable(many: &Many, account: Option<String>) -> Result<String, Failure> {
    let name = account
        .ok_or_else(|| Failure::misuse("say which account: kumiko site map SUBJECT ACCOUNT"))?;
    let refused = |why: &str| Failure::from_text(format!("{name} cannot be served: {why}"));
    let find = |name: &str| accounts(many).find(name);
    let account = find(&name)?.ok_or_else(|| refused("there is no such account"))?;
    let rules = Rules {
        least_id: many.least_id,
        front: find(&many.front)?.map_or(0, |front| front.uid),
    };
    rules.admit(&account).map_err(refused)?;
    Ok(name)
}

fn accounts(many: &Many) -> Accounts {
    match many.file.as_str() {
        "" => Accounts::System,
        path => Accounts::File(path.into()),
    }
}

/// Where the things of these accounts are kept, as far as there are such accounts.
pub fn states(home: &Home, many: &Many, names: &[String]) -> Vec<PathBuf> {
    let of = |name: &String| match many.keep_in {
        KeepIn::Site => Some(home.accounts().join(name)),
        KeepIn::Home => Some(in_home(&accounts(many).find(name).ok()??)),
    };
    names.iter().filter_map(of).collect()
}

fn in_home(account: &Account) -> PathBuf {
    account.home.join(".kumiko")
}

/// What is the same for front and agents.
fn service(settings: &Settings, stock: Option<Arc<Stock>>, gram: Option<Gram>) -> Service {
    Service {
        name: this_process::host_name(),
        accept_limited: settings.accept_limited,
        limits: kumiko_gatekeeper::Limits::default(),
        stock,
        gram,
    }
}
