//! The flags by which a job reserves parts of a host, of the site's or an engine's (spec/jobs J1, spec/policy P70).

use crate::fail::Failure;
use clap::Args;
use kumiko_job::description;
use kumiko_policy::Limited;

/// What is set aside for the job: by the site, or by its cluster's engine.
#[derive(Debug, Args)]
pub struct Resources {
    /// Processors, for each instance.
    #[arg(long)]
    pub cpus: Option<u32>,
    /// For all instances together, MiB.
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// For all instances together, such as net=100Mbit/s, disk=20MB/s, cpu=50%, memory=1GiB, processes=64; the job waits
    /// until it is left, and has no more.
    #[arg(long = "reserve", value_name = "NAME=AMOUNT", value_parser = kumiko_policy::parse_limit)]
    pub reserve: Vec<(Limited, u64)>,
    /// For all instances together.
    #[arg(long)]
    pub gpus: Option<u32>,
    /// So many hosts, each with as many of an MPI program's ranks.
    #[arg(long, value_name = "N")]
    pub hosts: Option<u32>,
    /// The queue; of Slurm, the partition.
    #[arg(long)]
    pub queue: Option<String>,
    /// Whose share it counts against: account of Slurm, accounting group of HTCondor.
    #[arg(long)]
    pub project: Option<String>,
    /// Nobody else's jobs on the host.
    #[arg(long)]
    pub exclusive: bool,
}

impl Resources {
    /// What the command line says goes over what the description says.
    pub fn apply(&self, description: &mut description::Resources) -> Result<(), Failure> {
        description.cpus = self.cpus.or(description.cpus);
        description.memory_mib = self.memory.or(description.memory_mib);
        description.host_count = self.hosts.or(description.host_count);
        description.gpus = self.gpus.or(description.gpus);
        description.queue = self.queue.clone().or(description.queue.take());
        description.project = self.project.clone().or(description.project.take());
        description.exclusive |= self.exclusive;
        for (of, amount) in &self.reserve {
            let place = match of {
                Limited::Cpu => &mut description.cpu_percent,
                Limited::Memory => &mut description.memory_mib,
                Limited::Network => &mut description.network_kbyte_s,
                Limited::Disk => &mut description.disk_kbyte_s,
                Limited::Processes => &mut description.processes,
                _ => {
                    return Err(Failure::misuse(format!(
                        "{} cannot be reserved: cpu, memory, net, disk and processes can",
                        of.short_name()
                    )));
                }
            };
            *place = Some(*amount);
        }
        Ok(())
    }
}
