//! The head of one file of a checkpoint (spec/checkpoint, K10 to K14): whose memory, and where each block of it stands. A routine
//! wrote it, which is a guest: it may hold anything. Not here: which files belong together (`chain`).

use std::io::{self, Read};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"kkmckpt1";
/// A program names a few arrays; more than this is no checkpoint.
pub const MOST_STATES: usize = 1024;
pub const NAME_MOST_BYTES: usize = 255;
/// Both ends hold one block in memory.
pub const BLOCK_MOST_BYTES: u64 = 1 << 20;
/// A whole of 1 TiB, or 4 GiB of scattered pages; the table has 20 MiB then.
pub const MOST_BLOCKS: usize = 1 << 20;

/// What one file says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// From 1, upwards.
    pub number: u64,
    /// The checkpoint whose bytes hold where no block stands; None: it is whole.
    pub base: Option<u64>,
    /// Safe points that were passed.
    pub points: u64,
    pub states: Vec<State>,
    /// In the order of states and offsets, beside each other at most.
    pub blocks: Vec<Block>,
}

/// Memory that the program named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub name: String,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Counts from 0.
    pub state: usize,
    pub offset: u64,
    pub bytes: u64,
    /// [`sum`] of its bytes.
    pub sum: u32,
}

/// A file that nothing can be resumed from.
#[derive(Debug, thiserror::Error)]
pub enum BadCheckpoint {
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("it is no checkpoint of this version")]
    Foreign,
    #[error("it breaks off")]
    Short,
    #[error("something stands behind its end")]
    Trailing,
    #[error("its number or its base is wrong")]
    Number,
    #[error("it has {found} {of}, at most {most} may be")]
    TooMany {
        of: &'static str,
        found: u32,
        most: usize,
    },
    #[error("the name of state {state} is empty, too long, no text, or there twice")]
    StateName { state: usize },
    #[error("its states have more bytes than can be")]
    StateBytes,
    #[error("block {block} is not where one can be")]
    Place { block: usize },
    #[error("it says that it is whole, and is not")]
    NotWhole,
    #[error("its head was changed")]
    HeadSum,
    #[error("block {block} was changed")]
    BlockSum { block: usize },
    #[error("its states are not those of the one that it builds on")]
    OtherStates,
    #[error("its states are not the program's")]
    OtherProgram,
    #[error("the file that is its state {state} has become shorter since")]
    ShortFile { state: usize },
    #[error("no files of it are there")]
    Missing,
}

/// CRC-32 (IEEE 802.3): against disks and torn writes, not against people.
pub fn sum(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The bytes that are left in a reader: how many, and their sum.
pub fn sum_of(from: &mut impl Read) -> io::Result<(u64, u32)> {
    let (mut sum, mut bytes) = (crc32fast::Hasher::new(), 0);
    let mut buffer = vec![0; BLOCK_MOST_BYTES as usize];
    loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => return Ok((bytes, sum.finalize())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            got => got?,
        };
        sum.update(buffer.get(..got).unwrap_or_default());
        bytes += got as u64;
    }
}

