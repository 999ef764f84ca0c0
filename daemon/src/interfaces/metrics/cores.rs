//! Metrics of cores: holders, utilization and phases.

use traind_proto::v1::{Core, CoreUsage, DeviceFigures};

use super::audience::Audience;
use super::gauges::Gauges;
use crate::interfaces::text;

pub(super) fn describe(gauges: &mut Gauges, cores: &[Core], audience: &Audience) {
    for core in cores {
        let labels = labels(core, audience.sees_holders());
        let held = f64::from(u8::from(!core.job_id.is_empty()));
        gauges.set("traind_core_held", "Whether a job holds the core, 0 or 1", &labels, held);
        let fenced = f64::from(u8::from(core.fence.is_some()));
        gauges.set("traind_core_fenced", "Whether the core is fenced, 0 or 1", &labels, fenced);
        if let Some(usage) = &core.usage {
            usage_metrics(gauges, &labels, usage);
        }
        if let Some(figures) = &core.figures {
            device_metrics(gauges, &labels, figures);
        }
    }
}

type Labels = Vec<(&'static str, String)>;

/// Labels of a core. The platform's own label is added for existing dashboards.
fn labels(core: &Core, with_job: bool) -> Labels {
    let job = |text: &str| if with_job { text.to_owned() } else { String::new() };
    let index = core.core.to_string();
    let mut labels = vec![
        ("platform", core.platform.clone()),
        ("core", index.clone()),
        ("job_id", job(&core.job_id)),
        ("job_name", job(&core.job_name)),
        ("modelName", core.device.clone()),
    ];
    if !core.host.is_empty() {
        labels.push(("host", core.host.clone()));
    }
    match core.platform.as_str() {
        "neuron" => labels.push(("neuroncore", index)),
        "cuda" => labels.push(("gpu", index)),
        _ => {}
    }
    labels
}

/// The labels with another one.
fn with(labels: &Labels, name: &'static str, value: String) -> Labels {
    labels.iter().cloned().chain([(name, value)]).collect()
}

fn usage_metrics(gauges: &mut Gauges, labels: &Labels, usage: &CoreUsage) {
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
    if usage.tflops > 0.0 {
        let help = "FLOP/s over the last minute, as counted by the compiler";
        set("traind_core_flops_per_second", help, usage.tflops * 1e12);
        let help = "FLOP/s of the model's matrix products over the last minute";
        set("traind_core_model_flops_per_second", help, usage.model_tflops * 1e12);
    }
    if usage.model_flops_utilization_percent > 0.0 {
        let help = "Model FLOPs utilization: share of the device's peak, 0 to 1";
        let share = usage.model_flops_utilization_percent / 100.0;
        set("traind_core_model_flops_utilization_ratio", help, share);
    }
    memory_metrics(gauges, labels, usage);
    mesh_metrics(gauges, labels, usage);
    let phase = usage.phase().as_str_name().trim_start_matches("PHASE_").to_lowercase();
    let labels = with(labels, "phase", phase);
    gauges.set("traind_core_phase", "Current phase of the core; always 1", &labels, 1.0);
}

fn memory_metrics(gauges: &mut Gauges, labels: &Labels, usage: &CoreUsage) {
    let Some(memory) = &usage.memory else { return };
    let parts = [
        ("parameters", memory.parameters_bytes),
        ("optimizer", memory.optimizer_bytes),
        ("temporaries", memory.temporary_bytes),
        ("code", memory.code_bytes),
    ];
    for (category, bytes) in parts {
        let labels = with(labels, "category", category.to_owned());
        let help = "Memory that the job holds on the core, by category";
        gauges.set("traind_core_memory_bytes", help, &labels, bytes as f64);
    }
}

fn mesh_metrics(gauges: &mut Gauges, labels: &Labels, usage: &CoreUsage) {
    if let Some(stage) = &usage.stage {
        let labels = with(labels, "stage", stage.stage.to_string());
        let help =
            "Share of the pipeline's time in which the core's stage waited for others, 0 to 1";
        gauges.set("traind_core_bubble_ratio", help, &labels, stage.bubble_percent / 100.0);
    }
    for (axis, rate) in usage.communication.iter().flat_map(text::axes) {
        let labels = with(labels, "axis", axis.to_owned());
        let help =
            "Bytes that the core sends per second, by axis of the mesh, over the last minute";
        gauges.set("traind_core_sent_bytes_per_second", help, &labels, rate);
    }
}

/// Statistics of the driver, which include other users of the core.
fn device_metrics(gauges: &mut Gauges, labels: &Labels, figures: &DeviceFigures) {
    let share = figures.utilization_percent.map(|percent| percent / 100.0);
    let metrics = [
        ("traind_device_utilization_ratio", "Utilization that the driver reports, 0 to 1", share),
        (
            "traind_device_memory_used_bytes",
            "Memory in use by all processes",
            figures.memory_used_bytes.map(|bytes| bytes as f64),
        ),
        (
            "traind_device_memory_total_bytes",
            "Memory of the device",
            figures.memory_total_bytes.map(|bytes| bytes as f64),
        ),
        ("traind_device_temperature_celsius", "Temperature", figures.temperature_celsius),
        ("traind_device_power_watts", "Power", figures.power_watts),
        (
            "traind_device_errors",
            "Errors since the driver was loaded",
            figures.errors.map(|errors| errors as f64),
        ),
    ];
    for (name, help, value) in metrics {
        if let Some(value) = value {
            gauges.set(name, help, labels, value);
        }
    }
}
