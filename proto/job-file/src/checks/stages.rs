//! The stages of a pipeline.

use crate::problems::Problems;
use crate::schema::JobFile;
use crate::schema::model::TaskName;

impl JobFile {
    /// Returns whether the model's layers may be divided over stages.
    pub fn takes_stages(&self) -> bool {
        refusal(self).is_none()
    }

    /// Returns whether cores of a stage may divide the positions between layers. What is known of each token besides
    /// its state is of all positions.
    pub fn divides_positions_of_stages(&self) -> bool {
        self.model.task != TaskName::ReplacedTokenDetection
    }
}

pub(super) fn check(job: &JobFile, problems: &mut Problems) {
    let (parallel, train) = (&job.parallel, &job.train);
    if parallel.pipeline == 1 {
        if parallel.pipeline_interleave > 1 {
            let description = "divides the stages of a pipeline; set parallel.pipeline too";
            problems.violation("parallel.pipeline_interleave", description);
        }
        return;
    }
    let rows = train.per_device_train_batch_size;
    if let Some(count) = parallel.microbatches.filter(|count| !rows.is_multiple_of(*count)) {
        let nearest = (1..=count).rev().find(|count| rows.is_multiple_of(*count)).unwrap_or(1);
        let description = format!(
            "does not divide the {rows} rows of train.per_device_train_batch_size; {nearest} does"
        );
        problems.violation("parallel.microbatches", description);
    }
    if let Some((field, description)) = refusal(job) {
        problems.violation(field, description);
    }
    if parallel.sequence_parallel && !job.divides_positions_of_stages() {
        let description =
            format!("cannot be combined with parallel.pipeline for {}", job.model.task);
        problems.violation("parallel.sequence_parallel", description);
    }
}

/// The field whose value stages do not support, with the reason.
fn refusal(job: &JobFile) -> Option<(&'static str, String)> {
    job.train.predict_with_generate.then(|| {
        let description = "is not supported with parallel.pipeline above 1, where cores have some of \
            the layers; parallel.tensor and parallel.fsdp divide a model that generates";
        ("train.predict_with_generate", description.to_owned())
    })
}
