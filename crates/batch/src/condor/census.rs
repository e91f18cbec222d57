//! How full a pool of HTCondor's is, by one question to its collector (condor_status(1)). The second half is pure: what it
//! prints.

use super::Commands;
use crate::census::Counted;
use crate::engine::Trouble;
use crate::engine::seen::Garbled;
use crate::engine::tool::ask;
use kumiko_job::census::Census;

/// Slots have a state, schedulers count their jobs; nothing else is asked for.
const CONSTRAINT: &str = "State =!= undefined || TotalIdleJobs =!= undefined";
/// What is asked of each: the attributes of a row. What one has not is printed as `undefined`.
pub const ATTRIBUTES: [&str; 4] = ["State", "Cpus", "TotalIdleJobs", "TotalRunningJobs"];
const NOTHING: &str = "undefined";

impl Counted for Commands {
    async fn census(&self) -> Result<Census, Trouble> {
        let line = ["-any", "-constraint", CONSTRAINT, "-af:t"];
        let line = line.into_iter().chain(ATTRIBUTES).map(str::to_owned);
        let line: Vec<String> = line.collect();
        let said = ask(&self.0, "condor_status", &line, "").await?;
        match said.well {
            true => census(&said.output)
                .map_err(|error| Trouble::unreachable("condor_status", error.to_string())),
            false => Err(Trouble::unreachable("condor_status", said.complaint)),
        }
    }
}

/// Reads it. Of a slot that is parted, what is left of it is a row, and each part is one. What is not wholly of its lines is
/// not believed at all.
pub fn census(output: &[u8]) -> Result<Census, Garbled> {
    let text = std::str::from_utf8(output).map_err(|_| Garbled::new("bytes that are no text"))?;
    let mut census = Census::default();
    for line in text.lines() {
        let parts: Vec<&str> = line.split('\t').map(str::trim).collect();
        let [state, cpus, idle, running] = parts[..] else {
            return Err(Garbled::new(line));
        };
        let number = |word: &str| match word {
            NOTHING => Ok(0),
            word => word.parse::<u64>().map_err(|_| Garbled::new(line)),
        };
        let cpus = number(cpus)?;
        // Of a scheduler only the last two say something, of a slot only the first two.
        census.waiting = census.waiting.saturating_add(number(idle)?);
        census.running = census.running.saturating_add(number(running)?);
        if state != NOTHING {
            census.slots = census.slots.saturating_add(cpus);
            let free = if state == "Unclaimed" { cpus } else { 0 };
            census.slots_free = census.slots_free.saturating_add(free);
            census.slots_host = census.slots_host.max(free);
        }
    }
    Ok(census)
}
