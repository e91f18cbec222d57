//! Functions of the caller's that a routine has do some of its work: each is called on a thread of its own, with the address of every
//! argument. The caller promises what grpc.h says: a function takes what the IDL says, and stays until the session is waited for.

use bytes::Bytes;
use kumiko_idl::{Array, HEAD_BYTES, Placed, Plan, Signature, pack_texts};
use kumiko_rpc_client::{Answer, Question, Scratch, Stages, pack, pick, place_back, unpack};
use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;

unsafe extern "C" {
    /// c/callbacks.c
    fn kumiko_gridrpc_answer(function: usize, with: *const *mut u8, count: usize);
}

/// Those of one call.
pub struct Functions {
    pub signature: Arc<Signature>,
    /// Formals, and addresses of functions.
    pub functions: Vec<(usize, usize)>,
    pub questions: UnboundedReceiver<Question>,
}

impl Functions {
    /// Until the call is over. A routine asks one question at a time.
    pub async fn answer(mut self, stages: Arc<Stages>) {
        while let Some(question) = self.questions.recv().await {
            let known = self.functions.iter();
            let address = known
                .filter(|(formal, _)| *formal == question.formal)
                .map(|(_, address)| *address)
                .find(|address| *address != 0);
            let (signature, stages) = (Arc::clone(&self.signature), Arc::clone(&stages));
            let answer = move || {
                let begun = Instant::now();
                let said = match (address, question.plan(&signature)) {
                    (None, _) => Err("it is NULL".to_owned()),
                    (_, Err(error)) => Err(error.to_string()),
                    (Some(address), Ok((_, plan))) => {
                        // SAFETY: the caller's promise (grpc.h): at this address is a function of what the IDL says.
                        unsafe { call(address, &plan, &question) }
                    }
                };
                stages.answered(begun.elapsed());
                // Nobody waits for it any more if the call was cancelled.
                let _ = question.reply.send(said);
            };
            // It has sent its answer, or the function has ended the program.
            let _ = tokio::task::spawn_blocking(answer).await;
        }
    }
}

/// Bytes that begin where any element may.
struct Aligned(Vec<u128>);

impl Aligned {
    fn new(bytes: u64) -> Aligned {
        // At most what a callback may have.
        let words = usize::try_from(bytes.div_ceil(16)).unwrap_or(0);
        Aligned(vec![0; words])
    }

    fn of(data: &[u8]) -> Aligned {
        let mut aligned = Aligned::new(data.len() as u64);
        for (word, bytes) in aligned.0.iter_mut().zip(data.chunks(16)) {
            let mut whole = [0; 16];
            whole
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
            *word = u128::from_ne_bytes(whole);
        }
        aligned
    }

    /// Of what begins there; beyond the end nothing is pointed to.
    fn at(&mut self, offset: u64) -> *mut u8 {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        match offset < self.0.len() * 16 {
            // SAFETY: it was just found to lie within.
            true => unsafe { self.0.as_mut_ptr().cast::<u8>().add(offset) },
            false => std::ptr::null_mut(),
        }
    }

    /// What travels of an array, among zeros; nothing, if nothing travels.
    fn put(&mut self, array: &Array, moved: &[u8]) {
        let mut whole = self.bytes(array.memory_bytes().unwrap_or(0));
        if unpack(array, moved, &mut whole).is_some() {
            *self = Aligned::of(&whole);
        }
    }

    fn bytes(&self, length: u64) -> Vec<u8> {
        let bytes = self.0.iter().flat_map(|word| word.to_ne_bytes());
        bytes.take(usize::try_from(length).unwrap_or(0)).collect()
    }
}

/// What a function is given for one formal, by its address.
enum With {
    Nothing,
    /// Of an array all of it, of which what travelled has its place.
    Array(Array, Aligned),
    /// Addresses of texts and names of files, what lies there, and the names.
    Many(
        Vec<*mut u8>,
        #[expect(dead_code, reason = "holds the memory")] Vec<CString>,
        Vec<PathBuf>,
    ),
}

