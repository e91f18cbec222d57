//! What comes back of a call: printed, or in files of NumPy, to which arrays are written as they come. Not here: the call.

use super::values::parameters;
use crate::args::Format;
use crate::fail::{Failure, While};
use crate::output::say;
use kumiko_idl::{Array, ElementType, Placed, Plan, Signature, Span, npy};
use kumiko_linux::spooling;
use kumiko_rpc_client::{Place, Recipient, RpcError, texts};
use serde_json::{Map, Number, Value as Json};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Printed to people: of longer arrays the first ones.
const SHOWN: usize = 16;

/// The arrays that come back, in the order of the formals.
pub struct Outputs {
    plan: Plan,
    arrays: Vec<Back>,
    /// Arrays that go to files are written as they come.
    placed: bool,
}

struct Back {
    name: String,
    kind: Kind,
    file: Option<Arc<Filling>>,
}

enum Kind {
    /// Where its elements are in the result.
    Numbers(ElementType, Span),
    /// Its formal's number, and how many texts of each dimension travel.
    Texts(usize, Vec<u64>),
}

/// A file of NumPy that is being written; it is seen whole or not at all.
#[derive(Debug)]
struct Filling {
    path: PathBuf,
    /// The name that it has just before; or all the time, where no file can be without one.
    beside: PathBuf,
    is_named: bool,
    file: File,
    /// Where its elements begin.
    at: u64,
}

impl Outputs {
    /// # Errors
    /// A file cannot be made.
    pub fn new(
        signature: &Signature,
        plan: &Plan,
        targets: &[(String, PathBuf)],
    ) -> Result<Outputs, Failure> {
        let mut arrays = Vec::new();
        let places = plan.places.iter().enumerate();
        for (parameter, (number, place)) in parameters(signature).into_iter().zip(places) {
            // Of the elements that travel.
            let counts = |array: &Array| -> Vec<u64> {
                array.sections.iter().map(|section| section.count).collect()
            };
            let name = &parameter.name;
            let (kind, header) = match place {
                Placed::Array {
                    array,
                    taken: Some(span),
                    ..
                } => {
                    let header = npy::header(parameter.element, &counts(array));
                    (Kind::Numbers(parameter.element, *span), header)
                }
                Placed::Many {
                    array,
                    taken: Some(_),
                    ..
                } if parameter.element == ElementType::String => {
                    (Kind::Texts(number, counts(array)), Some(Vec::new()))
                }
                _ => continue,
            };
            let target = targets.iter().find(|(target, _)| target == name);
            let file = match target {
                None => None,
                Some((_, path)) => {
                    let header = header.ok_or_else(|| {
                        Failure::from_text(format!("{name} has no form in a file"))
                    })?;
                    let made = Filling::new(path, &header);
                    Some(Arc::new(
                        made.doing(|| format!("writing {}", path.display()))?,
                    ))
                }
            };
            arrays.push(Back {
                name: name.clone(),
                kind,
                file,
            });
        }
        Ok(Outputs {
            arrays,
            plan: plan.clone(),
            placed: !plan.has_tail(),
        })
    }

    /// Those that are written as they come.
    pub fn places(&self) -> Vec<Place> {
        let place = |one: &Back| {
            let file = one.file.clone().filter(|_| self.placed)?;
            match one.kind {
                Kind::Numbers(_, span) => Some((span, file as Arc<dyn Recipient>)),
                Kind::Texts(..) => None,
            }
        };
        self.arrays.iter().filter_map(place).collect()
    }

