//! What registrants tell: operations are read or refused, written again the same, and carried out without harm.
#![no_main]

use kumiko_directory::{Bounds, Directory, Dn, SourceId, delta};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = delta::read_heartbeat(data);
    let Ok((reached, ops)) = delta::read_ops(data) else {
        return;
    };
    let again = delta::read_ops(&delta::write_ops(reached, &ops));
    assert_eq!(again, Ok((reached, ops.clone())));
    let base = Dn::default().child("o", "grid");
    let mut directory = Directory::new(base.clone(), Bounds::default());
    for op in &ops {
        let _ = directory.apply(SourceId(1), &base, op);
    }
    directory.remove_source(SourceId(1));
    assert_eq!(directory.len(), 1);
});
