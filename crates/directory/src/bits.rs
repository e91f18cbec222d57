//! Sets of rows, one bit a row. Not here: what they mean.

/// A set over the rows 0 .. len.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    pub words: Vec<u64>,
}

impl Bits {
    pub fn none(rows: usize) -> Bits {
        Bits {
            words: vec![0; rows.div_ceil(64)],
        }
    }

    pub fn set(&mut self, row: u32) {
        let word = row as usize / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (row % 64);
        }
    }

    pub fn clear(&mut self, row: u32) {
        if let Some(word) = self.words.get_mut(row as usize / 64) {
            *word &= !(1 << (row % 64));
        }
    }

    #[cfg(test)]
    pub fn has(&self, row: u32) -> bool {
        self.words
            .get(row as usize / 64)
            .is_some_and(|w| (w >> (row % 64)) & 1 == 1)
    }

    /// What is in both.
    pub fn and(mut self, other: &Bits) -> Bits {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(index).copied().unwrap_or(0);
        }
        self
    }

    /// What is in either; `other` is not longer.
    pub fn or(mut self, other: &Bits) -> Bits {
        for (word, theirs) in self.words.iter_mut().zip(&other.words) {
            *word |= theirs;
        }
        self
    }

    /// What of `all` is not in this.
    pub fn not_in(mut self, all: &Bits) -> Bits {
        for (index, word) in self.words.iter_mut().enumerate() {
            *word = !*word & all.words.get(index).copied().unwrap_or(0);
        }
        self
    }

    pub fn rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                (left != 0).then(|| {
                    let bit = left.trailing_zeros();
                    left &= left - 1;
                    index as u32 * 64 + bit
                })
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_joined_and_told() {
        let mut a = Bits::none(130);
        let mut b = Bits::none(130);
        let mut all = Bits::none(130);
        (0..130).for_each(|row| all.set(row));
        [0, 63, 64, 129].into_iter().for_each(|row| a.set(row));
        [63, 100].into_iter().for_each(|row| b.set(row));
        let told = |bits: &Bits| bits.rows().collect::<Vec<_>>();
        assert_eq!(told(&a), [0, 63, 64, 129]);
        assert_eq!(told(&a.clone().and(&b)), [63]);
        assert_eq!(told(&a.clone().or(&b)), [0, 63, 64, 100, 129]);
        assert_eq!(told(&a.clone().not_in(&all)).len(), 126);
        a.clear(63);
        assert!(!a.has(63) && a.has(64) && !a.has(4000));
    }
}
