//! How big the arguments of one call are (spec/idl I20 to I25): computed from its scalars before anything is allocated, with
//! nothing that wraps. Not here: the bytes themselves.

use crate::evaluate::{Fault, Value, real, whole};
use crate::signature::{Callback, Dimension, ElementType, Formal, Parameter, Signature};

/// What a call may take; more is refused before anything is allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes of one array in the routine's memory.
    pub array_bytes: u64,
    /// Most bytes of all of them.
    pub call_bytes: u64,
}

impl Limits {
    /// Half of what a process can address on x86-64 and aarch64 (47 bits): no call can have more.
    pub const WIDEST: Limits = Limits {
        array_bytes: 1 << 46,
        call_bytes: 1 << 46,
    };
}

/// In the routine's memory a text, or a file's name, is a pointer.
const POINTER_BYTES: u64 = 8;

/// Sizes of all arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// As the formals of the signature; None for scalars and callbacks.
    pub arrays: Vec<Option<Array>>,
    /// Bytes of all arrays in the routine's memory.
    pub memory_bytes: u64,
    /// Bytes of elements that travel to the routine, and back; texts and files are not counted.
    pub in_bytes: u64,
    pub out_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    pub element: ElementType,
    /// Outermost first; the elements of the last lie side by side.
    pub sections: Vec<Section>,
    /// Of the whole array.
    pub elements: u64,
    /// Elements that travel.
    pub moved: u64,
}

/// One dimension: its size, and which of its elements travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Section {
    pub size: u64,
    pub start: u64,
    /// At least 1.
    pub step: u64,
    /// How many travel.
    pub count: u64,
}

/// Bytes side by side, in an array of fixed-width elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub offset_bytes: u64,
    pub bytes: u64,
}

