//! The state of a trainer in a folder: what training changed, and how far it is.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use traind_durable::Replacement;
use traind_models::ParameterSpec;
use traind_models::weights::{ArrayParts, StoredArrays, save_tensors};
use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use super::{Place, Trainer};
use crate::error::{Error, Result};
use crate::session::StepSums;
use crate::state::{MeshConfig, ScaleValues, StoredSlots, TrainedStart, trained_name};

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
    /// The row numbers that batches have taken since then.
    rows: usize,
    /// The steps whose update was skipped.
    skipped: u64,
    loss_scale: Option<ScaleValues>,
    /// The cores that have the sums of a step which has begun.
    #[serde(default)]
    mesh: Option<String>,
}

/// A state that was read, and that fits the trainer.
struct ReadState {
    place: Place,
    trained: TrainedStart,
    sums: Option<StepSums>,
}

impl Trainer {
    /// Writes the state of the set in training to `folder`, also in the middle of a step: trained parameters, slots,
    /// counts, and the sums of the step's batches. A folder without `state.json` is not whole.
    pub fn save(&self, folder: &Path) -> Result<()> {
        let failed = |error: std::io::Error| save_error(folder, error);
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
        let (loss_scale, mesh) = (self.session.loss_scale()?, Some(self.mesh_name()));
        let state = StoredState { steps, rows, skipped, loss_scale, mesh };
        let text = serde_json::to_vec_pretty(&state).map_err(|error| save_error(folder, error))?;
        let written = Replacement::of(&folder.join(STATE)).write(|file| file.write_all(&text));
        written.map_err(failed)
    }

    /// Continues the set in training where one was saved, with as many cores or others. A step that had begun needs
    /// the same mesh. What the trainer has stays on the cores, beside what takes its place, until all of the state is
    /// there, and a state that cannot be loaded changes nothing.
    pub fn load(&mut self, folder: &Path) -> Result<()> {
        let ReadState { place, trained, sums } = self.read_state(folder)?;
        self.session.replace_trained(&trained, sums.as_ref())?;
        self.place = place;
        Ok(())
    }

    fn read_state(&self, folder: &Path) -> Result<ReadState> {
        let text = fs::read(folder.join(STATE)).map_err(|error| load_error(folder, error))?;
        let state: StoredState =
            serde_json::from_slice(&text).map_err(|error| load_error(folder, error))?;
        let loss_scale = state.loss_scale.unwrap_or_default();
        if !(loss_scale.scale.is_finite() && loss_scale.scale > 0.0) {
            let problem = format!("its loss scale is {}", loss_scale.scale);
            return Err(load_error(folder, problem));
        }
        let sums = (state.rows > 0).then(|| self.read_sums(folder, &state)).transpose()?;
        let slots = self.read_slots(folder)?;
        let parameters = self.read_trained(folder, &slots)?;
        let place = Place { steps: state.steps, rows: state.rows, skipped: state.skipped };
        let trained = TrainedStart { parameters, slots: Some(slots), loss_scale };
        Ok(ReadState { place, trained, sums })
    }

    fn read_slots(&self, folder: &Path) -> Result<StoredSlots> {
        let arrays = StoredArrays::open(folder, OPTIMIZER)?.into_memory()?;
        let slots = StoredSlots { folder: folder.to_owned(), arrays };
        self.session.check_slots(&slots)?;
        let mut expected = self.session.slot_shapes();
        let names: Vec<(String, &Shape)> =
            self.trained().map(|spec| (trained_name(&spec.name), &spec.shape)).collect();
        for (name, shape) in &names {
            if slots.arrays.shape(name).is_some() {
                slots.check(name, shape)?;
                expected.insert(name, shape);
            }
        }
        slots.check_no_others(|name| expected.contains_key(name))?;
        Ok(slots)
    }

    /// The trained parameters by name, where the optimizer has others than those that are saved from `slots`.
    fn read_trained(
        &self,
        folder: &Path,
        slots: &StoredSlots,
    ) -> Result<BTreeMap<String, HostArray>> {
        let stored = StoredArrays::open(folder, TRAINED)?;
        let shapes = self.trained().map(|spec| (spec.name.clone(), spec.shape.clone()));
        let arrays = read_all(folder, &stored, &shapes.collect())?;
        let (names, mut arrays): (Vec<String>, Vec<HostArray>) = arrays.into_iter().unzip();
        slots.take_trained(names.iter().map(String::as_str), &mut arrays)?;
        Ok(names.into_iter().zip(arrays).collect())
    }

    /// The sums of a step that has begun, which are those of each core.
    fn read_sums(&self, folder: &Path, state: &StoredState) -> Result<StepSums> {
        let own = self.mesh_name();
        match &state.mesh {
            Some(mesh) if *mesh != own => {
                let problem = format!(
                    "a step has begun on {mesh}, and continues on the same mesh alone, not on {own}"
                );
                Err(load_error(folder, problem))
            }
            _ => read_all(
                folder,
                &StoredArrays::open(folder, SUMS)?,
                &self.session.step_sum_shapes()?,
            ),
        }
    }

