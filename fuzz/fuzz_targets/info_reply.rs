//! Answers of an LDAP server, and registrations in the manner of MDS 2, of any bytes: read or refused.
#![no_main]

use kumiko_directory::ldap::{self, Request};
use kumiko_directory::{Dn, grrp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(Some((_, length))) = ldap::read_reply(data) {
        assert!(length <= data.len());
    }
    if let Ok(Some((message, _))) = ldap::read(data) {
        if let Request::Add(add) = message.request {
            let suffix = Dn::default().child("o", "grid").child("Mds-Vo-name", "vo");
            let read = grrp::read(&add, &suffix, |text| text.parse().ok());
            if let Ok(read) = read {
                assert!(read.port != 0 && read.ttl_ms > 0 && read.every_ms > 0);
            }
        }
    }
});