    /// `result`: without what has a place.
    ///
    /// # Errors
    /// What of it cannot be where it belongs.
    pub fn show(&self, result: &[u8], format: Format) -> Result<(), Failure> {
        let mut printed = Map::new();
        let mut placed = 0;
        let texts = match self.placed {
            true => Vec::new(),
            false => texts(&self.plan, result).ok_or_else(|| {
                Failure::from_text("the result is not as its plan says".to_owned())
            })?,
        };
        for one in &self.arrays {
            let (kept, json) = match &one.kind {
                Kind::Numbers(_, span) if self.placed && one.file.is_some() => {
                    placed += span.bytes;
                    (None, Json::Null)
                }
                Kind::Numbers(element, span) => {
                    let at = usize::try_from(span.at - placed).unwrap_or(usize::MAX);
                    let bytes = usize::try_from(span.bytes).unwrap_or(usize::MAX);
                    let bytes = result.get(at..at.saturating_add(bytes)).unwrap_or_default();
                    match &one.file {
                        Some(_) => (Some(bytes.to_vec()), Json::Null),
                        None if format == Format::Human => {
                            say!("{}", one.human(elements(*element, bytes)))?;
                            continue;
                        }
                        None => (None, Json::Array(elements(*element, bytes).collect())),
                    }
                }
                Kind::Texts(number, counts) => {
                    let all = texts.iter().find(|(formal, _)| formal == number);
                    let all: Vec<Json> = all
                        .into_iter()
                        .flat_map(|(_, all)| all)
                        .map(text_json)
                        .collect();
                    if one.file.is_none() && format == Format::Human {
                        say!("{}", one.human(all.into_iter()))?;
                        continue;
                    }
                    let json = nested(all, counts);
                    (Some(format!("{json}\n").into_bytes()), json)
                }
            };
            match &one.file {
                Some(file) => {
                    if let Some(bytes) = kept {
                        file.put(0, &bytes)?;
                    }
                    file.finish()?;
                }
                None => {
                    printed.insert(one.name.clone(), json);
                }
            }
        }
        match format {
            Format::Human => {}
            Format::Json => say!("{}", serde_json::to_string_pretty(&Json::Object(printed))?)?,
            Format::Lines => say!("{}", Json::Object(printed))?,
        }
        Ok(())
    }
}

fn elements(element: ElementType, bytes: &[u8]) -> impl ExactSizeIterator<Item = Json> + use<'_> {
    let width = usize::try_from(element.bytes().unwrap_or(1)).unwrap_or(1);
    let each = bytes.chunks_exact(width);
    each.map(move |one| element_json(element, one))
}

fn text_json(text: &Option<&[u8]>) -> Json {
    text.map_or(Json::Null, |text| String::from_utf8_lossy(text).into())
}

/// Lists in lists, as they are typed.
fn nested(mut flat: Vec<Json>, counts: &[u64]) -> Json {
    for count in counts.iter().skip(1).rev() {
        let count = usize::try_from(*count).unwrap_or(0).max(1);
        flat = flat
            .chunks(count)
            .map(|part| Json::Array(part.to_vec()))
            .collect();
    }
    Json::Array(flat)
}

impl Back {
    fn human(&self, elements: impl ExactSizeIterator<Item = Json>) -> String {
        let count = elements.len();
        let shown: Vec<String> = elements.take(SHOWN).map(|one| one.to_string()).collect();
        let kind = match self.kind {
            Kind::Numbers(..) => "npy",
            Kind::Texts(..) => "json",
        };
        let more = match count > SHOWN {
            true => format!(
                " ... ({count} elements; --out {}=FILE.{kind} keeps them)",
                self.name
            ),
            false => String::new(),
        };
        format!("{} = {}{more}", self.name, shown.join(" "))
    }
}

impl Filling {
    fn new(path: &Path, header: &[u8]) -> io::Result<Filling> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}.new", std::process::id()));
        let beside = PathBuf::from(beside);
        let (file, is_named) = match spooling::nameless(folder.unwrap_or(Path::new("."))) {
            Err(error) if error.kind() == ErrorKind::Unsupported => (File::create(&beside)?, true),
            file => (file?, false),
        };
        let filling = Filling {
            path: path.to_owned(),
            beside,
            is_named,
            file,
            at: header.len() as u64,
        };
        filling.file.write_all_at(header, 0)?;
        Ok(filling)
    }

    fn finish(&self) -> Result<(), Failure> {
        let finish = || {
            self.file.sync_all()?;
            if !self.is_named {
                spooling::give_name(&self.file, &self.beside)?;
            }
            std::fs::rename(&self.beside, &self.path)
        };
        finish().doing(|| format!("writing {}", self.path.display()))
    }
}

impl Drop for Filling {
    fn drop(&mut self) {
        // It has that name still if it is not complete.
        let _ = std::fs::remove_file(&self.beside);
    }
}

impl Recipient for Filling {
    fn put(&self, offset: u64, data: &[u8]) -> Result<(), RpcError> {
        let written = self.file.write_all_at(data, self.at + offset);
        written.map_err(|cause| {
            let path = self.path.clone();
            RpcError::File { path, cause }
        })
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
