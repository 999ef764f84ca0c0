//! `traind act-as`: the process that the daemon spawns to run a cluster's program as a job's user.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;

use super::become_user::become_user;
use super::exit::Exit;
use crate::access::account::Account;

/// Execute a program as a user; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct ActAs {
    /// Account to run as
    #[arg(long, value_name = "UID:GID")]
    run_as: Account,
    /// The program
    program: PathBuf,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl ActAs {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let entry = self.run_as.look_up().context("look up the user")?;
        let mut program = Command::new(&self.program);
        become_user(&entry, &mut program)?;
        let error = program.args(&self.arguments).exec();
        Err(error).with_context(|| format!("start {}", self.program.display()))
    }
}
