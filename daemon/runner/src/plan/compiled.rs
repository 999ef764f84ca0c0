//! Memory of a job's programs by the compiler of GPUs that this machine need not have.

use std::time::{Duration, Instant};

use traind_job_file::JobFile;
use traind_job_file::commands::{MeshPlan, MeshSearch};
use traind_pjrt::CompiledProgram;
use traind_xla::runtime::{AheadOfTime, GpuTarget, RecordedStep, Recorder};

use super::PlannedModel;
use super::memory::Recordings;
use super::program_figures::estimated_bytes;
use crate::error::RunResult;

/// Time after which no further mesh is compiled for.
const TIME: Duration = Duration::from_secs(40);
/// Compilers take less than the estimate, and hardly less than half of it.
const ESTIMATE_MAX: u64 = 2;

/// The compiler of a search for the `cores` of a mesh; `None` without a plugin, or where it does not know the device.
pub(super) fn compiler(search: &MeshSearch, cores: u32, per_host: u32) -> Option<AheadOfTime> {
    let gpu = GpuTarget::named(&search.device)?;
    let [hosts, per_host] = [cores / per_host, per_host].map(|count| count as usize);
    AheadOfTime::for_gpus(search.plugin.as_deref()?, gpu, hosts, per_host).ok()
}

/// Replaces estimates by what the compiler takes, the fastest mesh first, until one fits or time is up.
pub(super) fn measure(
    found: &mut [(JobFile, MeshPlan)],
    planned: &PlannedModel,
    compiler: &AheadOfTime,
    bytes_max: Option<u64>,
) {
    let start = Instant::now();
    let may_fit =
        |bytes: u64| bytes_max.is_none_or(|most| bytes <= ESTIMATE_MAX.saturating_mul(most));
    found.sort_by(|(_, a), (_, b)| a.step_seconds.total_cmp(&b.step_seconds));
    for (job, plan) in found.iter_mut().filter(|(_, it)| may_fit(it.memory.bytes_per_core)) {
        let measure =
            |recorder: &Recorder, step: &RecordedStep| compiled_bytes(compiler, recorder, step);
        let Ok(recordings) = Recordings::measured(job, planned, &measure) else {
            return;
        };
        plan.memory = recordings.memory;
        plan.compiled = true;
        plan.fits = plan.memory.fits(bytes_max);
        if plan.fits || start.elapsed() > TIME {
            return;
        }
    }
}

/// The bytes that a program takes besides variables, as the compiler lays them out.
fn compiled_bytes(
    compiler: &AheadOfTime,
    recorder: &Recorder,
    step: &RecordedStep,
) -> RunResult<u64> {
    let compiled = compiler.compile(&recorder.lower(step))?;
    let laid_out = laid_out_bytes(&compiled)?.map(|bytes| step.input_bytes() + bytes);
    Ok(laid_out.unwrap_or_else(|| estimated_bytes(recorder, step)))
}

/// Results that replace no argument, and temporaries; `None` where the plugin does not report them.
fn laid_out_bytes(compiled: &CompiledProgram) -> RunResult<Option<u64>> {
    let memory = compiled.compiled_memory_stats()?;
    Ok(memory.map(|it| (it.output_bytes - it.alias_bytes).max(0) as u64 + it.temp_bytes as u64))
}

#[cfg(test)]
mod tests;
