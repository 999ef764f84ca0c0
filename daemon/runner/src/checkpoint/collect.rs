//! The parameters of the model that a run ends with, from all hosts that hold parts of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::shares::{self, Share};
use crate::error::RunResult;
use crate::hosts::Hosts;
use crate::model::SavedParameters;
use crate::output::failed;
use crate::session::Session;

/// The parameters on the first host.
#[derive(Debug)]
pub(crate) struct Collected {
    pub parameters: SavedParameters,
    /// The folder of the parts, where hosts hold different ones.
    folder: Option<PathBuf>,
}

/// Returns on the first host the parameters to save. Hosts that hold parts of them write these into
/// the folder of checkpoints, and all of these hosts call this.
pub(crate) fn collect_parameters(
    hosts: &Hosts,
    checkpoints: &Path,
    session: &Session,
) -> RunResult<Option<Collected>> {
    if !session.is_over_hosts() {
        if !hosts.is_first() {
            return Ok(None);
        }
        let parameters = SavedParameters::of_parts(session.saved_parameters()?)?;
        return Ok(Some(Collected { parameters, folder: None }));
    }
    let folder = traind_folders::parts(checkpoints);
    if hosts.is_first() {
        fs::create_dir_all(&folder).map_err(failed("create", &folder))?;
    }
    let parts = session.saved_parameters()?;
    let written = shares::write(hosts, &folder, Share { parameters: &parts, slots: None })?;
    let collected = |(_, parameters)| Collected { parameters, folder: Some(folder) };
    Ok(written.map(collected))
}

impl Collected {
    /// Removes the parts, once the model is written.
    pub(crate) fn remove_parts(self) -> RunResult<()> {
        let Some(folder) = self.folder else { return Ok(()) };
        fs::remove_dir_all(&folder).map_err(failed("remove", &folder))
    }
}
