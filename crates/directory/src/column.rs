//! All values of one attribute, by row: 8 bytes a row, so that a filter nobody declared runs through ten thousand rows
//! in microseconds. Texts are kept once, in a dictionary; a text that few rows have knows them.
//!
//! A cell is the bits of a number, or a NaN that carries the number of a text or of a list of values. So a range filter
//! compares floating point numbers and nothing else: every other cell is a NaN, and not in any range.

use crate::bits::Bits;
use crate::schema::Syntax;
use crate::value::{Datum, datum};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows of one piece of a column; a piece without values is not there.
const CHUNK: usize = 256;
/// A text that at most so many rows have knows them: host names, addresses, contacts.
const FEW: usize = 4;

const ABSENT: u64 = 0xfff8_0000_0000_0000;
const TEXT: u64 = 0x7ffc_0000_0000_0000;
const MANY: u64 = 0x7ffe_0000_0000_0000;
const TAG: u64 = 0xffff_0000_0000_0000;

/// What is asked of a value.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Present,
    Equal(Datum),
    AtLeast(Datum),
    AtMost(Datum),
    More(Datum),
    Less(Datum),
    /// Texts in normal form, with the number of blanks that the pattern asks for at its seams ignored.
    Pattern(Pattern),
    /// Texts, blanks and punctuation left out.
    Approximate(String),
}

/// A substring assertion, its parts in normal form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pattern {
    pub initial: String,
    pub any: Vec<String>,
    pub last: String,
}

impl Pattern {
    pub fn matches(&self, text: &str) -> bool {
        let Some(mut rest) = text.strip_prefix(self.initial.as_str()) else {
            return false;
        };
        for part in &self.any {
            let Some((_, after)) = rest.split_once(part.as_str()) else {
                return false;
            };
            rest = after;
        }
        rest.ends_with(self.last.as_str())
    }
}

/// A text as approximate matching sees it.
pub(crate) fn squeezed(text: &str) -> String {
    text.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

impl Test {
    fn number(&self, number: f64) -> bool {
        match self {
            Test::Present => true,
            Test::Equal(Datum::Number(n)) => number == *n,
            Test::AtLeast(Datum::Number(n)) => number >= *n,
            Test::AtMost(Datum::Number(n)) => number <= *n,
            Test::More(Datum::Number(n)) => number > *n,
            Test::Less(Datum::Number(n)) => number < *n,
            Test::Pattern(pattern) => pattern.matches(&number.to_string()),
            Test::Approximate(text) => squeezed(&number.to_string()) == *text,
            _ => false,
        }
    }

    fn text(&self, text: &str) -> bool {
        match self {
            Test::Present => true,
            Test::Equal(Datum::Text(t)) => text == t,
            Test::AtLeast(Datum::Text(t)) => text >= t.as_str(),
            Test::AtMost(Datum::Text(t)) => text <= t.as_str(),
            Test::More(Datum::Text(t)) => text > t.as_str(),
            Test::Less(Datum::Text(t)) => text < t.as_str(),
            Test::Pattern(pattern) => pattern.matches(text),
            Test::Approximate(t) => squeezed(text) == *t,
            _ => false,
        }
    }
}

#[derive(Clone, Debug)]
struct Text {
    text: Arc<str>,
    /// Values of rows that are this text.
    uses: u32,
    /// The rows, while they are few; None once they were many, until nobody has it.
    few: Option<Vec<u32>>,
}

#[derive(Clone, Debug)]
struct Many {
    cells: Arc<[u64]>,
    uses: u32,
}

/// The column of one attribute.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    syntax: Syntax,
    chunks: Vec<Option<Box<[u64; CHUNK]>>>,
    texts: Vec<Text>,
    free_texts: Vec<u32>,
    by_text: HashMap<Arc<str>, u32>,
    manys: Vec<Many>,
    free_manys: Vec<u32>,
    by_cells: HashMap<Arc<[u64]>, u32>,
    holders: usize,
}

impl Column {
    pub fn new(syntax: Syntax) -> Column {
        Column {
            syntax,
            chunks: Vec::new(),
            texts: Vec::new(),
            free_texts: Vec::new(),
            by_text: HashMap::new(),
            manys: Vec::new(),
            free_manys: Vec::new(),
            by_cells: HashMap::new(),
            holders: 0,
        }
    }

