//! The weights of a model folder: one safetensors file, or several and an
//! index that says which tensor is in which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use traind_durable::read_description;

use super::SafetensorsFile;
use super::modules::{folder_of, module_of};
use crate::error::{Error, Result};
use crate::model::Model;

pub(super) const SINGLE: &str = "model.safetensors";
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// PyTorch's pickles can run code when they are read, so none is.
const PICKLED: &str = "pytorch_model.bin";

/// Whether a model folder has weights that [`Checkpoint::open`] reads.
pub fn exist(folder: &Path) -> bool {
    [SINGLE, INDEX].iter().any(|name| folder.join(name).exists())
}

/// The weight files of a model folder, which are read one tensor at a time.
#[derive(Debug)]
pub struct Checkpoint {
    files: Vec<SafetensorsFile>,
    /// The place in `files` of each tensor's file.
    places: BTreeMap<String, usize>,
}

impl Checkpoint {
    /// Opens `model.safetensors`, or the files of `model.safetensors.index.json`.
    pub fn open(folder: &Path) -> Result<Checkpoint> {
        let single = folder.join(SINGLE);
        let index = folder.join(INDEX);
        let files = if single.exists() {
            vec![SafetensorsFile::open(&single)?]
        } else if index.exists() {
            open_shards(folder, &index)?
        } else if folder.join(PICKLED).exists() {
            return Err(Error::PickledWeights { path: folder.join(PICKLED) });
        } else {
            return Err(Error::NoWeights { folder: folder.to_owned() });
        };
        let place = |(place, file): (usize, &SafetensorsFile)| {
            file.names().into_iter().map(move |name| (name, place)).collect::<Vec<_>>()
        };
        let places = files.iter().enumerate().flat_map(place).collect();
        Ok(Checkpoint { files, places })
    }

    /// Adds the files of the modules of `model`. A folder without a module's files lacks its parameters, unless it has
    /// them among the others.
    pub(super) fn with_modules(mut self, folder: &Path, model: &Model) -> Result<Checkpoint> {
        let names = model.parameters().iter().filter_map(|spec| module_of(&spec.name));
        for module in names.collect::<BTreeSet<_>>() {
            let own = folder_of(module, folder, model.config());
            let is_here = self.places.keys().any(|name| module_of(name) == Some(module));
            if is_here || !own.exists() {
                continue;
            }
            for file in Checkpoint::open(&own)?.files {
                let (file, place) = (file.of_module(module), self.files.len());
                self.places.extend(file.names().into_iter().map(|name| (name, place)));
                self.files.push(file);
            }
        }
        Ok(self)
    }

    /// Every tensor's name, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.places.keys().map(String::as_str).collect()
    }

    /// The file that holds the tensor `name`.
    pub fn file(&self, name: &str) -> Result<&SafetensorsFile> {
        let file = self.places.get(name).map(|&place| &self.files[place]);
        file.ok_or_else(|| Error::MissingWeight { name: name.to_owned() })
    }
}

fn open_shards(folder: &Path, index: &Path) -> Result<Vec<SafetensorsFile>> {
    let text = read_description(index).map_err(|source| Error::Io {
        action: "read",
        path: index.to_owned(),
        source,
    })?;
    let index_json: Value = serde_json::from_slice(&text)
        .map_err(|source| Error::Json { path: index.to_owned(), source })?;
    let error = |problem: &str| Error::Config {
        path: index.to_owned(),
        key: "weight_map".to_owned(),
        problem: problem.to_owned(),
    };
    let map = index_json["weight_map"].as_object().ok_or_else(|| error("expected an object"))?;
    let mut shards = BTreeSet::new();
    for file in map.values() {
        let name = file.as_str().filter(|name| is_file_name(name));
        shards.insert(name.ok_or_else(|| error("expected names of files of this folder"))?);
    }
    shards.into_iter().map(|shard| SafetensorsFile::open(&folder.join(shard))).collect()
}

/// An index that points out of its folder is refused.
fn is_file_name(name: &str) -> bool {
    PathBuf::from(name).file_name().is_some_and(|file| file == name)
}
