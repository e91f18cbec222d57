//! Functions of the caller's that a routine has do some of its work: each is called on a thread of its own, with the address of every
//! argument. The caller promises what grpc.h says: a function takes what the IDL says, and stays until the session is waited for.

use kumiko_idl::{Placed, Plan, Signature};
use kumiko_rpc_client::{Question, Stages};
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
                        Ok(unsafe { call(address, &plan, &question.data) })
                    }
                };
                stages.answered(begun.elapsed());
                // Nobody waits for it any more if the call was cancelled.
                let _ = question.reply.send(said.map(Into::into));
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

    fn bytes(&self, length: u64) -> Vec<u8> {
        let bytes = self.0.iter().flat_map(|word| word.to_ne_bytes());
        bytes.take(usize::try_from(length).unwrap_or(0)).collect()
    }
}

/// # Safety
/// A function lies at the address that takes, by address, what the plan says.
unsafe fn call(address: usize, plan: &Plan, data: &[u8]) -> Vec<u8> {
    let mut given = Aligned::of(data);
    let mut taken = Aligned::new(plan.out_bytes);
    let mut with = Vec::with_capacity(plan.places.len());
    for (number, place) in plan.places.iter().enumerate() {
        with.push(match place {
            Placed::Array {
                given: from,
                taken: Some(to),
                ..
            } if to.bytes > 0 => {
                let place = taken.at(to.at);
                if let Some(from) = from {
                    let from = given.at(from.at);
                    let bytes = usize::try_from(to.bytes).unwrap_or(0);
                    if !from.is_null() && !place.is_null() {
                        // SAFETY: both are as long as the plan says, by which both were made; they are two allocations.
                        unsafe { std::ptr::copy_nonoverlapping(from, place, bytes) };
                    }
                }
                place
            }
            Placed::Array {
                given: Some(from), ..
            } if from.bytes > 0 => given.at(from.at),
            Placed::Text { at: Some(from) } => given.at(from.at),
            Placed::Scalar => given.at((number * kumiko_idl::HEAD_BYTES) as u64),
            _ => std::ptr::null_mut(),
        });
    }
    // SAFETY: the caller's promise; the addresses are of what the plan says, and stay for as long as the function runs.
    unsafe { kumiko_gridrpc_answer(address, with.as_ptr(), with.len()) };
    taken.bytes(plan.out_bytes)
}
