//! The arguments of one call, and its result, as bytes that travel (spec/idl I40 to I45). Not here: the conversation.

use crate::RpcError;
use crate::functions::Question;
use crate::spare::Spare;
use crate::staging::{Place, Target};
use bytes::{Bytes, BytesMut};
use kumiko_idl::{
    Array, ElementType, Formal, HEAD_BYTES, Head, Limits, Mode, Placed, Plan, Signature, Span,
    Value, file_head, number_head, pack_lengths, pack_texts, text_head,
};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;

/// One argument, in the order of the formals.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A scalar that is a number of one part.
    Number(Value),
    /// A scalar as its head.
    Head(Head),
    /// A text without its zero; None: NULL.
    Text(Option<Bytes>),
    /// Those that travel of an array of texts.
    Texts(Vec<Option<Bytes>>),
    /// The elements that travel, side by side (see [`pack`]); as C has them in memory.
    Array(Bytes),
    /// The same in memory that is its owner's, who may take it back before the call is over.
    Lent {
        bytes: u64,
        lender: Arc<dyn Lender>,
    },
    /// The same in a file.
    Stored(Content),
    File(Carried),
    /// Those that travel of an array of files.
    Files(Vec<Carried>),
    /// OUT and WORK: there is nothing to send. Of a callback: the functions are given beside ([`Arguments::with_functions`]).
    Nothing,
}

/// A file: where its content is, if it goes in, and where what comes back goes.
#[derive(Clone, Debug)]
pub struct Carried {
    pub from: Option<Content>,
    pub to: Option<PathBuf>,
}

impl Carried {
    /// Of a `filename` of this mode: INOUT comes back to where it was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn new(mode: Mode, path: &Path) -> Result<Carried, RpcError> {
        let from = match mode.is_in() {
            true => Some(Content::open(path)?),
            false => None,
        };
        let to = mode.is_out().then(|| path.to_owned());
        Ok(Carried { from, to })
    }
}

/// Memory that is read while a call goes on.
pub trait Lender: fmt::Debug + Send + Sync {
    /// Copies what lies from `offset` on; false: it was taken back.
    fn copy(&self, offset: u64, to: &mut [u8]) -> bool;
}

/// A file's bytes, as many as there were when it was opened. It is left alone until the call is over.
#[derive(Clone, Debug)]
pub struct Content {
    file: Arc<File>,
    path: PathBuf,
    /// Where they begin.
    at: u64,
    bytes: u64,
}

impl Content {
    /// # Errors
    /// It cannot be read, or is no file.
    pub fn open(path: &Path) -> Result<Content, RpcError> {
        let wrong = |cause| RpcError::File {
            path: path.to_owned(),
            cause,
        };
        let file = File::open(path).map_err(wrong)?;
        let meta = file.metadata().map_err(wrong)?;
        if !meta.is_file() {
            return Err(wrong(io::Error::other("it is no file")));
        }
        Ok(Content {
            file: Arc::new(file),
            path: path.to_owned(),
            at: 0,
            bytes: meta.len(),
        })
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What follows this many of them.
    #[must_use]
    pub fn after(self, bytes: u64) -> Content {
        let bytes = bytes.min(self.bytes);
        Content {
            at: self.at + bytes,
            bytes: self.bytes - bytes,
            ..self
        }
    }

    /// Some of them.
    ///
    /// # Errors
    /// They cannot be read, or are not there any more.
    pub fn read(&self, offset: u64, to: &mut [u8]) -> io::Result<()> {
        let at = self.at.saturating_add(offset);
        let read = self.file.read_exact_at(to, at);
        read.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                io::Error::new(error.kind(), "it is shorter than it was")
            }
            _ => error,
        })
    }
}

/// Bytes that travel.
#[derive(Clone, Debug)]
enum Source {
    Memory(Bytes),
    Lent { bytes: u64, lender: Arc<dyn Lender> },
    File(Content),
}

impl Source {
    fn bytes(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Lent { bytes, .. } => *bytes,
            Source::File(content) => content.bytes,
        }
    }
}

/// All arguments, ready to be sent in blocks.
#[derive(Clone, Debug)]
pub struct Arguments {
    pub plan: Plan,
    /// Where they begin, in order, without overlaps; between them is nothing but zeros.
    pieces: Vec<(u64, Source)>,
    targets: Vec<Target>,
    places: Vec<Place>,
    functions: Option<UnboundedSender<Question>>,
}

