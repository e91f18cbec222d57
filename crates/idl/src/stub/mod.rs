//! The program of a routine as text (spec/idl I50 to I56): what the IDL says, around `runtime.c` and what follows it, and how it is compiled and
//! linked. Not here: compilers, files, and what the program is told (spec/rpc).

mod callbacks;
mod fortran;
mod python;

use fortran::Fortran;
pub use python::python_generator;

use crate::image::PlanError;
use crate::signature::{ElementType, Formal, Parameter, Signature};
use crate::syntax::{Body, Idl, Item, Opt, Routine, Setting};
use std::fmt::Write;

/// In this order: each needs what stands before it.
const RUNTIME: [&str; 4] = [
    include_str!("runtime.c"),
    include_str!("many.c"),
    include_str!("asking.c"),
    include_str!("serving.c"),
];
/// Its declarations stand in every program, so that one text is made with the library and without.
const CHECKPOINT: &str = include_str!("../../../../bindings/c/kumiko/kumiko_ckpt.h");

/// One routine's program.
#[derive(Clone, Debug, PartialEq)]
pub struct Stub {
    pub signature: Signature,
    pub language: Language,
    /// The whole text of the program.
    pub source: String,
    /// Words, as they are given to the programs: nothing of them is read by a shell.
    pub compiler: Vec<String>,
    pub linker: Vec<String>,
    /// Objects and libraries, in order.
    pub link: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
}

/// Programs of all routines of a checked file, in its order.
///
/// # Errors
/// A routine that could not be called.
pub fn stubs(idl: &Idl, routines: &[Signature]) -> Result<Vec<Stub>, PlanError> {
    let defined = idl.items.iter().filter_map(|item| match item {
        Item::Define(routine) => Some(&**routine),
        _ => None,
    });
    let pairs = defined.zip(routines);
    pairs
        .map(|(routine, signature)| stub(idl, routine, signature))
        .collect()
}

fn stub(idl: &Idl, routine: &Routine, signature: &Signature) -> Result<Stub, PlanError> {
    signature.callable()?;
    let words = |wanted: Setting| -> Vec<String> {
        let texts = idl.items.iter().filter_map(|item| match item {
            Item::Setting { setting, text, .. } if *setting == wanted => Some(text),
            _ => None,
        });
        texts
            .flat_map(|text| text.split_whitespace().map(str::to_owned))
            .collect()
    };
    let option = |name: &str| {
        routine.options.iter().find_map(|option| match option {
            Opt::Language { text, .. } if name == "Language" => Some(text.as_str()),
            Opt::Required { text, .. } if name == "Required" => Some(text.as_str()),
            _ => None,
        })
    };
    let called = match &routine.body {
        Body::Calls { convention, .. } => convention.as_deref(),
        Body::Code(_) => None,
    };
    let is_cpp = [option("Language"), called].contains(&Some("C++"));
    let language = if is_cpp { Language::Cpp } else { Language::C };
    let default = match language {
        Language::C => "cc",
        Language::Cpp => "c++",
    };
    let mut compiler = words(Setting::Compiler);
    if compiler.is_empty() {
        compiler.push(default.to_owned());
    }
    let mut linker = words(Setting::Linker);
    if linker.is_empty() {
        linker.clone_from(&compiler);
    }
    compiler.extend(words(Setting::CompileOptions));
    let required = option("Required").unwrap_or_default();
    let mut link: Vec<String> = required.split_whitespace().map(str::to_owned).collect();
    link.extend(words(Setting::Library));
    Ok(Stub {
        signature: signature.clone(),
        language,
        source: source(idl, routine, signature),
        compiler,
        linker,
        link,
    })
}

