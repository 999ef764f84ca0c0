//! The jobs that a search compares: the same rows a step on each mesh.

use traind_job_file::{Fsdp, JobFile};

use crate::state::Pipeline;

/// The most parts of the model on each stage. More of them send states more often than they save idle time.
const INTERLEAVE_MAX: u32 = 4;

/// The jobs with the same rows a step on other meshes. Cores of a host alone share layers, and layers are divided
/// over at most `layers` stages, which may be on different hosts.
pub(super) fn candidates(job: &JobFile, per_host: u32, layers: u32) -> Vec<JobFile> {
    let mut jobs = Vec::new();
    for division in divisions(job, per_host, layers) {
        let divided = division.of_job(job);
        for fsdp in shardings(&divided) {
            for sequence_parallel in positions(job, division.tensor, division.pipeline) {
                for gradient_checkpointing in [false, true] {
                    let mut changed = divided.clone();
                    let parallel = &mut changed.parallel;
                    (parallel.fsdp, parallel.shard_optimizer_state) = (fsdp, false);
                    parallel.sequence_parallel = *sequence_parallel;
                    changed.train.gradient_checkpointing = gradient_checkpointing;
                    jobs.push(changed);
                }
            }
        }
    }
    jobs
}

/// How cores divide layers and rows.
struct Division {
    data: u32,
    tensor: u32,
    pipeline: u32,
    interleave: u32,
    batch: Batch,
}

fn divisions(job: &JobFile, per_host: u32, layers: u32) -> Vec<Division> {
    let mut divisions = Vec::new();
    for tensor in (1..=per_host).filter(|tensor| per_host.is_multiple_of(*tensor)) {
        let cores = job.resources.total_cores() / tensor;
        for pipeline in stages(job, cores, layers) {
            let data = cores / pipeline;
            let Some(batch) = Batch::of_mesh(job, data, pipeline) else { continue };
            let of_interleave = |interleave| Division { data, tensor, pipeline, interleave, batch };
            divisions.extend(interleaves(pipeline, layers, batch).into_iter().map(of_interleave));
        }
    }
    divisions
}

impl Division {
    fn of_job(&self, job: &JobFile) -> JobFile {
        let mut changed = job.clone();
        let (parallel, train) = (&mut changed.parallel, &mut changed.train);
        (parallel.auto, parallel.data) = (false, Some(self.data));
        (parallel.tensor, parallel.pipeline) = (self.tensor, self.pipeline);
        parallel.pipeline_interleave = self.interleave;
        parallel.microbatches = self.batch.microbatches;
        parallel.offload.activations &= self.pipeline > 1;
        train.per_device_train_batch_size = self.batch.rows;
        train.gradient_accumulation_steps = self.batch.batches;
        changed
    }
}

/// The numbers of stages that `cores` cores can form, each of which the job supports. One that has a
/// largest stage of as many layers as a smaller number has is left out.
fn stages(job: &JobFile, cores: u32, layers: u32) -> Vec<u32> {
    let most = if job.takes_stages() { layers.clamp(1, cores) } else { 1 };
    let mut counts: Vec<u32> = (1..=most).filter(|count| cores.is_multiple_of(*count)).collect();
    counts.dedup_by_key(|count| layers.div_ceil(*count));
    counts
}

/// The numbers of parts that stages can have, in which no stage gets more layers than with one part.
/// Several wait for less only where micro-batches pass in whole groups of one for each stage.
fn interleaves(pipeline: u32, layers: u32, batch: Batch) -> Vec<u32> {
    let in_groups = batch.microbatches.is_some_and(|count| count.is_multiple_of(pipeline));
    let most = if pipeline > 1 && in_groups { INTERLEAVE_MAX } else { 1 };
    let largest = |interleave| largest_stage(pipeline, interleave, layers);
    let counts = std::iter::successors(Some(1), |count| Some(2 * count));
    let counts = counts.take_while(|count| *count <= most);
    counts.filter(|count| largest(*count).is_some_and(|it| Some(it) <= largest(1))).collect()
}

/// The layers of the largest stage; `None` where a part of the model has none.
fn largest_stage(pipeline: u32, interleave: u32, layers: u32) -> Option<usize> {
    let [stages, interleave, layers] = [pipeline, interleave, layers].map(|count| count as usize);
    Pipeline::of_layers(layers, stages, interleave).map(|it| it.largest_stage())
}

