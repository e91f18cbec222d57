//! From the tree to signatures (spec/idl I10 to I17): names, types, modes, what may stand in a size, and what is not built
//! yet, refused by its name.

use crate::error::{IdlError, Problem, Wrong};
use crate::evaluate::{Fault, whole};
use crate::signature::{
    Callback, Dimension, ElementType, Formal, MAX_SIGNATURE_BYTES, Parameter, Signature,
};
use crate::syntax::{
    Body, Expr, Idl, Item, Mode, Name, Opt, Param, ParamOrCallback, Place, Routine, Setting,
};

/// What a file says, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    pub module: String,
    /// In the order of the file; at least one.
    pub routines: Vec<Signature>,
}

/// Checks a whole file.
///
/// # Errors
/// The first thing that is wrong, by file, line and column.
pub fn check(idl: &Idl) -> Result<Checked, IdlError> {
    file(idl).map_err(|wrong| wrong.told(&idl.files))
}

fn file(idl: &Idl) -> Result<Checked, Wrong> {
    let mut module: Option<&Name> = None;
    let mut defined: Vec<&Name> = Vec::new();
    for item in &idl.items {
        match item {
            Item::Module(name) if module.is_some() => {
                return Err(Problem::SecondModule.at(name.at));
            }
            Item::Module(name) => module = Some(name),
            Item::Setting {
                setting: Setting::FortranFormat,
                text,
                at,
            } => {
                let gaps = text.matches("%s").count() + text.matches("%l").count();
                if gaps != 1 || text.matches('%').count() != 1 {
                    return Err(value("FortranFormat", text, "one %s or %l, as \"%s_\"").at(*at));
                }
            }
            Item::FortranStringConvention(name)
                if !["last", "justAfter"].contains(&name.text.as_str()) =>
            {
                let takes = "last or justAfter";
                return Err(value("FortranStringConvention", &name.text, takes).at(name.at));
            }
            Item::DefClass(class) => {
                let name = class.name.text.clone();
                return Err(Problem::Class { name }.at(class.name.at));
            }
            Item::Define(routine) => defined.push(&routine.name),
            Item::Setting { .. } | Item::FortranStringConvention(_) | Item::Globals(_) => {}
        }
    }
    unique(&defined)?;
    let module = module.ok_or(Problem::NoModule.at(Place::default()))?;
    let mut routines = Vec::new();
    for item in &idl.items {
        if let Item::Define(one) = item {
            routines.push(routine(&module.text, one)?);
        }
    }
    if routines.is_empty() {
        return Err(Problem::NoRoutine.at(Place::default()));
    }
    Ok(Checked {
        module: module.text.clone(),
        routines,
    })
}

fn value(option: &'static str, text: &str, takes: &'static str) -> Problem {
    Problem::OptionValue {
        option,
        text: text.to_owned(),
        takes,
    }
}

/// Each name once, and none that generated code uses (idl-spec of Ninf-G, "reserved").
fn unique(names: &[&Name]) -> Result<(), Wrong> {
    const RESERVED: [&str; 3] = ["ng_stub_end", "ng_stub_mpi_end", "ng_stub_rank"];
    let mut known = std::collections::BTreeSet::new();
    for one in names {
        let name = one.text.clone();
        if RESERVED.contains(&name.as_str()) {
            return Err(Problem::Reserved { name }.at(one.at));
        }
        if !known.insert(&one.text) {
            return Err(Problem::Again { name }.at(one.at));
        }
    }
    Ok(())
}

