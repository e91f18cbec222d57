//! Arguments as C gives them, and where results go. The caller promises what the standard does: addresses are those of what the
//! routine's IDL says, and stay good until the session is waited for. Big arrays that are OUT alone are written to as they come, and of the
//! biggest that are INOUT the result waits in a file: they need no memory besides. Not here: sessions.

use crate::aside::{ASIDE_LEAST_BYTES, Aside};
use crate::codes::{Failed, RPC_REFUSED};
use crate::functions::Functions;
use crate::loans::{LENT_LEAST_BYTES, Loan, Loans};
use crate::memory::text_of;
use bytes::Bytes;
use kumiko_idl::{
    Array, ElementType, Formal, HEAD_BYTES, Parameter, Placed, Plan, Run, Signature, Span, Value,
};
use kumiko_rpc_client::{
    Argument, Arguments, Carried, Place, RpcError, pack, pick, place_back, plan, texts, unpack,
};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::unbounded_channel;

/// One argument as c/entries.c has read it.
#[derive(Clone, Copy)]
#[repr(C)]
pub union Slot {
    whole: i64,
    real: f64,
    address: *mut u8,
}

impl Slot {
    /// A scalar from where it lies; a text, a complex number and an array are their address. None: a scalar that lies nowhere.
    ///
    /// # Safety
    /// NULL, or the address of what `parameter` says.
    pub unsafe fn of(parameter: &Parameter, address: *mut u8) -> Option<Slot> {
        let kind = kind(parameter);
        if kind == b'p' {
            return Some(Slot { address });
        }
        let width = usize::try_from(parameter.element.bytes()?).ok()?;
        if address.is_null() {
            return None;
        }
        let mut bytes = [0; 8];
        // SAFETY: not NULL, and a scalar of this many bytes lies there; none that is no address has more than 8.
        unsafe { std::ptr::copy_nonoverlapping(address, bytes.as_mut_ptr(), width.min(8)) };
        let [a, b, c, d, ..] = bytes;
        Some(match (kind, width) {
            (b'd', 4) => Slot {
                real: f32::from_ne_bytes([a, b, c, d]).into(),
            },
            (b'd', _) => Slot {
                real: f64::from_ne_bytes(bytes),
            },
            // Only its lowest bytes are looked at.
            _ => Slot {
                whole: i64::from_ne_bytes(bytes),
            },
        })
    }
}

/// How C passes an argument of this parameter: see c/entries.c.
pub fn kind(parameter: &Parameter) -> u8 {
    use ElementType::{
        Complex64, Complex128, Filename, Float32, Float64, Int8, Int16, Int32, Int64, String,
        Uint8, Uint16, Uint32, Uint64,
    };
    if !parameter.is_scalar() {
        return b'p';
    }
    match parameter.element {
        // Shorter ones are promoted (C11 6.5.2.2).
        Int8 | Uint8 | Int16 | Uint16 | Int32 | Uint32 => b'i',
        Int64 | Uint64 => b'l',
        Float32 | Float64 => b'd',
        Complex64 | Complex128 | String | Filename => b'p',
    }
}

impl Slot {
    /// What is passed by its address, a function too.
    pub fn pointer(address: *mut u8) -> Slot {
        Slot { address }
    }
}

/// Where one array of a result goes.
struct Output {
    address: *mut u8,
    array: Array,
    at: usize,
    bytes: usize,
    is_only_out: bool,
}

impl Output {
    /// Where it is written as it comes, if it is so big, and without gaps.
    fn receive(&self, places: &mut Loans, read: &Loans) -> Option<Received> {
        let mut runs = self.array.runs()?;
        let run = runs
            .next()
            .filter(|run: &Run| run.bytes >= LENT_LEAST_BYTES)?;
        if runs.next().is_some() {
            return None;
        }
        if self.is_only_out {
            if let Some(there) = places.receive(self.address, &run, read) {
                return Some(Received::There(there));
            }
        }
        if run.bytes < ASIDE_LEAST_BYTES {
            return None;
        }
        let aside = Aside::new(run.bytes, places.give_back(self.address, &run));
        aside.map(Arc::new).map(Received::Aside)
    }
}