impl Arguments {
    /// # Errors
    /// Which argument is not as the signature says.
    pub fn new(signature: &Signature, arguments: &[Argument]) -> Result<Arguments, RpcError> {
        let heads = heads(signature, arguments)?;
        let plan = signature.plan(&heads, Limits::WIDEST)?;
        let mut pieces = vec![(0, Source::Memory(Bytes::from(heads.concat())))];
        let mut targets = Vec::new();
        let places = plan.places.iter().zip(arguments);
        for (number, ((place, argument), formal)) in places.zip(&signature.formals).enumerate() {
            let told = |what| wrong(signature, formal, what);
            pieces.extend(given(place, argument).map_err(told)?);
            for file in taken(place, argument) {
                targets.push((number, target(file).map_err(told)?));
            }
        }
        Ok(Arguments {
            plan,
            pieces,
            targets,
            places: Vec::new(),
            functions: None,
        })
    }

    /// By which a result is understood, and how big the call is.
    pub fn heads(&self) -> Vec<Head> {
        let first = self.pieces.first().map(|(_, source)| source);
        let Some(Source::Memory(bytes)) = first else {
            return Vec::new();
        };
        let all = bytes.chunks_exact(HEAD_BYTES);
        all.filter_map(|head| head.try_into().ok()).collect()
    }

    /// Who answers for the caller's functions.
    #[must_use]
    pub fn with_functions(self, to: UnboundedSender<Question>) -> Arguments {
        let functions = Some(to);
        Arguments { functions, ..self }
    }

    pub(crate) fn functions(&self) -> Option<UnboundedSender<Question>> {
        self.functions.clone()
    }

