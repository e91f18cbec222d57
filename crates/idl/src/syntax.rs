//! The tree of an IDL text (spec/idl I1 to I8): what was written, before anything is made of it.

use std::fmt;

/// Where something stands; both count from 1, columns in characters. `file` counts the line markers' files from 1; 0 is the
/// text itself. Two trees are the same wherever their parts stand: a place equals every other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    pub file: u16,
    pub line: u32,
    pub column: u32,
}

impl PartialEq for Place {
    fn eq(&self, _: &Place) -> bool {
        true
    }
}

impl Eq for Place {}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// A whole text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Idl {
    pub items: Vec<Item>,
    /// Files that line markers name, in order; for errors only, so printing drops them.
    pub files: Files,
}

/// Names of files; like places, no part of what a tree means.
#[derive(Clone, Debug, Default)]
pub struct Files(pub Vec<String>);

impl PartialEq for Files {
    fn eq(&self, _: &Files) -> bool {
        true
    }
}

impl Files {
    pub fn name(&self, at: Place) -> Option<&str> {
        let index = usize::from(at.file).checked_sub(1)?;
        self.0.get(index).map(String::as_str)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Name {
    pub text: String,
    pub at: Place,
}

/// C between braces, as written, without the braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Code {
    pub text: String,
    pub at: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Module(Name),
    /// `Compiler`, `CompileOptions`, `Linker`, `Library`, `FortranFormat`: each a text.
    Setting {
        setting: Setting,
        text: String,
        at: Place,
    },
    FortranStringConvention(Name),
    Globals(Code),
    Define(Box<Routine>),
    DefClass(Class),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    Compiler,
    CompileOptions,
    Linker,
    Library,
    FortranFormat,
}

impl Setting {
    pub const ALL: [Setting; 5] = [
        Setting::Compiler,
        Setting::CompileOptions,
        Setting::Linker,
        Setting::Library,
        Setting::FortranFormat,
    ];

    pub fn word(self) -> &'static str {
        match self {
            Setting::Compiler => "Compiler",
            Setting::CompileOptions => "CompileOptions",
            Setting::Linker => "Linker",
            Setting::Library => "Library",
            Setting::FortranFormat => "FortranFormat",
        }
    }
}

/// `Define`, and `DefMethod` of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Routine {
    pub name: Name,
    pub parameters: Vec<ParamOrCallback>,
    pub doc: Option<String>,
    pub options: Vec<Opt>,
    pub body: Body,
}

