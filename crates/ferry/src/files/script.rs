//! What a host of an engine is given to run where the site's folders may be missing: a script of a shell, with the ferry's program in it,
//! for there is nothing of the site's on the host.

use super::{ADDRESS, Inner, SHOWN, TICKET, TRUST, own_place};
use crate::door;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

const LINE_BYTES: usize = 76;
/// Between files; none of them has such a line.
const END: &str = "=kumiko=";
/// Where `TMPDIR` is full, or mounted so that nothing runs from it.
const FURTHER: &str = "/tmp /var/tmp /dev/shm";
/// EX_CANTCREAT (sysexits.h).
const NO_ROOM: u8 = 73;

/// A program, as a script holds it.
pub fn packed(program: &Path) -> io::Result<String> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    packer.write_all(&fs::read(program)?)?;
    let text = BASE64_STANDARD.encode(packer.finish()?);
    let mut lines = String::with_capacity(text.len() + text.len() / LINE_BYTES + 1);
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, further) = rest.split_at(rest.len().min(LINE_BYTES));
        lines.push_str(line);
        lines.push('\n');
        rest = further;
    }
    Ok(lines)
}

/// What runs on other hosts besides, which have the same place.
#[derive(Clone, Debug)]
pub struct Others {
    pub hosts: u32,
    /// Words of a shell that run what they hold by `sh -s others` on each, with their own stdin as its stdin.
    pub start: String,
    /// Tells them apart: the variable that has a number from 0.
    pub number: &'static str,
    pub line: Vec<String>,
}

pub fn script(
    of: &Inner,
    place: &Path,
    line: &[String],
    others: Option<&Others>,
) -> io::Result<String> {
    let own = own_place(&of.root);
    let address = fs::read_to_string(own.join(ADDRESS))?;
    let path = |path: &Path| quoted(&path.to_string_lossy());
    // Of whoever answers, which may be from before an upgrade.
    let shown = fs::read_to_string(own.join(SHOWN)).map_err(io::Error::other)?;
    let folders: Vec<String> = shown.split_terminator('\0').map(quoted).collect();
    let mut files = here(TICKET, &fs::read_to_string(place.join(TICKET))?);
    for entry in fs::read_dir(own.join(TRUST))? {
        let entry = entry?;
        let name = format!("{TRUST}/{}", entry.file_name().to_string_lossy());
        files.push_str(&here(&name, &fs::read_to_string(entry.path())?));
    }
    let mut which = format!("set -- {}\n", words(line));
    if let Some(others) = others {
        for number in 1..others.hosts {
            let name = door::of_host(number, TICKET);
            files.push_str(&here(&name, &fs::read_to_string(place.join(&name))?));
        }
        files.push_str(&format!(
            "{{ [ -z \"$n\" ] || mv \"$d/$n.{TICKET}\" \"$d/{TICKET}\"; }} &&\n"
        ));
        which = format!(
            "n=\n\
             if [ \"$1\" = others ]; then\n\
             n=$(({number} + 1))\n\
             set -- {line}\n\
             else\n\
             ({start} <\"$0\" >/dev/null 2>&1 &)\n\
             {which}fi\n",
            number = others.number,
            line = words(&others.line),
            start = others.start,
        );
    }
    Ok(format!(
        "#!/bin/sh\n\
         {which}\
         if [ -d {place} ]; then exec \"$@\" </dev/null 2>/dev/null; fi\n\
         umask 077\n\
         unpack() {{\n\
         mkdir \"$d/{TRUST}\" &&\n\
         {files}\
         base64 -d <<'{END}' | gzip -dc >\"$d/kumiko-ferry\" && chmod 700 \"$d/kumiko-ferry\" && \"$d/kumiko-ferry\" --version >/dev/null\n\
         {text}{END}\n\
         }}\n\
         for t in \"${{TMPDIR:-/tmp}}\" {FURTHER}; do\n\
         d=$(mktemp -d \"$t/kumiko-XXXXXXXX\") || continue\n\
         unpack && exec \"$d/kumiko-ferry\" --carry \"$d\" {address} {count} {folders} \"$@\"\n\
         rm -rf \"$d\"\n\
         done\n\
         echo \"kumiko: this host has no folder with room for a program that lets it run (TMPDIR {FURTHER})\" >&2\n\
         exit {NO_ROOM}\n",
        place = path(place),
        text = of.text,
        address = quoted(&address),
        count = folders.len(),
        folders = folders.join(" "),
    ))
}

/// Words of a shell.
fn words(line: &[String]) -> String {
    let line: Vec<String> = line.iter().map(|word| quoted(word)).collect();
    line.join(" ")
}

/// A file of the script's folder, and what comes next if there was room for it.
fn here(name: &str, text: &str) -> String {
    let end_of_line = if text.ends_with('\n') { "" } else { "\n" };
    format!("cat >\"$d/{name}\" <<'{END}' &&\n{text}{end_of_line}{END}\n")
}

/// One word of a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
