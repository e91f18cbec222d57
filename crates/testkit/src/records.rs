//! Where records of TLS begin in what goes by (RFC 8446, 5.1). Pure. Not here: what is in them.

/// Of one way of one connection, from its first byte.
#[derive(Debug, Default)]
pub struct Records {
    /// Bytes of a head that is not complete: a type, a version, and a length.
    head: Vec<u8>,
    /// Of the record, after its head.
    left: usize,
}

impl Records {
    /// Takes what came next, and says at which of its bytes records begin.
    pub fn begin(&mut self, bytes: &[u8]) -> Vec<usize> {
        let mut begin = Vec::new();
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            if self.left > 0 {
                let step = self.left.min(bytes.len() - at);
                self.left -= step;
                at += step;
                continue;
            }
            if self.head.is_empty() {
                begin.push(at);
            }
            self.head.push(*byte);
            at += 1;
            if let [_, _, _, high, low] = self.head[..] {
                self.left = usize::from(u16::from_be_bytes([high, low]));
                self.head.clear();
            }
        }
        begin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_begin_where_they_do_however_they_come() {
        let record = |length: u8| [&[22, 3, 3, 0, length][..], &vec![7; length.into()]].concat();
        let all = [record(3), record(0), record(20), record(1)].concat();
        let expected = [0, 8, 13, 38];
        for piece in 1..=all.len() {
            let mut records = Records::default();
            let mut found = Vec::new();
            for (number, bytes) in all.chunks(piece).enumerate() {
                let begin = records.begin(bytes).into_iter();
                found.extend(begin.map(|at| number * piece + at));
            }
            assert_eq!(found, expected, "in pieces of {piece}");
        }
    }
}
