//! From tokens to the tree (spec/idl I4 to I6): a function a rule. Expressions are in `parse_expr`.

use crate::error::{IdlError, Problem, Wrong};
use crate::lex::{Lexer, Placed, Token};
use crate::syntax::{
    Body, Class, ClassItem, Code, Declarator, Dim, Distribution, Idl, Item, Mode, Name, Opt, Param,
    ParamOrCallback, Place, Range, Routine, Setting, TypeWord,
};

/// Most bytes of a text: C bodies of a whole library fit, and an error tells a wrong file at once.
pub const MAX_IDL_BYTES: usize = 4 << 20;
/// Most bytes of a name; C promises 63 significant ones, linkers take more.
pub const MAX_NAME_BYTES: usize = 255;
/// Most parameters of a routine, and of a callback: the longest of ScaLAPACK has 40.
pub const MAX_PARAMETERS: usize = 256;
/// Most dimensions of an array: Fortran 2008 has 15.
pub const MAX_DIMENSIONS: usize = 15;

/// Reads a text, which a C preprocessor may have been over.
///
/// # Errors
/// What stands where it does not belong, by file, line and column.
pub fn parse(text: &str) -> Result<Idl, IdlError> {
    let mut parser = Parser::new(text);
    let items = if text.len() > MAX_IDL_BYTES {
        Err(Problem::TooLong { bytes: text.len() }.at(Place::default()))
    } else {
        parser.items()
    };
    let files = parser.lexer.files;
    match items {
        Ok(items) => Ok(Idl { items, files }),
        Err(wrong) => Err(wrong.told(&files)),
    }
}

/// Words that are no names (idl-spec of Ninf-G, "keywords").
pub(crate) fn is_keyword(word: &str) -> bool {
    const KEYWORDS: [&str; 15] = [
        "Module",
        "Globals",
        "Define",
        "DefClass",
        "DefState",
        "DefMethod",
        "Calls",
        "Required",
        "Backend",
        "Shrink",
        "Checkpoint",
        "CalcOrder",
        "Language",
        "FortranStringConvention",
        "CALLBACK",
    ];
    KEYWORDS.contains(&word)
        || setting(word).is_some()
        || mode(word).is_some()
        || distribution(word).is_some()
        || type_word(word).is_some()
}

fn setting(word: &str) -> Option<Setting> {
    Setting::ALL.into_iter().find(|one| one.word() == word)
}

fn mode(word: &str) -> Option<Mode> {
    let mut all = Mode::ALL.into_iter();
    all.find(|one| one.word() == word || one.old_word() == word)
}

fn distribution(word: &str) -> Option<Distribution> {
    let mut all = Distribution::ALL.into_iter();
    all.find(|one| one.word() == word)
}

pub(crate) fn type_word(word: &str) -> Option<TypeWord> {
    TypeWord::ALL.into_iter().find(|one| one.word() == word)
}

