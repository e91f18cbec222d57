//! The directory against a model that is a map and loops: whatever happens to both, they answer alike, and so does a
//! follower that hears only deltas (spec/info, N7 to N12).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use kumiko_directory::{
    Assertion, Attribute, Bounds, Datum, Directory, Dn, Entry, Filter, Op, Scope, SourceId, Stamp,
    datum, delta, normal, schema,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const ATTRIBUTES: [&str; 5] = [
    "Mds-Cpu-Total-count",
    "Mds-Os-name",
    "colour",
    "Mds-Cpu-speedMHz",
    "objectClass",
];
const VALUES: [&str; 9] = [
    "8",
    "16",
    "Linux",
    "linux  X",
    "red",
    "blue green",
    "2.5",
    "-3",
    "x8",
];
const SOURCE: SourceId = SourceId(7);

fn suffix() -> Dn {
    Dn::parse("Mds-Vo-name=local, o=grid").unwrap()
}

fn names() -> impl Strategy<Value = Dn> {
    (0..12_u32, prop::option::of(0..3_u32)).prop_map(|(host, device)| {
        let host = Dn::default().child("Mds-Host-hn", &format!("Host{host}"));
        match device {
            None => host,
            Some(device) => host.child("Mds-Device-name", &format!("dev {device}")),
        }
    })
}

fn attributes() -> impl Strategy<Value = Attribute> {
    let values = prop::collection::vec(prop::sample::select(&VALUES[..]), 0..4);
    (prop::sample::select(&ATTRIBUTES[..]), values).prop_map(|(name, values)| {
        let mut entry = Entry::new(Dn::default());
        entry.add(name, values);
        let mut attribute = entry.attributes.remove(0);
        attribute.stamp = Stamp {
            measured_ms: 5,
            holds_ms: 0,
        };
        attribute
    })
}

fn ops() -> impl Strategy<Value = Op> {
    prop_oneof![
        (names(), prop::collection::vec(attributes(), 0..4)).prop_map(|(dn, attributes)| {
            let mut entry = Entry::new(dn);
            for attribute in attributes {
                if entry.get(&attribute.name).is_none() {
                    entry.attributes.push(attribute);
                }
            }
            Op::Put(entry)
        }),
        (names(), attributes()).prop_map(|(dn, attribute)| Op::Set { dn, attribute }),
        names().prop_map(|dn| Op::Remove { dn }),
    ]
}

fn filters() -> impl Strategy<Value = Filter> {
    let value = prop::sample::select(&VALUES[..]).prop_map(str::to_owned);
    let part = prop::option::of(prop::sample::select(&["l", "r", "8", "n", "in"][..]));
    let name = prop::sample::select(
        &[
            "Mds-Cpu-Total-count",
            "mds-os-NAME",
            "colour",
            "Mds-Fs-mount",
            "nobody",
        ][..],
    );
    let test = prop_oneof![
        Just(Assertion::Present),
        value.clone().prop_map(Assertion::Equal),
        value.clone().prop_map(Assertion::AtLeast),
        value.prop_map(Assertion::AtMost),
        (-5..20).prop_map(|n| Assertion::Less(f64::from(n))),
        (-5..20).prop_map(|n| Assertion::More(f64::from(n))),
        (part.clone(), part.clone(), part).prop_map(|(a, b, c)| {
            let own = |p: Option<&str>| p.map(str::to_owned);
            match (a, b, c) {
                (None, None, None) => Assertion::Present,
                _ => Assertion::Substring {
                    initial: own(a),
                    any: own(b).into_iter().collect(),
                    last: own(c),
                },
            }
        }),
    ];
    let item = (name, test).prop_map(|(name, test)| Filter::Item {
        attribute: name.to_owned(),
        test,
    });
    item.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Or),
            inner.prop_map(|f| Filter::Not(Box::new(f))),
        ]
    })
}

/// The model: entries by normal name.
type Model = BTreeMap<String, Entry>;