/// The state that the cores of the `data` axis may divide, or those of each host alone: in stages at least the
/// optimizer's state, which costs nothing.
fn shardings(job: &JobFile) -> Vec<Fsdp> {
    let (hosts, has_stages) = (job.data_hosts(), job.parallel.pipeline > 1);
    if job.data_parallel_size() == 1 {
        return vec![Fsdp::No];
    }
    let mut shardings = vec![Fsdp::No, Fsdp::ShardOptimizer, Fsdp::FullShard, Fsdp::HybridShard];
    shardings.retain(|fsdp| match fsdp {
        Fsdp::No => !has_stages,
        Fsdp::HybridShard => hosts > 1 && job.host_data_parallel_size() > 1,
        _ => true,
    });
    shardings
}

/// Whether positions are divided: in stages wherever they can be, which takes less memory for as many bytes.
fn positions(job: &JobFile, tensor: u32, pipeline: u32) -> &'static [bool] {
    match (tensor, pipeline) {
        (1, _) => &[false],
        (_, 1) => &[false, true],
        _ if job.divides_positions_of_stages() => &[true],
        _ => &[false],
    }
}

/// How a core's rows of a step are divided.
#[derive(Clone, Copy)]
struct Batch {
    rows: u32,
    batches: u32,
    microbatches: Option<u32>,
}

