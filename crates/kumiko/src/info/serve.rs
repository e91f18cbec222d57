//! `kumiko info serve`: wiring of one info server. Its certificate is that of the site in the home.

use super::args::Serve;
use super::site::SiteProvider;
use crate::fail::{Failure, While};
use crate::home::{Home, read_optional, write_whole};
use crate::output::say;
use crate::site;
use kumiko_directory::provider::Provider;
use kumiko_info::{Config, HostProvider, Place, Server};
use kumiko_linux::this_process;
use std::ffi::OsString;
use std::io::Write;

pub async fn serve(serve: Serve, home: &Home) -> Result<u8, Failure> {
    let path = serve
        .config
        .unwrap_or_else(|| home.root().join("info.toml"));
    let mut config: Config = match read_optional(&path)? {
        Some(text) => toml::from_str(&text).doing(|| format!("reading {}", path.display()))?,
        None => Config::default(),
    };
    config.listen = serve.listen.unwrap_or(config.listen);
    config.name = serve.name.unwrap_or(config.name);
    let many = site::many::of(home)?.is_some();
    if !many {
        site::make(home, &[])?;
    }
    this_process::raise_open_files()?;
    let state = serve.state.unwrap_or_else(|| home.info());
    let host = config.host_name.clone();
    let host = host.unwrap_or_else(this_process::host_name);
    let site = SiteProvider::new(home, host.clone(), config.own_name(), many);
    let mut providers: Vec<Box<dyn Provider>> = Vec::new();
    if config.host {
        let of_host = site.clone();
        providers.push(Box::new(
            HostProvider::new(host).with(move || of_host.of_host()),
        ));
        providers.push(Box::new(site));
    }
    let place = Place {
        certificate: home.host_certificate(),
        key: home.host_key(),
        trust: home.certificates(),
        state: state.clone(),
        sandbox: sandbox()?,
    };
    let server = Server::bind(config, place).await?;
    let address = server.local_addr()?;
    // The certificate has the name localhost; a server that listens on one address only is named by it.
    let named = match address.ip() {
        ip if ip.is_loopback() || ip.is_unspecified() => format!("localhost:{}", address.port()),
        _ => address.to_string(),
    };
    let own = format!("{named}\n{}\n", std::process::id());
    write_whole(&state.join("address"), &own)?;
    let started = server.index().started.clone();
    say!("the info server is up at {address}, started {started}")?;
    std::io::stdout().flush()?;
    server.run(providers, site::end_asked()).await;
    // The next one writes its own.
    let _ = std::fs::remove_file(state.join("address"));
    Ok(0)
}

/// What an external provider runs in: this program's own sandbox.
fn sandbox() -> Result<Vec<OsString>, Failure> {
    let program = std::env::current_exe().doing(|| "finding this program".to_owned())?;
    let words = ["sandbox", "run", "--"].map(OsString::from);
    Ok(std::iter::once(program.into_os_string())
        .chain(words)
        .collect())
}
