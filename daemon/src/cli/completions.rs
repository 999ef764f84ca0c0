//! `traind completions`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use super::exit::Exit;

/// Print a completion script for a shell
#[derive(clap::Args)]
pub(crate) struct Completions {
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        // Into memory first: `clap_complete` panics where the reader of its output has exited.
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "traind", &mut script);
        print!("{}", String::from_utf8_lossy(&script));
        Ok(Exit::Done)
    }
}
