//! Texts and files of an array, each as long as it is (spec/idl I42): their lengths, then one behind the other. Not here: where that stands
//! among arguments and results (`image`).

use crate::image::Span;

/// The length of a text that is not there (NULL).
pub(crate) const NO_TEXT: u64 = u64::MAX;
const LENGTH_BYTES: u64 = 8;

/// As it travels. None: a text has a zero byte.
pub fn pack_texts<T: AsRef<[u8]>>(texts: &[Option<T>]) -> Option<Vec<u8>> {
    let mut packed = Vec::new();
    for text in texts {
        let length = text
            .as_ref()
            .map_or(NO_TEXT, |text| text.as_ref().len() as u64);
        packed.extend(length.to_le_bytes());
    }
    for text in texts.iter().flatten() {
        if text.as_ref().contains(&0) {
            return None;
        }
        packed.extend(text.as_ref());
        packed.push(0);
    }
    Some(packed)
}

/// So many of them, as they were packed. None: whoever made this is at fault.
pub fn unpack_texts(count: u64, packed: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let (lengths, mut rest) = split_lengths(count, packed)?;
    let mut texts = Vec::new();
    for length in lengths {
        if length == NO_TEXT {
            texts.push(None);
            continue;
        }
        let (text, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
        let (zero, after) = after.split_first()?;
        if *zero != 0 || text.contains(&0) {
            return None;
        }
        texts.push(Some(text));
        rest = after;
    }
    rest.is_empty().then_some(texts)
}

/// What stands before files of these lengths.
pub fn pack_lengths(lengths: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let lengths = lengths.into_iter();
    lengths.flat_map(u64::to_le_bytes).collect()
}

/// Bytes of [`pack_lengths`]; None: more than can be.
pub fn lengths_bytes(count: u64) -> Option<u64> {
    count.checked_mul(LENGTH_BYTES)
}

/// Where so many files lie, by the lengths at the beginning of `packed`, of which there are `bytes` in all: from the beginning of those. None:
/// whoever made this is at fault.
pub fn file_spans(count: u64, packed: &[u8], bytes: u64) -> Option<Vec<Span>> {
    let (lengths, _) = split_lengths(count, packed)?;
    let mut at = lengths_bytes(count)?;
    let mut spans = Vec::new();
    for bytes in lengths {
        spans.push(Span { at, bytes });
        at = at.checked_add(bytes)?;
    }
    (at == bytes).then_some(spans)
}

fn split_lengths(count: u64, packed: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let bytes = usize::try_from(lengths_bytes(count)?).ok()?;
    let (lengths, rest) = packed.split_at_checked(bytes)?;
    let each = lengths.chunks_exact(8).filter_map(|one| one.first_chunk());
    Some((each.map(|one| u64::from_le_bytes(*one)).collect(), rest))
}