/// Where an array of texts goes: its formal's number, and the caller's array of addresses.
struct Addresses {
    number: usize,
    address: *mut *mut c_void,
    array: Array,
}

/// What takes an array while it comes.
enum Received {
    There(Arc<Loan>),
    Aside(Arc<Aside>),
}

/// Where a result goes, but for what is where it belongs as it comes.
pub struct Outputs {
    /// What has no place: side by side.
    packed: Vec<Output>,
    aside: Vec<Arc<Aside>>,
    texts: Vec<Addresses>,
    plan: Plan,
}

// SAFETY: the addresses are the caller's arrays, which it leaves alone until it has waited for the session (grpc.h); only the
// thread that takes the result writes there, once.
unsafe impl Send for Outputs {}

/// All that a call takes and gives.
pub struct Given {
    pub arguments: Arguments,
    pub outputs: Outputs,
    /// Of arrays that results are written to as they come.
    pub places: Loans,
    pub functions: Option<Functions>,
}

/// The arguments of one call: copied, but for what is lent.
///
/// # Safety
/// `slots` are what [`kind`] says of each formal of `signature`, and addresses are those of what the IDL says. They are good as long as
/// `loans` and the places that are given back are not dropped.
pub unsafe fn take(
    signature: &Arc<Signature>,
    slots: &[Slot],
    mut loans: Option<&mut Loans>,
) -> Result<Given, Failed> {
    let wrong = |error: &dyn std::fmt::Display| Failed::new(RPC_REFUSED, error.to_string());
    // What a function of the caller's writes to is no loan.
    let asks = |formal: &Formal| matches!(formal, Formal::Callback(_));
    if signature.formals.iter().any(asks) {
        loans = None;
    }
    let mut given = Vec::new();
    let mut functions = Vec::new();
    for (number, (formal, slot)) in signature.formals.iter().zip(slots).enumerate() {
        given.push(match formal {
            // SAFETY: a function is passed by its address.
            Formal::Callback(_) => unsafe {
                functions.push((number, slot.address as usize));
                Argument::Nothing
            },
            Formal::Parameter(one) if one.is_scalar() && one.element == ElementType::Filename => {
                // SAFETY: a name is passed by its address, and ends with a zero.
                unsafe { file(one, *slot) }.map_err(|error| wrong(&error))?
            }
            // SAFETY: the slot was read as the parameter's kind says.
            Formal::Parameter(one) if one.is_scalar() => unsafe { scalar(one, *slot) },
            Formal::Parameter(_) => Argument::Nothing,
        });
    }
    let sizes = plan(signature, &given).map_err(|error| wrong(&error))?;
    let mut outputs = Outputs {
        packed: Vec::new(),
        aside: Vec::new(),
        texts: Vec::new(),
        plan: sizes.clone(),
    };
    for (number, place) in sizes.places.iter().enumerate() {
        if let (Placed::Many { array, taken, .. }, Some(slot), Some(argument)) =
            (place, slots.get(number), given.get_mut(number))
        {
            let Some(Formal::Parameter(one)) = signature.formals.get(number) else {
                continue;
            };
            // SAFETY: arrays are passed by address, and were read so.
            let address = unsafe { slot.address };
            let travels = array.moved > 0 && (one.mode.is_in() || one.mode.is_out());
            if address.is_null() && travels {
                return Err(wrong(&format!("{} is NULL, and has elements", one.name)));
            }
            if travels {
                // SAFETY: an array is passed by its address, and has as many as its sizes, which the caller gives, say.
                *argument = unsafe { many(one, array, address) }.map_err(|error| wrong(&error))?;
            }
            if travels && taken.is_some() && one.element == ElementType::String {
                outputs.texts.push(Addresses {
                    number,
                    address: address.cast(),
                    array: array.clone(),
                });
            }
            continue;
        }
        let Placed::Array {
            array,
            memory_bytes,
            given: sent,
            taken,
        } = place
        else {
            continue;
        };
        let Some(slot) = slots.get(number) else {
            continue;
        };
        // SAFETY: arrays are passed by address, and were read so.
        let address = unsafe { slot.address };
        let length = usize::try_from(*memory_bytes).map_err(|error| wrong(&error))?;
        let travels = array.moved_bytes().unwrap_or(0) > 0 && (sent.is_some() || taken.is_some());
        if address.is_null() && travels {
            let name = signature.formals.get(number).map_or("", Formal::name);
            return Err(wrong(&format!("{name} is NULL, and has elements")));
        }
        if let (Some(_), Some(argument)) = (sent, given.get_mut(number)) {
            let mut runs = array.runs().into_iter().flatten();
            let run = runs.next().filter(|run| run.bytes >= LENT_LEAST_BYTES);
            *argument = match (run, runs.next(), &mut loans) {
                (Some(run), None, Some(loans)) => loans.lend(address, &run),
                _ if !travels => Argument::Array(Bytes::new()),
                _ => {
                    // SAFETY: the caller's array has as many bytes as its sizes, which the caller gives, say.
                    let whole = unsafe { std::slice::from_raw_parts(address, length) };
                    let packed = pack(array, whole);
                    Argument::Array(packed.ok_or_else(|| wrong(&"an array has no size"))?)
                }
            };
        }
        if let (Some(span), true) = (taken, travels) {
            outputs.packed.push(Output {
                address,
                array: array.clone(),
                at: usize::try_from(span.at).map_err(|error| wrong(&error))?,
                bytes: usize::try_from(span.bytes).map_err(|error| wrong(&error))?,
                is_only_out: sent.is_none(),
            });
        }
    }
    let mut arguments = Arguments::new(signature, &given).map_err(|error| wrong(&error))?;
    let mut places = Loans::default();
    if functions.is_empty() {
        if !arguments.plan.has_tail() {
            let nothing = Loans::default();
            let read = loans.as_deref().unwrap_or(&nothing);
            arguments = arguments.with_places(outputs.place(&mut places, read));
        }
        return Ok(Given {
            arguments,
            outputs,
            places,
            functions: None,
        });
    }
    let (to, questions) = unbounded_channel();
    let functions = Functions {
        signature: Arc::clone(signature),
        functions,
        questions,
    };
    Ok(Given {
        arguments: arguments.with_functions(to),
        outputs,
        places,
        functions: Some(functions),
    })
}

