//! `kumiko rpc ...`: make routines, register them, call them.

mod call;
mod find;
pub(crate) mod library;
mod make;
mod results;
mod show;
mod values;

use crate::args::{Format, Target};
use crate::connect;
use crate::fail::Failure;
use crate::home::Home;
use crate::info::Among;
use crate::output::{self, Show, say};
use crate::site;
use clap::{Args, Subcommand, ValueEnum};
use kumiko_idl::Signature;
use kumiko_rpc_client::{Calls, Settings};
use kumiko_wire::rpc;
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Rpc {
    /// Make the programs of the routines in an IDL file, or in one of Python (.py), here and as you.
    Gen(make::Gen),
    /// Offer routines at your site, whose owner you are: programs that `gen` made.
    Register {
        #[arg(required = true, value_name = "PROGRAM")]
        programs: Vec<PathBuf>,
    },
    /// The routines of a site.
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Call a routine and wait for its result. Ctrl-C cancels the call.
    Call(Call),
    /// What is recorded of a call at its site: when it was called, computed, resumed, and taken.
    Show {
        /// As `call` named it, e.g. 7-3.
        call: String,
        #[command(flatten)]
        target: Target,
    },
    /// Have a call that computes go on elsewhere, from its newest checkpoint.
    Migrate {
        /// As `call` named it, e.g. 7-3.
        call: String,
        /// On this host of the site's engine, where the site has a pilot.
        #[arg(long = "to", value_name = "HOST")]
        to: Option<String>,
        #[command(flatten)]
        target: Target,
    },
    /// Have a call end that was begun here: it is not computed any further, and has no result.
    Cancel {
        /// As `call` named it, e.g. 7-3.
        call: String,
        #[command(flatten)]
        target: Target,
    },
    /// Take the result of a call that was begun here before.
    Attach {
        /// As `call` named it, e.g. 7-3.
        call: String,
        #[command(flatten)]
        results: Results,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Debug, Args)]
pub struct Call {
    /// MODULE/NAME.
    pub routine: String,
    /// What goes in, in order: numbers, texts, @FILE.npy for arrays, names of files. Sizes that arrays tell may be left out.
    #[arg(value_name = "ARGUMENT", allow_negative_numbers = true)]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub results: Results,
    /// What of the call outlives the site's process, and its machine.
    #[arg(long, value_enum, default_value = "auto")]
    pub durability: Durability,
    #[command(flatten)]
    pub among: Among,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Args)]
pub struct Results {
    /// Write an array that comes back to a file of NumPy instead of printing it; where a file that comes back goes.
    #[arg(long = "out", value_name = "NAME=FILE")]
    pub out: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Durability {
    /// Nothing: the fastest.
    None,
    /// The record; arguments and results outlive the process alone.
    Record,
    /// All of it.
    Full,
    /// All of it, if the call takes a second or its arguments are many; else nothing.
    Auto,
}

impl From<Durability> for rpc::Durability {
    fn from(durability: Durability) -> rpc::Durability {
        match durability {
            Durability::None => rpc::Durability::None,
            Durability::Record => rpc::Durability::Record,
            Durability::Full => rpc::Durability::Full,
            Durability::Auto => rpc::Durability::Auto,
        }
    }
}

pub async fn rpc(verb: Rpc, format: Format, home: &Home) -> Result<u8, Failure> {
    match verb {
        Rpc::Gen(asked) => make::make(asked, format),
        Rpc::Register { programs } => {
            let registry = site::registry(home)?;
            for program in programs {
                let routine = registry.register(&program)?;
                let signature = &routine.signature;
                say!("{}/{}", signature.module, signature.name)?;
            }
            Ok(0)
        }
        Rpc::List { target } => {
            let site = target.site.as_deref();
            let routines = connect::with(site, home, async |client| {
                let calls = Calls::new(client.clone(), Settings::default());
                Ok(calls.routines().await?)
            })
            .await?;
            let offered = routines.iter();
            let all: Vec<View> = offered
                .map(|one| view(&one.signature, one.dumped))
                .collect();
            output::many(format, &all)?;
            Ok(0)
        }
        Rpc::Show { call, target } => {
            let id = call::parse(&call)?;
            let site = target.site.as_deref();
            let recorded = connect::with(site, home, async |client| {
                let calls = Calls::new(client.clone(), Settings::default());
                Ok(calls.record(id).await?)
            })
            .await?;
            if recorded.is_empty() {
                return Err(Failure::from_text(format!(
                    "nothing is recorded of call {id}: it was never begun, was over before it was to be recorded (`rpc call --durability full` has all recorded), or is forgotten"
                )));
            }
            output::many(format, &show::lines(recorded))?;
            Ok(0)
        }
        Rpc::Call(arguments) => call::call(arguments, format, home).await,
        Rpc::Migrate { call, to, target } => {
            let id = call::parse(&call)?;
            let site = target.site.as_deref();
            let epoch = connect::with(site, home, async |client| {
                let calls = Calls::new(client.clone(), Settings::default());
                Ok(calls.migrate(id, to.as_deref()).await?)
            })
            .await?;
            match epoch {
                Some(epoch) => {
                    say!(
                        "attempt {epoch} of call {id} ends, and the next goes on from its newest checkpoint: `kumiko rpc show {id}` tells"
                    )?;
                    Ok(0)
                }
                None => Err(Failure::from_text(format!(
                    "call {id} is not computing: there is nothing to migrate; `kumiko rpc show {id}` tells how it is"
                ))),
            }
        }
        Rpc::Cancel { call, target } => call::cancel(&call, target.site.as_deref(), home).await,
        Rpc::Attach {
            call,
            results,
            target,
        } => call::attach(&call, &results, target.site.as_deref(), format, home).await,
    }
}

#[derive(Serialize)]
struct View {
    routine: String,
    documentation: Option<String>,
    signature: String,
    /// After the death of its process: `checkpoint`, it is resumed; `dump`, it goes on from a dump by CRIU; `restart`, it begins
    /// anew from the kept arguments.
    recovery: &'static str,
}

/// Of routines as they are made: what becomes of them at a site is not known.
fn views(routines: &[Signature]) -> Vec<View> {
    routines.iter().map(|one| view(one, false)).collect()
}

fn view(one: &Signature, dumped: bool) -> View {
    View {
        routine: format!("{}/{}", one.module, one.name),
        documentation: one.doc.clone(),
        signature: one.to_text(),
        recovery: match (one.checkpoint, dumped) {
            (true, _) => "checkpoint",
            (false, true) => "dump",
            (false, false) => "restart",
        },
    }
}

impl Show for View {
    fn human(&self) -> String {
        // Of the signature, what stands in its parentheses.
        let inside = self.signature.split_once('(').map_or("", |(_, rest)| rest);
        let depth = |depth: &mut i32, c: char| {
            match c {
                '(' => *depth += 1,
                ')' => *depth -= 1,
                _ => {}
            }
            (*depth >= 0).then_some(c)
        };
        let formals: String = inside.chars().scan(0, depth).collect();
        let words: Vec<&str> = formals.split_whitespace().collect();
        let documentation = self.documentation.as_deref().unwrap_or_default();
        let first = documentation.lines().next().unwrap_or_default();
        let mut line = format!("{}({})", self.routine, words.join(" "));
        if !first.is_empty() {
            line.push_str("  ");
            line.push_str(first);
        }
        format!("{line}  [{}]", self.recovery)
    }
}
