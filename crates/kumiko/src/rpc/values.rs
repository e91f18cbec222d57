//! Arguments as they are typed, and results as they are printed.

use crate::fail::{Failure, While};
use kumiko_idl::{Array, ElementType, Formal, Parameter, Placed, Plan, Signature, Value, npy};
use kumiko_rpc_client::{Argument, Content, pack};
use serde_json::{Number, Value as Json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Printed to people: of longer arrays the first ones.
const SHOWN: usize = 16;

/// An array that was read.
struct File {
    path: PathBuf,
    npy: npy::Npy,
    bytes: Vec<u8>,
}

/// What was typed for one formal.
enum Typed<'a> {
    Word(&'a str),
    File(File),
    /// Told by an array.
    Size(u64),
    Nothing,
}

/// One argument for each formal.
///
/// # Errors
/// Which word cannot be what the routine takes.
pub fn arguments(
    signature: &Signature,
    words: &[String],
    targets: &[(String, PathBuf)],
) -> Result<Vec<Argument>, Failure> {
    if signature.has_callbacks() {
        return Err(Failure::misuse(format!(
            "{}/{} calls its caller back: call it from C or Python",
            signature.module, signature.name
        )));
    }
    let parameters = parameters(signature);
    let taken: Vec<&Parameter> = parameters
        .iter()
        .copied()
        .filter(|one| one.mode.is_in())
        .collect();
    let told: Vec<(&Parameter, &Parameter, usize)> = kumiko_rpc_client::told(signature)
        .iter()
        .filter_map(|told| {
            let array = parameters.get(told.array)?;
            Some((*parameters.get(told.scalar)?, *array, told.dimension))
        })
        .collect();
    let name = format!("{}/{}", signature.module, signature.name);
    let infer = words.len() != taken.len();
    if infer && words.len() + told.len() != taken.len() {
        let names: Vec<&str> = taken.iter().map(|one| one.name.as_str()).collect();
        return Err(Failure::misuse(format!(
            "{name} takes {} arguments ({}), and {} are given",
            taken.len(),
            names.join(", "),
            words.len()
        )));
    }
    let mut words = words.iter();
    let mut typed: BTreeMap<&str, Typed<'_>> = BTreeMap::new();
    for one in &taken {
        if infer && told.iter().any(|(told, ..)| told.name == one.name) {
            continue;
        }
        let word = words.next().map_or("", String::as_str);
        let value = match word.strip_prefix('@') {
            Some(path) if !one.is_scalar() => Typed::File(read(Path::new(path))?),
            _ => Typed::Word(word),
        };
        typed.insert(&one.name, value);
    }
    if infer {
        for (one, array, dimension) in &told {
            let size = match typed.get(array.name.as_str()) {
                Some(Typed::File(file)) => file.npy.shape.get(*dimension).copied(),
                _ => None,
            };
            let size = size.ok_or_else(|| {
                Failure::misuse(format!("{name}, {}: no array tells it; give it", one.name))
            })?;
            typed.insert(&one.name, Typed::Size(size));
        }
    }
    let mut given = Vec::new();
    for one in &parameters {
        let value = typed.remove(one.name.as_str()).unwrap_or(Typed::Nothing);
        let argument = match one.element {
            ElementType::Filename => file(one, value, targets),
            _ => argument(one, value),
        };
        let argument = argument.doing(|| format!("{name}, {}", one.name))?;
        given.push(argument);
    }
    sections(signature, given)
}

fn parameters(signature: &Signature) -> Vec<&Parameter> {
    let formals = signature.formals.iter();
    formals
        .filter_map(|formal| match formal {
            Formal::Parameter(parameter) => Some(parameter),
            Formal::Callback(_) => None,
        })
        .collect()
}

fn read(path: &Path) -> Result<File, Failure> {
    let bytes = std::fs::read(path).doing(|| format!("reading {}", path.display()))?;
    let npy = npy::read(&bytes, true).doing(|| format!("reading {}", path.display()))?;
    Ok(File {
        path: path.to_owned(),
        npy,
        bytes,
    })
}

/// What goes in is typed; what comes back goes where `--out` says, else to where it was.
fn file(
    parameter: &Parameter,
    typed: Typed<'_>,
    targets: &[(String, PathBuf)],
) -> Result<Argument, Failure> {
    let given = match typed {
        Typed::Word(word) => Some(PathBuf::from(word)),
        _ => None,
    };
    let from = given.as_deref().map(Content::open).transpose()?;
    let named = targets.iter().find(|(name, _)| *name == parameter.name);
    let to = match (parameter.mode.is_out(), named, given) {
        (false, ..) => None,
        (true, Some((_, path)), _) => Some(path.clone()),
        (true, None, Some(path)) => Some(path),
        (true, None, None) => {
            let name = &parameter.name;
            return Err(Failure::misuse(format!(
                "it comes back as a file: say where it goes by --out {name}=FILE"
            )));
        }
    };
    Ok(Argument::File { from, to })
}

fn argument(parameter: &Parameter, typed: Typed<'_>) -> Result<Argument, Failure> {
    Ok(match typed {
        Typed::Nothing => Argument::Nothing,
        Typed::Size(size) => Argument::Number(Value::Integer(size.into())),
        Typed::Word(word) if !parameter.is_scalar() => {
            return Err(Failure::misuse(format!(
                "{word} is no array: write @FILE.npy"
            )));
        }
        Typed::Word(word) => match parameter.element {
            ElementType::String => Argument::Text(Some(word.as_bytes().to_vec().into())),
            ElementType::Complex64 | ElementType::Complex128 => {
                return Err(Failure::misuse("complex numbers are given in arrays"));
            }
            element => Argument::Number(number(element, word)?),
        },
        Typed::File(file) if file.npy.element != parameter.element => {
            return Err(Failure::misuse(format!(
                "{} has elements of {:?}, and it takes {:?}",
                file.path.display(),
                file.npy.element,
                parameter.element
            )));
        }
        Typed::File(file) => {
            Argument::Array(bytes::Bytes::from(file.bytes).slice(file.npy.data_at..))
        }
    })
}

fn number(element: ElementType, word: &str) -> Result<Value, Failure> {
    let wrong = || Failure::misuse(format!("{word:?} is not a number of its type"));
    if element.is_real() {
        return word.parse().map(Value::Real).map_err(|_| wrong());
    }
    word.parse().map(Value::Integer).map_err(|_| wrong())
}

/// A file holds a whole array, or just what travels of it.
fn sections(signature: &Signature, mut given: Vec<Argument>) -> Result<Vec<Argument>, Failure> {
    let bare: Vec<Argument> = given
        .iter()
        .map(|one| match one {
            Argument::Array(_) => Argument::Nothing,
            other => other.clone(),
        })
        .collect();
    let plan = kumiko_rpc_client::plan(signature, &bare)?;
    for (place, argument) in plan.places.iter().zip(&mut given) {
        if let (Placed::Array { array, .. }, Argument::Array(bytes)) = (place, &*argument) {
            let whole = array.memory_bytes() == Some(bytes.len() as u64);
            let moved = array.moved_bytes() == Some(bytes.len() as u64);
            if let (true, false, Some(packed)) = (whole, moved, pack(array, bytes)) {
                *argument = Argument::Array(packed);
            }
        }
    }
    Ok(given)
}

/// What came back of one array.
pub struct Back<'a> {
    pub name: &'a str,
    pub element: ElementType,
    pub shape: Vec<u64>,
    pub bytes: &'a [u8],
}

