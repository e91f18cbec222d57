//! Where libkumikockpt.a lies: in the folder that KUMIKO_LIB names, else beside this program, or in `lib` beside its folder.

use std::path::PathBuf;

const NAME: &str = "libkumikockpt.a";

#[derive(Debug, thiserror::Error)]
#[error(
    "{NAME} is not found{}: set KUMIKO_LIB to its folder, or make it by `cargo build --release -p kumiko-checkpoint-c`",
    looked(.0)
)]
pub struct NoLibrary(Vec<PathBuf>);

fn looked(folders: &[PathBuf]) -> String {
    let folders: Vec<_> = folders
        .iter()
        .map(|one| one.display().to_string())
        .collect();
    match folders.is_empty() {
        true => String::new(),
        false => format!(" in {}", folders.join(", ")),
    }
}

/// # Errors
/// It is in none of these places.
pub fn find() -> Result<PathBuf, NoLibrary> {
    let mut folders = Vec::new();
    if let Some(named) = std::env::var_os("KUMIKO_LIB") {
        folders.push(PathBuf::from(named));
    } else if let Ok(program) = std::env::current_exe() {
        let beside = program.parent().map(PathBuf::from);
        let lib = beside
            .as_ref()
            .and_then(|beside| beside.parent())
            .map(|one| one.join("lib"));
        folders.extend(beside);
        folders.extend(lib);
    }
    let found = folders
        .iter()
        .map(|folder| folder.join(NAME))
        .find(|path| path.exists());
    found.ok_or(NoLibrary(folders))
}
