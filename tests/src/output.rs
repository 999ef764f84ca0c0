//! Reads a job's output folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[derive(Clone, Debug)]
pub struct Output {
    folder: PathBuf,
}

impl Output {
    pub(crate) fn new(folder: PathBuf) -> Output {
        Output { folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file names in the folder, sorted, without traind's notes.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().unwrap()).collect();
        names.retain(|name| name != ".traind");
        names.sort();
        names
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap()
    }

    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    pub fn trainer_state(&self) -> TrainerState {
        TrainerState(self.json("trainer_state.json"))
    }
}

/// `trainer_state.json` in the Trainer's format.
#[derive(Debug)]
pub struct TrainerState(pub Value);

impl TrainerState {
    /// The entries of `log_history` with this key.
    pub fn history(&self, key: &str) -> Vec<&Value> {
        let entries = self.0["log_history"].as_array().unwrap();
        entries.iter().filter(|entry| entry.get(key).is_some()).collect()
    }

    /// The logged values of this key, in order.
    pub fn series(&self, key: &str) -> Vec<f64> {
        self.history(key).into_iter().map(|entry| entry[key].as_f64().unwrap()).collect()
    }
}
