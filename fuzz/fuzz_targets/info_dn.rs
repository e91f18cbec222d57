//! Names of directory entries: what is read is printed and read again as the same name.
#![no_main]

use kumiko_directory::Dn;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(dn) = Dn::parse(text) {
        assert!(
            matches!(Dn::parse(&dn.to_string()), Ok(again) if again == dn)
                || dn.to_string().len() > 8192
        );
    }
});
