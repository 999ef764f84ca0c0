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
        clap_complete::generate(self.shell, &mut Cli::command(), "traind", &mut std::io::stdout());
        Ok(Exit::Done)
    }
}