    fn trained(&self) -> impl Iterator<Item = &ParameterSpec> {
        self.inputs.model.parameters().iter().filter(|spec| spec.trainable)
    }

    /// The cores and the axes that they form, in words.
    fn mesh_name(&self) -> String {
        let MeshConfig { data, tensor, pipeline, placement, .. } = self.inputs.mesh;
        let order = placement.order().map(|axis| format!("{axis:?}").to_lowercase());
        let [data, tensor, pipeline] = [data, tensor, pipeline].map(|size| size.to_string());
        format!(
            "data {data}, tensor {tensor}, pipeline {pipeline} (the slowest axis first: {})",
            order.join(", ")
        )
    }
}

/// Reads arrays with these names and shapes. Refuses others.
fn read_all(
    folder: &Path,
    stored: &StoredArrays,
    shapes: &BTreeMap<String, Shape>,
) -> Result<BTreeMap<String, HostArray>> {
    if let Some(name) = stored.names().into_iter().find(|name| !shapes.contains_key(name)) {
        return Err(load_error(folder, format!("the trainer has no {name}")));
    }
    let read = shapes.iter().map(|(name, shape)| match stored.shape(name) {
        Some(found) if found == *shape => Ok((name.clone(), stored.array(name)?)),
        Some(found) => Err(load_error(folder, format!("its {name} is {found}, not {shape}"))),
        None => Err(load_error(folder, format!("it has no {name}"))),
    });
    read.collect()
}

fn file(folder: &Path, stem: &str) -> PathBuf {
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

fn load_error(folder: &Path, problem: impl ToString) -> Error {
    Error::LoadState { folder: folder.to_owned(), problem: problem.to_string() }
}

fn save_error(folder: &Path, problem: impl ToString) -> Error {
    Error::SaveState { folder: folder.to_owned(), problem: problem.to_string() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use traind_loader::{ArrayValues, BatchArray, ModelInputs};

    use super::*;
    use crate::session::open_plugin;
    use crate::state::StartValues;
    use crate::step::{StepConfig, fixture};

    /// A trainer on a CPU device whose parameters are all `value`.
    fn trainer(value: f32) -> Trainer {
        let (model, config) = (fixture::model(), StepConfig::default());
        let plugin = traind_pjrt::installed_plugin("cpu").unwrap();
        let cores = open_plugin(&plugin, "cpu", 1, config.mesh.mesh().unwrap()).unwrap();
        let array = |spec: &ParameterSpec| {
            let values = vec![value; spec.shape.element_count()];
            HostArray::from_f32(&spec.shape.dims, &values).unwrap()
        };
        let parameters = model.parameters().iter().map(array).collect();
        let inputs =
            ModelInputs { token_type_ids: false, attention_mask: true, position_ids: false };
        let start = StartValues { parameters, ..StartValues::default() };
        Trainer::new(cores, Arc::clone(&model), inputs, &config, &start).unwrap()
    }

    fn add_batch(trainer: &mut Trainer, word: i32) {
        let array = |name, dims: &[usize], values: Vec<i32>| BatchArray {
            name,
            dims: dims.to_vec(),
            values: ArrayValues::S32(values),
        };
        let arrays = [
            array("input_ids", &[1, 2], vec![2, word]),
            array("attention_mask", &[1, 2], vec![1, 1]),
            array("labels", &[1], vec![1]),
        ];
        trainer.add_batch(&arrays).unwrap();
    }

    /// A core that fails when it has some of another state: the last parameter, or the last sums, do not arrive.
    #[test]
    fn a_state_that_arrives_in_part_is_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut saved = trainer(0.02);
        add_batch(&mut saved, 5);
        saved.save(folder.path()).unwrap();
        let mut trainer = trainer(0.01);
        add_batch(&mut trainer, 7);
        let state = |trainer: &Trainer| {
            let slots = trainer.session.saved_slots().unwrap();
            let slots: Vec<(String, HostArray)> = whole(slots).unwrap();
            (trainer.parameters().unwrap(), slots, trainer.session.step_sums().unwrap())
        };
        let before = state(&trainer);
        let ReadState { mut trained, sums, .. } = trainer.read_state(folder.path()).unwrap();
        let sums = sums.unwrap();
        let (name, array) = trained.parameters.pop_last().unwrap();
        let error = trainer.session.replace_trained(&trained, Some(&sums)).unwrap_err();
        assert!(error.to_string().contains(&name), "{error}");
        assert!(state(&trainer) == before);
        trained.parameters.insert(name, array);
        let mut fewer = sums.clone();
        fewer.pop_last();
        trainer.session.replace_trained(&trained, Some(&fewer)).unwrap_err();
        assert!(state(&trainer) == before);
        trainer.session.replace_trained(&trained, Some(&sums)).unwrap();
        assert!(state(&trainer) == state(&saved) && state(&trainer) != before);
    }
}