fn model_apply(model: &mut Model, op: &Op) -> bool {
    let key = op.dn().key();
    match op {
        Op::Put(entry) => {
            let mut entry = entry.clone();
            entry.attributes.retain(|a| !a.values.is_empty());
            model.insert(key, entry);
            true
        }
        Op::Set { attribute, .. } => match model.get_mut(&key) {
            None => false,
            Some(entry) => {
                entry.attributes.retain(|a| a.name != attribute.name);
                if !attribute.values.is_empty() {
                    entry.attributes.push(attribute.clone());
                }
                true
            }
        },
        Op::Remove { .. } => model.remove(&key).is_some(),
    }
}

/// RFC 4511's three values, one entry at a time.
fn truth(model: &Model, entry: &Entry, filter: &Filter) -> Option<bool> {
    match filter {
        Filter::And(parts) => {
            let all: Vec<_> = parts.iter().map(|p| truth(model, entry, p)).collect();
            match () {
                () if all.contains(&Some(false)) => Some(false),
                () if all.contains(&None) => None,
                () => Some(true),
            }
        }
        Filter::Or(parts) => {
            let all: Vec<_> = parts.iter().map(|p| truth(model, entry, p)).collect();
            match () {
                () if all.contains(&Some(true)) => Some(true),
                () if all.contains(&None) => None,
                () => Some(false),
            }
        }
        Filter::Not(inner) => truth(model, entry, inner).map(|t| !t),
        Filter::Item { attribute, test } => {
            let declared = schema::attribute(attribute);
            let syntax = declared.map_or(schema::Syntax::Undeclared, |a| a.syntax);
            // What is neither declared nor told by anybody is not recognised.
            if declared.is_none() && !model.values().any(|e| e.get(attribute).is_some()) {
                return None;
            }
            let number = syntax == schema::Syntax::Number;
            if let Assertion::Equal(v) | Assertion::AtLeast(v) | Assertion::AtMost(v) = test {
                if number && matches!(datum(syntax, v), Datum::Text(_)) {
                    return None;
                }
            }
            let values = entry
                .get(attribute)
                .map_or(&[][..], |a| a.values.as_slice());
            Some(
                values
                    .iter()
                    .any(|v| passes(&datum(syntax, v), test, syntax)),
            )
        }
        Filter::Extensible { .. } => unreachable!("not generated"),
    }
}

fn passes(value: &Datum, test: &Assertion, syntax: schema::Syntax) -> bool {
    use std::cmp::Ordering;
    let order = |other: &str| match (value, datum(syntax, other)) {
        (Datum::Number(a), Datum::Number(b)) => a.partial_cmp(&b),
        (Datum::Text(a), Datum::Text(b)) => Some(a.cmp(&b)),
        _ => None,
    };
    match test {
        Assertion::Present => true,
        Assertion::Equal(v) => order(v) == Some(Ordering::Equal),
        Assertion::AtLeast(v) => order(v).is_some_and(Ordering::is_ge),
        Assertion::AtMost(v) => order(v).is_some_and(Ordering::is_le),
        Assertion::Less(n) => matches!(value, Datum::Number(v) if v < n),
        Assertion::More(n) => matches!(value, Datum::Number(v) if v > n),
        Assertion::Substring { initial, any, last } => {
            let text = match value {
                Datum::Number(n) => n.to_string(),
                Datum::Text(t) => t.clone(),
            };
            let initial = normal(initial.as_deref().unwrap_or("")).into_owned();
            let last = normal(last.as_deref().unwrap_or("")).into_owned();
            let Some(mut rest) = text.strip_prefix(&initial) else {
                return false;
            };
            for part in any {
                let Some(at) = rest.find(part.as_str()) else {
                    return false;
                };
                rest = &rest[at + part.len()..];
            }
            rest.ends_with(&last)
        }
        Assertion::Approximate(_) => unreachable!("not generated"),
    }
}

