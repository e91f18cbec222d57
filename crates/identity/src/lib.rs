//! The only crate that holds keys: certificates, proxies, delegation, TLS, grid-mapfile (spec/identity).
//!
//! Everything about who somebody is. What they may do here is the gatekeeper's to decide.

pub mod ca;
mod certificate;
mod credential;
pub mod delegation;
mod der;
mod dn;
mod fields;
mod gathered;
mod gridmap;
mod host;
mod key;
pub mod places;
mod pool;
pub mod proxy;
pub mod signed;
mod signing_policy;
pub mod tls;
mod trust;
mod verify;

pub use certificate::{Certificate, CertificateError};
pub use credential::{Credential, CredentialError, EXPIRY_WARNING};
pub use der::DerError;
pub use dn::{Dn, DnError};
pub use fields::Fields;
pub use gridmap::{GridMap, GridMapError, GridMapLoadError, GridMapProblem};
pub use key::{Key, KeyError, KeyKind};
pub use pool::{KeyPool, READY_KEYS};
pub use proxy::ProxyKind;
pub use signing_policy::{SigningPolicy, SigningPolicyError, SigningPolicyProblem};
pub use trust::{TrustError, TrustFileError, TrustProblem, TrustStore};
pub use verify::{Peer, Purpose, VerifyError, verify};

#[cfg(test)]
mod verify_tests;
