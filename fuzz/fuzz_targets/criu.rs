//! What a program in the place of CRIU says, and what a kernel's release may look like: read or refused, in few words.
#![no_main]

use kumiko_checkpoint::{Criu, Kernel, LINE_MOST_BYTES};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match Criu::read(&text) {
        // As it is written it is read again.
        Ok(criu) => assert_eq!(Criu::read(&format!("Version: {criu}")), Ok(criu)),
        // A character is at most 10 as `{:?}` has it.
        Err(unfit) => assert!(unfit.to_string().len() < 100 + 10 * LINE_MOST_BYTES),
    }
    if let Ok(kernel) = Kernel::read(&text) {
        assert_eq!(Kernel::read(&kernel.to_string()), Ok(kernel));
    }
});