impl Batch {
    /// Without stages as many batches as the job has at most. With stages one, whose micro-batches keep
    /// them busy. Where rows are compared, as many as the job has, which are as large.
    fn of_mesh(job: &JobFile, data: u32, pipeline: u32) -> Option<Batch> {
        let (of_step, data) = (job.total_train_batch_size(), u64::from(data));
        let most = job.train.gradient_accumulation_steps;
        let counts = match (job.compares_rows(), pipeline) {
            (true, _) => most..=most,
            (false, 1) => 1..=most,
            (false, _) => 1..=1,
        };
        let batches = counts.rev().find(|it| of_step.is_multiple_of(u64::from(*it) * data))?;
        let rows = (of_step / u64::from(batches) / data) as u32;
        if pipeline == 1 {
            return Some(Batch { rows, batches, microbatches: None });
        }
        let busy = Pipeline::MICROBATCHES_PER_STAGE as u32 * pipeline;
        let count = busy.max(most / batches).min(rows);
        let microbatches = (1..=count).rev().find(|count| rows.is_multiple_of(*count));
        Some(Batch { rows, batches, microbatches })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use traind_job_file::TaskName;

    use super::*;

    /// A job whose file ends with `sections`.
    pub(in crate::plan) fn job(sections: &str) -> JobFile {
        let yaml = format!(
            "name: a\nmodel: {{name_or_path: ./a, task: causal-lm}}\n\
             data: {{train: a.txt, block_size: 64}}\noutput_dir: out\n{sections}"
        );
        JobFile::parse(&yaml, std::path::Path::new("/")).unwrap().job
    }

    #[test]
    fn meshes_keep_the_rows_of_a_step() {
        let job = job("resources: {cores: 8}\ntrain: {per_device_train_batch_size: 2, \
                       gradient_accumulation_steps: 2}");
        let found = candidates(&job, 4, 1);
        assert!(found.iter().all(|it| it.total_train_batch_size() == 32));
        let tensors: Vec<u32> = found.iter().map(|it| it.parallel.tensor).collect();
        assert_eq!((tensors.iter().max(), tensors.len()), (Some(&4), 6 + 12 + 12));
        assert!(candidates(&super::tests::job("resources: {cores: 3}"), 3, 1).len() > 6);
    }

    #[test]
    fn models_of_tasks_without_stages_are_whole() {
        let mut job = job("resources: {cores: 4}\ntrain: {per_device_train_batch_size: 4}");
        let has_stages = |job: &JobFile| {
            candidates(job, 4, 4).iter().any(|candidate| candidate.parallel.pipeline > 1)
        };
        assert!(has_stages(&job));
        job.train.predict_with_generate = true;
        assert!(!has_stages(&job));
    }

    #[test]
    fn rows_that_are_compared_stay_in_batches_of_one_size() {
        let mut job = job("resources: {cores: 4}\ntrain: {per_device_train_batch_size: 4, \
                           gradient_accumulation_steps: 2}");
        job.model.task = TaskName::Embedding;
        let found = candidates(&job, 4, 4);
        assert!(found.iter().any(|it| it.parallel.pipeline == 4));
        for job in found {
            let (train, parallel) = (&job.train, &job.parallel);
            let rows = train.per_device_train_batch_size * parallel.data.unwrap();
            assert_eq!((rows, train.gradient_accumulation_steps), (16, 2), "{parallel:?}");
        }
    }

    #[test]
    fn stages_may_be_on_different_hosts() {
        for platform in ["cpu", "cuda"] {
            let job = job(&format!(
                "resources: {{platform: {platform}, hosts: 2, cores: 4}}\n\
                 train: {{per_device_train_batch_size: 2}}"
            ));
            let found = candidates(&job, 4, 8);
            assert!(found.iter().all(|it| it.total_train_batch_size() == 16));
            let far = found.iter().filter(|it| it.pipeline_hosts() == 2);
            let mut meshes: Vec<_> = far
                .map(|it| (it.parallel.data.unwrap(), it.parallel.tensor, it.parallel.pipeline))
                .collect();
            meshes.dedup();
            assert_eq!(meshes, [(1, 1, 8), (1, 2, 4), (1, 4, 2)], "{platform}");
        }
    }

    #[test]
    fn stages_divide_their_parameters_over_the_cores_of_all_hosts_or_of_each() {
        for platform in ["cpu", "cuda"] {
            let settings = format!(
                "resources: {{platform: {platform}, hosts: 2, cores: 4}}\n\
                 train: {{per_device_train_batch_size: 2}}"
            );
            let found = candidates(&job(&settings), 4, 8);
            let shards = |stages| {
                let of_stages = found.iter().filter(move |it| it.parallel.pipeline == stages);
                of_stages.map(|it| it.parallel.fsdp).collect::<Vec<_>>()
            };
            for (stages, fsdp) in [(1, Fsdp::No), (1, Fsdp::FullShard), (2, Fsdp::FullShard)] {
                assert!(shards(stages).contains(&fsdp), "{platform}: {fsdp} with {stages} stages");
            }
            assert!(shards(2).contains(&Fsdp::HybridShard), "{platform}");
        }
    }

    #[test]
    fn stages_divide_the_cores_and_have_a_layer_each() {
        let job = job("resources: {cores: 8}\ntrain: {per_device_train_batch_size: 3, \
                       gradient_accumulation_steps: 4}");
        let found = candidates(&job, 8, 4);
        let mut meshes: Vec<_> = found.iter().map(|it| it.parallel.clone()).collect();
        assert!(meshes.iter().all(|it| it.data.unwrap() * it.tensor * it.pipeline == 8));
        assert_eq!(meshes.iter().map(|it| it.pipeline).max(), Some(4));
        for job in found.iter().filter(|job| job.parallel.pipeline > 1) {
            let (rows, parallel) = (job.train.per_device_train_batch_size, &job.parallel);
            assert_eq!(job.total_train_batch_size(), 96);
            assert!(rows.is_multiple_of(parallel.microbatches.unwrap()), "{parallel:?}");
            assert!(parallel.microbatches.unwrap() >= parallel.pipeline, "{parallel:?}");
        }
        meshes.retain(|it| (it.data, it.pipeline) == (Some(2), 4));
        // 48 rows on each core: up to four micro-batches a stage.
        assert!(meshes.iter().all(|it| it.microbatches == Some(16)), "{meshes:?}");
        assert!(meshes.iter().any(|it| it.fsdp == Fsdp::FullShard), "{meshes:?}");
        // A larger stage has as many layers with three stages as with two.
        assert_eq!(stages(&job, 6, 4), [1, 2]);
        let adapters = self::job("resources: {cores: 8}\npeft: {method: lora}");
        assert!(candidates(&adapters, 8, 4).iter().any(|it| it.parallel.pipeline == 4));
        let mut pairs = self::job("resources: {cores: 8}");
        pairs.model.task = TaskName::Dpo;
        assert!(candidates(&pairs, 8, 4).iter().any(|it| it.parallel.pipeline == 4));
    }

    #[test]
    fn stages_get_several_parts_where_no_stage_grows() {
        let of_rows = |microbatches| Batch { rows: 32, batches: 1, microbatches };
        assert_eq!(interleaves(1, 16, of_rows(None)), [1]);
        assert_eq!(interleaves(4, 16, of_rows(Some(16))), [1, 2, 4]);
        assert_eq!(interleaves(4, 8, of_rows(Some(16))), [1, 2]);
        assert_eq!(interleaves(4, 16, of_rows(Some(6))), [1], "the last group is not whole");
        // Parts of 2 and 3 layers in turn make the second stage one of six layers.
        assert_eq!(interleaves(2, 10, of_rows(Some(8))), [1]);
        let job = job("resources: {cores: 8}\ntrain: {per_device_train_batch_size: 4}");
        let found = candidates(&job, 8, 16);
        assert!(found.iter().any(|it| it.parallel.pipeline_interleave == 4));
        assert!(
            found.iter().all(|it| it.parallel.pipeline_interleave == 1 || it.parallel.pipeline > 1)
        );
    }
}