/// # Safety
/// As [`take`].
unsafe fn file(parameter: &Parameter, slot: Slot) -> Result<Argument, RpcError> {
    // SAFETY: of this kind.
    let carried = unsafe { carried(parameter, slot.address.cast()) };
    carried.map(Argument::File)
}

/// # Safety
/// The address is NULL, or of a name that ends with a zero.
unsafe fn carried(parameter: &Parameter, address: *const c_char) -> Result<Carried, RpcError> {
    let name = match address.is_null() {
        true => &[],
        // SAFETY: not NULL, so a text that ends with a zero.
        false => unsafe { CStr::from_ptr(address) }.to_bytes(),
    };
    Carried::new(parameter.mode, Path::new(OsStr::from_bytes(name)))
}

/// Texts that go in, and files.
///
/// # Safety
/// As [`take`]; not NULL.
unsafe fn many(
    parameter: &Parameter,
    array: &Array,
    address: *mut u8,
) -> Result<Argument, RpcError> {
    let is_file = parameter.element == ElementType::Filename;
    if !is_file && !parameter.mode.is_in() {
        return Ok(Argument::Nothing);
    }
    let elements = usize::try_from(array.elements).unwrap_or(0);
    // SAFETY: the caller's array has so many; each is a text that ends with a zero, or NULL. Those that do not travel are not looked at.
    let all = unsafe { std::slice::from_raw_parts(address.cast::<*const c_char>(), elements) };
    let picked = pick(array, all).unwrap_or_default();
    if is_file {
        let file = |name| {
            // SAFETY: as above.
            unsafe { carried(parameter, name) }
        };
        let files: Result<_, _> = picked.into_iter().map(file).collect();
        return files.map(Argument::Files);
    }
    let texts = picked.into_iter().map(|text| {
        // SAFETY: as above.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
        text.map(|text| Bytes::copy_from_slice(text.to_bytes()))
    });
    Ok(Argument::Texts(texts.collect()))
}

