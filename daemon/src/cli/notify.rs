//! `traind notify`: the process that the daemon spawns for a command that is notified. It opens a new
//! session, becomes the job's user and executes the command.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use super::become_user::become_user;
use super::exit::Exit;
use crate::access::account::Account;

/// Execute a command that is notified; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Notify {
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
    /// The program with its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

impl Notify {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        rustix::process::setsid().context("open a session")?;
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        if let Some(account) = self.run_as {
            let entry = account.look_up().context("look up the user")?;
            become_user(&entry, &mut command)?;
        }
        Err(command.exec()).with_context(|| format!("start {}", self.command[0]))
    }
}