impl With {
    fn new(
        question: &Question,
        number: usize,
        place: &Placed,
        scratch: Option<&Scratch>,
    ) -> io::Result<With> {
        let names = match scratch {
            Some(scratch) => scratch.give(question, number, place)?,
            None => Vec::new(),
        };
        let end = |text: &[u8]| CString::new(text).unwrap_or_default();
        let texts: Vec<Option<CString>> = match place {
            Placed::Array {
                array,
                memory_bytes,
                given,
                ..
            } => {
                let mut memory = Aligned::new(*memory_bytes);
                let given = given.and_then(|span| question.part(span));
                memory.put(array, given.unwrap_or_default());
                return Ok(With::Array(array.clone(), memory));
            }
            Placed::Text { at: Some(span) } => vec![question.text(*span).map(end)],
            Placed::File { .. } | Placed::Many { .. } if !names.is_empty() => {
                let names = names.iter();
                names
                    .map(|name| Some(end(name.as_os_str().as_bytes())))
                    .collect()
            }
            Placed::Many { array, given, .. } => {
                let packed = given.and_then(|span| question.part(span));
                let texts = packed.and_then(|packed| place.texts(packed));
                let texts = texts.map(|texts| texts.into_iter().map(|text| text.map(end)));
                let none = || (0..array.moved).map(|_| None).collect();
                texts.map_or_else(none, Iterator::collect)
            }
            _ => return Ok(With::Nothing),
        };
        let address = |text: &Option<CString>| {
            let text = text
                .as_ref()
                .map(|text| text.as_ptr().cast::<u8>().cast_mut());
            text.unwrap_or(std::ptr::null_mut())
        };
        let moved: Vec<*mut u8> = texts.iter().map(address).collect();
        let all = match place {
            Placed::Many { array, .. } => {
                let mut all =
                    vec![std::ptr::null_mut(); usize::try_from(array.elements).unwrap_or(0)];
                place_back(array, moved, &mut all);
                all
            }
            _ => moved,
        };
        Ok(With::Many(
            all,
            texts.into_iter().flatten().collect(),
            names,
        ))
    }

    fn address(&mut self, place: &Placed) -> *mut u8 {
        match (self, place) {
            (With::Array(_, memory), _) => memory.at(0),
            (With::Many(all, ..), Placed::Many { .. }) if !all.is_empty() => {
                all.as_mut_ptr().cast()
            }
            (With::Many(all, ..), Placed::Text { .. } | Placed::File { .. }) => {
                all.first().copied().unwrap_or(std::ptr::null_mut())
            }
            _ => std::ptr::null_mut(),
        }
    }

    /// What of it comes back.
    ///
    /// # Safety
    /// Where addresses of texts come back, a text that ends with a zero lies at each that is not NULL.
    unsafe fn back(&self, place: &Placed, answer: &mut Answer) -> io::Result<()> {
        let put = match (self, place) {
            (
                With::Array(array, memory),
                Placed::Array {
                    taken: Some(span), ..
                },
            ) => {
                let packed = pack(array, &memory.bytes(array.memory_bytes().unwrap_or(0)));
                packed.and_then(|packed| answer.array(*span, &packed))
            }
            (
                With::Many(_, _, names),
                Placed::File {
                    taken: Some(head), ..
                }
                | Placed::Many {
                    taken: Some(head), ..
                },
            ) if place.files_count() > 0 => answer.add(*head, &Scratch::take(place, names)?),
            (
                With::Many(all, ..),
                Placed::Many {
                    array,
                    taken: Some(head),
                    ..
                },
            ) => {
                let text = |address: &*mut u8| {
                    let text = address.cast::<c_char>();
                    // SAFETY: the caller's promise.
                    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
                    text.map(|text| text.to_bytes().to_vec())
                };
                let picked = pick(array, all).unwrap_or_default();
                let texts: Vec<Option<Vec<u8>>> = picked.iter().map(text).collect();
                pack_texts(&texts).and_then(|packed| answer.add(*head, &packed))
            }
            _ => Some(()),
        };
        put.ok_or_else(|| io::Error::other("what comes back has another length"))
    }
}

/// # Safety
/// A function lies at the address that takes, by address, what the plan says, and leaves good addresses where texts come back.
unsafe fn call(address: usize, plan: &Plan, question: &Question) -> Result<Bytes, String> {
    let told = |error: io::Error| error.to_string();
    let scratch = Scratch::of(plan).map_err(told)?;
    let mut heads = Aligned::of(
        question
            .data
            .get(..plan.places.len() * HEAD_BYTES)
            .unwrap_or_default(),
    );
    let places = plan.places.iter().enumerate();
    let given: io::Result<Vec<With>> = places
        .map(|(number, place)| With::new(question, number, place, scratch.as_ref()))
        .collect();
    let mut given = given.map_err(told)?;
    let with: Vec<*mut u8> = (plan.places.iter().zip(&mut given).enumerate())
        .map(|(number, (place, with))| match place {
            Placed::Scalar => heads.at((number * HEAD_BYTES) as u64),
            _ => with.address(place),
        })
        .collect();
    // SAFETY: the caller's promise; the addresses are of what the plan says, and stay for as long as the function runs.
    unsafe { kumiko_gridrpc_answer(address, with.as_ptr(), with.len()) };
    let mut answer = Answer::new(plan);
    for (place, with) in plan.places.iter().zip(&given) {
        // SAFETY: the caller's promise.
        unsafe { with.back(place, &mut answer) }.map_err(told)?;
    }
    answer.done()
}
