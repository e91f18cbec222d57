//! LDAP requests of any bytes: read or refused; a search that is read is carried out on a small directory.
#![no_main]

use kumiko_directory::ldap::{self, Request};
use kumiko_directory::{Bounds, Directory, Dn, Entry, Op, SourceId};
use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;

static DIRECTORY: OnceLock<Directory> = OnceLock::new();

fn directory() -> &'static Directory {
    DIRECTORY.get_or_init(|| {
        let base = Dn::default().child("o", "grid");
        let mut directory = Directory::new(base.clone(), Bounds::default());
        for host in 0..300 {
            let entry = Entry::new(Dn::default().child("Mds-Host-hn", &format!("host{host}")))
                .with("objectClass", ["Mds", "MdsHost"])
                .with("Mds-Host-hn", [format!("host{host}")])
                .with("Mds-Cpu-Total-count", [host % 17])
                .with("Mds-Os-name", ["Linux"]);
            let _ = directory.apply(SourceId(1), &base, &Op::Put(entry));
        }
        directory
    })
}

fuzz_target!(|data: &[u8]| {
    let Ok(Some((message, length))) = ldap::read(data) else {
        return;
    };
    assert!(length <= data.len());
    if let Request::Search(search) = message.request {
        let directory = directory();
        let Ok(base) = Dn::parse(&search.base) else {
            return;
        };
        let selection = directory.selection(&search.attributes, search.types_only);
        let plan = directory.plan(&search.filter);
        for row in directory
            .search(&base, search.scope, &search.filter)
            .unwrap_or_default()
        {
            assert!(plan.matches(row));
            let mut out = Vec::new();
            assert!(directory.answer(&mut out, message.id, row, &selection, &[], &[]));
            assert_eq!(
                kumiko_directory::ber::element_bytes(&out),
                Ok(Some(out.len()))
            );
        }
    }
});