impl Head {
    /// The form in the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for word in [self.number, self.base.unwrap_or(0), self.points] {
            out.extend(word.to_le_bytes());
        }
        for count in [self.states.len(), self.blocks.len()] {
            out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        }
        for state in &self.states {
            out.extend(state.bytes.to_le_bytes());
            let length = u32::try_from(state.name.len()).unwrap_or(u32::MAX);
            out.extend(length.to_le_bytes());
            out.extend(state.name.as_bytes());
        }
        for block in &self.blocks {
            out.extend(u32::try_from(block.state).unwrap_or(u32::MAX).to_le_bytes());
            out.extend(u32::try_from(block.bytes).unwrap_or(u32::MAX).to_le_bytes());
            out.extend(block.offset.to_le_bytes());
            out.extend(block.sum.to_le_bytes());
        }
        out.extend(sum(&out).to_le_bytes());
        out
    }

    /// Reads as far as the first block's data.
    ///
    /// # Errors
    /// What is wrong. No more is allocated than was read.
    pub fn read(from: impl Read) -> Result<Head, BadCheckpoint> {
        let mut from = Summed {
            from,
            hash: crc32fast::Hasher::new(),
        };
        if &from.take::<8>()? != MAGIC {
            return Err(BadCheckpoint::Foreign);
        }
        let [number, base, points] = [from.u64()?, from.u64()?, from.u64()?];
        let [states, blocks] = [from.u32()?, from.u32()?];
        let bounded = |of, found: u32, most: usize| match usize::try_from(found) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(BadCheckpoint::TooMany { of, found, most }),
        };
        let states = bounded("states", states, MOST_STATES)?;
        let blocks = bounded("blocks", blocks, MOST_BLOCKS)?;
        let mut head = Head {
            number,
            base: (base != 0).then_some(base),
            points,
            states: Vec::new(),
            blocks: Vec::new(),
        };
        for state in 0..states {
            let bytes = from.u64()?;
            let length = usize::try_from(from.u32()?).unwrap_or(usize::MAX);
            let wrong = BadCheckpoint::StateName { state };
            if length > NAME_MOST_BYTES {
                return Err(wrong);
            }
            let mut name = vec![0; length];
            from.fill(&mut name)?;
            let name = String::from_utf8(name).map_err(|_| wrong)?;
            head.states.push(State { name, bytes });
        }
        for _ in 0..blocks {
            let state = usize::try_from(from.u32()?).unwrap_or(usize::MAX);
            let bytes = u64::from(from.u32()?);
            let offset = from.u64()?;
            let sum = from.u32()?;
            head.blocks.push(Block {
                state,
                offset,
                bytes,
                sum,
            });
        }
        let found = from.hash.clone().finalize();
        if found != from.u32()? {
            return Err(BadCheckpoint::HeadSum);
        }
        head.check()?;
        Ok(head)
    }

    /// What [`Head::read`] holds a file to.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), BadCheckpoint> {
        if self.number == 0 || self.base.is_some_and(|base| base >= self.number) {
            return Err(BadCheckpoint::Number);
        }
        for (state, one) in self.states.iter().enumerate() {
            let before = self.states.iter().take(state);
            let length = one.name.len();
            if !(1..=NAME_MOST_BYTES).contains(&length)
                || before.into_iter().any(|other| other.name == one.name)
            {
                return Err(BadCheckpoint::StateName { state });
            }
        }
        let total = self
            .states
            .iter()
            .try_fold(0u64, |total, state| total.checked_add(state.bytes))
            .ok_or(BadCheckpoint::StateBytes)?;
        let (mut at, mut covered) = ((0, 0), 0);
        for (number, block) in self.blocks.iter().enumerate() {
            let wrong = || BadCheckpoint::Place { block: number };
            let state = self.states.get(block.state).ok_or_else(wrong)?;
            let end = block.offset.checked_add(block.bytes).ok_or_else(wrong)?;
            if !(1..=BLOCK_MOST_BYTES).contains(&block.bytes)
                || end > state.bytes
                || (block.state, block.offset) < at
            {
                return Err(wrong());
            }
            at = (block.state, end);
            covered += block.bytes;
        }
        match self.base {
            None if covered != total => Err(BadCheckpoint::NotWhole),
            _ => Ok(()),
        }
    }

    /// Reads the blocks behind the head, each checked before it is given on.
    ///
    /// # Errors
    /// The first block that is wrong, or what `give` says.
    pub fn blocks(
        &self,
        mut from: impl Read,
        mut give: impl FnMut(&Block, &[u8]) -> Result<(), BadCheckpoint>,
    ) -> Result<(), BadCheckpoint> {
        let mut buffer = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            buffer.resize(usize::try_from(block.bytes).unwrap_or(usize::MAX), 0);
            fill(&mut from, &mut buffer)?;
            if sum(&buffer) != block.sum {
                return Err(BadCheckpoint::BlockSum { block: number });
            }
            give(block, &buffer)?;
        }
        match from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(BadCheckpoint::Trailing),
        }
    }

    /// Bytes of all states.
    pub fn state_bytes(&self) -> u64 {
        self.states.iter().map(|state| state.bytes).sum()
    }

    /// Bytes of the blocks.
    pub fn data_bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }
}

impl Block {
    /// These bytes of a state as blocks, whose sums are not known yet.
    pub fn cut(state: usize, range: Range<u64>) -> impl Iterator<Item = Block> {
        let mut offset = range.start;
        std::iter::from_fn(move || {
            let bytes = range.end.saturating_sub(offset).min(BLOCK_MOST_BYTES);
            let block = Block {
                state,
                offset,
                bytes,
                sum: 0,
            };
            offset += bytes;
            (bytes > 0).then_some(block)
        })
    }
}

fn fill(from: &mut impl Read, to: &mut [u8]) -> Result<(), BadCheckpoint> {
    from.read_exact(to).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => BadCheckpoint::Short,
        _ => BadCheckpoint::Io(error),
    })
}

struct Summed<R> {
    from: R,
    hash: crc32fast::Hasher,
}

impl<R: Read> Summed<R> {
    fn fill(&mut self, to: &mut [u8]) -> Result<(), BadCheckpoint> {
        fill(&mut self.from, to)?;
        self.hash.update(to);
        Ok(())
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadCheckpoint> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn u64(&mut self) -> Result<u64, BadCheckpoint> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadCheckpoint> {
        self.take().map(u32::from_le_bytes)
    }
}
