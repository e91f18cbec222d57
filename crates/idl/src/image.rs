//! Where each argument of a call stands in the bytes that travel (spec/idl I40 to I44): the same plan at the client, at the
//! server and in the routine's stub, made of the scalars alone. Not here: the bytes of arrays, and how they are carried.

use crate::evaluate::Value;
use crate::layout::{Array, Layout, Limits, SizeError, SizeProblem};
use crate::packed::{NO_TEXT, file_spans, unpack_texts};
use crate::signature::{CALLBACK_MOST, ElementType, Formal, Parameter, Signature};
use crate::syntax::Mode;

/// What each formal has at the beginning of the arguments: the value of a scalar, the length of a text, or zeros (I41).
pub type Head = [u8; HEAD_BYTES];

/// The widest scalar, `dcomplex`, fits.
pub const HEAD_BYTES: usize = 16;
/// Data of an array or a text begin at a multiple of this: a line of the processor's cache, so of every element.
pub const ALIGN_BYTES: u64 = 64;

/// Where everything stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// As the formals of the signature.
    pub places: Vec<Place>,
    /// All that travels to the routine, and back; what comes back of files follows it, and is told in it.
    pub in_bytes: u64,
    pub out_bytes: u64,
    /// In the routine's memory, of arrays.
    pub memory_bytes: u64,
}

/// Of one formal. Offsets count from the beginning of the arguments or of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It stands in its head.
    Scalar,
    /// Bytes of the text and a zero; None: there is no text.
    Text { at: Option<Span> },
    Array {
        array: Array,
        /// In the routine's memory.
        memory_bytes: u64,
        /// The elements that travel to it; None: not IN.
        given: Option<Span>,
        /// And back; None: not OUT.
        taken: Option<Span>,
    },
    /// An array of texts or of files, by its element.
    Many {
        array: Array,
        /// Of their addresses, in the routine's memory.
        memory_bytes: u64,
        /// Their lengths and bytes ([`crate::pack_texts`]); None: not IN.
        given: Option<Span>,
        /// Where the result tells how many bytes come back of all of them, which have the same form; None: not OUT.
        taken: Option<u64>,
    },
    File {
        /// Its content; None: not IN.
        given: Option<Span>,
        /// Where the result tells how many bytes come back of it; None: not OUT.
        taken: Option<u64>,
    },
    /// A function of the client's has no bytes.
    Callback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub at: u64,
    pub bytes: u64,
}

/// Arguments that cannot be carried.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Size(#[from] SizeError),
    #[error("{routine}, {callback}: a callback has at most {CALLBACK_MOST} parameters")]
    LongCallback { routine: String, callback: String },
    #[error("{routine} takes {takes} arguments, the heads of {given} are there")]
    Heads {
        routine: String,
        takes: usize,
        given: usize,
    },
    #[error("{routine}, {parameter}: bytes of its head that belong to nothing are not zero")]
    Rest { routine: String, parameter: String },
}

/// What a result tells of its files and texts is not what it holds: who made it is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the result of {bytes} bytes does not hold the files and texts that it tells of")]
pub struct BadTail {
    pub bytes: u64,
}

impl Signature {
    /// Bytes of all heads.
    pub fn heads_bytes(&self) -> u64 {
        (self.formals.len() * HEAD_BYTES) as u64
    }

    /// The heads at the beginning of arguments that came; None: there are too few bytes.
    pub fn heads(&self, arguments: &[u8]) -> Option<Vec<Head>> {
        let bytes = arguments.get(..self.formals.len() * HEAD_BYTES)?;
        let heads = bytes.chunks_exact(HEAD_BYTES);
        Some(heads.filter_map(|head| head.try_into().ok()).collect())
    }

    /// What can be registered can be called: refuses what [`Signature::plan`] would.
    ///
    /// # Errors
    /// A callback of more parameters than one can have.
    pub fn callable(&self) -> Result<(), PlanError> {
        self.formals.iter().try_for_each(|formal| match formal {
            Formal::Callback(one) if one.parameters.len() > CALLBACK_MOST => {
                Err(PlanError::LongCallback {
                    routine: self.name.clone(),
                    callback: one.name.clone(),
                })
            }
            _ => Ok(()),
        })
    }

