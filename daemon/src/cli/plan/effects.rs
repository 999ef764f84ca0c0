//! The effects of a job's parallel settings, as `traind plan` prints it.

use std::collections::BTreeMap;

use traind_proto::v1;

use crate::interfaces::text;

/// A line for each setting, for the place of each core, and for the passes of each pipeline stage.
pub(super) fn lines(plan: &v1::Plan) -> Vec<String> {
    let mut lines = Vec::new();
    for effect in &plan.effects {
        lines.push(effect.setting.clone());
        lines.push(format!("  {}", effect.effect));
        lines.extend(memory(effect).map(|memory| format!("  {memory}")));
    }
    if !plan.places.is_empty() {
        lines.push("places of the cores".to_owned());
        lines.extend(plan.places.iter().map(|place| place_line(plan, place)));
    }
    if !plan.stages.is_empty() {
        lines
            .push("passes of the stages, F forward and B backward with the micro-batch".to_owned());
        let passes = plan.stages.iter().enumerate();
        lines.extend(
            passes.map(|(stage, it)| format!("  stage {stage:<4} {}", it.passes.join(" "))),
        );
    }
    lines
}

/// The memory that a setting saves or takes, if it changes any.
fn memory(effect: &v1::PlanEffect) -> Option<String> {
    let parts = [
        ("weights", effect.saved_weights_bytes),
        ("gradients", effect.saved_gradients_bytes),
        ("optimizer", effect.saved_optimizer_bytes),
        ("activations", effect.saved_activations_bytes),
    ];
    let parts = parts.into_iter().filter(|(_, saved)| *saved != 0);
    let parts: Vec<String> =
        parts.map(|(name, saved)| format!("{name} {}", change(saved))).collect();
    if parts.is_empty() && effect.host_bytes == 0 {
        return None;
    }
    let of_core = match parts.is_empty() {
        true => "no change".to_owned(),
        false => format!("{} ({})", change(effect.saved_bytes), parts.join(", ")),
    };
    let on_host = match effect.host_bytes {
        0 => String::new(),
        bytes => format!(", on the host {}", change(-bytes)),
    };
    Some(format!("memory per core {of_core}{on_host}"))
}

/// Describes a change that saves `saved` bytes.
fn change(saved: i64) -> String {
    let sign = if saved > 0 { '-' } else { '+' };
    format!("{sign}{}", text::bytes(saved.unsigned_abs()))
}

fn place_line(plan: &v1::Plan, place: &v1::MeshPlace) -> String {
    let has_hosts = plan.places.iter().any(|place| place.host > 0);
    let host = if has_hosts { format!("host {:<4} ", place.host) } else { String::new() };
    format!(
        "  {host}core {:<4} data {:<4} pipeline {:<4} tensor {}",
        place.core, place.data, place.pipeline, place.tensor
    )
}

/// The effects for programs to read.
pub(super) fn json(plan: &v1::Plan) -> serde_json::Value {
    let effect = |effect: &v1::PlanEffect| {
        let saved: BTreeMap<&str, i64> = [
            ("bytes_per_core", effect.saved_bytes),
            ("weights_bytes", effect.saved_weights_bytes),
            ("gradients_bytes", effect.saved_gradients_bytes),
            ("optimizer_bytes", effect.saved_optimizer_bytes),
            ("activations_bytes", effect.saved_activations_bytes),
            ("host_bytes_per_core", -effect.host_bytes),
        ]
        .into();
        serde_json::json!({"setting": effect.setting, "effect": effect.effect, "saved": saved})
    };
    let place = |place: &v1::MeshPlace| {
        serde_json::json!({
            "host": place.host,
            "core": place.core,
            "data": place.data,
            "pipeline": place.pipeline,
            "tensor": place.tensor,
        })
    };
    serde_json::json!({
        "effects": plan.effects.iter().map(effect).collect::<Vec<_>>(),
        "places": plan.places.iter().map(place).collect::<Vec<_>>(),
        "passes": plan.stages.iter().map(|stage| &stage.passes).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_a_line_of_the_memory_that_they_change() {
        let effect = v1::PlanEffect {
            setting: "parallel.offload: optimizer".to_owned(),
            effect: "waits".to_owned(),
            saved_bytes: 1 << 20,
            saved_optimizer_bytes: 2 << 20,
            saved_activations_bytes: -(1 << 20),
            host_bytes: 2 << 20,
            ..v1::PlanEffect::default()
        };
        let place = |host| v1::MeshPlace { host, core: 1, tensor: 1, ..v1::MeshPlace::default() };
        let passes = ["F0", "B0"].map(str::to_owned).to_vec();
        let plan = v1::Plan {
            effects: vec![
                effect.clone(),
                v1::PlanEffect { setting: "a".to_owned(), ..Default::default() },
            ],
            places: vec![place(0)],
            stages: vec![v1::StagePasses { passes }],
            ..v1::Plan::default()
        };
        let memory = "memory per core -1.0 MiB (optimizer -2.0 MiB, activations +1.0 MiB), on the host +2.0 MiB";
        let found = lines(&plan);
        let expect = [
            "parallel.offload: optimizer",
            "  waits",
            &format!("  {memory}"),
            "a",
            "  ",
            "places of the cores",
            "  core 1    data 0    pipeline 0    tensor 1",
            "passes of the stages, F forward and B backward with the micro-batch",
            "  stage 0    F0 B0",
        ];
        assert_eq!(found, expect);
        let of_two = v1::Plan { places: vec![place(0), place(1)], ..v1::Plan::default() };
        assert_eq!(lines(&of_two)[2], "  host 1    core 1    data 0    pipeline 0    tensor 1");
        assert_eq!(json(&plan)["effects"][0]["saved"]["host_bytes_per_core"], -(2 << 20));
        assert_eq!(json(&plan)["passes"], serde_json::json!([["F0", "B0"]]));
    }
}