/// In the order of the formals.
pub fn results<'a>(signature: &'a Signature, plan: &Plan, result: &'a [u8]) -> Vec<Back<'a>> {
    let mut all = Vec::new();
    for (parameter, place) in parameters(signature).into_iter().zip(&plan.places) {
        let Placed::Array {
            array,
            taken: Some(span),
            ..
        } = place
        else {
            continue;
        };
        let at = usize::try_from(span.at).unwrap_or(usize::MAX);
        let end = usize::try_from(span.at + span.bytes).unwrap_or(usize::MAX);
        all.push(Back {
            name: &parameter.name,
            element: parameter.element,
            shape: shape(array),
            bytes: result.get(at..end).unwrap_or_default(),
        });
    }
    all
}

/// Of the elements that travel.
fn shape(array: &Array) -> Vec<u64> {
    array.sections.iter().map(|section| section.count).collect()
}

impl Back<'_> {
    pub fn json(&self) -> Json {
        let width = usize::try_from(self.element.bytes().unwrap_or(1)).unwrap_or(1);
        let elements = self.bytes.chunks_exact(width);
        Json::Array(
            elements
                .map(|one| element_json(self.element, one))
                .collect(),
        )
    }

    pub fn human(&self) -> String {
        let width = usize::try_from(self.element.bytes().unwrap_or(1)).unwrap_or(1);
        let elements = self.bytes.chunks_exact(width);
        let count = elements.len();
        let shown: Vec<String> = elements
            .take(SHOWN)
            .map(|one| element_json(self.element, one).to_string())
            .collect();
        let more = match count > SHOWN {
            true => format!(
                " ... ({count} elements; --out {}=FILE.npy keeps them)",
                self.name
            ),
            false => String::new(),
        };
        format!("{} = {}{more}", self.name, shown.join(" "))
    }

    /// As a file of NumPy; seen whole or not at all.
    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let header = npy::header(self.element, &self.shape)
            .ok_or_else(|| Failure::from_text(format!("{} has no form in a file", self.name)))?;
        let beside = path.with_extension(format!("npy.{}.new", std::process::id()));
        let write = || {
            use std::io::Write;
            let mut file = std::fs::File::create(&beside)?;
            file.write_all(&header)?;
            file.write_all(self.bytes)?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().doing(|| format!("writing {}", path.display()))
    }
}

fn element_json(element: ElementType, bytes: &[u8]) -> Json {
    let real = |value: f64| {
        // JSON has no numbers for what is none.
        Number::from_f64(value).map_or_else(|| Json::String(value.to_string()), Json::Number)
    };
    let f4 = |bytes: &[u8]| {
        let value = f32::from_le_bytes(bytes.try_into().unwrap_or_default());
        // Of the digits of a float, not those of the double that equals it.
        real(value.to_string().parse().unwrap_or(f64::from(value)))
    };
    let f8 = |bytes: &[u8]| real(f64::from_le_bytes(bytes.try_into().unwrap_or_default()));
    let halves = || bytes.split_at(bytes.len() / 2);
    match element {
        ElementType::Int8 => i8::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Uint8 => u8::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Int16 => i16::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Uint16 => u16::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Int32 => i32::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Uint32 => u32::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Int64 => i64::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Uint64 => u64::from_le_bytes(bytes.try_into().unwrap_or_default()).into(),
        ElementType::Float32 => f4(bytes),
        ElementType::Float64 => f8(bytes),
        ElementType::Complex64 => Json::Array(vec![f4(halves().0), f4(halves().1)]),
        ElementType::Complex128 => Json::Array(vec![f8(halves().0), f8(halves().1)]),
        ElementType::String | ElementType::Filename => Json::Null,
    }
}