pub(crate) struct Parser<'a> {
    pub lexer: Lexer<'a>,
    ahead: Option<Placed>,
    /// Of the expression or declarator that is being read.
    pub depth: usize,
    /// Parts of the expression that is being read.
    pub nodes: usize,
}

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Parser<'a> {
        Parser {
            lexer: Lexer::new(text),
            ahead: None,
            depth: 0,
            nodes: 0,
        }
    }

    pub fn peek(&mut self) -> Result<Option<&Token>, Wrong> {
        if self.ahead.is_none() {
            self.ahead = self.lexer.token()?;
        }
        Ok(self.ahead.as_ref().map(|placed| &placed.token))
    }

    pub fn next(&mut self) -> Result<Option<Placed>, Wrong> {
        match self.ahead.take() {
            Some(placed) => Ok(Some(placed)),
            None => self.lexer.token(),
        }
    }

    /// Where the next token stands, or the text ends.
    pub fn at(&mut self) -> Result<Place, Wrong> {
        self.peek()?;
        Ok(self
            .ahead
            .as_ref()
            .map_or(self.lexer.at(), |placed| placed.at))
    }

    pub fn unexpected<T>(&mut self, expected: &'static str) -> Result<T, Wrong> {
        let problem = match self.peek()? {
            Some(token) => Problem::Unexpected {
                found: token.name(),
                expected,
            },
            None => Problem::Ends { expected },
        };
        Err(problem.at(self.at()?))
    }

    pub fn is(&mut self, sign: &str) -> Result<bool, Wrong> {
        Ok(matches!(self.peek()?, Some(Token::Sign(found)) if *found == sign))
    }

    /// Takes the sign if it is next.
    pub fn take(&mut self, sign: &str) -> Result<bool, Wrong> {
        let found = self.is(sign)?;
        if found {
            self.next()?;
        }
        Ok(found)
    }

    pub fn expect(&mut self, sign: &str, expected: &'static str) -> Result<(), Wrong> {
        match self.take(sign)? {
            true => Ok(()),
            false => self.unexpected(expected),
        }
    }

    fn word(&mut self) -> Result<Option<String>, Wrong> {
        Ok(match self.peek()? {
            Some(Token::Word(word)) => Some(word.clone()),
            _ => None,
        })
    }

    /// Takes the word for which there is something, if it is next.
    fn take_word<T>(&mut self, of: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Wrong> {
        let found = self.word()?.and_then(|word| of(&word));
        if found.is_some() {
            self.next()?;
        }
        Ok(found)
    }

    pub fn name(&mut self, expected: &'static str) -> Result<Name, Wrong> {
        let at = self.at()?;
        match self.word()? {
            Some(text) if !is_keyword(&text) => {
                self.next()?;
                Ok(Name { text, at })
            }
            _ => self.unexpected(expected),
        }
    }

    fn text(&mut self, expected: &'static str) -> Result<String, Wrong> {
        match self.text_if_any()? {
            Some(text) => Ok(text),
            None => self.unexpected(expected),
        }
    }

    fn text_if_any(&mut self) -> Result<Option<String>, Wrong> {
        let found = match self.peek()? {
            Some(Token::Text(text)) => Some(text.clone()),
            _ => None,
        };
        if found.is_some() {
            self.next()?;
        }
        Ok(found)
    }

    fn items(&mut self) -> Result<Vec<Item>, Wrong> {
        const EXPECTED: &str = "a declaration, as Module or Define";
        let mut items = Vec::new();
        while self.peek()?.is_some() {
            let at = self.at()?;
            let Some(word) = self.word()? else {
                return self.unexpected(EXPECTED);
            };
            if let Some(setting) = setting(&word) {
                self.next()?;
                let text = self.text("a quotation")?;
                self.expect(";", "';' at the end of the declaration")?;
                items.push(Item::Setting { setting, text, at });
                continue;
            }
            let known = [
                "Module",
                "FortranStringConvention",
                "Globals",
                "Define",
                "DefClass",
            ];
            if !known.contains(&word.as_str()) {
                return self.unexpected(EXPECTED);
            }
            self.next()?;
            items.push(match word.as_str() {
                "Module" => Item::Module(self.ended_name("the name of the module")?),
                "Globals" => Item::Globals(self.code("'{' before the C")?),
                "Define" => Item::Define(Box::new(self.routine()?)),
                "DefClass" => Item::DefClass(self.class()?),
                _ => Item::FortranStringConvention(self.ended_name("last or justAfter")?),
            });
        }
        Ok(items)
    }

    fn ended_name(&mut self, expected: &'static str) -> Result<Name, Wrong> {
        let name = self.name(expected)?;
        self.expect(";", "';' at the end of the declaration")?;
        Ok(name)
    }

    fn code(&mut self, expected: &'static str) -> Result<Code, Wrong> {
        let at = self.at()?;
        // Nothing was read beyond the brace, so the lexer stands where C begins.
        self.expect("{", expected)?;
        let text = self.lexer.code(at)?;
        Ok(Code { text, at })
    }

    fn routine(&mut self) -> Result<Routine, Wrong> {
        let name = self.name("the name of the routine")?;
        let parameters = self.parameters(&name)?;
        let doc = self.text_if_any()?;
        let options = self.options()?;
        let body = if self
            .take_word(|word| (word == "Calls").then_some(()))?
            .is_some()
        {
            self.calls()?
        } else {
            Body::Code(self.code("an option, Calls, or '{' before the C")?)
        };
        Ok(Routine {
            name,
            parameters,
            doc,
            options,
            body,
        })
    }

    fn calls(&mut self) -> Result<Body, Wrong> {
        let convention = self.text_if_any()?;
        let function = self.name("the function that is called")?;
        self.expect("(", "'(' before the arguments")?;
        let mut arguments = Vec::new();
        if !self.take(")")? {
            loop {
                arguments.push(self.name("the name of a parameter")?);
                if arguments.len() > MAX_PARAMETERS {
                    let name = function.text;
                    return Err(Problem::Parameters { name }.at(function.at));
                }
                if !self.take(",")? {
                    break;
                }
            }
            self.expect(")", "',' or ')'")?;
        }
        self.expect(";", "';' at the end of the call")?;
        Ok(Body::Calls {
            convention,
            function,
            arguments,
        })
    }

    fn class(&mut self) -> Result<Class, Wrong> {
        let name = self.name("the name of the class")?;
        let doc = self.text_if_any()?;
        let options = self.options()?;
        self.expect("{", "an option, or '{' before the methods")?;
        let mut items = Vec::new();
        while !self.take("}")? {
            match self.word()?.as_deref() {
                Some("DefState") => {
                    self.next()?;
                    items.push(ClassItem::State(self.code("'{' before the C")?));
                }
                Some("DefMethod") => {
                    self.next()?;
                    items.push(ClassItem::Method(Box::new(self.routine()?)));
                }
                _ => return self.unexpected("DefState, DefMethod or '}'"),
            }
        }
        Ok(Class {
            name,
            doc,
            options,
            items,
        })
    }

    fn options(&mut self) -> Result<Vec<Opt>, Wrong> {
        let mut options = Vec::new();
        loop {
            let at = self.at()?;
            let word = self.word()?;
            let option = match word.as_deref() {
                Some("Required" | "Backend" | "Shrink" | "Checkpoint" | "Language") => {
                    self.next()?;
                    let text = self.text("a quotation")?;
                    match word.as_deref() {
                        Some("Required") => Opt::Required { text, at },
                        Some("Backend") => Opt::Backend { text, at },
                        Some("Shrink") => Opt::Shrink { text, at },
                        Some("Checkpoint") => Opt::Checkpoint { text, at },
                        _ => Opt::Language { text, at },
                    }
                }
                Some("CalcOrder") => {
                    self.next()?;
                    let order = self.expression()?;
                    Opt::CalcOrder { order, at }
                }
                _ => return Ok(options),
            };
            // Each may stand once; which of two is meant nobody can know.
            if options.iter().any(|one: &Opt| one.word() == option.word()) {
                let option = option.word();
                return Err(Problem::OptionAgain { option }.at(at));
            }
            options.push(option);
        }
    }

    fn parameters(&mut self, of: &Name) -> Result<Vec<ParamOrCallback>, Wrong> {
        self.expect("(", "'(' before the parameters")?;
        let mut parameters = Vec::new();
        if self.take(")")? {
            return Ok(parameters);
        }
        loop {
            let parameter = match self.word()? {
                Some(word) if !is_keyword(&word) => {
                    let name = self.name("the name of a callback")?;
                    let parameters = self.callback_parameters(&name)?;
                    ParamOrCallback::Callback { name, parameters }
                }
                _ => ParamOrCallback::Param(self.parameter()?),
            };
            parameters.push(parameter);
            if parameters.len() > MAX_PARAMETERS {
                let name = of.text.clone();
                return Err(Problem::Parameters { name }.at(of.at));
            }
            if !self.take(",")? {
                self.expect(")", "',' or ')'")?;
                return Ok(parameters);
            }
        }
    }

    fn callback_parameters(&mut self, of: &Name) -> Result<Vec<Param>, Wrong> {
        self.expect(
            "(",
            "'(' of a callback (a parameter begins with a mode or a type)",
        )?;
        let mut parameters = Vec::new();
        if self.take(")")? {
            return Ok(parameters);
        }
        loop {
            parameters.push(self.parameter()?);
            if parameters.len() > MAX_PARAMETERS {
                let name = of.text.clone();
                return Err(Problem::Parameters { name }.at(of.at));
            }
            if !self.take(",")? {
                self.expect(")", "',' or ')'")?;
                return Ok(parameters);
            }
        }
    }

    /// Mode and type in either order, and a type may stand around a mode (`long mode_in int n`).
    fn parameter(&mut self) -> Result<Param, Wrong> {
        const MODE_OR_TYPE: &str = "a mode or a type, as IN or double";
        // The longest type has three words: unsigned long int, or four with a second long.
        const MOST_TYPE_WORDS: usize = 4;
        let (mut found, mut spread) = (None, None);
        let mut words = Vec::new();
        loop {
            if words.len() < MOST_TYPE_WORDS {
                if let Some(word) = self.take_word(type_word)? {
                    words.push(word);
                    continue;
                }
            }
            if found.is_none() {
                found = self.take_word(mode)?;
                if found.is_some() {
                    continue;
                }
            }
            if spread.is_none() {
                spread = self.take_word(distribution)?;
                if spread.is_some() {
                    continue;
                }
            }
            break;
        }
        if found.is_none() && words.is_empty() {
            return self.unexpected(MODE_OR_TYPE);
        }
        Ok(Param {
            mode: found,
            distribution: spread,
            words,
            declarator: self.declarator()?,
        })
    }

    fn declarator(&mut self) -> Result<Declarator, Wrong> {
        if self.take("*")? {
            self.deeper()?;
            let mut inner = self.declarator()?;
            self.depth -= 1;
            inner.pointers += 1;
            return Ok(inner);
        }
        let mut declarator = if self.take("(")? {
            self.deeper()?;
            let inner = self.declarator()?;
            self.depth -= 1;
            self.expect(")", "')' around the name")?;
            inner
        } else {
            Declarator {
                name: self.name("the name of the parameter")?,
                pointers: 0,
                dims: Vec::new(),
            }
        };
        while self.is("[")? {
            let dim = self.dim()?;
            declarator.dims.push(dim);
            if declarator.dims.len() > MAX_DIMENSIONS {
                let name = declarator.name.text;
                return Err(Problem::Dimensions { name }.at(declarator.name.at));
            }
        }
        Ok(declarator)
    }

    fn dim(&mut self) -> Result<Dim, Wrong> {
        let at = self.at()?;
        self.expect("[", "'['")?;
        let empty = self.is("]")? || self.is(":")?;
        let size = match empty {
            true => None,
            false => Some(self.expression()?),
        };
        let range = match self.take(":")? {
            true => Some(self.range()?),
            false => None,
        };
        self.expect("]", "']' at the end of the dimension")?;
        Ok(Dim { size, range, at })
    }

    fn range(&mut self) -> Result<Range, Wrong> {
        let first = self.expression()?;
        if !self.take(",")? {
            return Ok(Range {
                start: None,
                end: first,
                step: None,
            });
        }
        let end = self.expression()?;
        let step = match self.take(",")? {
            true => Some(self.expression()?),
            false => None,
        };
        Ok(Range {
            start: Some(first),
            end,
            step,
        })
    }
}
