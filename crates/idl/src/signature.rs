//! What a routine takes and gives, checked (spec/idl I10 to I16), and its form between programs (I30): IDL text of one
//! routine without a body. Not here: what stands in a body, and how it is compiled.

use crate::check::check;
use crate::error::IdlError;
use crate::parse::parse;
use crate::syntax::{
    Body, Code, Declarator, Dim, Expr, Idl, Item, Mode, Name, Opt, Param, ParamOrCallback, Place,
    Range, Routine, TypeWord,
};

/// Most bytes of a signature between programs: 256 parameters and a page of documentation fit.
pub const MAX_SIGNATURE_BYTES: usize = 256 << 10;

#[derive(Clone, Debug, PartialEq)]
pub struct Signature {
    pub module: String,
    pub name: String,
    pub doc: Option<String>,
    /// In the order of the call.
    pub formals: Vec<Formal>,
    /// Operations that a call takes, by its IN scalars; an estimate.
    pub calc_order: Option<Expr>,
    /// Of sections only the selected elements are kept in the routine's memory, at the addresses of the whole array.
    pub shrink: bool,
    /// The program makes checkpoints, from which a call is resumed.
    pub checkpoint: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Formal {
    Parameter(Parameter),
    Callback(Callback),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub mode: Mode,
    pub element: ElementType,
    /// Outermost first; empty for a scalar.
    pub dims: Vec<Dimension>,
}

impl Parameter {
    pub fn is_scalar(&self) -> bool {
        self.dims.is_empty()
    }

    /// Its head is zeros (I41).
    pub(crate) fn has_no_head(&self) -> bool {
        !self.mode.is_in() || !(self.is_scalar() || self.element.bytes().is_none())
    }
}

/// A function of the client's. IN goes to it, OUT comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Callback {
    pub name: String,
    pub parameters: Vec<Parameter>,
}

/// Most parameters of a callback, as in Ninf-G.
pub const CALLBACK_MOST: usize = 32;

#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Elements.
    pub size: Expr,
    /// The elements that travel: from `start` on, below `end`, each `step`-th. None is all of them.
    pub range: Option<Range>,
}

/// Of one element, with its width everywhere (I12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    Int8,
    Uint8,
    Int16,
    Uint16,
    Int32,
    Uint32,
    Int64,
    Uint64,
    Float32,
    Float64,
    /// Two `Float32`.
    Complex64,
    /// Two `Float64`.
    Complex128,
    /// Bytes to a zero; none at all is legal.
    String,
    /// The content of a file.
    Filename,
}

use ElementType::{
    Complex64, Complex128, Filename, Float32, Float64, Int8, Int16, Int32, Int64, String as Text,
    Uint8, Uint16, Uint32, Uint64,
};

impl ElementType {
    /// The type of these words, in any order that C takes; no words are int.
    pub fn of(words: &[TypeWord]) -> Option<ElementType> {
        use TypeWord::{
            Char, Dcomplex, Double, Filename as File, Float, Int, Long, Scomplex, Short, Signed,
            String as Word, Unsigned,
        };
        let count = |word| words.iter().filter(|one| **one == word).count();
        let signs = count(Signed) + count(Unsigned);
        let unsigned = count(Unsigned) > 0;
        let one_of = |signed, without| Some(if unsigned { without } else { signed });
        if signs > 1 || count(Int) > 1 {
            return None;
        }
        let bare: Vec<TypeWord> = words
            .iter()
            .copied()
            .filter(|word| ![Signed, Unsigned].contains(word))
            .collect();
        match bare.as_slice() {
            [Char] => one_of(Int8, Uint8),
            [Short] | [Short, Int] | [Int, Short] => one_of(Int16, Uint16),
            [] | [Int] => one_of(Int32, Uint32),
            [Long] | [Long, Int] | [Int, Long] | [Long, Long] => one_of(Int64, Uint64),
            [Long, Long, Int] | [Long, Int, Long] | [Int, Long, Long] => one_of(Int64, Uint64),
            _ if signs > 0 => None,
            [Float] => Some(Float32),
            // Before C had prototypes `long float` was double, and Ninf still says so.
            [Double] | [Long, Float] => Some(Float64),
            [Scomplex] => Some(Complex64),
            [Dcomplex] => Some(Complex128),
            [Word] => Some(Text),
            [File] => Some(Filename),
            _ => None,
        }
    }

