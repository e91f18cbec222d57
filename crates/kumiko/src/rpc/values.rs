//! Arguments as they are typed.

use crate::fail::{Failure, While};
use bytes::Bytes;
use kumiko_idl::{
    Array, ElementType, Formal, Mode, Parameter, Placed, Plan, Signature, Value, npy,
};
use kumiko_rpc_client::{Argument, Carried, Content, pack, pick};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// An array in a file.
struct File {
    path: PathBuf,
    npy: npy::Npy,
    elements: Argument,
}

/// An array of texts, or of names of files, `["a", null]`; of several dimensions, lists of lists.
struct Texts {
    shape: Vec<u64>,
    all: Vec<Option<Bytes>>,
}

/// What was typed for one formal.
enum Typed<'a> {
    Word(&'a str),
    File(File),
    Texts(Texts),
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
            _ if one.element.bytes().is_none() && !one.is_scalar() => {
                let texts = texts(word, one);
                Typed::Texts(texts.doing(|| format!("{name}, {}", one.name))?)
            }
            Some(path) if !one.is_scalar() => Typed::File(read(Path::new(path))?),
            _ => Typed::Word(word),
        };
        typed.insert(&one.name, value);
    }
    if infer {
        for (one, array, dimension) in &told {
            let size = match typed.get(array.name.as_str()) {
                Some(Typed::File(file)) => file.npy.shape.get(*dimension).copied(),
                Some(Typed::Texts(texts)) => texts.shape.get(*dimension).copied(),
                _ => None,
            };
            let size = size.ok_or_else(|| {
                Failure::misuse(format!("{name}, {}: no array tells it; give it", one.name))
            })?;
            typed.insert(&one.name, Typed::Size(size));
        }
    }
    let mut given = Vec::new();
    let mut lists: BTreeMap<&str, Named> = BTreeMap::new();
    for one in &parameters {
        let value = typed.remove(one.name.as_str()).unwrap_or(Typed::Nothing);
        let argument = match one.element {
            ElementType::Filename if !one.is_scalar() => files(one, value, targets).map(|named| {
                lists.insert(&one.name, named);
                Argument::Nothing
            }),
            ElementType::Filename => file(one, value, targets),
            _ => argument(one, value),
        };
        let argument = argument.doing(|| format!("{name}, {}", one.name))?;
        given.push(argument);
    }
    let plan = bare_plan(signature, &given)?;
    for ((one, place), argument) in parameters.iter().zip(&plan.places).zip(&mut given) {
        if let (Some(named), Placed::Many { array, .. }) = (lists.remove(one.name.as_str()), place)
        {
            let files = named.carried(one.mode, array);
            *argument = Argument::Files(files.doing(|| format!("{name}, {}", one.name))?);
        }
    }
    sections(&plan, given)
}

pub fn parameters(signature: &Signature) -> Vec<&Parameter> {
    let formals = signature.formals.iter();
    formals
        .filter_map(|formal| match formal {
            Formal::Parameter(parameter) => Some(parameter),
            Formal::Callback(_) => None,
        })
        .collect()
}

/// Of a file the beginning alone: the rest is read as it is sent. What is no file, such as a pipe, is read whole.
fn read(path: &Path) -> Result<File, Failure> {
    let reading = || format!("reading {}", path.display());
    let is_file = std::fs::metadata(path).doing(reading)?.is_file();
    let (npy, elements) = match is_file {
        true => {
            let content = Content::open(path)?;
            let bytes = content.bytes();
            let most = usize::try_from(bytes).unwrap_or(usize::MAX);
            let mut head = vec![0; most.min(npy::HEAD_MOST_BYTES)];
            content.read(0, &mut head).doing(reading)?;
            let npy = npy::read(&head, Some(bytes)).doing(reading)?;
            let elements = content.after(npy.data_at as u64);
            (npy, Argument::Stored(elements))
        }
        false => {
            let bytes = std::fs::read(path).doing(reading)?;
            let npy = npy::read(&bytes, Some(bytes.len() as u64)).doing(reading)?;
            let elements = Bytes::from(bytes).slice(npy.data_at..);
            (npy, Argument::Array(elements))
        }
    };
    Ok(File {
        path: path.to_owned(),
        npy,
        elements,
    })
}

/// Typed as JSON, or in a file of it.
fn texts(word: &str, parameter: &Parameter) -> Result<Texts, Failure> {
    let kind = match parameter.element {
        ElementType::Filename => "files, as [\"a\", \"b\"]",
        _ => "texts, as [\"a\", null]",
    };
    let text = match word.strip_prefix('@') {
        Some(path) => {
            let read = std::fs::read_to_string(path);
            read.doing(|| format!("reading {path}"))?
        }
        None => word.to_owned(),
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| {
        let what = format!("it takes {kind} or @FILE of that: {error}");
        Failure::misuse(what)
    })?;
    let mut texts = Texts {
        shape: vec![0; parameter.dims.len()],
        all: Vec::new(),
    };
    texts.add(&value, 0)?;
    Ok(texts)
}