    /// Arrays of the result that are written where they belong as they come, in the order of the result; of a call with no files.
    #[must_use]
    pub fn with_places(self, places: Vec<Place>) -> Arguments {
        Arguments { places, ..self }
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// Where files that come back go.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// One block of all that travels.
    pub(crate) fn block(
        &self,
        number: u64,
        block_bytes: u64,
        spare: &Spare,
    ) -> Result<Bytes, RpcError> {
        let from = number.saturating_mul(block_bytes);
        let to = from.saturating_add(block_bytes).min(self.plan.in_bytes);
        let after = self
            .pieces
            .partition_point(|(at, source)| at + source.bytes() <= from);
        let pieces = self.pieces.get(after..).unwrap_or_default();
        if let Some((at, Source::Memory(bytes))) = pieces.first() {
            // Most blocks lie in one piece, and need no copy.
            if *at <= from && to <= at + bytes.len() as u64 {
                return Ok(bytes.slice(index(from - at)..index(to - at)));
            }
        }
        let mut block = spare.take(index(to.saturating_sub(from)));
        let mut done = 0;
        for (at, source) in pieces.iter().take_while(|(at, _)| *at < to) {
            let begin = from.max(*at);
            let end = to.min(at + source.bytes());
            let (here, there) = (index(begin - from), index(end - from));
            if let Some(between) = block.get_mut(done..here) {
                between.fill(0);
            }
            done = there;
            let Some(target) = block.get_mut(here..there) else {
                continue;
            };
            match source {
                Source::Memory(bytes) => {
                    if let Some(source) = bytes.get(index(begin - at)..index(end - at)) {
                        target.copy_from_slice(source);
                    }
                }
                Source::Lent { lender, .. } => {
                    if !lender.copy(begin - at, target) {
                        return Err(RpcError::TakenBack);
                    }
                }
                Source::File(content) => {
                    let read = content.read(begin - at, target);
                    read.map_err(|cause| RpcError::Unread {
                        path: content.path.clone(),
                        cause,
                    })?;
                }
            }
        }
        if let Some(rest) = block.get_mut(done..) {
            rest.fill(0);
        }
        Ok(spare.lend(block))
    }
}

/// All offsets are below what is in memory, or below a block.
fn index(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Where everything stands by the scalars alone; arrays need not be there.
///
/// # Errors
/// Which argument is not as the signature says.
pub fn plan(signature: &Signature, arguments: &[Argument]) -> Result<Plan, RpcError> {
    Ok(signature.plan(&heads(signature, arguments)?, Limits::WIDEST)?)
}

/// The heads of all arguments, by which a result is understood later.
///
/// # Errors
/// Which argument is not as the signature says.
pub fn heads(signature: &Signature, arguments: &[Argument]) -> Result<Vec<Head>, RpcError> {
    signature.callable()?;
    if arguments.len() != signature.formals.len() {
        return Err(kumiko_idl::PlanError::Heads {
            routine: signature.name.clone(),
            takes: signature.formals.len(),
            given: arguments.len(),
        }
        .into());
    }
    let mut heads = Vec::new();
    for (formal, argument) in signature.formals.iter().zip(arguments) {
        let Formal::Parameter(parameter) = formal else {
            heads.push([0; HEAD_BYTES]);
            continue;
        };
        let is_text = parameter.element == ElementType::String;
        let is_file = parameter.element == ElementType::Filename;
        heads.push(match argument {
            Argument::File(file) if is_file && parameter.is_scalar() => {
                match (&file.from, parameter.mode.is_in()) {
                    (Some(content), true) => file_head(content.bytes),
                    (None, false) => [0; HEAD_BYTES],
                    _ => return Err(wrong(signature, formal, "it takes a file".to_owned())),
                }
            }
            Argument::Files(files) if is_file && parameter.mode.is_in() => {
                let bytes = |file: &Carried| file.from.as_ref().map(|content| 8 + content.bytes);
                let bytes: Option<Vec<u64>> = files.iter().map(bytes).collect();
                match bytes {
                    Some(bytes) => {
                        file_head(bytes.iter().fold(0, |all, one| all.saturating_add(*one)))
                    }
                    None => return Err(wrong(signature, formal, "it takes files".to_owned())),
                }
            }
            Argument::Head(head) if parameter.is_scalar() && !is_text && !is_file => *head,
            Argument::Number(value) if parameter.is_scalar() && !is_text && !is_file => {
                number_head(parameter.element, *value).ok_or_else(|| {
                    let what = format!("{value:?} does not fit into its type");
                    wrong(signature, formal, what)
                })?
            }
            Argument::Text(text) if parameter.is_scalar() && is_text => {
                if text.as_ref().is_some_and(|text| text.contains(&0)) {
                    let what = "a text has no zero byte".to_owned();
                    return Err(wrong(signature, formal, what));
                }
                text_head(text.as_ref().map(|text| text.len() as u64))
            }
            Argument::Texts(texts)
                if is_text && !parameter.is_scalar() && parameter.mode.is_in() =>
            {
                let bytes =
                    |text: &Option<Bytes>| 8 + text.as_ref().map_or(0, |text| text.len() + 1);
                if texts.iter().flatten().any(|text| text.contains(&0)) {
                    let what = "a text has no zero byte".to_owned();
                    return Err(wrong(signature, formal, what));
                }
                file_head(texts.iter().map(bytes).sum::<usize>() as u64)
            }
            _ if parameter.is_scalar() => {
                let what = match (is_text, is_file) {
                    (true, _) => "it takes a text",
                    (_, true) => "it takes a file",
                    _ => "it takes a number",
                };
                return Err(wrong(signature, formal, what.to_owned()));
            }
            _ => [0; HEAD_BYTES],
        });
    }
    Ok(heads)
}

/// Of an array of texts or files as many are given as travel; of texts that only come back none are.
fn count(array: &Array, goes_in: bool, argument: &Argument) -> Result<(), String> {
    let is_file = array.element == ElementType::Filename;
    let kind = if is_file { "files" } else { "texts" };
    let count = match argument {
        Argument::Texts(texts) if !is_file => texts.len() as u64,
        Argument::Files(files) if is_file => files.len() as u64,
        _ if array.moved == 0 || !(goes_in || is_file) => return Ok(()),
        _ => return Err(format!("it takes {kind}")),
    };
    match count == array.moved {
        true => Ok(()),
        false => Err(format!(
            "{count} {kind} are given, and by its sizes it has {}",
            array.moved
        )),
    }
}

/// What of an argument goes to the site, and where in all that travels; what is wrong with it.
fn given(place: &Placed, argument: &Argument) -> Result<Vec<(u64, Source)>, String> {
    Ok(match (place, argument) {
        (Placed::Text { at: Some(span) }, Argument::Text(Some(text))) => {
            vec![(span.at, Source::Memory(text.clone()))]
        }
        (
            Placed::Array {
                given: Some(span), ..
            },
            _,
        ) => array(span, argument)?,
        (
            Placed::File {
                given: Some(span), ..
            },
            Argument::File(file),
        ) => file
            .from
            .iter()
            .map(|content| (span.at, Source::File(content.clone())))
            .collect(),
        // WORK.
        (
            Placed::Many {
                given: None,
                taken: None,
                ..
            },
            _,
        ) => Vec::new(),
        (Placed::Many { array, given, .. }, _) => {
            count(array, given.is_some(), argument)?;
            match (argument, given) {
                (Argument::Texts(texts), Some(span)) => {
                    let packed = pack_texts(texts).unwrap_or_default();
                    vec![(span.at, Source::Memory(packed.into()))]
                }
                (Argument::Files(files), Some(span)) => packed_files(span.at, files),
                _ => Vec::new(),
            }
        }
        _ => Vec::new(),
    })
}

fn array(span: &Span, argument: &Argument) -> Result<Vec<(u64, Source)>, String> {
    let source = match argument {
        Argument::Array(bytes) => Source::Memory(bytes.clone()),
        Argument::Stored(content) => Source::File(content.clone()),
        Argument::Lent { bytes, lender } => Source::Lent {
            bytes: *bytes,
            lender: Arc::clone(lender),
        },
        _ if span.bytes == 0 => return Ok(Vec::new()),
        _ => return Err("it takes an array".to_owned()),
    };
    match source.bytes() == span.bytes {
        true => Ok(vec![(span.at, source)]),
        false => Err(format!(
            "{} bytes of elements are given, and by its sizes it has {}",
            source.bytes(),
            span.bytes
        )),
    }
}

/// Files of an argument that come back.
fn taken<'a>(place: &Placed, argument: &'a Argument) -> &'a [Carried] {
    match (place, argument) {
        (Placed::Many { taken: Some(_), .. }, Argument::Files(files)) => files,
        (Placed::File { taken: Some(_), .. }, Argument::File(file)) => std::slice::from_ref(file),
        _ => &[],
    }
}

