//! Multirequests (spec/rsl R40 to R43): the parts of one, each with what DUROC's clients say of its place among the others.
//! Not here: their start (`crate::barrier`).

use super::code::GramCode;
use super::error::{RslError, RslProblem};
use super::evaluate::{Variables, evaluate};
use super::request::{Request, Submission, parts, request};
use super::syntax::{Combine, Compare, Place, Relation, Spec, Value, canonical};
use crate::barrier::Start;
use crate::together::MAX_SUBJOBS;

/// One part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjob {
    pub submission: Submission,
    /// `resourceManagerContact`: a site.
    pub contact: Option<String>,
    pub label: Option<String>,
    /// `subjobStartType`.
    pub start: Start,
    /// It is told its place among the others (`subjobCommsType` is not `independent`).
    pub joins: bool,
}

/// The parts of a multirequest; a request that is none is its own only part.
///
/// # Errors
/// As of a submission; a part that is none; words that DUROC has not.
pub fn subjobs(spec: &Spec, variables: &Variables) -> Result<Vec<Subjob>, RslError> {
    let spec = evaluate(spec, variables)?;
    let parts = parts(&spec);
    if parts.len() > MAX_SUBJOBS {
        let what = format!(
            "the request has {} parts, at most {MAX_SUBJOBS} are started together",
            parts.len()
        );
        return Err(bad(Place::default(), what));
    }
    parts.iter().map(subjob).collect()
}

fn subjob(part: &Spec) -> Result<Subjob, RslError> {
    let mut own = Own::default();
    let rest = own.take(part)?.unwrap_or(Spec::Combined {
        operator: Combine::And,
        parts: Vec::new(),
    });
    let submission = match request(&rest, &Variables::new())? {
        Request::Submit(submission) => *submission,
        Request::Restart(_) => {
            let what = "restart: a part of a multirequest is a new job".to_owned();
            return Err(bad(Place::default(), what));
        }
    };
    let start = match &own.start {
        None => Start::Strict,
        Some((text, at)) => match text.as_str() {
            "strict-barrier" => Start::Strict,
            "loose-barrier" => Start::Loose,
            "no-barrier" => Start::AtOnce,
            other => {
                let what = format!(
                    "subjobStartType: {other:?} is none of strict-barrier, loose-barrier, no-barrier"
                );
                return Err(bad(*at, what));
            }
        },
    };
    let joins = match &own.comms {
        None => true,
        Some((text, at)) => match text.as_str() {
            "blocking-join" => true,
            "independent" => false,
            other => {
                let what =
                    format!("subjobCommsType: {other:?} is neither blocking-join nor independent");
                return Err(bad(*at, what));
            }
        },
    };
    Ok(Subjob {
        submission,
        contact: own.contact.map(|(text, _)| text),
        label: own.label.map(|(text, _)| text),
        start,
        joins,
    })
}

/// The attributes that are of a multirequest's client, and not of a job.
#[derive(Default)]
struct Own {
    contact: Option<(String, Place)>,
    label: Option<(String, Place)>,
    start: Option<(String, Place)>,
    comms: Option<(String, Place)>,
}

impl Own {
    /// Takes them out of a part; None: nothing else was in it.
    fn take(&mut self, spec: &Spec) -> Result<Option<Spec>, RslError> {
        match spec {
            Spec::Relation(relation) => {
                let Some(place) = self.place(&relation.attribute) else {
                    return Ok(Some(spec.clone()));
                };
                let said = text(relation)?;
                match place.replace((said, relation.at)) {
                    None => Ok(None),
                    Some(_) => {
                        let what = format!("{} was given before", relation.attribute);
                        Err(bad(relation.at, what))
                    }
                }
            }
            Spec::Combined {
                operator: Combine::And,
                parts,
            } => {
                let kept = parts.iter().map(|part| self.take(part));
                let kept: Vec<Option<Spec>> = kept.collect::<Result<_, _>>()?;
                Ok(Some(Spec::Combined {
                    operator: Combine::And,
                    parts: kept.into_iter().flatten().collect(),
                }))
            }
            // Refused by whoever reads it.
            other => Ok(Some(other.clone())),
        }
    }

    fn place(&mut self, attribute: &str) -> Option<&mut Option<(String, Place)>> {
        match canonical(attribute).as_str() {
            "resourcemanagercontact" => Some(&mut self.contact),
            "label" => Some(&mut self.label),
            "subjobstarttype" => Some(&mut self.start),
            "subjobcommstype" => Some(&mut self.comms),
            _ => None,
        }
    }
}

fn text(relation: &Relation) -> Result<String, RslError> {
    match (relation.operator, relation.values.as_slice()) {
        (Compare::Equal, [Value::Literal { text, .. }]) if !text.is_empty() => Ok(text.clone()),
        _ => {
            let what = format!("{} takes one text, by =", relation.attribute);
            Err(bad(relation.at, what))
        }
    }
}

fn bad(at: Place, what: String) -> RslError {
    RslProblem::Description {
        code: GramCode::BAD_RSL,
        what,
    }
    .at(at)
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    fn read(text: &str) -> Result<Vec<Subjob>, String> {
        let spec = parse(text).map_err(|error| error.to_string())?;
        subjobs(&spec, &Variables::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn each_part_has_its_site_its_label_and_its_start() {
        let text = "+(rsl_substitution=(SITE \"a:1\"))\
             (&(resourceManagerContact=$(SITE))(label=\"first\")(executable=/bin/a))\
             (&(resource_manager_contact=b)(SubjobStartType=loose-barrier)(subjobCommsType=independent)(executable=/bin/b))\
             (&(executable=/bin/c)(subjobStartType=no-barrier)(count=3))";
        let all = read(text).unwrap();
        let told: Vec<_> = all
            .iter()
            .map(|one| {
                let contact = one.contact.as_deref().unwrap_or("-");
                (
                    contact,
                    one.submission.executable.as_str(),
                    one.start,
                    one.joins,
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a:1", "/bin/a", Start::Strict, true),
                ("b", "/bin/b", Start::Loose, false),
                ("-", "/bin/c", Start::AtOnce, true),
            ]
        );
        assert_eq!(all[0].label.as_deref(), Some("first"));
        assert_eq!(all[2].submission.count, 3);
    }

    #[test]
    fn what_duroc_does_not_know_is_told_with_its_place() {
        let check = |text: &str, expected: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        };
        check(
            "+(&(executable=/bin/a)(subjobStartType=soft))",
            "column 24: subjobStartType: \"soft\" is none of",
        );
        check(
            "+(&(executable=/bin/a)(subjobCommsType=x))",
            "neither blocking-join",
        );
        check("+(&(executable=/bin/a)(label=a b))", "label takes one text");
        check(
            "+(&(label=a)(executable=/bin/a)(label=b))",
            "label was given before",
        );
        check("+(&(label=a))", "executable is missing");
        check("+(|(executable=/bin/a)(executable=/bin/b))", "alternatives");
    }
}