/// `DefClass`: a remote object.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub name: Name,
    pub doc: Option<String>,
    pub options: Vec<Opt>,
    pub items: Vec<ClassItem>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum ClassItem {
    State(Code),
    Method(Box<Routine>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum Opt {
    Required {
        text: String,
        at: Place,
    },
    Backend {
        text: String,
        at: Place,
    },
    Shrink {
        text: String,
        at: Place,
    },
    /// An addition of ours: the program makes checkpoints.
    Checkpoint {
        text: String,
        at: Place,
    },
    Language {
        text: String,
        at: Place,
    },
    CalcOrder {
        order: Expr,
        at: Place,
    },
}

impl Opt {
    pub fn word(&self) -> &'static str {
        match self {
            Opt::Required { .. } => "Required",
            Opt::Backend { .. } => "Backend",
            Opt::Shrink { .. } => "Shrink",
            Opt::Checkpoint { .. } => "Checkpoint",
            Opt::Language { .. } => "Language",
            Opt::CalcOrder { .. } => "CalcOrder",
        }
    }

    pub fn at(&self) -> Place {
        match self {
            Opt::Required { at, .. }
            | Opt::Backend { at, .. }
            | Opt::Shrink { at, .. }
            | Opt::Checkpoint { at, .. }
            | Opt::Language { at, .. }
            | Opt::CalcOrder { at, .. } => *at,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Code(Code),
    Calls {
        /// `"C"`, `"Fortran"`, ...; as written.
        convention: Option<String>,
        function: Name,
        arguments: Vec<Name>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum ParamOrCallback {
    Param(Param),
    /// `name(parameters)`: a function of the client, which the routine may call.
    Callback {
        name: Name,
        parameters: Vec<Param>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// None: not written, which Ninf 1 took for IN.
    pub mode: Option<Mode>,
    pub distribution: Option<Distribution>,
    /// Empty: not written, which is int as in C.
    pub words: Vec<TypeWord>,
    pub declarator: Declarator,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    In,
    Out,
    InOut,
    Work,
}

impl Mode {
    pub const ALL: [Mode; 4] = [Mode::In, Mode::Out, Mode::InOut, Mode::Work];

    /// The spelling of Ninf-G.
    pub fn word(self) -> &'static str {
        match self {
            Mode::In => "IN",
            Mode::Out => "OUT",
            Mode::InOut => "INOUT",
            Mode::Work => "WORK",
        }
    }

    /// The spelling of Ninf 1.
    pub fn old_word(self) -> &'static str {
        match self {
            Mode::In => "mode_in",
            Mode::Out => "mode_out",
            Mode::InOut => "mode_inout",
            Mode::Work => "mode_work",
        }
    }

    /// Travels from the caller.
    pub fn is_in(self) -> bool {
        matches!(self, Mode::In | Mode::InOut)
    }

    /// Travels back.
    pub fn is_out(self) -> bool {
        matches!(self, Mode::Out | Mode::InOut)
    }
}

/// How the processes of a parallel routine share an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    Allocate,
    Broadcast,
}

impl Distribution {
    pub const ALL: [Distribution; 2] = [Distribution::Allocate, Distribution::Broadcast];

    pub fn word(self) -> &'static str {
        match self {
            Distribution::Allocate => "allocate",
            Distribution::Broadcast => "broadcast",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeWord {
    Char,
    Short,
    Int,
    Long,
    Signed,
    Unsigned,
    Float,
    Double,
    Scomplex,
    Dcomplex,
    String,
    Filename,
}

impl TypeWord {
    pub const ALL: [TypeWord; 12] = [
        TypeWord::Char,
        TypeWord::Short,
        TypeWord::Int,
        TypeWord::Long,
        TypeWord::Signed,
        TypeWord::Unsigned,
        TypeWord::Float,
        TypeWord::Double,
        TypeWord::Scomplex,
        TypeWord::Dcomplex,
        TypeWord::String,
        TypeWord::Filename,
    ];

    pub fn word(self) -> &'static str {
        match self {
            TypeWord::Char => "char",
            TypeWord::Short => "short",
            TypeWord::Int => "int",
            TypeWord::Long => "long",
            TypeWord::Signed => "signed",
            TypeWord::Unsigned => "unsigned",
            TypeWord::Float => "float",
            TypeWord::Double => "double",
            TypeWord::Scomplex => "scomplex",
            TypeWord::Dcomplex => "dcomplex",
            TypeWord::String => "string",
            TypeWord::Filename => "filename",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Declarator {
    pub name: Name,
    /// Stars before the name.
    pub pointers: u32,
    pub dims: Vec<Dim>,
}

/// `[size]`, `[size:end]`, `[size:start, end]`, `[size:start, end, step]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dim {
    /// None: `[]`.
    pub size: Option<Expr>,
    pub range: Option<Range>,
    pub at: Place,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    pub start: Option<Expr>,
    pub end: Expr,
    /// Only where there is a start.
    pub step: Option<Expr>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    Integer(i64),
    /// Finite, not negative.
    Real(f64),
    Name(Name),
    Negate(Box<Expr>),
    Binary {
        sign: Binary,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    /// `condition ? then : otherwise`.
    Choose {
        condition: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    /// `*x`: in the grammar, and refused by every check.
    Deref {
        of: Box<Expr>,
        at: Place,
    },
    /// `x[i]`: likewise.
    Index {
        of: Box<Expr>,
        index: Box<Expr>,
        at: Place,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Binary {
    pub fn sign(self) -> &'static str {
        match self {
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Modulo => "%",
            Binary::Power => "^",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::Less => "<",
            Binary::LessOrEqual => "<=",
            Binary::Greater => ">",
            Binary::GreaterOrEqual => ">=",
        }
    }

    /// How tightly it binds (spec/idl I7); a choice is 0.
    pub fn level(self) -> u8 {
        match self {
            Binary::Equal
            | Binary::NotEqual
            | Binary::Less
            | Binary::LessOrEqual
            | Binary::Greater
            | Binary::GreaterOrEqual => 1,
            Binary::Add | Binary::Subtract => 2,
            Binary::Multiply | Binary::Divide | Binary::Modulo => 3,
            Binary::Power => 5,
        }
    }
}
