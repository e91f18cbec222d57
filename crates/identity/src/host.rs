//! Host names against certificates: RFC 2818 section 3.1 with the grid's `host/` form (spec/identity, clauses H1 to H4).

use std::net::IpAddr;

use crate::fields::Fields;

/// Whether the certificate is for `host`, a name or an address in text.
pub(crate) fn matches(host: &str, certificate: &Fields) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let bare = host
        .strip_prefix('[')
        .and_then(|h| h.strip_suffix(']'))
        .unwrap_or(host);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return certificate.addresses.contains(&address);
    }
    if !certificate.dns_names.is_empty() {
        return certificate.dns_names.iter().any(|n| name_matches(n, host));
    }
    certificate.subject.common_name().is_some_and(|cn| {
        let name = cn.strip_prefix("host/").unwrap_or(cn);
        name_matches(name, host)
    })
}

/// The names a certificate is for, for an error.
pub(crate) fn names(certificate: &Fields) -> Vec<String> {
    let mut names = certificate.dns_names.clone();
    names.extend(certificate.addresses.iter().map(IpAddr::to_string));
    if certificate.dns_names.is_empty() {
        names.push(certificate.subject.to_string());
    }
    names
}

/// `*` stands for one whole label, the first, below at least two others (RFC 6125, section 6.4.3).
fn name_matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.strip_suffix('.').unwrap_or(pattern);
    if host.is_empty() {
        return false;
    }
    match pattern.strip_prefix("*.") {
        Some(rest) => host.split_once('.').is_some_and(|(first, tail)| {
            !first.is_empty() && rest.contains('.') && tail.eq_ignore_ascii_case(rest)
        }),
        None => pattern.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dn::Dn;
    use std::time::SystemTime;

    fn check(subject: &str, dns: &[&str], addresses: &[&str], host: &str) -> bool {
        let subject = Dn::parse(subject).unwrap();
        let fields = Fields {
            issuer: subject.clone(),
            subject,
            not_before: SystemTime::UNIX_EPOCH,
            not_after: SystemTime::UNIX_EPOCH,
            is_ca: false,
            key_usage: None,
            extended_key_usage: None,
            proxy_info: None,
            is_draft_proxy: false,
            dns_names: dns.iter().map(|n| (*n).to_owned()).collect(),
            addresses: addresses.iter().map(|a| a.parse().unwrap()).collect(),
            subject_der: Vec::new(),
        };
        matches(host, &fields)
    }

    #[test]
    fn a_host_is_known_by_its_alternative_names_and_else_by_its_common_name() {
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a str, bool);
        let rows: &[Row<'_>] = &[
            ("/CN=x", &["a.example"], &[], "a.example", true),
            ("/CN=x", &["a.example"], &[], "A.Example.", true),
            ("/CN=a.example", &["b.example"], &[], "a.example", false),
            ("/CN=host/a.example", &[], &[], "a.example", true),
            ("/CN=a.example", &[], &[], "a.example", true),
            ("/CN=ldap/a.example", &[], &[], "a.example", false),
            ("/CN=x", &["*.a.example"], &[], "b.a.example", true),
            ("/CN=x", &["*.a.example"], &[], "c.b.a.example", false),
            ("/CN=x", &["*.example"], &[], "a.example", false),
            ("/CN=x", &["a*.example.org"], &[], "ab.example.org", false),
            ("/CN=x", &[], &["127.0.0.1"], "127.0.0.1", true),
            ("/CN=x", &[], &["::1"], "[::1]", true),
            ("/CN=127.0.0.1", &[], &[], "127.0.0.1", false),
            ("/CN=x", &["127.0.0.1"], &[], "127.0.0.1", false),
            ("/CN=host/", &[], &[], "", false),
        ];
        for (subject, dns, addresses, host, expected) in rows {
            assert_eq!(
                check(subject, dns, addresses, host),
                *expected,
                "{subject} {dns:?} {host}"
            );
        }
    }
}
