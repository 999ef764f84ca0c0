//! Moves batches to the cores.

use traind_loader::HostBatch;
use traind_xla::runtime::{CoreInputs, HostArray, LocalCores};

use crate::error::RunResult;
use crate::step::BatchLayout;

/// A batch whose inputs are on the cores, with its plan.
#[derive(Debug)]
pub(crate) struct UploadedBatch {
    pub host: HostBatch,
    pub inputs: CoreInputs,
}

/// Uploads batches on the loader's thread.
#[derive(Clone)]
pub(crate) struct Uploader {
    cores: LocalCores,
    layout: BatchLayout,
}

impl Uploader {
    pub(super) fn new(cores: &LocalCores, layout: &BatchLayout) -> Uploader {
        Uploader { cores: cores.clone(), layout: layout.clone() }
    }

    /// Uploads to each core the rows of its data shard, followed by `shared`, which all cores get.
    pub(crate) fn upload(&self, host: HostBatch, shared: &[HostArray]) -> RunResult<UploadedBatch> {
        let shards = host.cores.iter().map(|batch| self.layout.arrays(batch));
        let shards = shards.collect::<RunResult<Vec<_>>>()?;
        let mut inputs = Vec::with_capacity(self.cores.len());
        for (core, at) in self.cores.coordinates().enumerate() {
            let arrays = shards[at.data].iter().chain(shared);
            let buffers = arrays.map(|array| self.cores.upload(core, array));
            inputs.push(buffers.collect::<Result<_, _>>()?);
        }
        Ok(UploadedBatch { host, inputs })
    }
}

/// Uploads one array to all cores, as the only input of a program.
pub(super) fn replicate(cores: &LocalCores, array: &HostArray) -> RunResult<CoreInputs> {
    let upload = |core| -> RunResult<_> { Ok(vec![cores.upload(core, array)?]) };
    (0..cores.len()).map(upload).collect()
}
