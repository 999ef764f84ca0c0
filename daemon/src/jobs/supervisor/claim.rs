//! Claims of attempts: a file per attempt, created once, that identifies its runner.
//!
//! The launcher claims the attempt before it executes the runner, so that a daemon that dies
//! right after spawning it finds its runner again. A new daemon that finds no claim creates a
//! void one: a late launcher then gives up, and no attempt ever has two runners.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::process::Identity;
use crate::jobs::cluster::ClusterJob;

/// The holder of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    Runner(Identity),
    /// A job that a cluster places.
    Cluster(ClusterJob),
    /// Runners that others started.
    Adopted,
    /// No process, now or later.
    Void,
}

/// Creates the claim at `path`. If there is one already, returns that instead.
pub(crate) fn claim(path: &Path, claim: &Claim) -> io::Result<Claim> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(&serde_json::to_vec(claim)?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    // A draft left on a failing disk does no harm.
    let _ = fs::remove_file(&draft);
    match linked {
        Ok(()) => Ok(claim.clone()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(error),
    }
}

/// Reads the claim at `path`.
pub(crate) fn read(path: &Path) -> io::Result<Claim> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runner-1.json");
        let own = Claim::Runner(Identity::own().unwrap());
        assert_eq!(claim(&path, &own).unwrap(), own);
        assert_eq!(claim(&path, &Claim::Void).unwrap(), own);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
