//! Activations and their derivatives against transformers' `ACT2FN`.

use serde_json::{Value, json};
use traind_models::ModelConfig;
use traind_models::layers::Activation;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace, autodiff};

use crate::fixture::folder_of;
use crate::support::Program;

#[test]
fn activations_are_those_of_transformers() {
    let file = std::fs::read(folder_of("activations").join("activations.json")).unwrap();
    // As `scripts/fixtures/activations.py` writes it.
    let fixture: Value = serde_json::from_slice(&file).unwrap();
    let given: Vec<f32> = numbers(&fixture["points"]).into_iter().map(|x| x as f32).collect();
    for (name, expect) in fixture["activations"].as_object().unwrap() {
        let config = json!({"hidden_act": name}).as_object().unwrap().clone();
        let config = ModelConfig::new("config.json", config);
        let activation = Activation::from_config(&config, "hidden_act", "gelu").unwrap();
        let trace = Trace::new();
        let shape = Shape::new(DType::F32, [given.len()]);
        let points = trace.parameter("x", shape).unwrap();
        let values = activation.forward(&points).unwrap();
        let sum = values.sum(&[0]).unwrap();
        let derivatives = autodiff::gradients(&sum, &[&points]).unwrap().remove(0);
        let arguments = [HostArray::from_f32(&[given.len()], &given).unwrap()];
        let results = Program::compile(&trace, &[&values, &derivatives]).run(&arguments);
        for (result, expect) in results.iter().zip([&expect["values"], &expect["derivatives"]]) {
            check(name, &given, &result.to_f32().unwrap(), &numbers(expect));
        }
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn check(name: &str, points: &[f32], found: &[f32], expect: &[f64]) {
    for ((point, found), expect) in points.iter().zip(found).zip(expect) {
        let difference = (f64::from(*found) - expect).abs();
        assert!(
            difference <= 2e-6 * f64::from(point.abs()).max(1.0),
            "{name} at {point}: {found}, {expect}"
        );
    }
}
