//! spec/rsl: vectors, and that what is printed is read as what it was.
//! `KUMIKO_WRITE_VECTORS=1` writes what is missing, to be read before it is committed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_job::rsl::{
    self, Combine, Compare, GramCode, Place, Relation, Request, RslError, Spec, Value, Variables,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn vectors(folder: &str, told: impl Fn(&str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../spec/rsl/vectors")
        .join(folder);
    let mut texts: Vec<PathBuf> = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "rsl"))
        .collect();
    texts.sort();
    assert!(!texts.is_empty());
    for text in texts {
        let told = told(&std::fs::read_to_string(&text).unwrap()) + "\n";
        let beside = PathBuf::from(format!("{}.expected", text.display()));
        if !beside.exists() && std::env::var_os("KUMIKO_WRITE_VECTORS").is_some() {
            std::fs::write(&beside, &told).unwrap();
        }
        let expected = std::fs::read_to_string(&beside).unwrap_or_default();
        assert_eq!(told, expected, "{}", text.display());
    }
}

fn variables() -> Variables {
    let known = [
        ("HOME", "/job"),
        ("GLOBUS_GRAM_JOB_CONTACT", "https://site:1/16/17/"),
    ];
    known
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn refused(error: &RslError) -> String {
    format!("GRAM {}: {error}", error.gram())
}

fn what_it_asks_for(spec: &Spec) -> String {
    match rsl::request(spec, &variables()) {
        Err(error) => refused(&error),
        Ok(Request::Restart(restart)) => format!("{restart:?}"),
        Ok(Request::Submit(submission)) => match submission.describe("alice", "fork") {
            Err(error) => refused(&error),
            Ok(description) => serde_json::to_string_pretty(&description).unwrap(),
        },
    }
}

#[test]
fn valid_texts_are_printed_in_one_form_and_ask_for_what_stands_beside_them() {
    vectors("valid", |text| {
        let spec = rsl::parse(text).unwrap();
        let printed = spec.to_string();
        assert_eq!(rsl::parse(&printed).unwrap(), spec);
        format!("{printed}\n{}", what_it_asks_for(&spec))
    });
}

#[test]
fn invalid_texts_are_refused_with_their_place_and_number() {
    vectors("invalid", |text| refused(&rsl::parse(text).unwrap_err()));
}

#[test]
fn a_text_that_is_too_long_is_refused_before_it_is_read() {
    let long = format!("&(executable=\"{}\")", "x".repeat(rsl::MAX_RSL_BYTES));
    assert_eq!(rsl::parse(&long).unwrap_err().gram(), GramCode::BAD_RSL);
}

#[test]
fn an_update_of_stdout_takes_no_executable() {
    let update = |text: &str| rsl::stdio_update(&rsl::parse(text).unwrap(), &Variables::new());
    let moved = update("&(stdout=https://h:1/a)").unwrap();
    assert_eq!(moved.stdout.unwrap()[0].to, "https://h:1/a");
    assert_eq!(moved.stderr, None);
    let error = update("&(stdout=https://h:1/a)(executable=b)").unwrap_err();
    assert_eq!(error.gram(), GramCode::INVALID_STDIO_UPDATE_ATTRIBUTE);
}

#[test]
fn a_job_of_condors_kind_is_as_many_processes_where_htcondor_runs_jobs() {
    let spec = rsl::parse("&(executable=a)(job_type=condor)(count=3)").unwrap();
    let Request::Submit(submission) = rsl::request(&spec, &variables()).unwrap() else {
        panic!("it is a submission");
    };
    assert_eq!(submission.describe("alice", "condor").unwrap().count, 3);
    for batch in ["fork", "slurm"] {
        let error = submission.describe("alice", batch).unwrap_err();
        assert_eq!(error.gram(), GramCode::JOBTYPE_NOT_SUPPORTED, "{batch}");
    }
}

#[test]
fn the_parts_of_a_multirequest_are_requests() {
    let multi = rsl::parse("+(&(executable=a))(&(executable=b))").unwrap();
    assert_eq!(rsl::parts(&multi).len(), 2);
    let one = rsl::parse("&(executable=a)").unwrap();
    assert_eq!(rsl::parts(&one), std::slice::from_ref(&one));
}

#[test]
fn no_two_numbers_are_the_same_and_each_has_its_words() {
    let mut numbers: Vec<u16> = GramCode::ALL.iter().map(|(code, _)| code.0).collect();
    numbers.sort_unstable();
    let before = numbers.len();
    numbers.dedup();
    assert_eq!(numbers.len(), before);
    assert!(GramCode::ALL.iter().all(|(_, meaning)| !meaning.is_empty()));
}

fn text() -> impl Strategy<Value = String> {
    // Every sign of the language, blanks, line ends, and what is beyond ASCII.
    "[a-zA-Z0-9/$()&|+#=<>!\"'^*~ \t\né漢]{0,8}"
}

fn literal() -> impl Strategy<Value = Value> {
    text().prop_map(|text| Value::Literal {
        text,
        at: Place::default(),
    })
}

fn simple() -> impl Strategy<Value = Value> {
    literal().prop_recursive(3, 8, 2, |inner| {
        let variable =
            (text(), proptest::option::of(inner)).prop_map(|(name, default)| Value::Variable {
                name,
                default: default.map(Box::new),
                at: Place::default(),
            });
        prop_oneof![literal(), variable]
    })
}

fn value() -> impl Strategy<Value = Value> {
    let joined = proptest::collection::vec(simple(), 2..4).prop_map(Value::Concatenation);
    let leaf = prop_oneof![3 => simple(), 1 => joined];
    leaf.prop_recursive(3, 16, 3, |inner| {
        proptest::collection::vec(inner, 1..4).prop_map(|values| Value::Sequence {
            values,
            at: Place::default(),
        })
    })
}

fn relation() -> impl Strategy<Value = Spec> {
    let compare = prop_oneof![
        Just(Compare::Equal),
        Just(Compare::NotEqual),
        Just(Compare::Greater),
        Just(Compare::GreaterOrEqual),
        Just(Compare::Less),
        Just(Compare::LessOrEqual),
    ];
    (text(), compare, proptest::collection::vec(value(), 1..4)).prop_map(
        |(attribute, operator, values)| {
            Spec::Relation(Relation {
                attribute,
                operator,
                values,
                at: Place::default(),
            })
        },
    )
}

fn spec() -> impl Strategy<Value = Spec> {
    relation().prop_recursive(4, 24, 4, |inner| {
        let combine = prop_oneof![Just(Combine::And), Just(Combine::Or), Just(Combine::Multi)];
        (combine, proptest::collection::vec(inner, 1..4))
            .prop_map(|(operator, parts)| Spec::Combined { operator, parts })
    })
}

proptest! {
    #[test]
    fn what_is_printed_is_read_as_what_it_was(spec in spec()) {
        let printed = spec.to_string();
        prop_assert_eq!(rsl::parse(&printed).unwrap(), spec);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[&|+()=<>!\"'^*#$a-z \n]{0,40}") {
        if let Ok(spec) = rsl::parse(&text) {
            prop_assert_eq!(rsl::parse(&spec.to_string()).unwrap(), spec);
        }
    }
}
