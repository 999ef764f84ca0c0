//! Checks that the cores of all hosts form the mesh that a job asks for.

use std::fmt;

use traind_choices::Fsdp;
use traind_wording::counted;

use crate::problems::Problems;
use crate::schema::JobFile;

/// Reports a mesh that the job's hosts cannot form, with the nearest one that they can.
pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    check_shards_of_hosts(job, problems);
    let asked = Axes::asked(job);
    let description = match &asked {
        _ if asked.product() != total(job) && asked.data.is_some() => {
            let (product, cores) = (asked.product(), asked_cores(job));
            format!("data x tensor x pipeline is {product}, but {cores}")
        }
        Axes { tensor, pipeline, .. } if !total(job).is_multiple_of(tensor * pipeline) => {
            let (other, of_hosts) = (tensor * pipeline, of_all_hosts(job));
            let cores = total(job);
            format!(
                "tensor x pipeline is {other}, which does not divide {}{of_hosts}",
                counted(cores, "core")
            )
        }
        Axes { tensor, .. } if !cores(job).is_multiple_of(*tensor) => {
            let cores = cores(job);
            format!(
                "tensor is {tensor}, which does not divide {} of a host, within which layers are shared",
                counted(cores, "core")
            )
        }
        _ => return,
    };
    problems.violation("parallel", format!("{description}; {} works", asked.nearest(job)));
}

/// Refuses parameters that hosts share where each runs other programs than the others.
fn check_shards_of_hosts(job: &JobFile, problems: &mut Problems) {
    let sharding = job.parallel.sharding();
    let is_over_hosts = sharding.shards_parameters() && !sharding.is_within_hosts();
    if job.data_hosts() > 1 && is_over_hosts && job.train.predict_with_generate {
        let description = format!(
            "is not supported with parallel.fsdp: {sharding} on several hosts, each of which generates other \
             texts; {} keeps the shards within a host",
            Fsdp::HybridShard
        );
        problems.violation("train.predict_with_generate", description);
    }
}

/// The sizes of the axes over all hosts.
struct Axes {
    /// The size of the axis `data`; `None` for all cores that the others leave.
    data: Option<u64>,
    tensor: u64,
    pipeline: u64,
}

impl Axes {
    fn asked(job: &JobFile) -> Axes {
        let parallel = &job.parallel;
        let [tensor, pipeline] = [parallel.tensor, parallel.pipeline].map(u64::from);
        Axes { data: parallel.data.map(u64::from), tensor, pipeline }
    }

    fn product(&self) -> u64 {
        self.data.unwrap_or(1) * self.tensor * self.pipeline
    }

    /// The mesh of the job's cores that divides layers as much as asked or less, and then the model into as many
    /// stages or fewer.
    fn nearest(&self, job: &JobFile) -> NearestMesh {
        let at_most = |most: u64, divided: u64| {
            (1..=most).rev().find(|count| divided.is_multiple_of(*count)).unwrap_or(1)
        };
        let (total, tensor) = (total(job), at_most(self.tensor, cores(job)));
        let pipeline = at_most(self.pipeline, total / tensor);
        NearestMesh { data: total / tensor / pipeline, tensor, pipeline }
    }
}

struct NearestMesh {
    data: u64,
    tensor: u64,
    pipeline: u64,
}

impl fmt::Display for NearestMesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NearestMesh { data, tensor, pipeline } = self;
        write!(f, "data {data} x tensor {tensor} x pipeline {pipeline}")
    }
}

fn total(job: &JobFile) -> u64 {
    u64::from(job.resources.total_cores())
}

fn cores(job: &JobFile) -> u64 {
    u64::from(job.resources.cores)
}

fn of_all_hosts(job: &JobFile) -> &'static str {
    if job.resources.hosts > 1 { " of all hosts" } else { "" }
}

/// The product that `data x tensor x pipeline` must equal.
fn asked_cores(job: &JobFile) -> String {
    match job.resources.hosts {
        1 => format!("resources.cores is {}", total(job)),
        _ => format!("resources.hosts x cores is {}", total(job)),
    }
}
