//! Who runs an attempt of a job: a file that can be created once.
//!
//! The launcher claims the attempt before it becomes the runner, so a daemon that
//! died between spawning and remembering finds its runner again. A new daemon that
//! finds no claim makes a void one: a launcher that comes late then gives up, and no
//! attempt ever has two runners.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::host::process::Identity;

/// Who holds an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Claim {
    Runner(Identity),
    /// Nobody, for good.
    Void,
}

/// Writes `claim` unless there is one; then returns that instead.
pub(crate) fn claim(path: &Path, claim: &Claim) -> io::Result<Claim> {
    let draft = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = File::create(&draft)?;
    file.write_all(&serde_json::to_vec(claim)?)?;
    file.sync_all()?;
    let linked = fs::hard_link(&draft, path);
    // What is left of it on a disk that fails now harms nobody.
    let _ = fs::remove_file(&draft);
    match linked {
        Ok(()) => Ok(claim.clone()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            Ok(serde_json::from_slice(&fs::read(path)?)?)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_claim_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runner-1.json");
        let own = Claim::Runner(Identity::own().unwrap());
        assert_eq!(claim(&path, &own).unwrap(), own);
        assert_eq!(claim(&path, &Claim::Void).unwrap(), own);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }
}
