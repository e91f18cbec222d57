//! Chance from a seed (splitmix64, Steele and others 2014): the same history for the same seed on every machine.

#[derive(Clone, Debug)]
pub struct Random(pub u64);

pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 to `below` - 1.
    pub fn below(&mut self, below: u64) -> u64 {
        self.next() % below
    }

    /// So often in a thousand.
    pub fn in_thousand(&mut self, often: u64) -> bool {
        self.below(1000) < often
    }
}