impl Texts {
    fn add(&mut self, value: &serde_json::Value, depth: usize) -> Result<(), Failure> {
        use serde_json::Value::{Array, Null, String};
        match (value, self.shape.get_mut(depth)) {
            (Array(parts), Some(size)) => {
                let length = parts.len() as u64;
                // Of lists beside each other the first one says how long they are.
                if !self.all.is_empty() && *size != length {
                    let what = "its lists have different lengths".to_owned();
                    return Err(Failure::misuse(what));
                }
                *size = length;
                parts.iter().try_for_each(|part| self.add(part, depth + 1))
            }
            (String(text), None) => {
                self.all.push(Some(Bytes::from(text.clone())));
                Ok(())
            }
            (Null, None) => {
                self.all.push(None);
                Ok(())
            }
            (other, size) => {
                let takes = size.map_or("a text or null", |_| "a list");
                let what = format!("{other} is there, and it takes {takes}");
                Err(Failure::misuse(what))
            }
        }
    }
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
    Ok(Argument::File(Carried { from, to }))
}

/// Names of files of an array: where they are, and where they go when they come back, which is the same if it is not said.
struct Named {
    from: Option<Texts>,
    to: Option<Texts>,
}

impl Named {
    /// Those that travel.
    fn carried(self, mode: Mode, array: &Array) -> Result<Vec<Carried>, Failure> {
        let picked = |names: Option<Texts>| -> Result<Option<Vec<PathBuf>>, Failure> {
            let Some(names) = names else { return Ok(None) };
            let names = pick(array, &names.all).unwrap_or(names.all);
            let path =
                |name: Option<Bytes>| name.map(|name| PathBuf::from(OsStr::from_bytes(&name)));
            let names: Option<Vec<PathBuf>> = names.into_iter().map(path).collect();
            let names = names.ok_or_else(|| Failure::misuse("a file has a name".to_owned()))?;
            if names.len() as u64 != array.moved {
                let what = format!(
                    "{} files are named, and by its sizes it has {}",
                    names.len(),
                    array.moved
                );
                return Err(Failure::misuse(what));
            }
            Ok(Some(names))
        };
        let (from, to) = (picked(self.from)?, picked(self.to)?);
        let mut all = Vec::new();
        for index in 0..usize::try_from(array.moved).unwrap_or(0) {
            let of = |names: &Option<Vec<PathBuf>>| {
                names.as_ref().and_then(|all| all.get(index)).cloned()
            };
            let (from, to) = (of(&from), of(&to));
            let to = to.or_else(|| from.clone()).filter(|_| mode.is_out());
            let from = from.filter(|_| mode.is_in());
            let from = from.as_deref().map(Content::open).transpose()?;
            all.push(Carried { from, to });
        }
        Ok(all)
    }
}

fn files(
    parameter: &Parameter,
    typed: Typed<'_>,
    targets: &[(String, PathBuf)],
) -> Result<Named, Failure> {
    let from = match typed {
        Typed::Texts(texts) => Some(texts),
        _ => None,
    };
    let named = targets.iter().find(|(name, _)| *name == parameter.name);
    let to = named.map(|(_, names)| texts(&names.to_string_lossy(), parameter));
    let to = to.transpose()?;
    if parameter.mode.is_out() && from.is_none() && to.is_none() {
        let name = &parameter.name;
        return Err(Failure::misuse(format!(
            "files come back: say where they go by --out {name}='[\"FILE\", ...]'"
        )));
    }
    Ok(Named { from, to })
}

fn argument(parameter: &Parameter, typed: Typed<'_>) -> Result<Argument, Failure> {
    Ok(match typed {
        Typed::Nothing => Argument::Nothing,
        Typed::Size(size) => Argument::Number(Value::Integer(size.into())),
        Typed::Texts(texts) => Argument::Texts(texts.all),
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
        Typed::File(file) => file.elements,
    })
}

fn number(element: ElementType, word: &str) -> Result<Value, Failure> {
    let wrong = || Failure::misuse(format!("{word:?} is not a number of its type"));
    if element.is_real() {
        return word.parse().map(Value::Real).map_err(|_| wrong());
    }
    word.parse().map(Value::Integer).map_err(|_| wrong())
}

/// Where everything stands, by what is no array.
fn bare_plan(signature: &Signature, given: &[Argument]) -> Result<Plan, Failure> {
    let bare: Vec<Argument> = given
        .iter()
        .map(|one| match one {
            Argument::Array(_) | Argument::Stored(_) | Argument::Texts(_) => Argument::Nothing,
            other => other.clone(),
        })
        .collect();
    Ok(kumiko_rpc_client::plan(signature, &bare)?)
}

/// A file holds a whole array, or just what travels of it.
fn sections(plan: &Plan, mut given: Vec<Argument>) -> Result<Vec<Argument>, Failure> {
    for (place, argument) in plan.places.iter().zip(&mut given) {
        if let (Placed::Many { array, .. }, Argument::Texts(all)) = (place, &mut *argument) {
            // As with arrays: all of them, or what travels.
            if let Some(picked) = pick(array, all) {
                *all = picked;
            }
            continue;
        }
        let bytes = match &*argument {
            Argument::Array(bytes) => bytes.len() as u64,
            Argument::Stored(content) => content.bytes(),
            _ => continue,
        };
        let Placed::Array { array, .. } = place else {
            continue;
        };
        let whole = array.memory_bytes() == Some(bytes);
        let moved = array.moved_bytes() == Some(bytes);
        if !whole || moved {
            continue;
        }
        let packed = match &*argument {
            Argument::Stored(content) => {
                let mut all = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
                content
                    .read(0, &mut all)
                    .doing(|| "reading an array".to_owned())?;
                pack(array, &all)
            }
            Argument::Array(all) => pack(array, all),
            _ => None,
        };
        if let Some(packed) = packed {
            *argument = Argument::Array(packed);
        }
    }
    Ok(given)
}
