//! `kumiko info serve`: wiring of one info server. Its certificate is that of the site in the home.

use super::args::Serve;
use crate::fail::{Failure, While};
use crate::home::{Home, read_optional, write_whole};
use crate::output::say;
use crate::site;
use kumiko_info::{Config, Place, Server};
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
    site::make(home, &[])?;
    kumiko_linux::this_process::raise_open_files()?;
    let state = serve.state.unwrap_or_else(|| home.root().join("info"));
    let place = Place {
        certificate: home.host_certificate(),
        key: home.host_key(),
        trust: home.certificates(),
        state: state.clone(),
        sandbox: sandbox()?,
    };
    let server = Server::bind(config, place).await?;
    let address = server.local_addr()?;
    write_whole(
        &state.join("address"),
        &format!("localhost:{}\n", address.port()),
    )?;
    let started = server.index().started.clone();
    say!("the info server is up at {address}, started {started}")?;
    std::io::stdout().flush()?;
    server.run(Vec::new(), site::end_asked()).await;
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