fn routine(module: &str, routine: &Routine) -> Result<Signature, Wrong> {
    let mut names = Vec::new();
    let mut params: Vec<&Param> = Vec::new();
    for one in &routine.parameters {
        match one {
            ParamOrCallback::Param(param) => {
                names.push(&param.declarator.name);
                params.push(param);
            }
            ParamOrCallback::Callback { name, .. } => names.push(name),
        }
    }
    unique(&names)?;
    if let Body::Calls { arguments, .. } = &routine.body {
        for argument in arguments {
            if !names.iter().any(|name| name.text == argument.text) {
                let name = argument.text.clone();
                return Err(Problem::Argument { name }.at(argument.at));
            }
        }
    }
    let scope = Scope::of(&params)?;
    let mut formals = Vec::new();
    for one in &routine.parameters {
        formals.push(match one {
            ParamOrCallback::Param(param) => Formal::Parameter(scope.parameter(param)?),
            ParamOrCallback::Callback { name, parameters } => {
                let params: Vec<&Param> = parameters.iter().collect();
                let names: Vec<&Name> = params.iter().map(|param| &param.declarator.name).collect();
                unique(&names)?;
                let inner = Scope::of(&params)?;
                let parameters: Result<_, Wrong> =
                    params.iter().map(|param| inner.parameter(param)).collect();
                Formal::Callback(Callback {
                    name: name.text.clone(),
                    parameters: parameters?,
                })
            }
        });
    }
    let Options {
        calc_order,
        shrink,
        checkpoint,
    } = options(routine, &scope)?;
    let signature = Signature {
        module: module.to_owned(),
        name: routine.name.text.clone(),
        doc: routine.doc.clone(),
        formals,
        calc_order,
        shrink,
        checkpoint,
    };
    // What cannot be told to a client could never be called.
    let bytes = signature.to_text().len();
    if bytes > MAX_SIGNATURE_BYTES {
        return Err(Problem::LongSignature { bytes }.at(routine.name.at));
    }
    Ok(signature)
}

/// What they say of the signature.
#[derive(Default)]
struct Options {
    calc_order: Option<Expr>,
    shrink: bool,
    checkpoint: bool,
}

fn options(routine: &Routine, scope: &Scope) -> Result<Options, Wrong> {
    const LANGUAGES: &str = "\"C\", \"C++\" or \"Fortran\"";
    let language = |text: &str| {
        let mut known = ["C", "C++", "FORTRAN"].iter();
        known.any(|one| one.eq_ignore_ascii_case(text))
    };
    let yes = |option: &'static str, text: &str, at: Place| match text {
        _ if text.eq_ignore_ascii_case("yes") => Ok(true),
        _ if text.eq_ignore_ascii_case("no") => Ok(false),
        _ => Err(value(option, text, "\"yes\" or \"no\"").at(at)),
    };
    let mut options = Options::default();
    for option in &routine.options {
        match option {
            Opt::Required { .. } => {}
            Opt::Backend { text, at } => {
                let known = ["MPI", "BLACS"];
                return Err(
                    match known.iter().any(|one| one.eq_ignore_ascii_case(text)) {
                        true => Problem::Backend { name: text.clone() }.at(*at),
                        false => {
                            value("Backend", text, "\"MPI\" or \"BLACS\", or is left out").at(*at)
                        }
                    },
                );
            }
            Opt::Shrink { text, at } => options.shrink = yes("Shrink", text, *at)?,
            Opt::Checkpoint { text, at } => options.checkpoint = yes("Checkpoint", text, *at)?,
            Opt::Language { text, at } if !language(text) => {
                return Err(value("Language", text, LANGUAGES).at(*at));
            }
            Opt::Language { .. } => {}
            Opt::CalcOrder { order, at } => {
                scope.expression(order, *at, Use::Order)?;
                options.calc_order = Some(order.clone());
            }
        }
    }
    match &routine.body {
        Body::Calls {
            convention: Some(text),
            function,
            ..
        } if !language(text) => Err(value("Calls", text, LANGUAGES).at(function.at)),
        _ => Ok(options),
    }
}

/// What expressions of one parameter list may name.
struct Scope {
    names: Vec<(String, Kind)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// IN, one, an integer.
    Whole,
    /// IN, one, a real number.
    Real,
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Size,
    Order,
}

impl Scope {
    fn of(params: &[&Param]) -> Result<Scope, Wrong> {
        let mut names = Vec::new();
        for param in params {
            let declarator = &param.declarator;
            let element = element(param)?;
            let scalar = declarator.pointers == 0 && declarator.dims.is_empty();
            let kind = match mode(param) {
                Mode::In if scalar && element.integers().is_some() => Kind::Whole,
                Mode::In if scalar && element.is_real() => Kind::Real,
                _ => Kind::Other,
            };
            names.push((declarator.name.text.clone(), kind));
        }
        Ok(Scope { names })
    }

