//! One model in training on the cores of this host, with batches that are in memory.
//!
//! Imports `train_loop`, `session`, `step`, `state` and `error`.

mod arrays;
mod batch;
mod files;
mod sets;
mod steps;

use std::sync::Arc;

use traind_loader::{BatchArray, ModelInputs};
use traind_models::optimizers::Optimizers;
use traind_models::{InputSpec, Model};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Axis;
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores};

use crate::error::{Error, Result};
use crate::session::{Session, StepResults, UploadedBatch, Uploader};
use crate::state::{MeshConfig, StartValues, StateConfig};
use crate::step::{
    JobPrograms, LOSS_DIVISOR, LOSS_SUM, Program, Readout, RowValues, StepConfig, scalar,
};
use crate::train_loop::Update;
use arrays::RowShares;
use sets::Sets;

/// A model in training. A step is any number of [`Trainer::add_batch`] and one [`Trainer::update`]; state may be read,
/// saved and exchanged between any two calls.
pub struct Trainer {
    session: Session,
    inputs: Inputs,
    place: Place,
    sets: Sets,
}

/// The inputs of a step's programs.
struct Inputs {
    model: Arc<Model>,
    optimizers: Arc<Optimizers>,
    uploader: Uploader,
    /// The arrays of batches to train on.
    specs: Vec<InputSpec>,
    /// The cores that share the rows of these.
    shares: RowShares,
    mesh: MeshConfig,
}

/// The place of training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    /// The steps so far.
    steps: u64,
    /// The row numbers that batches have taken since the last of them. Random bits depend on a row's number, and no two
    /// rows of a step have the same.
    rows: usize,
    /// The steps whose update was skipped, since their gradients were not finite (`fp16`).
    skipped: u64,
}

/// The results of a forward pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forwarded {
    /// The mean loss of the rows, where they have labels.
    pub loss: Option<f64>,
    /// The logits of each row of the batch, of all its positions where the model has some for each.
    pub rows: Vec<RowValues>,
}

impl Trainer {
    /// Puts `model` with the values of `start` on `cores`, which form the mesh of `config`.
    /// `inputs` are the optional ones that batches have.
    pub fn new(
        cores: LocalCores,
        model: Arc<Model>,
        inputs: ModelInputs,
        config: &StepConfig,
        start: &StartValues,
    ) -> Result<Trainer> {
        let stages = (0..cores.mesh().size(Axis::Pipeline)).map(|stage| cores.of_stage(stage));
        let mut devices = Vec::new();
        for cores in stages {
            devices.push(LazyDevice::new(cores?, None, GpuOptions::default()));
        }
        Trainer::of_devices(devices, model, inputs, config, start)
    }

    /// Puts `model` on devices that the caller made, one for each stage of the mesh, as [`new`](Self::new) does on
    /// cores.
    pub fn of_devices(
        mut devices: Vec<LazyDevice>,
        model: Arc<Model>,
        inputs: ModelInputs,
        config: &StepConfig,
        start: &StartValues,
    ) -> Result<Trainer> {
        check(config)?;
        // Batches and updates are programs of their own, so that either can be left out.
        let state = StateConfig { accumulates: true, ..config.state };
        let config = StepConfig { state, ..config.clone() };
        let shards = config.mesh.mesh()?.size(Axis::Data);
        let recorders = devices.iter_mut().map(LazyDevice::recorder_mut);
        let programs = JobPrograms::declare(&config, &model, inputs, Readout::Logits, recorders)?;
        let mut session = Session::new(devices, programs, Arc::new(()));
        session.start(start)?;
        let (optimizers, uploader) = (Arc::clone(session.optimizers()), session.train_uploader());
        let specs = session.programs.train.forward.layout.specs().to_vec();
        // Only rows of different cores, and places for all rows of a core, depend on their number.
        let is_bounded = shards > 1 || session.programs.gradient_cache().is_some();
        let rows_max = if is_bounded { config.state.rows_per_core } else { usize::MAX };
        let shares = RowShares { sequences: config.sequences_per_row(), shards, rows_max };
        let inputs = Inputs { model, optimizers, uploader, specs, shares, mesh: config.mesh };
        Ok(Trainer { session, inputs, place: Place::default(), sets: Sets::default() })
    }

    /// Runs the forward pass without dropout, and changes nothing. Without the arrays of the labels there is no loss.
    pub fn forward(&mut self, arrays: &[BatchArray]) -> Result<Forwarded> {
        let specs = self.session.programs.evaluate.forward.layout.specs();
        let is_target = |name: &str| specs.iter().any(|spec| spec.name == name && spec.is_target());
        let has_labels = arrays.iter().any(|array| is_target(array.name));
        let program = if has_labels { Program::Evaluate } else { Program::Predict };
        let specs = self.session.programs.eval_step(program).forward.layout.specs();
        let shares = RowShares { rows_max: usize::MAX, ..self.inputs.shares };
        let batch = batch::host_batch(&self.inputs.model, specs, shares, arrays)?;
        let rows = batch.scheduled.plan.sizes.rows() * shares.sequences;
        let uploaded = self.session.eval_uploader(program).upload(batch, |_| Ok(Vec::new()))?;
        self.session.begin_evaluation()?;
        let fetched = self.session.launch_evaluation(program, &uploaded).and_then(|it| it.fetch());
        self.session.end_evaluation()?;
        let Some(fetched) = fetched? else { return Ok(Forwarded::default()) };
        let (mut forwarded, mut sums) = (Forwarded::default(), [0.0; 2]);
        for shard in 0..shares.shards {
            forwarded.rows.extend(Readout::Logits.rows(&fetched, shard, &vec![0..0; rows])?);
            if has_labels {
                for (sum, name) in sums.iter_mut().zip([LOSS_SUM, LOSS_DIVISOR]) {
                    *sum += scalar(&fetched.per_core(name)?[shard])?;
                }
            }
        }
        let [loss, divisor] = sums;
        forwarded.loss = has_labels.then(|| if divisor > 0.0 { loss / divisor } else { 0.0 });
        Ok(forwarded)
    }

