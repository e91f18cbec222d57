//! What is read of our Markdown: headings with their anchors, links, text between marks. Code blocks are left out.

/// Headings as (level, text).
pub fn headings(text: &str) -> Vec<(usize, &str)> {
    prose(text)
        .filter_map(|(_, line)| {
            let level = line.bytes().take_while(|b| *b == b'#').count();
            let rest = line.get(level..)?.strip_prefix(' ')?;
            (level > 0).then_some((level, rest.trim()))
        })
        .collect()
}

/// The anchor of a heading, as code forges make it.
pub fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Targets of links, with the lines they stand on.
pub fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let mut rest = line;
        while let Some(at) = rest.find("](") {
            rest = rest.get(at + 2..).unwrap_or("");
            if let Some(end) = rest.find(')') {
                found.push((number, rest.get(..end).unwrap_or("")));
            }
        }
    }
    found
}

/// Lines outside code blocks, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((index + 1, line))
    })
}

/// The text before, between and after two lines.
pub fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let from = text.find(begin)? + begin.len();
    let rest = text.get(from..)?;
    let to = from + rest.find(end)?;
    Some((text.get(..from)?, text.get(from..to)?, text.get(to..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# A page\n[a](b.md), [c](d.md#e)\n```\n# not one\n[no](no.md)\n```\n### `crates/job`\n";

    #[test]
    fn headings_and_links_are_those_outside_code() {
        assert_eq!(headings(PAGE), [(1, "A page"), (3, "`crates/job`")]);
        assert_eq!(links(PAGE), [(2, "b.md"), (2, "d.md#e")]);
    }

    #[test]
    fn anchors_are_those_of_code_forges() {
        for (heading, expected) in [
            ("A page", "a-page"),
            ("`crates/job`", "cratesjob"),
            ("1. Who, why?", "1-who-why"),
        ] {
            assert_eq!(anchor(heading), expected);
        }
    }

    #[test]
    fn text_between_marks_is_found() {
        assert_eq!(
            between("a<b>c</b>d", "<b>", "</b>"),
            Some(("a<b>", "c", "</b>d"))
        );
        assert_eq!(between("a<b>c", "<b>", "</b>"), None);
    }
}
