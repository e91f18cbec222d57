//! What a host's kernel was told of and has not forgotten: each is a descriptor here. Of what the site itself removes that kernel hears
//! nothing, and keeps it until it needs the memory; so it is asked to forget what it does not use (spec/jobs/pilots.md, PL54).

use super::tree::ROOT;
use kumiko_linux::node::{Key, Node};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::SystemTime;

/// It is not looked whether fewer are there still.
const FEW: usize = 256;

#[derive(Debug)]
struct Known {
    node: Arc<Node>,
    key: Key,
    /// How many answers named it that the kernel has not forgotten.
    answers: u64,
    opened: Version,
}

/// A file's times of change and its size; none, if it had changed just then.
pub type Version = Option<(SystemTime, SystemTime, u64)>;

#[derive(Debug)]
pub struct Nodes {
    known: HashMap<u64, Known>,
    numbers: HashMap<Key, u64>,
    last: u64,
    /// From so many on it is looked how many are there still.
    look_from: usize,
    /// The kernel should not know more.
    most: usize,
}

impl Nodes {
    pub fn new(most: usize) -> Nodes {
        Nodes {
            known: HashMap::new(),
            numbers: HashMap::new(),
            last: ROOT,
            look_from: FEW,
            most,
        }
    }

    pub fn get(&self, number: u64) -> Option<&Arc<Node>> {
        self.known.get(&number).map(|known| &known.node)
    }

    /// Its number, which an answer is to name.
    pub fn meet(&mut self, node: Arc<Node>, key: Key) -> u64 {
        let last = &mut self.last;
        let number = *self.numbers.entry(key).or_insert_with(|| {
            *last += 1;
            *last
        });
        let known = self.known.entry(number).or_insert(Known {
            node,
            key,
            answers: 0,
            opened: None,
        });
        known.answers += 1;
        number
    }

    /// The kernel has forgotten that it was named, so many times.
    pub fn forget(&mut self, number: u64, answers: u64) {
        let Some(known) = self.known.get_mut(&number) else {
            return;
        };
        known.answers = known.answers.saturating_sub(answers);
        if known.answers == 0 {
            self.numbers.remove(&known.key);
            self.known.remove(&number);
            self.look_from = self.look_from.min(self.later());
        }
    }

    /// Which version was opened the last time; now it is this one.
    pub fn opened(&mut self, number: u64, now: Version) -> Version {
        let known = self.known.get_mut(&number)?;
        std::mem::replace(&mut known.opened, now)
    }

    /// Whether the kernel is to be asked to forget what it does not use: half of what it knows is gone, or it knows more than it should.
    /// Not twice, before there are many more.
    pub fn are_too_many(&mut self) -> bool {
        let count = self.known.len();
        if count < self.look_from {
            return false;
        }
        self.look_from = self.later();
        let nodes = self.known.values();
        let gone = nodes.filter(|known| is_gone(&known.node)).count();
        2 * gone >= count || count > self.most
    }

    fn later(&self) -> usize {
        FEW.max(2 * self.known.len())
    }
}

fn is_gone(node: &Node) -> bool {
    node.about().map_or(true, |about| about.links == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::ffi::OsStr;
    use std::fs;

    fn met(nodes: &mut Nodes, folder: &Node, name: &str) -> u64 {
        let node = folder.child(OsStr::new(name)).unwrap();
        let key = node.about().unwrap().key;
        nodes.meet(Arc::new(node), key)
    }

    #[test]
    fn a_node_is_known_by_one_number_until_each_answer_that_named_it_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["one", "other"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let root = Node::root(folder.path()).unwrap();
        let mut nodes = Nodes::new(10);
        let one = met(&mut nodes, &root, "one");
        let other = met(&mut nodes, &root, "other");
        assert_ne!(one, other);
        assert_eq!(met(&mut nodes, &root, "one"), one);
        let version = Some((SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH, 5));
        assert_eq!(nodes.opened(one, version), None);
        assert_eq!(nodes.opened(one, None), version);
        nodes.forget(one, 1);
        assert!(nodes.get(one).is_some());
        nodes.forget(one, 1);
        nodes.forget(one, 1);
        assert!(nodes.get(one).is_none() && nodes.get(other).is_some());
        assert_eq!(nodes.opened(one, version), None);
        // A number is never another's.
        let again = met(&mut nodes, &root, "one");
        assert!(![one, other, ROOT].contains(&again));
    }

    #[test]
    fn it_is_asked_to_forget_when_half_of_many_are_gone_and_not_at_each_one_more() {
        let folder = tempfile::tempdir().unwrap();
        let root = Node::root(folder.path()).unwrap();
        let mut nodes = Nodes::new(usize::MAX);
        let mut numbers = Vec::new();
        let mut asked = Vec::new();
        for count in 1..=4 * FEW {
            let path = folder.path().join(count.to_string());
            fs::write(&path, "").unwrap();
            numbers.push(met(&mut nodes, &root, &count.to_string()));
            if count % 2 == 0 || count > FEW {
                fs::remove_file(&path).unwrap();
            }
            if nodes.are_too_many() {
                asked.push(count);
            }
        }
        assert_eq!(asked, [FEW, 2 * FEW, 4 * FEW]);
        // It has forgotten; so few are soon enough again.
        for number in numbers {
            nodes.forget(number, 1);
        }
        fs::write(folder.path().join("kept"), "").unwrap();
        for _ in 0..FEW {
            met(&mut nodes, &root, "kept");
        }
        assert!(!nodes.are_too_many());
        assert_eq!(nodes.look_from, FEW);
    }

    #[test]
    fn it_is_asked_to_forget_when_it_knows_more_than_it_should_though_all_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let root = Node::root(folder.path()).unwrap();
        let mut nodes = Nodes::new(FEW);
        let mut asked = Vec::new();
        for count in 1..=3 * FEW {
            fs::write(folder.path().join(count.to_string()), "").unwrap();
            met(&mut nodes, &root, &count.to_string());
            if nodes.are_too_many() {
                asked.push(count);
            }
        }
        assert_eq!(asked, [2 * FEW]);
    }
}
