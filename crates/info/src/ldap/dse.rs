//! What the server says of itself: the root DSE (RFC 4512, section 5.1) and the schema (section 4.2).

use crate::index::Index;
use kumiko_directory::ldap::oid;
use kumiko_directory::{Attribute, Dn, Entry, schema};

/// The name of the schema's entry.
pub(super) const SUBSCHEMA: &str = "cn=subschema";

pub(super) fn root(index: &Index) -> Vec<Attribute> {
    let suffix = index.read(|inner| inner.directory.suffix().to_string());
    Entry::new(Dn::default())
        .with("objectClass", ["top", "OpenLDAProotDSE"])
        .with("namingContexts", ["o=grid"])
        .with("defaultNamingContext", [suffix])
        .with("supportedLDAPVersion", ["2", "3"])
        .with(
            "supportedControl",
            [
                oid::PAGED_RESULTS,
                oid::PERSISTENT_SEARCH,
                oid::MANAGE_DSA_IT,
            ],
        )
        .with(
            "supportedExtension",
            [oid::START_TLS, oid::WHO_AM_I, oid::CANCEL],
        )
        .with(
            "supportedFeatures",
            [oid::ALL_OPERATIONAL, oid::TRUE_FALSE_FILTERS],
        )
        .with("supportedSASLMechanisms", ["EXTERNAL"])
        .with("subschemaSubentry", [SUBSCHEMA])
        .with("vendorName", ["kumiko"])
        .with("vendorVersion", [env!("CARGO_PKG_VERSION")])
        .attributes
}

pub(super) fn subschema() -> Vec<Attribute> {
    let (attributes, classes) = schema::definitions();
    Entry::new(Dn::default())
        .with("objectClass", ["top", "subentry", "subschema"])
        .with("cn", ["subschema"])
        .with("attributeTypes", attributes)
        .with("objectClasses", classes)
        .attributes
}

/// Both are operational in truth; clients ask for them in every manner, and get all unless they name some.
pub(super) fn select(
    attributes: Vec<Attribute>,
    asked: &[String],
    types_only: bool,
) -> Vec<Attribute> {
    let all = asked.is_empty() || asked.iter().any(|a| a == "*" || a == "+");
    attributes
        .into_iter()
        .filter(|a| all || asked.iter().any(|name| name.eq_ignore_ascii_case(&a.name)))
        .map(|mut a| {
            if types_only {
                a.values.clear();
            }
            a
        })
        .collect()
}
