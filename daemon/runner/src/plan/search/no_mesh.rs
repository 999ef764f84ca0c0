//! The error of a search in which no mesh can run the job: the meshes that were tried with their reasons, and the
//! limits of meshes.

use std::collections::BTreeSet;

use traind_job_file::JobFile;
use traind_wording::counted_as;

use crate::error::{RunError, of_value};
use crate::plan::PlannedModel;

/// Meshes that are named for a reason, and reasons.
const NAMED: usize = 4;

/// A mesh that cannot run the job.
#[derive(Debug)]
pub(super) struct Refused {
    pub job: Box<JobFile>,
    pub error: RunError,
}

/// The number of different divisions of cores among jobs.
pub(super) fn count<'a>(jobs: impl IntoIterator<Item = &'a JobFile>) -> usize {
    jobs.into_iter().map(axes).collect::<BTreeSet<_>>().len()
}

/// The error of a search whose meshes are all refused. One that has nothing to do with meshes is that of the job, and
/// so is that of the only mesh.
pub(super) fn error(job: &JobFile, planned: &PlannedModel, mut refused: Vec<Refused>) -> RunError {
    let is_of_mesh = |it: &Refused| it.error.failure().field.is_some();
    if let Some(other) = refused.iter().position(|it| !is_of_mesh(it)) {
        return refused.swap_remove(other).error;
    }
    let tried = count(refused.iter().map(|it| &*it.job));
    if tried == 1 {
        return refused.swap_remove(0).error;
    }
    let reasons = reasons(&refused);
    let more = match reasons.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more reasons"),
    };
    let listed: Vec<String> = reasons.into_iter().take(NAMED).map(Reason::words).collect();
    let tried = match tried {
        0 => "no mesh of its cores can be formed".to_owned(),
        tried => format!(
            "none of {} of its cores can run the job: {}{more}",
            counted_as(tried, "mesh", "meshes"),
            listed.join("; ")
        ),
    };
    RunError::Field {
        name: "resources.cores",
        value: job.resources.total_cores().to_string(),
        problem: format!("{tried}. {}", limits(job, planned)),
    }
}

/// The rule by which meshes are formed, with the job's numbers.
fn limits(job: &JobFile, planned: &PlannedModel) -> String {
    let rows = job.total_train_batch_size();
    let stages = match job.takes_stages() {
        true => format!("pipeline is at most its {} layers", planned.model.num_layers()),
        false => "pipeline is 1 for this task".to_owned(),
    };
    format!(
        "The product of data, tensor and pipeline is the number of cores; data divides the {rows} rows of a step, tensor \
         the heads and widths of the model, and {stages}: another train.per_device_train_batch_size or resources.cores \
         makes other meshes"
    )
}

/// A reason with the meshes that it is for.
struct Reason {
    text: String,
    /// The text without numbers, which differ among meshes.
    kind: String,
    meshes: Vec<String>,
}

impl Reason {
    fn words(self) -> String {
        let more = match self.meshes.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let meshes: Vec<String> = self.meshes.into_iter().take(NAMED).collect();
        format!("{}{more}: {}", meshes.join(", "), self.text)
    }
}

/// The reasons, each with its meshes: of a mesh with several settings the first.
fn reasons(refused: &[Refused]) -> Vec<Reason> {
    let (mut reasons, mut known): (Vec<Reason>, _) = (Vec::new(), BTreeSet::new());
    for Refused { job, error } in refused {
        if !known.insert(axes(job)) {
            continue;
        }
        let text = text(error);
        let kind: String = text.chars().filter(|it| !it.is_ascii_digit()).collect();
        match reasons.iter_mut().find(|it| it.kind == kind) {
            Some(reason) => reason.meshes.push(words(job)),
            None => reasons.push(Reason { text, kind, meshes: vec![words(job)] }),
        }
    }
    reasons
}

/// The message of an error of a mesh, without the name of a field that the job file need not have: of several faults of
/// a program the first.
fn text(error: &RunError) -> String {
    let first = |problem: &str| problem.split("; ").next().unwrap_or_default().to_owned();
    match error {
        RunError::Field { name: "resources.platform" | "parallel", problem, .. } => first(problem),
        RunError::Field { name, value, problem } => format!("{name}{}: {problem}", of_value(value)),
        other => other.to_string(),
    }
}

/// "data 2 x tensor 4", without axes of one core.
fn words(job: &JobFile) -> String {
    let [data, tensor, pipeline] = axes(job);
    let named = [("data", data), ("tensor", tensor), ("pipeline", pipeline)];
    let words = named.iter().filter(|(_, count)| *count > 1);
    let words: Vec<String> = words.map(|(name, count)| format!("{name} {count}")).collect();
    if words.is_empty() { "one core".to_owned() } else { words.join(" x ") }
}

fn axes(job: &JobFile) -> [u32; 3] {
    [job.data_parallel_size(), job.parallel.tensor, job.parallel.pipeline]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::candidates::tests::job;
    use crate::plan::meshes::tests::planned;

    fn refused(job: &JobFile, [data, tensor, pipeline]: [u32; 3], problem: &str) -> Refused {
        let mut job = job.clone();
        let parallel = &mut job.parallel;
        (parallel.data, parallel.tensor, parallel.pipeline) = (Some(data), tensor, pipeline);
        let (name, value) = ("resources.platform", String::new());
        let job = Box::new(job);
        Refused { job, error: RunError::Field { name, value, problem: problem.to_owned() } }
    }

    #[test]
    fn the_meshes_that_were_tried_are_named_with_reasons_and_limits() {
        let job = job("resources: {cores: 8}\ntrain: {per_device_train_batch_size: 3}");
        let all = vec![
            refused(&job, [8, 1, 1], "NCC_EXTP004: about 9 instructions"),
            refused(&job, [8, 1, 1], "another reason of another setting"),
            refused(&job, [4, 2, 1], "NCC_EXTP004: about 7 instructions"),
            refused(&job, [1, 8, 1], "parallel.tensor is 8, which does not divide the 4 heads"),
        ];
        let found = error(&job, &planned(&job), all).to_string();
        for part in [
            "resources.cores",
            "none of 3 meshes of its cores",
            "data 8, data 4 x tensor 2: NCC_EXTP004: about 9 instructions; tensor 8: parallel.tensor is 8",
            "data divides the 24 rows of a step",
            "its 2 layers",
        ] {
            assert!(found.contains(part), "{found}");
        }
        assert!(!found.contains("another reason"), "{found}");
        let none = error(&job, &planned(&job), Vec::new()).to_string();
        assert!(none.contains("no mesh of its cores can be formed"), "{none}");
    }

    #[test]
    fn an_error_of_no_mesh_is_that_of_the_job() {
        let job = job("resources: {cores: 2}");
        let other = RunError::MissingDevices { found: 1, cores: 2 };
        let all = vec![
            refused(&job, [2, 1, 1], "a"),
            Refused { job: Box::new(job.clone()), error: other },
        ];
        let found = error(&job, &planned(&job), all).to_string();
        assert!(found.contains("too few devices"), "{found}");
    }
}
