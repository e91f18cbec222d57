//! Files of NumPy: whatever comes, the decoder answers, and what it accepts it would write so that it is read as the same.
#![no_main]

use kumiko_idl::npy::{header, read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = read(data, Some(data.len() as u64));
    let Ok(npy) = read(data, None) else { return };
    assert!(npy.data_at <= data.len());
    // A header that was read may have more dimensions than one of version 1 holds.
    if let Some(written) = header(npy.element, &npy.shape) {
        let again = read(&written, None);
        assert!(again.is_ok_and(|again| again.element == npy.element && again.shape == npy.shape));
    }
});
