//! The costs of a change that makes a job fit, in words: other results, more work, or more cores.

use traind_job_file::{Fsdp, JobFile};

/// The change of a job to another one, as a message lists it: "train.gradient_checkpointing: true (each layer is
/// computed forward twice)". `change`: the keys and their values.
pub(super) fn with_costs(change: &str, job: &JobFile, changed: &JobFile) -> String {
    let costs: Vec<String> = costs(job, changed).into_iter().flatten().collect();
    if costs.is_empty() { change.to_owned() } else { format!("{change} ({})", costs.join("; ")) }
}

fn costs(job: &JobFile, changed: &JobFile) -> [Option<String>; 7] {
    let is_new = |is_on: fn(&JobFile) -> bool| is_on(changed) && !is_on(job);
    let of = |is_on: fn(&JobFile) -> bool, words: &str| is_new(is_on).then(|| words.to_owned());
    [
        cores(job, changed),
        rows(job, changed),
        length(job, changed),
        of(|it| it.train.gradient_checkpointing, "each layer is computed forward twice"),
        sharding(job, changed),
        of(|it| it.parallel.offload.optimizer, "each update waits for host memory"),
        (job.train.optim != changed.train.optim)
            .then(|| format!("other updates than those of {}", job.train.optim)),
    ]
}

fn cores(job: &JobFile, changed: &JobFile) -> Option<String> {
    let [own, more] = [job, changed].map(|it| it.resources.total_cores());
    (own != more).then(|| format!("{more} cores in place of {own}"))
}

/// Fewer rows a step, because a core has fewer or fewer cores have rows of their own.
fn rows(job: &JobFile, changed: &JobFile) -> Option<String> {
    let [own, fewer] = [job, changed].map(JobFile::total_train_batch_size);
    if own == fewer {
        return None;
    }
    let [groups, fewer_groups] = [job, changed].map(JobFile::data_parallel_size);
    let cores = changed.parallel.tensor * changed.parallel.pipeline;
    let because = match groups == fewer_groups || cores == 1 {
        true => String::new(),
        false => format!("each {cores} cores have the same rows: "),
    };
    let accumulation = u64::from(changed.train.gradient_accumulation_steps);
    let same = match own.is_multiple_of(fewer) && !job.compares_rows() {
        true => {
            let steps = accumulation * own / fewer;
            format!(", or as many with train.gradient_accumulation_steps: {steps}")
        }
        false => String::new(),
    };
    Some(format!("{because}a step has {fewer} rows in place of {own}{same}"))
}

fn length(job: &JobFile, changed: &JobFile) -> Option<String> {
    if job.data.block_size != changed.data.block_size {
        return Some("shorter contexts".to_owned());
    }
    (job.row_length() != changed.row_length()).then(|| "longer texts are cut".to_owned())
}

fn sharding(job: &JobFile, changed: &JobFile) -> Option<String> {
    let [own, new]: [Fsdp; 2] = [job, changed].map(|it| it.parallel.sharding());
    let words = match new.shards_parameters() {
        _ if own == new || new == Fsdp::No => return None,
        true => "cores gather the weights of each layer when they compute it",
        false => "cores gather the weights after each update",
    };
    Some(words.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::candidates::tests::job;

    fn check(set: impl Fn(&mut JobFile), expect: &str) {
        let job = job("resources: {cores: 8}\ntrain: {per_device_train_batch_size: 8}");
        let mut changed = job.clone();
        set(&mut changed);
        assert_eq!(with_costs("a: 1", &job, &changed), expect);
    }

    #[test]
    fn a_change_says_what_it_costs() {
        check(|_| {}, "a: 1");
        let of_tensor = "a: 1 (each 4 cores have the same rows: a step has 16 rows in place of 64, or as many with \
                         train.gradient_accumulation_steps: 4)";
        check(|job| (job.parallel.tensor, job.parallel.data) = (4, Some(2)), of_tensor);
        let of_rows = "a: 1 (a step has 24 rows in place of 64)";
        check(|job| job.train.per_device_train_batch_size = 3, of_rows);
        let same_rows = |job: &mut JobFile| {
            (job.parallel.tensor, job.parallel.data) = (2, Some(4));
            job.train.per_device_train_batch_size = 16;
            job.train.gradient_checkpointing = true;
        };
        check(same_rows, "a: 1 (each layer is computed forward twice)");
        check(|job| job.data.block_size = Some(32), "a: 1 (shorter contexts)");
        check(
            |job| job.parallel.fsdp = Fsdp::FullShard,
            "a: 1 (cores gather the weights of each layer when they compute it)",
        );
        let of_cores = "a: 1 (32 cores in place of 8; a step has 256 rows in place of 64)";
        check(|job| (job.resources.cores, job.parallel.data) = (32, Some(32)), of_cores);
    }
}