fn target(file: &Carried) -> Result<PathBuf, String> {
    let to = file.to.clone();
    to.ok_or_else(|| "where does the file that comes back go?".to_owned())
}

/// An array of files as it travels (spec/idl I42), from there on.
fn packed_files(at: u64, files: &[Carried]) -> Vec<(u64, Source)> {
    let contents = || files.iter().filter_map(|file| file.from.as_ref());
    let lengths = pack_lengths(contents().map(|content| content.bytes));
    let mut next = at + lengths.len() as u64;
    let mut pieces = vec![(at, Source::Memory(lengths.into()))];
    for content in contents() {
        pieces.push((next, Source::File(content.clone())));
        next += content.bytes;
    }
    pieces
}

fn wrong(signature: &Signature, formal: &Formal, what: String) -> RpcError {
    RpcError::Argument {
        routine: signature.name.clone(),
        parameter: formal.name().to_owned(),
        what,
    }
}

/// Of all texts of an array, in the order of their addresses, those that travel; None: there are not so many.
pub fn pick<T: Clone>(array: &Array, all: &[T]) -> Option<Vec<T>> {
    if array.elements != all.len() as u64 {
        return None;
    }
    let mut picked = Vec::new();
    for run in addresses(array)? {
        picked.extend_from_slice(all.get(run)?);
    }
    Some(picked)
}

/// Puts those that travelled among all of an array of texts or files; None: lengths do not fit.
pub fn place_back<T>(array: &Array, moved: Vec<T>, all: &mut [T]) -> Option<()> {
    if array.elements != all.len() as u64 || array.moved != moved.len() as u64 {
        return None;
    }
    let mut moved = moved.into_iter();
    for run in addresses(array)? {
        for (to, from) in all.get_mut(run)?.iter_mut().zip(&mut moved) {
            *to = from;
        }
    }
    Some(())
}

/// The elements that travel, of an array whose elements have lengths of their own.
fn addresses(array: &Array) -> Option<impl Iterator<Item = std::ops::Range<usize>> + use<>> {
    // Their addresses in the routine's memory are as wide as these.
    let addresses = Array {
        element: ElementType::Int64,
        ..array.clone()
    };
    let runs = addresses.runs()?;
    Some(runs.map(|run| {
        let from = index(run.offset_bytes / 8);
        from..from + index(run.bytes / 8)
    }))
}

/// The elements that travel out of a whole array; None: the array is shorter than its sizes say.
pub fn pack(array: &Array, whole: &[u8]) -> Option<Bytes> {
    let moved = array.moved_bytes()?;
    if array.memory_bytes()? > whole.len() as u64 {
        return None;
    }
    let mut packed = BytesMut::with_capacity(index(moved));
    for run in array.runs()? {
        let from = index(run.offset_bytes);
        packed.extend_from_slice(whole.get(from..from + index(run.bytes))?);
    }
    Some(packed.freeze())
}

/// Puts them where they belong, and touches nothing between them; None: lengths do not fit, and nothing was changed.
pub fn unpack(array: &Array, packed: &[u8], whole: &mut [u8]) -> Option<()> {
    if array.memory_bytes()? > whole.len() as u64 || array.moved_bytes()? != packed.len() as u64 {
        return None;
    }
    let mut rest = packed;
    for run in array.runs()? {
        let (piece, after) = rest.split_at_checked(index(run.bytes))?;
        let from = index(run.offset_bytes);
        whole
            .get_mut(from..from + piece.len())?
            .copy_from_slice(piece);
        rest = after;
    }
    Some(())
}