    /// The words that a printed signature has for it.
    pub fn words(self) -> &'static [TypeWord] {
        match self {
            Int8 => &[TypeWord::Char],
            Uint8 => &[TypeWord::Unsigned, TypeWord::Char],
            Int16 => &[TypeWord::Short],
            Uint16 => &[TypeWord::Unsigned, TypeWord::Short],
            Int32 => &[TypeWord::Int],
            Uint32 => &[TypeWord::Unsigned, TypeWord::Int],
            Int64 => &[TypeWord::Long],
            Uint64 => &[TypeWord::Unsigned, TypeWord::Long],
            Float32 => &[TypeWord::Float],
            Float64 => &[TypeWord::Double],
            Complex64 => &[TypeWord::Scomplex],
            Complex128 => &[TypeWord::Dcomplex],
            Text => &[TypeWord::String],
            Filename => &[TypeWord::Filename],
        }
    }

    /// Bytes of one element; None where each has its own length.
    pub fn bytes(self) -> Option<u64> {
        match self {
            Int8 | Uint8 => Some(1),
            Int16 | Uint16 => Some(2),
            Int32 | Uint32 | Float32 => Some(4),
            Int64 | Uint64 | Float64 | Complex64 => Some(8),
            Complex128 => Some(16),
            Text | Filename => None,
        }
    }

    /// Least and most value, if it is an integer type.
    pub fn integers(self) -> Option<(i128, i128)> {
        match self {
            Int8 => Some((i8::MIN.into(), i8::MAX.into())),
            Uint8 => Some((0, u8::MAX.into())),
            Int16 => Some((i16::MIN.into(), i16::MAX.into())),
            Uint16 => Some((0, u16::MAX.into())),
            Int32 => Some((i32::MIN.into(), i32::MAX.into())),
            Uint32 => Some((0, u32::MAX.into())),
            Int64 => Some((i64::MIN.into(), i64::MAX.into())),
            Uint64 => Some((0, u64::MAX.into())),
            Float32 | Float64 | Complex64 | Complex128 | Text | Filename => None,
        }
    }

    pub fn is_real(self) -> bool {
        matches!(self, Float32 | Float64)
    }
}

/// A text that is no signature: the fault of who sent it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadSignature {
    #[error("the signature has {bytes} bytes, at most {MAX_SIGNATURE_BYTES} are read")]
    TooLong { bytes: usize },
    #[error("the signature: {0}")]
    Idl(#[from] IdlError),
    #[error(
        "the signature is not one Module and one Define with an empty body and nothing to link"
    )]
    NotBare,
}

impl Signature {
    /// The form between programs (I30).
    pub fn to_text(&self) -> String {
        let shrink = self.shrink.then(|| Opt::Shrink {
            text: "yes".to_owned(),
            at: Place::default(),
        });
        let checkpoint = self.checkpoint.then(|| Opt::Checkpoint {
            text: "yes".to_owned(),
            at: Place::default(),
        });
        let order = self.calc_order.clone().map(|order| Opt::CalcOrder {
            order,
            at: Place::default(),
        });
        let routine = Routine {
            name: name(&self.name),
            parameters: self.formals.iter().map(Formal::written).collect(),
            doc: self.doc.clone(),
            options: [shrink, checkpoint, order].into_iter().flatten().collect(),
            body: Body::Code(Code {
                text: String::new(),
                at: Place::default(),
            }),
        };
        let items = vec![
            Item::Module(name(&self.module)),
            Item::Define(Box::new(routine)),
        ];
        Idl {
            items,
            ..Idl::default()
        }
        .to_string()
    }

    /// Reads the form between programs. What is read has passed every check of a file.
    ///
    /// # Errors
    /// What is wrong with it, by line and column.
    pub fn from_text(text: &str) -> Result<Signature, BadSignature> {
        if text.len() > MAX_SIGNATURE_BYTES {
            return Err(BadSignature::TooLong { bytes: text.len() });
        }
        let idl = parse(text)?;
        let [Item::Module(_), Item::Define(routine)] = idl.items.as_slice() else {
            return Err(BadSignature::NotBare);
        };
        let bare = matches!(&routine.body, Body::Code(code) if code.text.is_empty())
            && !routine
                .options
                .iter()
                .any(|option| matches!(option, Opt::Required { .. } | Opt::Language { .. }));
        if !bare {
            return Err(BadSignature::NotBare);
        }
        check(&idl)?.routines.pop().ok_or(BadSignature::NotBare)
    }
}

fn name(text: &str) -> Name {
    Name {
        text: text.to_owned(),
        at: Place::default(),
    }
}

impl Formal {
    pub fn name(&self) -> &str {
        match self {
            Formal::Parameter(parameter) => &parameter.name,
            Formal::Callback(callback) => &callback.name,
        }
    }

    fn written(&self) -> ParamOrCallback {
        match self {
            Formal::Parameter(parameter) => ParamOrCallback::Param(parameter.written()),
            Formal::Callback(callback) => ParamOrCallback::Callback {
                name: name(&callback.name),
                parameters: callback.parameters.iter().map(Parameter::written).collect(),
            },
        }
    }
}

impl Parameter {
    fn written(&self) -> Param {
        let dim = |dim: &Dimension| Dim {
            size: Some(dim.size.clone()),
            range: dim.range.clone(),
            at: Place::default(),
        };
        Param {
            mode: Some(self.mode),
            distribution: None,
            words: self.element.words().to_vec(),
            declarator: Declarator {
                name: name(&self.name),
                pointers: 0,
                dims: self.dims.iter().map(dim).collect(),
            },
        }
    }
}