    fn parameter(&self, param: &Param) -> Result<Parameter, Wrong> {
        let (declarator, mode, element) = (&param.declarator, mode(param), element(param)?);
        let name = declarator.name.text.clone();
        let at = declarator.name.at;
        if let Some(distribution) = param.distribution {
            let word = distribution.word();
            return Err(Problem::Distributed { name, word }.at(at));
        }
        if declarator.pointers > 1 || (declarator.pointers == 1 && !declarator.dims.is_empty()) {
            return Err(Problem::Pointer { name }.at(at));
        }
        let one = || Dimension {
            size: Expr::Integer(1),
            range: None,
        };
        let mut dims = Vec::new();
        if declarator.pointers == 1 {
            dims.push(one());
        }
        for (index, dim) in declarator.dims.iter().enumerate() {
            if dim.size.is_none() && index > 0 {
                return Err(Problem::EmptyDimension { name }.at(dim.at));
            }
            let range = dim.range.iter();
            let bounds = range.flat_map(|range| {
                let end = std::iter::once(("the end of its section", &range.end));
                let start = range
                    .start
                    .iter()
                    .map(|one| ("the start of its section", one));
                let step = range
                    .step
                    .iter()
                    .map(|one| ("the step of its section", one));
                end.chain(start).chain(step)
            });
            let size = dim.size.iter().map(|size| ("its size", size));
            for (of, expression) in size.chain(bounds) {
                self.expression(expression, dim.at, Use::Size)?;
                constant(&name, of, expression, dim.at)?;
            }
            dims.push(Dimension {
                size: dim.size.clone().unwrap_or(Expr::Integer(1)),
                range: dim.range.clone(),
            });
        }
        let scalar_goes = match mode {
            Mode::In => true,
            Mode::Out | Mode::InOut => element == ElementType::Filename,
            Mode::Work => false,
        };
        if dims.is_empty() && !scalar_goes {
            let mode = mode.word();
            return Err(Problem::ScalarMode { name, mode }.at(at));
        }
        Ok(Parameter {
            name,
            mode,
            element,
            dims,
        })
    }

    /// `at` is where the whole stands, for what has no place of its own.
    fn expression(&self, expression: &Expr, at: Place, used: Use) -> Result<(), Wrong> {
        let cannot = |what, at| match used {
            Use::Size => Err(Problem::NotInSizes { what }.at(at)),
            Use::Order => Err(Problem::NotInOrders { what }.at(at)),
        };
        let of = |inner: &Expr| self.expression(inner, at, used);
        match expression {
            Expr::Integer(_) => Ok(()),
            Expr::Real(_) if used == Use::Order => Ok(()),
            Expr::Real(_) => cannot("a number with a point", at),
            Expr::Deref { at, .. } => cannot("a pointer's element", *at),
            Expr::Index { at, .. } => cannot("an array's element", *at),
            Expr::Negate(inner) => of(inner),
            Expr::Binary { left, right, .. } => of(left).and_then(|()| of(right)),
            Expr::Choose {
                condition,
                then,
                otherwise,
            } => of(condition)
                .and_then(|()| of(then))
                .and_then(|()| of(otherwise)),
            Expr::Name(wanted) => {
                let name = wanted.text.clone();
                let known = self.names.iter().find(|(known, _)| *known == name);
                match (known.map(|(_, kind)| *kind), used) {
                    (None, _) => Err(Problem::UnknownName { name }.at(wanted.at)),
                    (Some(Kind::Whole), _) | (Some(Kind::Real), Use::Order) => Ok(()),
                    (_, Use::Size) => Err(Problem::NotASize { name }.at(wanted.at)),
                    (_, Use::Order) => Err(Problem::NotANumber { name }.at(wanted.at)),
                }
            }
        }
    }
}

/// What is wrong whatever the arguments are is told now.
fn constant(name: &str, of: &'static str, expression: &Expr, at: Place) -> Result<(), Wrong> {
    let problem = match whole(expression, &|_| None) {
        Ok(value) if value < 0 => Fault::Negative,
        Ok(_) | Err(Fault::Unknown { .. }) => return Ok(()),
        Err(fault) => fault,
    };
    let parameter = name.to_owned();
    Err(Problem::Size {
        parameter,
        of,
        problem,
    }
    .at(at))
}

/// None is IN, as Ninf 1 had it.
fn mode(param: &Param) -> Mode {
    param.mode.unwrap_or(Mode::In)
}

fn element(param: &Param) -> Result<ElementType, Wrong> {
    ElementType::of(&param.words).ok_or_else(|| {
        let words: Vec<&str> = param.words.iter().map(|word| word.word()).collect();
        let words = words.join(" ");
        Problem::Type { words }.at(param.declarator.name.at)
    })
}
