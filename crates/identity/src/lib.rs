//! The only crate that holds keys: certificates, proxies, delegation, TLS, grid-mapfile.
