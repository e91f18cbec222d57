//! Which CRIU can dump a process that links nothing, on which kernel (spec/checkpoint, K50, K51). What is known of its versions was
//! seen by running them. Not here: where the program is, and asking it.

use std::fmt;

/// Longest first line that is read: `Version: ` and a version, with room for what distributions add.
pub const LINE_MOST_BYTES: usize = 128;

/// The least that is used: 4.1 asks internet sockets for what newer kernels refuse them (SO_PASSCRED), and so dumps none.
pub const LEAST: Criu = Criu { numbers: [4, 2, 0] };

/// From this one on the kernel lays out its vDSO in a manner that CRIU before [`KNOWS_VDSO`] does not know.
const VDSO_CHANGED: Kernel = Kernel { numbers: [6, 13] };
const KNOWS_VDSO: Criu = Criu { numbers: [4, 1, 0] };

/// The first one with CAP_CHECKPOINT_RESTORE (capabilities(7)), without which nothing is dumped unprivileged.
const UNPRIVILEGED: Kernel = Kernel { numbers: [5, 9] };

/// A version of CRIU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Criu {
    numbers: [u16; 3],
}

/// A version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kernel {
    numbers: [u16; 2],
}

/// Why nothing is dumped by this CRIU on this kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it does not say its version, but {0:?}")]
    NoVersion(String),
    #[error("the kernel's release {0:?} does not begin with two numbers")]
    NoRelease(String),
    #[error(
        "CRIU {0} cannot run on Linux {1}: before {KNOWS_VDSO} it does not know how kernels from {VDSO_CHANGED} on lay out their vDSO"
    )]
    CannotRun(Criu, Kernel),
    #[error("CRIU {0} is older than {LEAST}: it fails on sockets of newer kernels")]
    TooOld(Criu),
    #[error(
        "Linux {0} is older than {UNPRIVILEGED}, which lets no process be dumped without privileges"
    )]
    KernelTooOld(Kernel),
}

impl Criu {
    /// Of what `criu --version` prints first: `Version: 4.2.1`; what stands behind the numbers is a distribution's.
    pub fn read(line: &str) -> Result<Criu, Unfit> {
        let version = line.trim_end().strip_prefix("Version: ").and_then(numbers);
        let unfit = || Unfit::NoVersion(line.chars().take(LINE_MOST_BYTES).collect());
        let (numbers, told) = version.ok_or_else(unfit)?;
        match told {
            0 | 1 => Err(unfit()),
            _ => Ok(Criu { numbers }),
        }
    }

    /// Does it do on this kernel?
    pub fn fits(self, kernel: Kernel) -> Result<(), Unfit> {
        if kernel < UNPRIVILEGED {
            Err(Unfit::KernelTooOld(kernel))
        } else if self < KNOWS_VDSO && kernel >= VDSO_CHANGED {
            Err(Unfit::CannotRun(self, kernel))
        } else if self < LEAST {
            Err(Unfit::TooOld(self))
        } else {
            Ok(())
        }
    }
}

impl Kernel {
    /// Of a release as uname(2) has it: `6.18.44-cloud-amd64`.
    pub fn read(release: &str) -> Result<Kernel, Unfit> {
        match numbers(release) {
            Some(([major, minor, _], 2..)) => Ok(Kernel {
                numbers: [major, minor],
            }),
            _ => Err(Unfit::NoRelease(
                release.chars().take(LINE_MOST_BYTES).collect(),
            )),
        }
    }
}

/// Numbers with dots between, at the beginning, up to three, and how many there are. None: one is too big for a version.
fn numbers(text: &str) -> Option<([u16; 3], usize)> {
    let end = text.find(|c: char| c != '.' && !c.is_ascii_digit());
    let mut parts = [0; 3];
    let mut told = 0;
    let begins = text.get(..end.unwrap_or(text.len()))?;
    for (place, part) in parts.iter_mut().zip(begins.split('.')) {
        *place = part.parse().ok()?;
        told += 1;
    }
    Some((parts, told))
}

impl fmt::Display for Criu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.numbers {
            [major, minor, 0] => write!(f, "{major}.{minor}"),
            [major, minor, patch] => write!(f, "{major}.{minor}.{patch}"),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor] = self.numbers;
        write!(f, "{major}.{minor}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(line: &str, release: &str) -> String {
        let judged = Criu::read(line)
            .and_then(|criu| Kernel::read(release).and_then(|kernel| criu.fits(kernel)));
        judged.map_or_else(|unfit| unfit.to_string(), |()| "fits".to_owned())
    }

    #[test]
    fn each_version_is_judged_by_the_kernel_that_it_is_to_run_on() {
        let check = |line, release, expected: &str| {
            let said = judged(line, release);
            assert!(said.contains(expected), "{line} on {release}: {said}");
        };
        check("Version: 4.2.1", "6.18.44", "fits");
        check("Version: 4.2", "6.1.0-42-amd64", "fits");
        check("Version: 10.0-rc1\n", "5.9", "fits");
        check(
            "Version: 3.17.1",
            "6.18.44-fc",
            "CRIU 3.17.1 cannot run on Linux 6.18: before 4.1 it does not know",
        );
        check("Version: 3.17.1", "6.12.9", "CRIU 3.17.1 is older than 4.2");
        check(
            "Version: 4.0",
            "6.13.0",
            "CRIU 4.0 cannot run on Linux 6.13",
        );
        check("Version: 4.1.1", "6.18.0", "CRIU 4.1.1 is older than 4.2");
        check("Version: 4.2.1", "5.8.18", "Linux 5.8 is older than 5.9");
    }

    #[test]
    fn what_is_no_version_is_told_as_it_stands() {
        for line in [
            "",
            "Version: ",
            "Version: 4",
            "Version: 4.x",
            "Version: 4..2",
            "Version: 99999.2",
            "version 4.2",
            "4.2.1",
            "Version: \u{7f}4.2",
        ] {
            let said = judged(line, "6.18.0");
            let expected = format!("it does not say its version, but {line:?}");
            assert_eq!(said, expected);
        }
        for release in ["", "6", "six.1", ".6.1", "6.-1"] {
            let expected =
                format!("the kernel's release {release:?} does not begin with two numbers");
            assert_eq!(judged("Version: 4.2.1", release), expected);
        }
        let long = format!("Version: {}", "é".repeat(10_000));
        assert!(judged(&long, "6.18.0").chars().count() < 2 * LINE_MOST_BYTES);
    }
}
