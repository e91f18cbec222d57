//! Files of checkpoints, which guests write: whatever comes, the decoder answers, and what it accepts is what it would write.
#![no_main]

use kumiko_checkpoint::Head;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut from = data;
    let Ok(head) = Head::read(&mut from) else {
        return;
    };
    let bytes = head.to_bytes();
    assert!(data.starts_with(&bytes));
    let mut seen = 0;
    let blocks = head.blocks(from, |block, bytes| {
        assert_eq!(block.bytes, bytes.len() as u64);
        seen += block.bytes;
        Ok(())
    });
    if blocks.is_ok() {
        assert_eq!(seen, head.data_bytes());
    }
});
