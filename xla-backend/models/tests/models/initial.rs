//! Random weights are drawn as transformers draws them: of each parameter the same constant, or a
//! normal of the same deviation with the same rows of zeros.

use serde_json::{Map, Value, json};
use traind_models::{Init, registry};

use crate::fixture::{config_of, folder_of};
use crate::fixtures::FIXTURES;

/// Standard deviations were measured of 1,600 values at least.
const TOLERANCE: f64 = 0.06;

#[test]
fn every_parameter_is_drawn_as_in_transformers() {
    let text = std::fs::read_to_string(folder_of("initial").join("initial.json")).unwrap();
    let models: Map<String, Value> = serde_json::from_str(&text).unwrap();
    for (folder, drawn) in models {
        let (_, task) = FIXTURES.iter().find(|(name, _)| *name == folder).unwrap();
        let config = config_of(&folder_of(&folder), *task);
        let model = registry::build(config, *task).unwrap();
        let trained: Vec<_> = model.parameters().iter().filter(|spec| spec.trainable).collect();
        assert_eq!(trained.len(), drawn.as_object().unwrap().len(), "{folder}");
        for spec in trained {
            let expect = &drawn[&spec.name];
            assert!(is_drawn_so(spec.init, expect), "{folder}: {}, not {expect:?}", spec.name);
        }
    }
}

fn is_drawn_so(init: Init, expect: &Value) -> bool {
    let normal = |std: f64, zero_rows: Value| {
        let theirs = expect["std"].as_f64();
        theirs.is_some_and(|theirs| (std / theirs - 1.0).abs() < TOLERANCE)
            && expect["zero_rows"] == zero_rows
    };
    match init {
        Init::Zeros => expect["value"] == 0.0,
        Init::Ones => expect["value"] == 1.0,
        Init::Normal { std } => normal(std, json!([])),
        Init::TruncatedNormal { std, cutoff } => normal(std * deviation_within(cutoff), json!([])),
        Init::Sinusoids | Init::Uniform { .. } => false,
        Init::NormalWithZeroRow { std, row } => normal(std, json!([row])),
    }
}

/// The deviation of a standard normal from -cutoff to cutoff, by sums over its density.
fn deviation_within(cutoff: f64) -> f64 {
    const STEPS: usize = 10_000;
    let places = (0..STEPS).map(|step| (step as f64 + 0.5) / STEPS as f64 * cutoff);
    let [mass, squares] = places.fold([0.0; 2], |[mass, squares], x| {
        let density = (-x * x / 2.0).exp();
        [mass + density, squares + density * x * x]
    });
    (squares / mass).sqrt()
}