/// All that sources told, as text: what two directories have in common.
fn told(directory: &Directory) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let (ops, rest) = directory.ops_from(0, usize::MAX);
    assert!(rest.is_none());
    for op in ops {
        let Op::Put(mut entry) = op else { panic!() };
        entry.attributes.sort_by(|a, b| a.name.cmp(&b.name));
        all.insert(entry.dn.key(), format!("{:?}", entry.attributes));
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_directory_answers_as_the_model_does(
        ops in prop::collection::vec(ops(), 1..60),
        filters in prop::collection::vec(filters(), 8),
    ) {
        let mut directory = Directory::new(suffix(), Bounds::default());
        let mut model = Model::new();
        for op in &ops {
            let done = directory.apply(SOURCE, &suffix(), op).is_ok();
            prop_assert_eq!(done, model_apply(&mut model, op), "{:?}", op);
        }
        for filter in &filters {
            let found = directory.search(&suffix(), Scope::Below, filter).unwrap();
            let mut found: Vec<String> = found
                .iter()
                .filter(|row| directory.source(**row) == Some(SOURCE))
                .map(|row| directory.entry(*row).unwrap().dn.relative_to(&suffix()).unwrap().key())
                .collect();
            found.sort();
            let expected: Vec<String> = model
                .iter()
                .filter(|(_, entry)| truth(&model, entry, filter) == Some(true))
                .map(|(key, _)| key.clone())
                .collect();
            prop_assert_eq!(found, expected, "{}", filter);
        }
        for (key, entry) in &model {
            let dn = Dn::parse(key).unwrap().below(&suffix());
            let kept = directory.entry(directory.find(&dn).unwrap()).unwrap();
            for attribute in &entry.attributes {
                prop_assert_eq!(kept.get(&attribute.name), Some(attribute));
            }
            prop_assert_eq!(kept.attributes.len(), entry.attributes.len());
        }
        directory.remove_source(SOURCE);
        prop_assert_eq!(directory.len(), 2);
    }

    #[test]
    fn a_follower_that_hears_deltas_becomes_the_same(
        before in prop::collection::vec(ops(), 0..30),
        rounds in prop::collection::vec(prop::collection::vec(ops(), 0..15), 1..6),
        most in 1..10_usize,
    ) {
        let mut above = Directory::new(Dn::parse("Mds-Vo-name=top, o=grid").unwrap(), Bounds::default());
        let base = above.suffix().child("Mds-Vo-name", "below");
        let mut below = Directory::new(suffix(), Bounds::default());
        for op in &before {
            let _ = below.apply(SOURCE, &suffix(), op);
        }
        // A snapshot in pieces, while things go on changing.
        let mut reached = below.sequence();
        let mut from = Some(0);
        above.begin_round(SOURCE);
        let mut rounds = rounds.into_iter();
        while let Some(at) = from {
            let (ops, next) = below.ops_from(at, most);
            carry(&mut above, &base, &ops);
            from = next;
            for op in rounds.next().into_iter().flatten() {
                let _ = below.apply(SOURCE, &suffix(), &op);
            }
        }
        above.end_round(SOURCE);
        loop {
            let (ops, now) = below.ops_since(reached, most).unwrap();
            carry(&mut above, &base, &ops);
            reached = now;
            match rounds.next() {
                Some(round) => for op in round {
                    let _ = below.apply(SOURCE, &suffix(), &op);
                },
                None if reached == below.sequence() => break,
                None => {}
            }
        }
        let relative: BTreeMap<String, String> = told(&above)
            .into_iter()
            .filter_map(|(key, text)| {
                let dn = Dn::parse(&key).unwrap().relative_to(&Dn::parse("Mds-Vo-name=below").unwrap())?;
                (!dn.is_root()).then(|| (dn.key(), text))
            })
            .collect();
        prop_assert_eq!(relative, told(&below));
    }

    #[test]
    fn deltas_are_read_as_they_were_written(ops in prop::collection::vec(ops(), 0..20), reached: u64) {
        let bytes = delta::write_ops(reached, &ops);
        prop_assert_eq!(delta::read_ops(&bytes), Ok((reached, ops)));
        for cut in 0..bytes.len().saturating_sub(1) {
            // Every shorter message is refused or is a shorter list; nothing panics.
            let _ = delta::read_ops(&bytes[..cut]);
        }
    }
}

/// As it travels: through bytes.
fn carry(above: &mut Directory, base: &Dn, ops: &[Op]) {
    let (_, ops) = delta::read_ops(&delta::write_ops(0, ops)).unwrap();
    for op in ops {
        // A change of an entry that a later operation removes may come too late; nothing else may fail.
        if let Err(error) = above.apply(SOURCE, base, &op) {
            assert!(!matches!(op, Op::Put(_)), "{error}");
        }
    }
}