    /// Adds the gradients of a batch to those of the step. Each array has the rows of all cores,
    /// which must be able to share them evenly; where a row of the data has several sequences, as pairs and embedded
    /// texts have, these follow each other. Rows count alike unless `sample_weights` says
    /// otherwise. Fails, and adds nothing, where the arrays are not those of [`Trainer::arrays`] or have values that
    /// these exclude.
    pub fn add_batch(&mut self, arrays: &[BatchArray]) -> Result<()> {
        let uploaded = self.inputs.upload(arrays, self.place)?;
        self.session.launch_batch(&uploaded)?.wait()?;
        self.place.rows += self.inputs.row_numbers(&uploaded);
        Ok(())
    }

    /// The arrays of batches to train on. `sample_weights` may be absent: then each row counts once.
    pub fn arrays(&self) -> &[InputSpec] {
        &self.inputs.specs
    }

    /// Updates the parameters by the gradients of all batches since the last update, of which there must be one. Groups
    /// of parameters have their multiples of the rate.
    pub fn update(&mut self, learning_rate: f64) -> Result<StepResults> {
        self.update_at(&self.inputs.optimizers.rates(learning_rate, 1.0))
    }

    /// Updates the parameters at a rate for each group of parameters in the config's order, followed by that of all
    /// others.
    pub fn update_at(&mut self, rates: &[f64]) -> Result<StepResults> {
        let Place { steps, rows, skipped } = self.place;
        if rows == 0 {
            return Err(Error::NoBatch);
        }
        let update = update_of(&self.inputs.optimizers, steps - skipped, rates)?;
        let results = self.session.launch_update(&update.scalars)?.results()?;
        let skipped = skipped + u64::from(results.is_skipped());
        self.place = Place { steps: steps + 1, rows: 0, skipped };
        Ok(results)
    }

    /// Copies the parameters to the host, in the model's order: all of them, or with adapters those
    /// that are trained.
    pub fn parameters(&self) -> Result<Vec<HostArray>> {
        let mut parts = self.session.saved_parameters()?;
        let specs = self.inputs.model.parameters().iter();
        let arrays = specs.filter_map(|spec| parts.remove(&spec.name)).map(|it| it.into_array());
        Ok(arrays.collect::<Result<_, _>>()?)
    }

    /// Starts anew from other values after `steps` steps, without compiling anything.
    pub fn start(&mut self, start: &StartValues, steps: u64) -> Result<()> {
        self.session.start(start)?;
        self.place = Place { steps, ..Place::default() };
        Ok(())
    }

    /// The steps so far.
    pub fn steps(&self) -> u64 {
        self.place.steps
    }

    /// The session that runs the programs.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Inputs {
    /// The row numbers that a batch takes. The numbers of a core begin where those of the core before end when it has
    /// all rows that it has room for, however few it has.
    fn row_numbers(&self, batch: &UploadedBatch) -> usize {
        match self.shares.shards {
            1 => batch.rows(),
            shards => shards * self.shares.rows_max,
        }
    }

    /// Uploads a batch of the step at `place`.
    fn upload(&self, arrays: &[BatchArray], place: Place) -> Result<UploadedBatch> {
        let shared = |row: usize| {
            let numbers = [place.steps as u32, (place.rows + row) as u32];
            let arrays = numbers.into_iter().map(|number| HostArray::from_u32(&[], &[number]));
            Ok(arrays.collect::<Result<_, _>>()?)
        };
        let batch = batch::host_batch(&self.model, &self.specs, self.shares, arrays)?;
        self.uploader.upload(batch, shared)
    }
}

/// Refuses settings that this trainer has no values for, or with numbers that are none.
fn check(config: &StepConfig) -> Result<()> {
    if config.forward.embedding_noise {
        return Err(Error::Unsupported { setting: "embedding_noise" });
    }
    let StateConfig { max_grad_norm, rows_per_core, .. } = config.state;
    let positive = |name, found: f64| match found > 0.0 {
        true => Ok(()),
        false => Err(Error::Number { name, expected: "a number above 0", found }),
    };
    positive("max_grad_norm", max_grad_norm)?;
    positive("rows_per_core", rows_per_core as f64)
}

/// The arguments of the update after `done` updates, at a rate for each group of parameters.
fn update_of(optimizers: &Optimizers, done: u64, rates: &[f64]) -> Result<Update> {
    let (found, expected) = (rates.len(), optimizers.rates(0.0, 1.0).len());
    let learning_rate = match rates {
        [.., last] if found == expected => *last,
        _ => return Err(Error::Count { what: "learning rates", found, expected }),
    };
    if let Some(found) = rates.iter().find(|rate| !(rate.is_finite() && **rate >= 0.0)) {
        let expected = "a finite number of at least 0";
        return Err(Error::Number { name: "the learning rate", expected, found: *found });
    }
    let scalars = optimizers.scalars_at(done + 1, rates);
    Ok(Update { learning_rate, scalars: HostArray::from_f32(&[scalars.len()], &scalars)? })
}