/// # Safety
/// As [`take`].
unsafe fn scalar(parameter: &Parameter, slot: Slot) -> Argument {
    match (kind(parameter), parameter.element) {
        (b'd', _) => {
            // SAFETY: of this kind.
            Argument::Number(Value::Real(unsafe { slot.real }))
        }
        (b'p', ElementType::String) => {
            // SAFETY: of this kind; a text ends with a zero, or is NULL.
            let text = unsafe {
                let address = slot.address.cast::<c_char>();
                (!address.is_null()).then(|| CStr::from_ptr(address))
            };
            Argument::Text(text.map(|text| Bytes::copy_from_slice(text.to_bytes())))
        }
        (b'p', element) => {
            let mut head = [0; HEAD_BYTES];
            let width = usize::try_from(element.bytes().unwrap_or(0)).unwrap_or(0);
            // SAFETY: a complex scalar is passed by its address.
            unsafe {
                if !slot.address.is_null() {
                    std::ptr::copy_nonoverlapping(slot.address, head.as_mut_ptr(), width);
                }
            }
            Argument::Head(head)
        }
        (_, element) => {
            // SAFETY: of this kind.
            let whole = unsafe { slot.whole };
            // An int that stands for a shorter or unsigned type keeps its lowest bits, as in C.
            let mut head = [0; HEAD_BYTES];
            let width = usize::try_from(element.bytes().unwrap_or(0)).unwrap_or(0);
            let bytes = whole.to_le_bytes();
            head.iter_mut()
                .zip(bytes.iter().take(width))
                .for_each(|(to, from)| *to = *from);
            Argument::Head(head)
        }
    }
}

impl Outputs {
    /// Takes out what is written as it comes; the others lie side by side without it.
    fn place(&mut self, places: &mut Loans, read: &Loans) -> Vec<Place> {
        let mut placed: Vec<Place> = Vec::new();
        let mut bytes = 0;
        self.packed.retain_mut(|one| {
            let span = Span {
                at: one.at as u64,
                bytes: one.bytes as u64,
            };
            match one.receive(places, read) {
                Some(Received::There(loan)) => placed.push((span, loan)),
                Some(Received::Aside(aside)) => {
                    self.aside.push(Arc::clone(&aside));
                    placed.push((span, aside));
                }
                None => {
                    one.at -= bytes;
                    return true;
                }
            }
            bytes += one.bytes;
            false
        });
        placed
    }

    /// When all of a result is here: what waited aside for that goes where it belongs.
    pub async fn commit(&mut self) -> Result<(), RpcError> {
        for aside in &self.aside {
            aside.commit().await?;
        }
        Ok(())
    }

    /// Puts a whole result where it belongs; false: it has not the length that it was to have, and nothing was written.
    pub fn put(&self, result: &[u8]) -> bool {
        let fits = |one: &Output| result.get(one.at..one.at + one.bytes).is_some();
        if !self.packed.iter().all(fits) {
            return false;
        }
        for one in &self.packed {
            let packed = result.get(one.at..one.at + one.bytes).unwrap_or_default();
            let length = usize::try_from(one.array.memory_bytes().unwrap_or(0)).unwrap_or(0);
            // SAFETY: the caller's array has `length` bytes by the sizes that it gave, and is left alone by all others until
            // the session is waited for.
            let whole = unsafe { std::slice::from_raw_parts_mut(one.address, length) };
            if unpack(&one.array, packed, whole).is_none() {
                return false;
            }
        }
        self.texts.is_empty() || self.put_texts(result).is_some()
    }

    /// Each in memory of its own, which is the caller's from then on.
    fn put_texts(&self, result: &[u8]) -> Option<()> {
        let all = texts(&self.plan, result)?;
        for one in &self.texts {
            let (_, texts) = all.iter().find(|(number, _)| *number == one.number)?;
            let copies: Option<Vec<*mut c_void>> = texts
                .iter()
                .map(|text| match text {
                    None => Some(std::ptr::null_mut()),
                    Some(text) => Some(text_of(*text)).filter(|copy| !copy.is_null()),
                })
                .collect();
            let elements = usize::try_from(one.array.elements).ok()?;
            // SAFETY: the caller's array has so many addresses by the sizes that it gave, and is left alone by all others until the
            // session is waited for.
            let all = unsafe { std::slice::from_raw_parts_mut(one.address, elements) };
            place_back(&one.array, copies?, all)?;
        }
        Some(())
    }
}
