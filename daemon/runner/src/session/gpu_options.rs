//! The choices of a job on GPUs.

use traind_job_file::{AttnImplementation, JobFile};
use traind_xla::kernels::GpuOptions;

pub(crate) fn gpu_options(job: &JobFile) -> GpuOptions {
    GpuOptions {
        tensor_float_32: job.train.tf32,
        cudnn_attention: job.model.attn_implementation == AttnImplementation::FlashAttention2,
    }
}
