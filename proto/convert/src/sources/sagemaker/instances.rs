//! SageMaker's instance types as platform and cores.

use crate::shared::TABLES;

/// Platform and cores of a type such as `ml.trn1.32xlarge`; one core of CPUs without accelerators.
pub(super) fn devices(instance_type: &str) -> Option<(&'static str, u32)> {
    match instance_type {
        "local" => return Some(("cpu", 1)),
        "local_gpu" => return Some(("cuda", 1)),
        _ => {}
    }
    let (family, size) = instance_type.strip_prefix("ml.")?.split_once('.')?;
    if let Some(known) = TABLES.instances.get(family) {
        return known.cores.get(size).map(|cores| (known.platform.as_str(), *cores));
    }
    let is_cpu = family.starts_with(['c', 'm', 'r', 't']) && !family.starts_with("trn");
    is_cpu.then_some(("cpu", 1))
}
