//! One model in training on the cores of this host, with batches that are in memory.

use std::sync::Arc;
use std::time::Duration;

use traind_loader::{
    ArrayValues, BatchArray, BatchAxis, BatchPlan, BatchSizes, CoreBatch, HostBatch, ModelInputs,
    ScheduledBatch,
};
use traind_models::{InputDim, Model};
use traind_xla::kernels::GpuOptions;
use traind_xla::mesh::Axis;
use traind_xla::runtime::{HostArray, LazyDevice, LocalCores};

use crate::error::{Error, Result};
use crate::session::{Session, StepResults, Uploader};
use crate::state::{StartValues, StateConfig};
use crate::step::{JobPrograms, Readout, StepConfig};

/// The weight of each row in the loss.
const WEIGHTS: &str = "sample_weights";

/// A model in training. A step is any number of [`Trainer::add_batch`] and one [`Trainer::update`].
pub struct Trainer {
    session: Session,
    model: Arc<dyn Model>,
    uploader: Uploader,
    /// The cores that see different rows.
    shards: usize,
    /// The updates so far.
    steps: u64,
    /// The rows since the last of them.
    rows: usize,
}

impl Trainer {
    /// Puts `model` with the values of `start` on `cores`, which form the mesh of `config`.
    /// `inputs` are the optional ones that batches have.
    pub fn new(
        cores: LocalCores,
        model: Arc<dyn Model>,
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

    /// The same on devices that the caller made, one for each stage of the mesh.
    pub fn of_devices(
        mut devices: Vec<LazyDevice>,
        model: Arc<dyn Model>,
        inputs: ModelInputs,
        config: &StepConfig,
        start: &StartValues,
    ) -> Result<Trainer> {
        if config.forward.embedding_noise {
            return Err(Error::Unsupported { setting: "embedding_noise" });
        }
        // Batches and updates are programs of their own, so that either can be left out.
        let state = StateConfig { accumulates: true, ..config.state };
        let config = StepConfig { state, ..config.clone() };
        let shards = config.mesh.mesh()?.size(Axis::Data);
        let recorders = devices.iter_mut().map(LazyDevice::recorder_mut);
        let programs = JobPrograms::declare(&config, &model, inputs, Readout::Logits, recorders)?;
        let mut session = Session::new(devices, programs, Arc::new(()));
        session.start(start)?;
        let uploader = session.train_uploader();
        Ok(Trainer { session, model, uploader, shards, steps: 0, rows: 0 })
    }

    /// Adds the gradients of a batch to those of the step. Each array has the rows of all cores,
    /// which must be able to share them evenly. Rows count alike unless `sample_weights` says
    /// otherwise.
    pub fn add_batch(&mut self, arrays: &[BatchArray]) -> Result<()> {
        let batch = self.host_batch(arrays)?;
        let (step, first_row) = (self.steps as u32, self.rows as u32);
        let shared = |row: usize| {
            let numbers = [step, first_row + row as u32];
            Ok(numbers
                .into_iter()
                .map(|number| HostArray::from_u32(&[], &[number]))
                .collect::<Result<_, _>>()?)
        };
        let rows = batch.scheduled.plan.rows.len();
        let uploaded = self.uploader.upload(batch, shared)?;
        self.session.launch_batch(&uploaded)?.wait()?;
        self.rows += rows;
        Ok(())
    }

    /// Updates the parameters by the gradients of all batches since the last update.
    pub fn update(&mut self, learning_rate: f64) -> Result<StepResults> {
        let scalars = self.session.optimizers().scalars(self.steps + 1, learning_rate, 1.0);
        let scalars = HostArray::from_f32(&[scalars.len()], &scalars)?;
        let results = self.session.launch_update(&scalars)?.results()?;
        (self.steps, self.rows) = (self.steps + 1, 0);
        Ok(results)
    }

    /// Copies the parameters to the host, in the model's order: all of them, or with adapters those
    /// that are trained.
    pub fn parameters(&self) -> Result<Vec<HostArray>> {
        let mut parts = self.session.saved_parameters()?;
        let specs = self.model.parameters().iter();
        let arrays = specs.filter_map(|spec| parts.remove(&spec.name)).map(|it| it.into_array());
        Ok(arrays.collect::<Result<_, _>>()?)
    }

    /// Starts anew from other values after `steps` updates, without compiling anything.
    pub fn start(&mut self, start: &StartValues, steps: u64) -> Result<()> {
        (self.steps, self.rows) = (steps, 0);
        self.session.start(start)
    }

    /// The updates so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The session that runs the programs.
    pub fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Divides a batch among the cores.
    fn host_batch(&self, arrays: &[BatchArray]) -> Result<HostBatch> {
        arrays.iter().try_for_each(|array| check(array, self.shards))?;
        let rows = arrays.first().map_or(0, |array| array.dims[0]);
        if let Some(other) = arrays.iter().find(|array| array.dims[0] != rows) {
            return Err(problem(other, format!("has {} rows, others {rows}", other.dims[0])));
        }
        let sizes = self.sizes(arrays, rows / self.shards);
        let weights = (!arrays.iter().any(|it| it.name == WEIGHTS)).then(|| BatchArray {
            name: WEIGHTS,
            dims: vec![sizes.rows()],
            values: ArrayValues::F32(vec![1.0; sizes.rows()]),
        });
        let own = |shard| arrays.iter().map(move |array| part(array, shard, self.shards));
        let core = |shard| CoreBatch {
            sizes,
            arrays: own(shard).chain(weights.clone()).collect(),
            padded_length: sizes.get(BatchAxis::Positions),
            spans: Vec::new(),
        };
        let plan = BatchPlan { sizes, rows: (0..rows as u32).collect(), cores: self.shards };
        Ok(HostBatch {
            scheduled: ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan },
            cores: (0..self.shards).map(core).collect(),
            shards: 0..self.shards,
            tokens: 0,
            decoding: Duration::ZERO,
        })
    }