/// Sizes that cannot be: the fault of who called, unless the IDL is wrong for all arguments.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{routine}, {parameter}: {problem}")]
pub struct SizeError {
    pub routine: String,
    pub parameter: String,
    pub problem: SizeProblem,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SizeProblem {
    #[error("{given} arguments are given, it takes {takes}")]
    Count { given: usize, takes: usize },
    #[error("its value is needed for sizes and was not given")]
    Missing,
    #[error("a number with a point is given, and a whole one belongs there")]
    NotWhole,
    #[error("{value} does not fit into its type")]
    DoesNotFit { value: i128 },
    #[error("{of} {fault}")]
    Fault { of: &'static str, fault: Fault },
    #[error("{of} is {value}")]
    Negative { of: &'static str, value: i128 },
    #[error("its section goes from {start} to {end}, and its size is {size}")]
    Outside { start: i128, end: i128, size: i128 },
    #[error("it takes more than {limit} bytes: send less, or have the site allow more")]
    TooBig { limit: u64 },
}

impl Signature {
    /// The sizes of one call. `arguments` has a value for each IN scalar that is a number, in the order of the formals.
    ///
    /// # Errors
    /// The first argument that has no size, or too big a one.
    pub fn layout(&self, arguments: &[Option<Value>], limits: Limits) -> Result<Layout, SizeError> {
        let all: Vec<Option<&Parameter>> = self
            .formals
            .iter()
            .map(|formal| match formal {
                Formal::Parameter(parameter) => Some(parameter),
                Formal::Callback(_) => None,
            })
            .collect();
        layout(&self.name, &all, arguments, limits)
    }

    /// Operations that the call takes, if the routine says: at least 0.
    ///
    /// # Errors
    /// As [`Signature::layout`].
    pub fn operations(&self, arguments: &[Option<Value>]) -> Result<Option<f64>, SizeError> {
        const CALC_ORDER: &str = "CalcOrder";
        let Some(order) = &self.calc_order else {
            return Ok(None);
        };
        let wrong = |problem| SizeError {
            routine: self.name.clone(),
            parameter: CALC_ORDER.to_owned(),
            problem,
        };
        let value = |name: &str| {
            let index = self.formals.iter().position(|one| one.name() == name)?;
            Some(match arguments.get(index).copied().flatten()? {
                Value::Integer(value) => value as f64,
                Value::Real(value) => value,
            })
        };
        let of = "it";
        match real(order, &value) {
            Ok(operations) if operations < 0.0 => Err(wrong(SizeProblem::Fault {
                of,
                fault: Fault::Negative,
            })),
            Ok(operations) => Ok(Some(operations)),
            Err(fault) => Err(wrong(SizeProblem::Fault { of, fault })),
        }
    }
}

impl Callback {
    /// The sizes of one call of the client's function, by its own scalars.
    ///
    /// # Errors
    /// As [`Signature::layout`].
    pub fn layout(&self, arguments: &[Option<Value>], limits: Limits) -> Result<Layout, SizeError> {
        let all: Vec<Option<&Parameter>> = self.parameters.iter().map(Some).collect();
        layout(&self.name, &all, arguments, limits)
    }
}

fn layout(
    routine: &str,
    parameters: &[Option<&Parameter>],
    arguments: &[Option<Value>],
    limits: Limits,
) -> Result<Layout, SizeError> {
    let wrong = |parameter: &str, problem| SizeError {
        routine: routine.to_owned(),
        parameter: parameter.to_owned(),
        problem,
    };
    let (given, takes) = (arguments.len(), parameters.len());
    if given != takes {
        return Err(wrong("arguments", SizeProblem::Count { given, takes }));
    }
    for (parameter, argument) in parameters.iter().zip(arguments) {
        if let Some(parameter) = parameter {
            scalar(parameter, *argument).map_err(|problem| wrong(&parameter.name, problem))?;
        }
    }
    let value = |name: &str| {
        let named = |one: &Option<&Parameter>| one.is_some_and(|one| one.name == name);
        let index = parameters.iter().position(named)?;
        match arguments.get(index).copied().flatten()? {
            Value::Integer(value) => Some(value),
            Value::Real(_) => None,
        }
    };
    let mut sizes = Layout {
        arrays: Vec::with_capacity(takes),
        memory_bytes: 0,
        in_bytes: 0,
        out_bytes: 0,
    };
    for parameter in parameters {
        let Some(parameter) = parameter.filter(|one| !one.is_scalar()) else {
            sizes.arrays.push(None);
            continue;
        };
        let too_big = |limit| wrong(&parameter.name, SizeProblem::TooBig { limit });
        let array = array(parameter, &value).map_err(|problem| wrong(&parameter.name, problem))?;
        let memory = array
            .memory_bytes()
            .filter(|bytes| *bytes <= limits.array_bytes);
        let memory = memory.ok_or_else(|| too_big(limits.array_bytes))?;
        let total = sizes.memory_bytes.checked_add(memory);
        let total = total.filter(|bytes| *bytes <= limits.call_bytes);
        sizes.memory_bytes = total.ok_or_else(|| too_big(limits.call_bytes))?;
        // What travels is part of what is in memory, whose sum has just been bounded.
        let moved = array.moved_bytes().unwrap_or(0);
        if parameter.mode.is_in() {
            sizes.in_bytes += moved;
        }
        if parameter.mode.is_out() {
            sizes.out_bytes += moved;
        }
        sizes.arrays.push(Some(array));
    }
    Ok(sizes)
}

/// The value of an IN scalar that is a number is there and fits its type.
fn scalar(parameter: &Parameter, argument: Option<Value>) -> Result<(), SizeProblem> {
    if !parameter.is_scalar() || !parameter.mode.is_in() {
        return Ok(());
    }
    match (parameter.element.integers(), argument) {
        (Some(_), None) => Err(SizeProblem::Missing),
        (Some(_), Some(Value::Real(_))) => Err(SizeProblem::NotWhole),
        (Some((least, most)), Some(Value::Integer(value))) => {
            match (least..=most).contains(&value) {
                true => Ok(()),
                false => Err(SizeProblem::DoesNotFit { value }),
            }
        }
        (None, None) if parameter.element.is_real() => Err(SizeProblem::Missing),
        (None, _) => Ok(()),
    }
}

fn array(
    parameter: &Parameter,
    value: &dyn Fn(&str) -> Option<i128>,
) -> Result<Array, SizeProblem> {
    let mut sections = Vec::with_capacity(parameter.dims.len());
    for dim in &parameter.dims {
        sections.push(section(dim, value)?);
    }
    let product = |of: fn(&Section) -> u64| {
        // A dimension of nothing empties the whole, however long the others are.
        match sections.iter().any(|section| of(section) == 0) {
            true => Some(0),
            false => sections
                .iter()
                .try_fold(1u64, |product, section| product.checked_mul(of(section))),
        }
    };
    let limit = Limits::WIDEST.array_bytes;
    let elements = product(|section| section.size).ok_or(SizeProblem::TooBig { limit })?;
    let moved = product(|section| section.count).ok_or(SizeProblem::TooBig { limit })?;
    Ok(Array {
        element: parameter.element,
        sections,
        elements,
        moved,
    })
}

fn section(dim: &Dimension, value: &dyn Fn(&str) -> Option<i128>) -> Result<Section, SizeProblem> {
    let evaluate = |of: &'static str, expression| {
        let value = whole(expression, value).map_err(|fault| SizeProblem::Fault { of, fault })?;
        match value < 0 {
            true => Err(SizeProblem::Negative { of, value }),
            false => Ok(value),
        }
    };
    let size = evaluate("its size", &dim.size)?;
    let (mut start, mut end, mut step) = (0, size, 1);
    if let Some(range) = &dim.range {
        if let Some(expression) = &range.start {
            start = evaluate("the start of its section", expression)?;
        }
        // 0 is "not said" for both (idl-spec of Ninf-G).
        end = match evaluate("the end of its section", &range.end)? {
            0 => size,
            end => end,
        };
        if let Some(expression) = &range.step {
            step = evaluate("the step of its section", expression)?.max(1);
        }
    }
    if start > end || end > size {
        return Err(SizeProblem::Outside { start, end, size });
    }
    let limit = Limits::WIDEST.array_bytes;
    let narrow = |value| u64::try_from(value).map_err(|_| SizeProblem::TooBig { limit });
    Ok(Section {
        size: narrow(size)?,
        start: narrow(start)?,
        count: narrow((end - start + step - 1) / step)?,
        // A step beyond the end selects the first element, as any other does that leaves the section.
        step: narrow(step.min(size.max(1)))?,
    })
}

impl Array {
    /// Bytes of the whole array in the routine's memory; None: more than can be counted.
    pub fn memory_bytes(&self) -> Option<u64> {
        let bytes = self.element.bytes().unwrap_or(POINTER_BYTES);
        self.elements.checked_mul(bytes)
    }

    /// Bytes of the elements that travel; None where each has its own length.
    pub fn moved_bytes(&self) -> Option<u64> {
        self.element
            .bytes()
            .and_then(|bytes| self.moved.checked_mul(bytes))
    }

    /// Where the elements that travel lie, in order, in runs that are as long as can be within the inner dimensions. None
    /// where each element has its own length.
    pub fn runs(&self) -> Option<impl Iterator<Item = Run> + use<>> {
        let mut element_bytes = self.element.bytes()?;
        let (mut base, mut length) = (0, element_bytes);
        // Outer dimensions that have to be counted through: bytes between two elements, how many, which is next.
        let mut outer: Vec<(u64, u64, u64)> = Vec::new();
        let mut side_by_side = true;
        if self.moved > 0 {
            for section in self.sections.iter().rev() {
                base += section.start * element_bytes;
                if side_by_side && (section.step == 1 || section.count == 1) {
                    length *= section.count;
                } else {
                    outer.push((section.step * element_bytes, section.count, 0));
                }
                side_by_side &= section.count == section.size;
                element_bytes *= section.size;
            }
        }
        let mut left = if self.moved == 0 { 0 } else { 1 };
        left = outer
            .iter()
            .fold(left, |product, (_, count, _)| product * count);
        let runs = (0..left).map(move |_| {
            let offset_bytes = base + outer.iter().map(|(step, _, next)| step * next).sum::<u64>();
            for (_, count, next) in &mut outer {
                *next += 1;
                if *next < *count {
                    break;
                }
                *next = 0;
            }
            Run {
                offset_bytes,
                bytes: length,
            }
        });
        Some(runs)
    }
}
