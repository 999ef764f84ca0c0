//! `traind planner`: the process that the daemon spawns to plan a job. It sets limits on CPU time,
//! memory and files, and executes `traind-runner plan` or `traind-runner measure-mpi`.

use std::path::PathBuf;

use anyhow::Context;
use rustix::process::Resource;

use super::confined::{execute, limit, processor_seconds};
use super::exit::Exit;
use crate::access::account::Account;
use crate::jobs::supervisor::fence::Fence;

/// Bytes of a planner's own memory, and of one that compiles.
const DATA: [u64; 2] = [4 << 30, 16 << 30];
/// Bytes of a file, which a compiler passes to its assembler. It does not apply to standard output, which is a
/// pipe.
const FILE: [u64; 2] = [0, 1 << 30];

/// Execute the planner; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Planner {
    /// Folder that the planner may read [default: no restriction]
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
    /// Allow what the compiler of a plugin takes
    #[arg(long)]
    compile: bool,
    /// Measure MPI instead of planning
    #[arg(long)]
    measure_mpi: bool,
    /// Seconds on each processor
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// The runner's program
    runner: PathBuf,
}

impl Planner {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        // MPI has files for memory that its processes share.
        let [data, file] = [(DATA, self.compile), (FILE, self.compile || self.measure_mpi)];
        let most = |(limits, more): ([u64; 2], bool)| limits[usize::from(more)];
        let limits = [
            (Resource::Core, 0),
            (Resource::Cpu, processor_seconds(self.seconds)),
            (Resource::Data, most(data)),
            (Resource::Fsize, most(file)),
        ];
        limit(limits.map(|(resource, most)| (resource, Some(most))))
            .context("limit the planner")?;
        let fence = (!self.allow_root.is_empty()).then(|| Fence {
            writable: Vec::new(),
            readable: self.allow_root.iter().chain([&self.runner]).cloned().collect(),
        });
        let subcommand = if self.measure_mpi { "measure-mpi" } else { "plan" };
        execute(&self.runner, subcommand, self.run_as, fence)
    }
}