    /// The callback that is the formal of this number, if it is one, as a routine of the client's: its arguments have the form
    /// of a call's.
    pub fn callback(&self, formal: usize) -> Option<Signature> {
        let Some(Formal::Callback(callback)) = self.formals.get(formal) else {
            return None;
        };
        let parameters = callback.parameters.iter().cloned();
        Some(Signature {
            module: self.module.clone(),
            name: format!("{}, {}", self.name, callback.name),
            doc: None,
            formals: parameters.map(Formal::Parameter).collect(),
            calc_order: None,
            shrink: false,
            checkpoint: false,
        })
    }

    pub fn has_callbacks(&self) -> bool {
        let mut formals = self.formals.iter();
        formals.any(|formal| matches!(formal, Formal::Callback(_)))
    }

    /// Where the arguments of one call stand. Allocates nothing by what the heads say.
    ///
    /// # Errors
    /// The first argument that has no size, or too big a one.
    pub fn plan(&self, heads: &[Head], limits: Limits) -> Result<Plan, PlanError> {
        self.callable()?;
        if heads.len() != self.formals.len() {
            return Err(PlanError::Heads {
                routine: self.name.clone(),
                takes: self.formals.len(),
                given: heads.len(),
            });
        }
        let mut numbers = Vec::new();
        for (formal, head) in self.formals.iter().zip(heads) {
            let (name, used) = match formal {
                Formal::Parameter(one) if one.has_no_head() => (&one.name, 0),
                Formal::Parameter(one) => (&one.name, one.element.bytes().unwrap_or(8)),
                Formal::Callback(one) => (&one.name, 0),
            };
            let rest = head
                .iter()
                .skip(usize::try_from(used).unwrap_or(HEAD_BYTES));
            if rest.into_iter().any(|byte| *byte != 0) {
                return Err(PlanError::Rest {
                    routine: self.name.clone(),
                    parameter: name.clone(),
                });
            }
            numbers.push(match formal {
                Formal::Parameter(parameter) => number(parameter, head),
                Formal::Callback(_) => None,
            });
        }
        let layout = self.layout(&numbers, limits)?;
        self.place(heads, &layout, limits)
    }

    /// Operations that the call takes, if the routine says.
    ///
    /// # Errors
    /// As [`Signature::operations`].
    pub fn operations_of(&self, heads: &[Head]) -> Result<Option<f64>, SizeError> {
        let numbers = self.formals.iter().zip(heads).map(|both| match both {
            (Formal::Parameter(parameter), head) => number(parameter, head),
            (Formal::Callback(_), _) => None,
        });
        self.operations(&numbers.collect::<Vec<_>>())
    }

