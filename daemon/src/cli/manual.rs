//! `traind manual`: the man pages of packages, one for each command.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::CommandFactory;

use super::Cli;
use super::exit::Exit;

/// Write man pages, for packages
#[derive(clap::Args)]
pub(crate) struct Manual {
    /// Folder to write to
    folder: PathBuf,
}

impl Manual {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let written = || format!("write man pages to {}", self.folder.display());
        fs::create_dir_all(&self.folder).with_context(written)?;
        clap_mangen::generate_to(Cli::command(), &self.folder).with_context(written)?;
        Ok(Exit::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        Manual { folder: folder.path().to_owned() }.run().unwrap();
        let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(page("traind.1").contains(".SH SUBCOMMANDS"));
        assert!(page("traind-plugins-install.1").contains(".SH OPTIONS"));
        for command in Cli::command().get_subcommands() {
            let file = folder.path().join(format!("traind-{}.1", command.get_name()));
            assert_eq!(file.exists(), !command.is_hide_set(), "{}", file.display());
        }
    }
}
