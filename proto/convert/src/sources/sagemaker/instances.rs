//! SageMaker's instance types as platform and cores, as the estimator in Python has them.

/// Family and size, with the platform and the number of its cores.
const INSTANCES: &[(&str, &str, &str, u32)] = &[
    ("trn1", "2xlarge", "neuron", 2),
    ("trn1", "32xlarge", "neuron", 32),
    ("trn1n", "32xlarge", "neuron", 32),
    ("trn2", "3xlarge", "neuron", 4),
    ("trn2", "48xlarge", "neuron", 64),
    ("trn2u", "48xlarge", "neuron", 64),
    ("p2", "xlarge", "cuda", 1),
    ("p2", "8xlarge", "cuda", 8),
    ("p2", "16xlarge", "cuda", 16),
    ("p3", "2xlarge", "cuda", 1),
    ("p3", "8xlarge", "cuda", 4),
    ("p3", "16xlarge", "cuda", 8),
    ("p3dn", "24xlarge", "cuda", 8),
    ("p4d", "24xlarge", "cuda", 8),
    ("p4de", "24xlarge", "cuda", 8),
    ("p5", "4xlarge", "cuda", 1),
    ("p5", "48xlarge", "cuda", 8),
    ("p5e", "48xlarge", "cuda", 8),
    ("p5en", "48xlarge", "cuda", 8),
    ("p6-b200", "48xlarge", "cuda", 8),
    ("p6-b300", "48xlarge", "cuda", 8),
    ("p6e-gb200", "36xlarge", "cuda", 4),
    ("g4dn", "12xlarge", "cuda", 4),
    ("g5", "12xlarge", "cuda", 4),
    ("g5", "24xlarge", "cuda", 4),
    ("g5", "48xlarge", "cuda", 8),
    ("g6", "12xlarge", "cuda", 4),
    ("g6", "24xlarge", "cuda", 4),
    ("g6", "48xlarge", "cuda", 8),
    ("g6e", "12xlarge", "cuda", 4),
    ("g6e", "24xlarge", "cuda", 4),
    ("g6e", "48xlarge", "cuda", 8),
];
/// Families whose other sizes have one GPU.
const OF_ONE: [&str; 4] = ["g4dn", "g5", "g6", "g6e"];
const SIZES_OF_ONE: [&str; 5] = ["xlarge", "2xlarge", "4xlarge", "8xlarge", "16xlarge"];

/// Platform and cores of a type such as `ml.trn1.32xlarge`; one core of CPUs without accelerators.
pub(super) fn devices(instance_type: &str) -> Option<(&'static str, u32)> {
    match instance_type {
        "local" => return Some(("cpu", 1)),
        "local_gpu" => return Some(("cuda", 1)),
        _ => {}
    }
    let (family, size) = instance_type.strip_prefix("ml.")?.split_once('.')?;
    let known = INSTANCES.iter().find(|row| row.0 == family && row.1 == size);
    let one = || OF_ONE.contains(&family) && SIZES_OF_ONE.contains(&size);
    let cpus = || family.starts_with(['c', 'm', 'r', 't']) && !family.starts_with("trn");
    match known {
        Some((_, _, platform, cores)) => Some((platform, *cores)),
        None if one() => Some(("cuda", 1)),
        None => cpus().then_some(("cpu", 1)),
    }
}