    fn place(&self, heads: &[Head], layout: &Layout, limits: Limits) -> Result<Plan, PlanError> {
        let mut given = End(self.heads_bytes());
        let mut taken = End(0);
        let mut places = Vec::new();
        for ((formal, head), array) in self.formals.iter().zip(heads).zip(&layout.arrays) {
            let too_big = || SizeError {
                routine: self.name.clone(),
                parameter: formal.name().to_owned(),
                problem: SizeProblem::TooBig {
                    limit: limits.call_bytes,
                },
            };
            let Formal::Parameter(parameter) = formal else {
                places.push(Place::Callback);
                continue;
            };
            // Of what has its own length: what goes in, and where the result tells it.
            let mut own = |bytes: u64| -> Result<(Option<Span>, Option<u64>), PlanError> {
                let given = match parameter.mode.is_in() {
                    true => Some(given.take(bytes, limits).ok_or_else(too_big)?),
                    false => None,
                };
                let taken = match parameter.mode.is_out() {
                    true => {
                        let head = taken.take(HEAD_BYTES as u64, limits);
                        Some(head.ok_or_else(too_big)?.at)
                    }
                    false => None,
                };
                Ok((given, taken))
            };
            places.push(match array {
                None if parameter.element == ElementType::Filename => {
                    let (given, taken) = own(own_bytes(head))?;
                    Place::File { given, taken }
                }
                Some(array) if parameter.element.bytes().is_none() => {
                    let (given, taken) = own(own_bytes(head))?;
                    Place::Many {
                        array: array.clone(),
                        memory_bytes: array.memory_bytes().ok_or_else(too_big)?,
                        given,
                        taken,
                    }
                }
                None if parameter.element == ElementType::String => Place::Text {
                    at: match text_bytes(head) {
                        None => None,
                        Some(bytes) => {
                            let with_zero = bytes.checked_add(1).ok_or_else(too_big)?;
                            Some(given.take(with_zero, limits).ok_or_else(too_big)?)
                        }
                    },
                },
                None => Place::Scalar,
                Some(array) => {
                    let moved = array.moved_bytes().ok_or_else(too_big)?;
                    let span = |end: &mut End, travels: bool| match travels {
                        true => end.take(moved, limits).map(Some).ok_or_else(too_big),
                        false => Ok(None),
                    };
                    Place::Array {
                        array: array.clone(),
                        memory_bytes: array.memory_bytes().ok_or_else(too_big)?,
                        given: span(&mut given, parameter.mode.is_in())?,
                        taken: span(&mut taken, parameter.mode.is_out())?,
                    }
                }
            });
        }
        Ok(Plan {
            places,
            in_bytes: given.0,
            out_bytes: taken.0,
            memory_bytes: layout.memory_bytes,
        })
    }
}

impl Plan {
    /// Some of the result's bytes are of files or of an array's texts: how many, the result itself tells.
    pub fn has_tail(&self) -> bool {
        self.places.iter().any(|place| place.tail().is_some())
    }

    /// Where what each file, or array of files or texts, has of a result of `bytes` lies, of which `fixed` is the beginning; by numbers of
    /// formals, in their order.
    ///
    /// # Errors
    /// The result is not whole, or was made wrong.
    pub fn tail(&self, fixed: &[u8], bytes: u64) -> Result<Vec<(usize, Span)>, BadTail> {
        let bad = BadTail { bytes };
        let mut end = End(self.out_bytes);
        let mut spans = Vec::new();
        for (number, place) in self.places.iter().enumerate() {
            let Some(at) = place.tail() else {
                continue;
            };
            let at = usize::try_from(at).map_err(|_| bad)?;
            let head = fixed
                .get(at..)
                .and_then(|rest| rest.first_chunk::<HEAD_BYTES>());
            let span = end.take(own_bytes(head.ok_or(bad)?), Limits::WIDEST);
            spans.push((number, span.ok_or(bad)?));
        }
        match end.0 == bytes {
            true => Ok(spans),
            false => Err(bad),
        }
    }
}

impl Place {
    /// Where a result tells how much of it stands behind the rest.
    fn tail(&self) -> Option<u64> {
        match self {
            Place::File { taken, .. } | Place::Many { taken, .. } => *taken,
            _ => None,
        }
    }

    /// Of an array of texts those that were packed so; None: whoever made this is at fault, or it is no such array.
    pub fn texts<'a>(&self, packed: &'a [u8]) -> Option<Vec<Option<&'a [u8]>>> {
        match self {
            Place::Many { array, .. } if array.element == ElementType::String => {
                unpack_texts(array.moved, packed)
            }
            _ => None,
        }
    }

    /// How many files it has that travel.
    pub fn files_count(&self) -> u64 {
        match self {
            Place::File { .. } => 1,
            Place::Many { array, .. } if array.element == ElementType::Filename => array.moved,
            _ => 0,
        }
    }

    /// Of a file or an array of files where each lies within `bytes` that begin with `packed`; None: whoever made this is at fault, or it is
    /// no such thing.
    pub fn files(&self, packed: &[u8], bytes: u64) -> Option<Vec<Span>> {
        match self {
            Place::File { .. } => Some(vec![Span { at: 0, bytes }]),
            Place::Many { array, .. } if array.element == ElementType::Filename => {
                file_spans(array.moved, packed, bytes)
            }
            _ => None,
        }
    }
}