    pub fn syntax(&self) -> Syntax {
        self.syntax
    }

    /// How many rows have a value.
    pub fn holders(&self) -> usize {
        self.holders
    }

    fn cell(&self, row: u32) -> u64 {
        let (chunk, at) = (row as usize / CHUNK, row as usize % CHUNK);
        self.chunks
            .get(chunk)
            .and_then(Option::as_ref)
            .and_then(|c| c.get(at))
            .copied()
            .unwrap_or(ABSENT)
    }

    fn put(&mut self, row: u32, cell: u64) {
        let (chunk, at) = (row as usize / CHUNK, row as usize % CHUNK);
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        if let Some(slot) = self.chunks.get_mut(chunk) {
            let cells = slot.get_or_insert_with(|| Box::new([ABSENT; CHUNK]));
            if let Some(place) = cells.get_mut(at) {
                *place = cell;
            }
        }
    }

    /// Gives a row these values instead of those it has; none takes them away.
    pub fn set<'a>(&mut self, row: u32, values: impl Iterator<Item = &'a str>) {
        let old = self.cell(row);
        let mut cells: Vec<u64> = Vec::new();
        for value in values {
            let cell = self.intern(row, value);
            if cells.contains(&cell) {
                self.release(row, cell);
            } else {
                cells.push(cell);
            }
        }
        let new = match cells.as_slice() {
            [] => ABSENT,
            [one] => *one,
            _ => self.intern_many(cells),
        };
        if old != ABSENT || new != ABSENT {
            self.put(row, new);
        }
        self.holders += usize::from(new != ABSENT);
        self.holders -= usize::from(old != ABSENT);
        if old & TAG == MANY {
            self.release_many(row, old);
        } else {
            self.release(row, old);
        }
    }

    fn intern(&mut self, row: u32, value: &str) -> u64 {
        let text = match datum(self.syntax, value) {
            Datum::Number(number) => return number.to_bits(),
            Datum::Text(text) => text,
        };
        let id = match self.by_text.get(text.as_str()) {
            Some(id) => *id,
            None => {
                let text: Arc<str> = text.into();
                let item = Text {
                    text: text.clone(),
                    uses: 0,
                    few: Some(Vec::new()),
                };
                let id = place(&mut self.texts, &mut self.free_texts, item);
                self.by_text.insert(text, id);
                id
            }
        };
        if let Some(item) = self.texts.get_mut(id as usize) {
            item.uses += 1;
            match &mut item.few {
                Some(rows) if rows.contains(&row) || rows.len() < FEW => rows.push(row),
                few => *few = None,
            }
        }
        TEXT | u64::from(id)
    }

    fn release(&mut self, row: u32, cell: u64) {
        if cell & TAG != TEXT {
            return;
        }
        let id = cell as u32;
        let Some(item) = self.texts.get_mut(id as usize) else {
            return;
        };
        item.uses -= 1;
        if item.uses == 0 {
            self.by_text.remove(&item.text);
            item.text = "".into();
            item.few = None;
            self.free_texts.push(id);
        } else if let Some(rows) = &mut item.few {
            if let Some(at) = rows.iter().position(|r| *r == row) {
                rows.swap_remove(at);
            }
        }
    }

    fn intern_many(&mut self, mut cells: Vec<u64>) -> u64 {
        cells.sort_unstable();
        let id = match self.by_cells.get(cells.as_slice()) {
            Some(id) => *id,
            None => {
                let cells: Arc<[u64]> = cells.into();
                let item = Many {
                    cells: cells.clone(),
                    uses: 0,
                };
                let id = place(&mut self.manys, &mut self.free_manys, item);
                self.by_cells.insert(cells, id);
                id
            }
        };
        if let Some(item) = self.manys.get_mut(id as usize) {
            item.uses += 1;
        }
        MANY | u64::from(id)
    }

    fn release_many(&mut self, row: u32, cell: u64) {
        let id = cell as u32;
        let Some(item) = self.manys.get_mut(id as usize) else {
            return;
        };
        item.uses -= 1;
        let cells = item.cells.clone();
        if item.uses == 0 {
            self.by_cells.remove(&item.cells);
            item.cells = Arc::new([]);
            self.free_manys.push(id);
        }
        for cell in cells.iter() {
            self.release(row, *cell);
        }
    }

    /// Does the row have a value that passes?
    pub fn matches(&self, row: u32, test: &Test) -> bool {
        self.cell_matches(self.cell(row), test)
    }

    fn cell_matches(&self, cell: u64, test: &Test) -> bool {
        match cell & TAG {
            _ if cell == ABSENT => false,
            TEXT => {
                let item = self.texts.get(cell as u32 as usize);
                item.is_some_and(|item| test.text(&item.text))
            }
            MANY => {
                let item = self.manys.get(cell as u32 as usize);
                item.is_some_and(|item| item.cells.iter().any(|c| self.cell_matches(*c, test)))
            }
            _ => test.number(f64::from_bits(cell)),
        }
    }

    /// The rows that pass, if they are so few that their text knows them.
    pub fn few(&self, test: &Test) -> Option<&[u32]> {
        let Test::Equal(Datum::Text(text)) = test else {
            return None;
        };
        match self.by_text.get(text.as_str()) {
            None => Some(&[]),
            Some(id) => self.texts.get(*id as usize)?.few.as_deref(),
        }
    }

    /// All rows that pass, of `rows`.
    pub fn scan(&self, test: &Test, rows: usize) -> Bits {
        let mut bits = Bits::none(rows);
        if let Some(few) = self.few(test) {
            few.iter().for_each(|row| bits.set(*row));
            return bits;
        }
        match test {
            Test::Present => self.each(&mut bits, |cell| cell != ABSENT),
            Test::Equal(Datum::Number(n)) => self.range(&mut bits, test, |v| v == *n),
            Test::AtLeast(Datum::Number(n)) => self.range(&mut bits, test, |v| v >= *n),
            Test::AtMost(Datum::Number(n)) => self.range(&mut bits, test, |v| v <= *n),
            Test::More(Datum::Number(n)) => self.range(&mut bits, test, |v| v > *n),
            Test::Less(Datum::Number(n)) => self.range(&mut bits, test, |v| v < *n),
            _ => self.by_dictionary(&mut bits, test),
        }
        bits
    }

    fn range(&self, bits: &mut Bits, test: &Test, passes: impl Fn(f64) -> bool) {
        if self.by_cells.is_empty() {
            self.each(bits, |cell| passes(f64::from_bits(cell)));
        } else {
            let manys = self.manys_that(test);
            self.each(bits, |cell| {
                passes(f64::from_bits(cell)) || (cell & TAG == MANY && has(&manys, cell))
            });
        }
    }

    /// Each text and each list is looked at once, however many rows have it.
    fn by_dictionary(&self, bits: &mut Bits, test: &Test) {
        let texts: Vec<bool> = self
            .texts
            .iter()
            .map(|t| t.uses > 0 && test.text(&t.text))
            .collect();
        let manys = self.manys_that(test);
        self.each(bits, |cell| match cell & TAG {
            TEXT => has(&texts, cell),
            MANY => has(&manys, cell),
            _ => cell != ABSENT && test.number(f64::from_bits(cell)),
        });
    }

    fn manys_that(&self, test: &Test) -> Vec<bool> {
        self.manys
            .iter()
            .map(|m| m.cells.iter().any(|c| self.cell_matches(*c, test)))
            .collect()
    }

    fn each(&self, bits: &mut Bits, passes: impl Fn(u64) -> bool) {
        let words = bits.words.chunks_mut(CHUNK / 64);
        for (chunk, words) in self.chunks.iter().zip(words) {
            let Some(chunk) = chunk else { continue };
            for (cells, word) in chunk.chunks_exact(64).zip(words) {
                let mut found = 0;
                for (bit, cell) in cells.iter().enumerate() {
                    found |= u64::from(passes(*cell)) << bit;
                }
                *word = found;
            }
        }
    }

    /// What rows are ordered by: the least number or text of the row; rows without one come last.
    pub fn order(&self, row: u32) -> Option<Datum> {
        self.order_of(self.cell(row))
    }

    fn order_of(&self, cell: u64) -> Option<Datum> {
        match cell & TAG {
            _ if cell == ABSENT => None,
            TEXT => {
                let item = self.texts.get(cell as u32 as usize)?;
                Some(Datum::Text(item.text.to_string()))
            }
            MANY => {
                let item = self.manys.get(cell as u32 as usize)?;
                self.order_of(*item.cells.first()?)
            }
            _ => Some(Datum::Number(f64::from_bits(cell))),
        }
    }
}

