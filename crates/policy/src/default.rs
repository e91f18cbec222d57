//! The default policy (P20): what a guest gets where nobody said otherwise. Safe: nothing of the account's files but the
//! job's own directory. Useful: compilers, interpreters, MPI and TLS clients of the machine work.

use crate::path::GuestPath;
use crate::types::{Access, Network, Origin, Policy, Real, Rule};

/// Shown read only where they exist. /etc piece by piece, since the rest of it may hold keys that the account can read;
/// and few pieces, since each is a mount at every start.
const SHOWN: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    // Names: accounts, hosts, services.
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/protocols",
    "/etc/services",
    // The loader, alternatives, time, what system this is.
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/os-release",
    // Whom TLS clients trust; never /etc/ssl/private.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    "/etc/grid-security/certificates",
    // What message passing and Java read at their start.
    "/etc/openmpi",
    "/etc/java-17-openjdk",
    "/etc/java-21-openjdk",
    // The shape of the machine, for numerical libraries.
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
];

impl Default for Policy {
    fn default() -> Policy {
        let origin = Origin {
            source: "default policy".to_owned(),
            line: 0,
        };
        let shown = SHOWN
            .iter()
            .filter_map(|path| GuestPath::new(path).ok())
            .map(|path| Rule {
                access: Access::Read {
                    real: Real::Host {
                        root: path.clone(),
                        beneath: String::new(),
                    },
                    optional: true,
                },
                execute: true,
                path,
                origin: origin.clone(),
            });
        let temporary = ["/tmp"]
            .into_iter()
            .filter_map(|path| GuestPath::new(path).ok())
            .map(|path| Rule {
                path,
                access: Access::Temporary { size_mib: None },
                execute: true,
                origin: origin.clone(),
            });
        let mut paths: Vec<Rule> = shown.chain(temporary).collect();
        paths.sort_by(|a, b| a.path.cmp(&b.path));
        Policy {
            paths,
            network: Some(Network::Host),
            further_processes: Some(true),
            ..Policy::empty()
        }
    }
}