fn source(idl: &Idl, routine: &Routine, signature: &Signature) -> String {
    let mut out = format!(
        "/* {}/{}: made by `kumiko rpc gen`; change the IDL instead. */\n\n{CHECKPOINT}\n{}\n",
        signature.module,
        signature.name,
        RUNTIME.join("\n")
    );
    out.push_str(
        "typedef struct { float r, i; } scomplex;\ntypedef struct { double r, i; } dcomplex;\n\n",
    );
    let mut globals = false;
    for item in &idl.items {
        if let Item::Globals(code) = item {
            globals = true;
            // A directive of the preprocessor needs a line of its own.
            line(&mut out, code.text.trim());
        }
    }
    let formals = &signature.formals;
    let fortran = Fortran::of(idl, routine);
    for (number, formal) in formals.iter().enumerate() {
        if let Formal::Callback(callback) = formal {
            line(&mut out, &callbacks::function(number, callback));
            if let Some(fortran) = &fortran {
                line(&mut out, &fortran.callback(callback));
            }
        }
    }
    let call = match &routine.body {
        Body::Code(code) => {
            let text = code.text.trim_matches('\n').trim_end();
            Call {
                declaration: None,
                text: format!("    {{\n{text}\n    }}"),
            }
        }
        Body::Calls {
            function,
            arguments,
            ..
        } => {
            let named = |name: &str| {
                let mut numbered = formals.iter().enumerate();
                numbered.find(|(_, one)| one.name() == name)
            };
            let arguments: Vec<(usize, &Formal)> = arguments
                .iter()
                .filter_map(|name| named(&name.text))
                .collect();
            match fortran {
                Some(fortran) => fortran.call(&function.text, &arguments),
                None => c_call(&function.text, &arguments, globals),
            }
        }
    };
    if let Some(declaration) = &call.declaration {
        line(&mut out, declaration);
    }
    out.push_str("\nstatic void kumiko_routine(struct kumiko_value *kumiko_values) {\n");
    for (number, formal) in formals.iter().enumerate() {
        let Formal::Parameter(parameter) = formal else {
            continue;
        };
        let (name, c) = (&parameter.name, c_type(parameter.element));
        let declared = match (parameter.is_scalar(), parameter.element) {
            (true, ElementType::String | ElementType::Filename) => {
                format!("char *{name} = (char *)kumiko_values[{number}].memory;")
            }
            (true, _) => format!("{c} {name} = *({c} *)kumiko_values[{number}].memory;"),
            (false, ElementType::String | ElementType::Filename) => {
                format!("char **{name} = (char **)kumiko_values[{number}].memory;")
            }
            (false, _) => format!("{c} *{name} = ({c} *)kumiko_values[{number}].memory;"),
        };
        line(&mut out, &format!("    {declared} (void){name};"));
    }
    if formals.is_empty() {
        line(&mut out, "    (void)kumiko_values;");
    }
    line(&mut out, &call.text);
    // A body may leave by it (idl-spec of Ninf-G).
    out.push_str("    goto ng_stub_end;\nng_stub_end:\n    return;\n}\n\n");
    out.push_str("int main(int argc, char **argv) {\n");
    let count = formals.len();
    line(
        &mut out,
        &format!("    return kumiko_main(argc, argv, {count}, kumiko_routine);"),
    );
    out.push_str("}\n");
    out
}

struct Call {
    declaration: Option<String>,
    text: String,
}

/// The type by which C passes it.
fn passed(parameter: &Parameter) -> String {
    match (parameter.is_scalar(), parameter.element) {
        (true, element) if element.bytes().is_some() => c_type(element).to_owned(),
        (false, ElementType::String | ElementType::Filename) => "char **".to_owned(),
        (_, element) => format!("{} *", c_type(element)),
    }
}

/// Scalars by value. What Globals declare is not declared again.
fn c_call(function: &str, arguments: &[(usize, &Formal)], globals: bool) -> Call {
    let types: Vec<String> = arguments
        .iter()
        .map(|(_, one)| match one {
            Formal::Parameter(parameter) => passed(parameter),
            Formal::Callback(callback) => format!("void (*)({})", callbacks::types(callback)),
        })
        .collect();
    let types = match types.is_empty() {
        true => "void".to_owned(),
        false => types.join(", "),
    };
    let names: Vec<&str> = arguments.iter().map(|(_, one)| one.name()).collect();
    Call {
        declaration: (!globals).then(|| format!("extern void {function}({types});")),
        text: format!("    {function}({});", names.join(", ")),
    }
}

fn c_type(element: ElementType) -> &'static str {
    match element {
        ElementType::Int8 => "char",
        ElementType::Uint8 => "unsigned char",
        ElementType::Int16 => "short",
        ElementType::Uint16 => "unsigned short",
        ElementType::Int32 => "int",
        ElementType::Uint32 => "unsigned int",
        ElementType::Int64 => "long",
        ElementType::Uint64 => "unsigned long",
        ElementType::Float32 => "float",
        ElementType::Float64 => "double",
        ElementType::Complex64 => "scomplex",
        ElementType::Complex128 => "dcomplex",
        ElementType::String | ElementType::Filename => "char",
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{text}");
}
