//! Cores: who holds them, how busy they are and what they do.

use traind_proto::v1::{Core, CoreUsage};

use super::gauges::Gauges;

pub(super) fn describe(gauges: &mut Gauges, cores: &[Core]) {
    for core in cores {
        let labels = labels(core);
        let held = f64::from(u8::from(!core.job_id.is_empty()));
        gauges.set("traind_core_held", "Whether a job holds the core, 0 or 1", &labels, held);
        if let Some(usage) = &core.usage {
            of_usage(gauges, &labels, usage);
        }
    }
}

type Labels = Vec<(&'static str, String)>;

/// The platform's own name for a core stands beside ours, so that its dashboards find it.
fn labels(core: &Core) -> Labels {
    let index = core.core.to_string();
    let mut labels = vec![
        ("platform", core.platform.clone()),
        ("core", index.clone()),
        ("job_id", core.job_id.clone()),
        ("job_name", core.job_name.clone()),
        ("modelName", core.device.clone()),
    ];
    match core.platform.as_str() {
        "neuron" => labels.push(("neuroncore", index)),
        "cuda" => labels.push(("gpu", index)),
        _ => {}
    }
    labels
}

fn of_usage(gauges: &mut Gauges, labels: &Labels, usage: &CoreUsage) {
    let mut set = |name, help, value| gauges.set(name, help, labels, value);
    let help = "Share of the last second in which the core computed, 0 to 1";
    set("traind_core_utilization_ratio", help, usage.utilization_percent_1s / 100.0);
    let help = "Share of the last minute in which the core computed, 0 to 1";
    set("traind_core_utilization_1m_ratio", help, usage.utilization_percent_1m / 100.0);
    let help = "Memory that the job holds on the core";
    set("traind_core_memory_used_bytes", help, usage.memory_used_bytes as f64);
    if usage.memory_total_bytes > 0 {
        let help = "Memory of the core";
        set("traind_core_memory_total_bytes", help, usage.memory_total_bytes as f64);
    }
    let phase = usage.phase().as_str_name().trim_start_matches("PHASE_").to_lowercase();
    let labels: Vec<_> = labels.iter().cloned().chain([("phase", phase)]).collect();
    gauges.set("traind_core_phase", "What the core does now; always 1", &labels, 1.0);
}