/// The end of what is placed so far.
struct End(u64);

impl End {
    /// The next aligned place; None: beyond what a call may have.
    fn take(&mut self, bytes: u64, limits: Limits) -> Option<Span> {
        let at = self.0.checked_next_multiple_of(ALIGN_BYTES)?;
        let end = at.checked_add(bytes)?;
        // Gaps of alignment come on top of what a call may have.
        let most = limits.call_bytes.checked_add(1 << 20)?;
        if end > most {
            return None;
        }
        self.0 = end;
        Some(Span { at, bytes })
    }
}

/// The value of a scalar that is one number.
fn number(parameter: &Parameter, head: &Head) -> Option<Value> {
    use ElementType::{
        Complex64, Complex128, Filename, Float32, Float64, Int8, Int16, Int32, Int64, String,
        Uint8, Uint16, Uint32, Uint64,
    };
    if !parameter.is_scalar() || parameter.mode != Mode::In {
        return None;
    }
    let [a, b, c, d, e, f, g, h, ..] = *head;
    Some(match parameter.element {
        Int8 => Value::Integer(i8::from_le_bytes([a]).into()),
        Uint8 => Value::Integer(a.into()),
        Int16 => Value::Integer(i16::from_le_bytes([a, b]).into()),
        Uint16 => Value::Integer(u16::from_le_bytes([a, b]).into()),
        Int32 => Value::Integer(i32::from_le_bytes([a, b, c, d]).into()),
        Uint32 => Value::Integer(u32::from_le_bytes([a, b, c, d]).into()),
        Int64 => Value::Integer(i64::from_le_bytes([a, b, c, d, e, f, g, h]).into()),
        Uint64 => Value::Integer(u64::from_le_bytes([a, b, c, d, e, f, g, h]).into()),
        Float32 => Value::Real(f32::from_le_bytes([a, b, c, d]).into()),
        Float64 => Value::Real(f64::from_le_bytes([a, b, c, d, e, f, g, h])),
        Complex64 | Complex128 | String | Filename => return None,
    })
}

fn text_bytes(head: &Head) -> Option<u64> {
    let [a, b, c, d, e, f, g, h, ..] = *head;
    match u64::from_le_bytes([a, b, c, d, e, f, g, h]) {
        NO_TEXT => None,
        bytes => Some(bytes),
    }
}

fn own_bytes(head: &Head) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *head;
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// The head of a file of so many bytes, and of an array of files or texts that are so many when they are packed.
pub fn file_head(bytes: u64) -> Head {
    text_head(Some(bytes))
}

/// The head of a text of so many bytes, without its zero; None: no text.
pub fn text_head(bytes: Option<u64>) -> Head {
    let mut head = [0; HEAD_BYTES];
    for (to, from) in head.iter_mut().zip(bytes.unwrap_or(NO_TEXT).to_le_bytes()) {
        *to = from;
    }
    head
}

/// The head of a scalar; None: the value does not fit, or the type is no number of one part.
pub fn number_head(element: ElementType, value: Value) -> Option<Head> {
    use ElementType::{Float32, Float64};
    let mut head = [0; HEAD_BYTES];
    let mut put = |bytes: &[u8]| {
        head.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
    };
    match (element, value) {
        (Float64, Value::Real(value)) => put(&value.to_le_bytes()),
        (Float64, Value::Integer(value)) => put(&(value as f64).to_le_bytes()),
        (Float32, Value::Real(value)) => put(&(value as f32).to_le_bytes()),
        (Float32, Value::Integer(value)) => put(&(value as f32).to_le_bytes()),
        (element, Value::Integer(value)) => {
            let (least, most) = element.integers()?;
            let width = usize::try_from(element.bytes()?).ok()?;
            if !(least..=most).contains(&value) {
                return None;
            }
            put(value.to_le_bytes().get(..width)?);
        }
        (_, Value::Real(_)) => return None,
    }
    Some(head)
}
