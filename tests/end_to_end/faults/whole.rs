//! Reads every file below a folder by its format, to find torn ones.

use std::fs;
use std::path::Path;

use traind_proto::event_log::EventLogReader;
use traind_tests::model::Weights;

/// Suffixes of files and folders that are still being written.
const UNFINISHED: [&str; 5] = [".new", ".tmp", ".part", ".partial", ".aside"];

/// Descriptions of the torn files below `folder`.
pub(super) fn torn(folder: &Path) -> Vec<String> {
    let mut torn = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
        if UNFINISHED.iter().any(|suffix| name.ends_with(suffix)) || path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            torn.extend(self::torn(&path));
        } else if let Err(problem) = read(&path, &name) {
            torn.push(format!("{}: {problem}", path.display()));
        }
    }
    if folder.file_name().unwrap().to_str().unwrap().starts_with("checkpoint-") {
        torn.extend(differences(folder).err());
    }
    torn
}

fn read(path: &Path, name: &str) -> Result<(), String> {
    match name.rsplit('.').next() {
        Some("json") => parse(path).map(drop),
        Some("safetensors") => weights(path),
        Some("log") if name == "events.log" => events(path),
        _ => Ok(()),
    }
}

fn parse(path: &Path) -> Result<serde_json::Value, String> {
    let content = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_slice(&content).map_err(|error| error.to_string())
}

fn weights(path: &Path) -> Result<(), String> {
    let read = std::panic::catch_unwind(|| {
        let weights = Weights::read(path.to_owned());
        weights.names().iter().for_each(|name| drop(weights.values(name)));
    });
    read.map_err(|_| "is cut short".to_owned())
}

fn events(path: &Path) -> Result<(), String> {
    let (log, mut offset) = (EventLogReader::open(path).unwrap(), 0);
    loop {
        let events = log.read_from(offset).map_err(|error| error.to_string())?;
        match events.last() {
            Some(last) => offset = last.next_offset,
            None => return Ok(()),
        }
    }
}

/// Compares a checkpoint with its manifest.
fn differences(folder: &Path) -> Result<(), String> {
    let manifest = parse(&folder.join("manifest.json"))?;
    for file in manifest["files"].as_array().unwrap() {
        let name = file["name"].as_str().unwrap();
        let bytes = fs::metadata(folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        if file["bytes"].as_u64() != Some(bytes.len()) {
            return Err(format!("{}: {name} is not as in the manifest", folder.display()));
        }
    }
    Ok(())
}
