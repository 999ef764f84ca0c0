//! The state of a trainer in a folder: what training changed, and how far it is.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};
use traind_durable::Replacement;
use traind_models::weights::{ArrayParts, SafetensorsFile, StoredArrays, save_tensors};
use traind_xla::runtime::HostArray;

use super::{Place, Trainer};
use crate::error::{Error, Result};
use crate::state::{ScaleValues, StoredSlots, TrainedStart};

/// The file that is written last.
const STATE: &str = "state.json";
const TRAINED: &str = "trained";
const OPTIMIZER: &str = "optimizer";
/// The sums of a step that has not ended.
const SUMS: &str = "sums";

/// The content of `state.json`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredState {
    /// The steps so far.
    steps: u64,
    /// The rows since then.
    rows: usize,
    /// The steps whose update was skipped.
    skipped: u64,
    loss_scale: Option<ScaleValues>,
}

impl Trainer {
    /// Writes the state of the set in training to `folder`, also in the middle of a step: trained parameters, slots,
    /// counts, and the sums of the step's batches. A folder without `state.json` is not whole.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let failed = |error: std::io::Error| state_error(folder, error);
        fs::create_dir_all(folder).map_err(failed)?;
        match fs::remove_file(folder.join(STATE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            _ => {}
        }
        let mut trained = self.session.saved_parameters()?;
        let specs = self.inputs.model.parameters().iter();
        specs.filter(|spec| !spec.trainable).for_each(|spec| drop(trained.remove(&spec.name)));
        write(folder, TRAINED, whole(trained)?)?;
        write(folder, OPTIMIZER, whole(self.session.saved_slots()?)?)?;
        if self.place.rows > 0 {
            write(folder, SUMS, self.session.step_sums()?.into_iter().collect())?;
        }
        let Place { steps, rows, skipped } = self.place;
        let state = StoredState { steps, rows, skipped, loss_scale: self.session.loss_scale()? };
        let text = serde_json::to_vec_pretty(&state).map_err(|error| state_error(folder, error))?;
        let written = Replacement::of(&folder.join(STATE)).write(|file| file.write_all(&text));
        written.map_err(failed)
    }

    /// Continues the set in training where one was saved, with as many cores or others. A step that had begun needs
    /// the same mesh.
    pub fn load(&mut self, folder: &Path) -> Result<()> {
        let text = fs::read(folder.join(STATE)).map_err(|error| state_error(folder, error))?;
        let state: StoredState =
            serde_json::from_slice(&text).map_err(|error| state_error(folder, error))?;
        let stored = StoredArrays::open(folder, TRAINED)?;
        let slots = StoredSlots {
            folder: folder.to_owned(),
            arrays: StoredArrays::open(folder, OPTIMIZER)?,
        };
        let specs = self.inputs.model.parameters().iter().filter(|spec| spec.trainable);
        let names: Vec<&str> = specs.clone().map(|spec| spec.name.as_str()).collect();
        let mut arrays = Vec::new();
        for spec in specs {
            match stored.shape(&spec.name) {
                Some(found) if found.dims == spec.shape.dims => {
                    arrays.push(stored.array(&spec.name)?);
                }
                Some(found) => {
                    let problem = format!("its {} is {found}, not {}", spec.name, spec.shape);
                    return Err(state_error(folder, problem));
                }
                None => return Err(state_error(folder, format!("it has no {}", spec.name))),
            }
        }
        slots.take_trained(names.iter().copied(), &mut arrays)?;
        let names = names.into_iter().map(str::to_owned);
        let start = TrainedStart {
            parameters: names.zip(arrays).collect(),
            slots: Some(slots),
            loss_scale: state.loss_scale.unwrap_or_default(),
        };
        self.session.start_trained(&start)?;
        self.place = Place { steps: state.steps, rows: 0, skipped: state.skipped };
        if state.rows > 0 {
            let sums = SafetensorsFile::open(&file(folder, SUMS))?;
            self.session.set_step_sums(|name| Ok(sums.read_f32(name)?))?;
            self.place.rows = state.rows;
        }
        Ok(())
    }
}

fn file(folder: &Path, stem: &str) -> std::path::PathBuf {
    folder.join(format!("{stem}.safetensors"))
}

fn write(folder: &Path, stem: &str, arrays: Vec<(String, HostArray)>) -> Result<()> {
    let arrays = arrays.iter().map(|(name, array)| (name.as_str(), array));
    Ok(save_tensors(&file(folder, stem), arrays)?)
}

/// The arrays of parts that each are all of one.
fn whole(parts: ArrayParts) -> Result<Vec<(String, HostArray)>> {
    parts.into_iter().map(|(name, part)| Ok((name, part.into_array()?))).collect()
}

fn state_error(folder: &Path, problem: impl ToString) -> Error {
    Error::State { folder: folder.to_owned(), problem: problem.to_string() }
}
