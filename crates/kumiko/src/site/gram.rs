//! What GRAM's door of a site is told.

use kumiko_gatekeeper::Gram;
use kumiko_identity::KeyKind;
use kumiko_linux::this_process;
use std::net::IpAddr;
use std::path::Path;

/// Of the process that has the manager whose state is kept in `state`.
pub fn gram(state: &Path, listen: IpAddr) -> Gram {
    Gram {
        state: state.join("gram"),
        listen,
        host: this_process::host_name(),
        delegation: KeyKind::P256,
        location: "/usr".to_owned(),
    }
}
