//! `Calls "Fortran"` (spec/idl I52): everything by its address, and lengths of texts by value, after all or after each (gfortran: after all, as
//! size_t), both where the routine is called and where it calls its caller's functions. Not here: how that travels (`callbacks`).

use super::callbacks::elements;
use super::{Call, c_type};
use crate::signature::{Callback, ElementType, Formal, Parameter};
use crate::syntax::{Body, Idl, Item, Routine, Setting};

/// How this file's Fortran is called.
pub(super) struct Fortran<'a> {
    /// Of symbols.
    format: &'a str,
    lengths_after_each: bool,
}

/// The types, and what is given, of a call in either direction; lengths that come last.
#[derive(Default)]
struct Passed {
    types: Vec<String>,
    given: Vec<String>,
    last_types: Vec<String>,
    last: Vec<String>,
}

impl Passed {
    fn push(&mut self, what: &str, given: String) {
        self.types.push(what.to_owned());
        self.given.push(given);
    }

    fn length(&mut self, given: String, is_last: bool) {
        let (types, lengths) = match is_last {
            true => (&mut self.last_types, &mut self.last),
            false => (&mut self.types, &mut self.given),
        };
        types.push("size_t".to_owned());
        lengths.push(given);
    }

    /// Types, and what is given, in their order.
    fn all(mut self) -> (Vec<String>, Vec<String>) {
        self.types.append(&mut self.last_types);
        self.given.append(&mut self.last);
        (self.types, self.given)
    }
}

fn listed(types: &[String]) -> String {
    match types.is_empty() {
        true => "void".to_owned(),
        false => types.join(", "),
    }
}

/// Texts and names of files.
fn is_text(one: &Parameter) -> bool {
    one.element.bytes().is_none()
}

/// Texts come back to where Fortran has them; files do not get other names.
fn texts_come_back(one: &Parameter) -> bool {
    one.element == ElementType::String && one.mode.is_out()
}

fn wrapper(callback: &Callback) -> String {
    format!("kumiko_fortran_{}", callback.name)
}

impl<'a> Fortran<'a> {
    /// None: the routine calls no Fortran.
    pub fn of(idl: &'a Idl, routine: &Routine) -> Option<Fortran<'a>> {
        let Body::Calls { convention, .. } = &routine.body else {
            return None;
        };
        let convention = convention.as_deref()?;
        if !convention.eq_ignore_ascii_case("fortran") {
            return None;
        }
        let setting = idl.items.iter().find_map(|item| match item {
            Item::Setting {
                setting: Setting::FortranFormat,
                text,
                ..
            } => Some(text.as_str()),
            _ => None,
        });
        let just_after = |item: &Item| matches!(item, Item::FortranStringConvention(name) if name.text == "justAfter");
        Some(Fortran {
            format: setting.unwrap_or("%s_"),
            lengths_after_each: idl.items.iter().any(just_after),
        })
    }

    /// `arguments`: with the numbers of their formals.
    pub fn call(&self, function: &str, arguments: &[(usize, &Formal)]) -> Call {
        let symbol = self.format.replace("%s", function);
        let symbol = symbol.replace("%l", &function.to_uppercase());
        let mut passed = Passed::default();
        let (mut before, mut after) = (String::new(), String::new());
        for (number, formal) in arguments {
            let one = match formal {
                Formal::Parameter(one) => one,
                Formal::Callback(callback) => {
                    let (types, _) = self.taken(callback).all();
                    let what = format!("void (*)({})", listed(&types));
                    passed.push(&what, wrapper(callback));
                    continue;
                }
            };
            let name = &one.name;
            let (address, length) = match (one.is_scalar(), is_text(one)) {
                (true, false) => (format!("&{name}"), None),
                (false, false) => (name.clone(), None),
                (true, true) => (name.clone(), Some(format!("{name} ? strlen({name}) : 0"))),
                (false, true) => {
                    let (fixed, width) = (format!("kumiko_fixed_{name}"), width_of(name));
                    let all = format!("{name}, kumiko_count_{name}");
                    let out = u8::from(texts_come_back(one));
                    before.push_str(&format!(
                        "    uint64_t kumiko_count_{name} = kumiko_values[{number}].memory_bytes / sizeof(char *);\n    \
                         size_t {width} = kumiko_width({all}, {out});\n    \
                         char *{fixed} = kumiko_fixed({all}, {width});\n"
                    ));
                    if texts_come_back(one) {
                        after.push_str(&format!("    kumiko_texts_of({all}, {fixed}, {width});\n"));
                    }
                    after.push_str(&format!("    free({fixed});\n"));
                    (fixed, Some(width))
                }
            };
            passed.push(&format!("{} *", c_type(one.element)), address);
            if let Some(length) = length {
                passed.length(length, !self.lengths_after_each);
            }
        }
        let (types, given) = passed.all();
        Call {
            declaration: Some(format!("extern void {symbol}({});", listed(&types))),
            text: format!("{before}    {symbol}({});\n{after}", given.join(", "))
                .trim_end_matches('\n')
                .to_owned(),
        }
    }

    /// What Fortran gives a callback: types, and the names by which its arguments are known.
    fn taken(&self, callback: &Callback) -> Passed {
        let mut passed = Passed::default();
        for one in &callback.parameters {
            let name = &one.name;
            passed.push(&format!("{} *", c_type(one.element)), name.clone());
            if is_text(one) {
                passed.length(length_of(name), !self.lengths_after_each);
            }
        }
        passed
    }

    /// The function that Fortran calls for this one, which takes what C passes. Blanks at the end of a text fill its variable, and do not go along.
    pub fn callback(&self, callback: &Callback) -> String {
        let (types, names) = self.taken(callback).all();
        let both = types.iter().zip(&names);
        let formals: Vec<String> = both
            .map(|(of, name)| match of.ends_with('*') {
                true => format!("{of}{name}"),
                false => format!("{of} {name}"),
            })
            .collect();
        let (mut before, mut after) = (String::new(), String::new());
        let given: Vec<String> = callback
            .parameters
            .iter()
            .map(|one| {
                let name = &one.name;
                match (one.is_scalar(), is_text(one)) {
                    (true, true) => {
                        let text = format!("kumiko_text_{name}");
                        let length = length_of(name);
                        before.push_str(&format!(
                            "    char *{text} = kumiko_text_of({name}, {length});\n"
                        ));
                        after.push_str(&format!("    free({text});\n"));
                        text
                    }
                    (false, true) => {
                        let (texts, count) = (format!("kumiko_texts_{name}"), elements(one));
                        let (length, counted) = (length_of(name), format!("kumiko_count_{name}"));
                        let out = u8::from(texts_come_back(one));
                        before.push_str(&format!(
                            "    uint64_t {counted} = kumiko_counted({count});\n    \
                             char **{texts} = kumiko_texts_from({name}, {counted}, {length});\n"
                        ));
                        after.push_str(&format!(
                            "    kumiko_texts_to({name}, {counted}, {length}, {texts}, {out});\n"
                        ));
                        texts
                    }
                    (true, _) => format!("*{name}"),
                    (false, _) => name.clone(),
                }
            })
            .collect();
        let (symbol, name) = (wrapper(callback), &callback.name);
        let (formals, given) = (listed(&formals), given.join(", "));
        format!("static void {symbol}({formals}) {{\n{before}    {name}({given});\n{after}}}")
    }
}

fn width_of(text: &str) -> String {
    format!("kumiko_width_{text}")
}

fn length_of(text: &str) -> String {
    format!("kumiko_length_{text}")
}