fn has(memo: &[bool], cell: u64) -> bool {
    memo.get(cell as u32 as usize).copied().unwrap_or(false)
}

fn place<T>(items: &mut Vec<T>, free: &mut Vec<u32>, item: T) -> u32 {
    match free.pop() {
        Some(id) => {
            if let Some(place) = items.get_mut(id as usize) {
                *place = item;
            }
            id
        }
        None => {
            items.push(item);
            // A dictionary holds at most one text a value, and values are bounded far below 2^32.
            (items.len() - 1) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(column: &Column, test: &Test) -> Vec<u32> {
        let found: Vec<u32> = column.scan(test, 1000).rows().collect();
        let one_by_one: Vec<u32> = (0..1000).filter(|r| column.matches(*r, test)).collect();
        assert_eq!(found, one_by_one, "{test:?}");
        found
    }

    fn set(column: &mut Column, row: u32, values: &[&str]) {
        column.set(row, values.iter().copied());
    }

    #[test]
    fn ranges_find_numbers_and_nothing_else() {
        let mut column = Column::new(Syntax::Number);
        set(&mut column, 0, &["8"]);
        set(&mut column, 700, &["16"]);
        set(&mut column, 2, &["garbage"]);
        set(&mut column, 3, &["1", "32"]);
        let at_least = Test::AtLeast(Datum::Number(8.0));
        assert_eq!(rows(&column, &at_least), [0, 3, 700]);
        assert_eq!(rows(&column, &Test::Less(Datum::Number(8.0))), [3]);
        assert_eq!(rows(&column, &Test::Present), [0, 2, 3, 700]);
        assert_eq!(
            rows(&column, &Test::Equal(Datum::Text("garbage".into()))),
            [2]
        );
        set(&mut column, 3, &[]);
        set(&mut column, 0, &["4"]);
        assert_eq!(rows(&column, &at_least), [700]);
        assert_eq!(column.holders(), 3);
    }

    #[test]
    fn a_text_that_few_have_knows_its_rows_and_forgets_them() {
        let mut column = Column::new(Syntax::Text);
        let linux = Test::Equal(Datum::Text("linux".into()));
        for row in 0..3 {
            set(&mut column, row, &["Linux", "LINUX", "x"]);
        }
        assert_eq!(column.few(&linux).unwrap().len(), 3);
        assert_eq!(rows(&column, &linux), [0, 1, 2]);
        for row in 3..9 {
            set(&mut column, row, &["linux"]);
        }
        assert!(column.few(&linux).is_none());
        assert_eq!(rows(&column, &linux).len(), 9);
        for row in 0..9 {
            set(&mut column, row, &[]);
        }
        assert_eq!(column.few(&linux), Some(&[][..]));
        assert_eq!(column.texts.len(), column.free_texts.len());
        assert_eq!(column.manys.len(), column.free_manys.len());
        set(&mut column, 5, &["linux"]);
        assert_eq!(column.few(&linux), Some(&[5][..]));
    }

    #[test]
    fn patterns_match_in_order_and_do_not_overlap() {
        let check = |initial: &str, any: &[&str], last: &str, text: &str, expected: bool| {
            let pattern = Pattern {
                initial: initial.into(),
                any: any.iter().map(|a| (*a).into()).collect(),
                last: last.into(),
            };
            assert_eq!(pattern.matches(text), expected, "{pattern:?} {text}");
        };
        check("a", &[], "c", "abc", true);
        check("ab", &[], "bc", "abc", false);
        check("", &["b", "b"], "", "abc", false);
        check("", &["b", "b"], "", "abcb", true);
        check("", &["x"], "", "abc", false);
        check("", &[], "", "", true);
    }
}