    /// The sizes of a batch on each core, by the arrays that have them.
    fn sizes(&self, arrays: &[BatchArray], rows: usize) -> BatchSizes {
        let mut sizes = BatchSizes::of_rows(rows);
        for spec in self.model.inputs() {
            let Some(array) = arrays.iter().find(|array| array.name == spec.name) else { continue };
            for (dim, size) in spec.dims.iter().zip(&array.dims) {
                let axis = match dim {
                    InputDim::Positions => BatchAxis::Positions,
                    InputDim::TargetPositions => BatchAxis::TargetPositions,
                    InputDim::Rows | InputDim::Size(_) => continue,
                };
                sizes = sizes.with(axis, *size as u32);
            }
        }
        sizes
    }
}

/// Refuses an array that `shards` cores cannot share.
fn check(array: &BatchArray, shards: usize) -> Result<()> {
    let found = match &array.values {
        ArrayValues::U8(values) => values.len(),
        ArrayValues::S32(values) => values.len(),
        ArrayValues::F32(values) => values.len(),
    };
    let (rows, count) = (array.dims.first().copied(), array.dims.iter().product::<usize>());
    match rows {
        _ if found != count => Err(problem(array, format!("has {found} values, not {count}"))),
        Some(rows) if rows > 0 && rows.is_multiple_of(shards) => Ok(()),
        Some(rows) => {
            Err(problem(array, format!("has {rows} rows, which {shards} cores cannot share")))
        }
        None => Err(problem(array, "has no rows".to_owned())),
    }
}

fn problem(array: &BatchArray, problem: String) -> Error {
    Error::Batch { array: array.name, problem }
}

/// The rows of one of `shards` cores.
fn part(array: &BatchArray, shard: usize, shards: usize) -> BatchArray {
    let size = array.dims.iter().product::<usize>() / shards;
    let range = shard * size..(shard + 1) * size;
    let values = match &array.values {
        ArrayValues::U8(values) => ArrayValues::U8(values[range].to_vec()),
        ArrayValues::S32(values) => ArrayValues::S32(values[range].to_vec()),
        ArrayValues::F32(values) => ArrayValues::F32(values[range].to_vec()),
    };
    let mut dims = array.dims.clone();
    dims[0] /= shards;
    BatchArray { name: array.name, dims, values }
}
