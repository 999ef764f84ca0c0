//! Moves batches to the cores.

use std::ops::Range;

use traind_loader::{BatchSizes, HostBatch};
use traind_xla::runtime::{CoreInputs, HostArray, LocalCores};

use crate::error::Result;
use crate::state::{CacheConfig, Pipeline};
use crate::step::{BatchLayout, Program, ProgramShape};

/// A batch whose inputs are on the cores, with its plan.
#[derive(Debug)]
pub struct UploadedBatch {
    /// The batch as it was collated.
    pub host: HostBatch,
    /// `[stage][micro-batch]`, at least one of each.
    pub(super) inputs: Vec<Vec<CoreInputs>>,
}

impl UploadedBatch {
    /// The rows on all cores, without empty slots.
    pub(crate) fn rows(&self) -> usize {
        self.host.scheduled.plan.rows.len()
    }

    /// The sizes on each core.
    pub(super) fn sizes(&self) -> BatchSizes {
        self.host.scheduled.plan.sizes
    }

    pub(super) fn shape(&self, program: Program) -> ProgramShape {
        ProgramShape::of_batch(program, self.sizes())
    }

    /// The inputs where there is one stage and one micro-batch.
    pub(super) fn whole(&self) -> &CoreInputs {
        &self.inputs[0][0]
    }
}

/// Uploads batches on the loader's thread.
#[derive(Clone)]
pub struct Uploader {
    /// The cores of each stage.
    stages: Vec<LocalCores>,
    layout: BatchLayout,
    pipeline: Pipeline,
    /// The parts of batches whose rows are compared, where they do not pass through the model whole. With stages,
    /// these are micro-batches.
    parts: Option<CacheConfig>,
}

impl Uploader {
    pub(super) fn new(
        stages: Vec<LocalCores>,
        layout: &BatchLayout,
        pipeline: Pipeline,
    ) -> Uploader {
        Uploader { stages, layout: layout.clone(), pipeline, parts: None }
    }

    /// Changes the uploader to one of batches that pass through the model in `parts`, if there are any.
    pub(super) fn in_parts(self, parts: Option<CacheConfig>) -> Uploader {
        Uploader { parts, ..self }
    }

    /// The rows of each part of a batch with `rows` rows.
    fn rows_of_parts(&self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let size = match &self.parts {
            Some(parts) if !self.pipeline.is_divided() => parts.part_rows(rows),
            _ => self.pipeline.micro_rows(rows),
        };
        (0..rows).step_by(size).map(move |first| first..first + size)
    }

    /// Uploads to each core the rows of its data shard, followed by what all cores get, by the first
    /// row of a micro-batch on its core.
    pub fn upload(
        &self,
        host: HostBatch,
        shared: impl Fn(usize) -> Result<Vec<HostArray>>,
    ) -> Result<UploadedBatch> {
        let shards = host.cores.iter().map(|batch| self.layout.arrays(batch));
        let shards = shards.collect::<Result<Vec<_>>>()?;
        let mut inputs: Vec<Vec<CoreInputs>> = self.stages.iter().map(|_| Vec::new()).collect();
        let sizes = host.scheduled.plan.sizes;
        for rows in self.rows_of_parts(sizes.rows()) {
            let mut shared = shared(rows.start)?;
            if self.parts.is_some() {
                shared.push(HostArray::from_u32(&[], &[rows.start as u32])?);
            }
            let of_model = self.layout.model_rows(rows, &sizes);
            let part = |array: &HostArray| array.rows(of_model.clone());
            let parts = shards.iter().map(|arrays| arrays.iter().map(part).collect());
            let parts = parts.collect::<Result<Vec<Vec<HostArray>>, _>>()?;
            for (cores, inputs) in self.stages.iter().zip(&mut inputs) {
                inputs.push(upload(cores, &parts, &shared)?);
            }
        }
        Ok(UploadedBatch { host, inputs })
    }
}

/// Uploads to each core the arrays of its data shard and the shared ones.
fn upload(
    cores: &LocalCores,
    shards: &[Vec<HostArray>],
    shared: &[HostArray],
) -> Result<CoreInputs> {
    let mut inputs = Vec::with_capacity(cores.len());
    for (core, at) in cores.coordinates().enumerate() {
        let arrays = shards[at.data].iter().chain(shared);
        let buffers = arrays.map(|array| cores.upload(core, array));
        inputs.push(buffers.collect::<Result<_, _>>()?);
    }
    Ok(inputs)
}

/// Uploads arrays to all cores, as the only inputs of a program.
pub(super) fn replicate(cores: &LocalCores, arrays: &[&HostArray]) -> Result<CoreInputs> {
    let upload = |core| -> Result<_> {
        let buffers = arrays.iter().map(|array| cores.upload(core, array));
        Ok(buffers.collect::<Result<_, _>>()?)
    };
    (0..cores.len()).map(upload).collect()
}
