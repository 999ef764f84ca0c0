//! Decisions by the plan of a job: whether it fits this host, its mesh and its batch size.

use std::path::{Path, PathBuf};

use traind_job_file::commands::Plan;
use traind_job_file::{DataFiles, JobFile};

use super::resolved;
use crate::control::error::Error;
use crate::jobs::store::{JobWarning, NewJob};

/// Code of the warning about a batch size that did not fit.
const BATCH_SIZE_LOWERED: &str = "BATCH_SIZE_LOWERED";

/// Code of the warning about the mesh that the planner chose.
const MESH_CHOSEN: &str = "MESH_CHOSEN";

/// Refuses a job that takes more than the memory of this host's cores.
pub(crate) fn refuse_misfit(plan: &Plan) -> Result<(), Error> {
    match (plan.misfit.clone(), plan.bytes_per_core_max) {
        (Some(misfit), Some(available)) => {
            Err(Error::Memory { plan: Box::new(plan.clone()), available, misfit })
        }
        _ => Ok(()),
    }
}

/// Refuses a job that writes more than this host's disk has free.
pub(crate) fn refuse_without_space(
    plan: &Plan,
    job: &JobFile,
    state_dir: &Path,
) -> Result<(), Error> {
    // What is uploaded is first written into the run folder.
    let folder = match DataFiles::is_url(&job.output_dir) {
        true => state_dir.to_owned(),
        false => existing_ancestor(&job.output_dir),
    };
    // If the file system does not report its space, the runner will find out.
    let Ok(space) = rustix::fs::statvfs(&folder) else { return Ok(()) };
    let available = space.f_bavail.saturating_mul(space.f_frsize);
    match plan.disk_bytes > available {
        true => Err(Error::Disk { wanted: plan.disk_bytes, available, folder }),
        false => Ok(()),
    }
}

/// Adds the plan's warnings about the job's programs to its others.
pub(crate) fn warn_of_programs(plan: &Plan, new: &mut NewJob) {
    new.warnings.extend(plan.warnings.iter().cloned().map(JobWarning::from));
}

/// With `parallel: auto`, gives the job the mesh that the plan puts first.
pub(crate) fn choose_mesh(plan: &Plan, new: &mut NewJob, job: &mut JobFile) -> Result<(), Error> {
    let (Some(chosen), Some(mesh)) = (&plan.job, plan.meshes.first()) else { return Ok(()) };
    if let (false, Some(available)) = (mesh.fits, plan.bytes_per_core_max) {
        let misfit = plan.misfit.clone().unwrap_or_default();
        return Err(Error::Memory { plan: Box::new(plan.clone()), available, misfit });
    }
    *job = (**chosen).clone();
    new.resolved = resolved(job)?;
    let (parallel, train) = (&job.parallel, &job.train);
    new.warnings.push(JobWarning {
        code: MESH_CHOSEN.to_owned(),
        message: format!(
            "parallel.auto: is data: {}, tensor: {}, sequence_parallel: {}, pipeline: {}, \
             pipeline_interleave: {}, microbatches: {}, fsdp: {} with per_device_train_batch_size: {}, \
             gradient_accumulation_steps: {}, gradient_checkpointing: {}; {:.3} s a step by prediction",
            mesh.data,
            parallel.tensor,
            parallel.sequence_parallel,
            parallel.pipeline,
            parallel.pipeline_interleave,
            mesh.microbatches,
            parallel.fsdp,
            train.per_device_train_batch_size,
            train.gradient_accumulation_steps,
            train.gradient_checkpointing,
            mesh.step_seconds,
        ),
    });
    Ok(())
}

/// With `auto_find_batch_size`, gives the job the batch size that the plan found to fit.
pub(crate) fn fit_batch(plan: &Plan, new: &mut NewJob, job: &mut JobFile) -> Result<(), Error> {
    let asked = job.train.per_device_train_batch_size;
    if !job.train.auto_find_batch_size || plan.rows == asked {
        return Ok(());
    }
    job.train.per_device_train_batch_size = plan.rows;
    new.resolved = resolved(job)?;
    new.warnings.push(JobWarning {
        code: BATCH_SIZE_LOWERED.to_owned(),
        message: format!(
            "train.per_device_train_batch_size: is lowered from {asked} to {}, which fits in the \
             memory of a core (train.auto_find_batch_size)",
            plan.rows
        ),
    });
    Ok(())
}

fn existing_ancestor(path: &Path) -> PathBuf {
    path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/")).to_owned()
}
