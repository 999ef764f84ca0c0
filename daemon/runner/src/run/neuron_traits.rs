//! The findings about a host's NeuronCores, kept for preparations: these compile without cores, on which they could try
//! anything, and programs depend on the findings.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use traind_durable::Replacement;
use traind_xla::runtime::DeviceTraits;

#[derive(Deserialize, Serialize)]
struct Kept {
    splits_integers: bool,
    keeps_arguments: bool,
}

fn path(cache_dir: &Path) -> PathBuf {
    cache_dir.join("neuron-traits.json")
}

/// Keeps the findings of a run. Without them, a preparation compiles programs that the job cannot use.
pub(super) fn keep(cache_dir: &Path, traits: DeviceTraits) {
    if kept(cache_dir) == traits {
        return;
    }
    let DeviceTraits { splits_integers, keeps_arguments, .. } = traits;
    let Ok(text) = serde_json::to_vec(&Kept { splits_integers, keeps_arguments }) else { return };
    let path = path(cache_dir);
    let file = Replacement::of(&path).by_many().without_folder();
    let _ = file.write(|file| file.write_all(&text));
}

/// The findings of the last run; those of cores without faults if there was none.
pub(super) fn kept(cache_dir: &Path) -> DeviceTraits {
    let read = fs::read(path(cache_dir)).ok().and_then(|text| serde_json::from_slice(&text).ok());
    match read {
        Some(Kept { splits_integers, keeps_arguments }) => {
            DeviceTraits { splits_integers, keeps_arguments, ..DeviceTraits::default() }
        }
        None => DeviceTraits::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_those_of_the_last_run() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept(folder.path()), DeviceTraits::default());
        keep(folder.path(), DeviceTraits::default());
        assert!(!path(folder.path()).exists());
        let found = DeviceTraits { splits_integers: true, ..DeviceTraits::default() };
        keep(folder.path(), found);
        assert_eq!(kept(folder.path()), found);
        fs::write(path(folder.path()), "{").unwrap();
        assert_eq!(kept(folder.path()), DeviceTraits::default());
    }
}
