//! Half precision on float32 weights: products are taken in it, and losses and
//! gradients stay near the exact ones.

use traind_models::Task;
use traind_xla::{DType, Tensor, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, distance};

#[test]
fn bfloat16_stays_near() {
    check("bert-sequence-classification", Task::SequenceClassification, DType::BF16, 0.02, 0.03);
    check("gpt2-causal-lm", Task::CausalLm, DType::BF16, 0.02, 0.03);
    check("roberta-masked-lm", Task::MaskedLm, DType::BF16, 0.02, 0.03);
}

#[test]
fn float16_stays_near() {
    check("gpt2-causal-lm", Task::CausalLm, DType::F16, 0.002, 0.004);
}

/// Loss and gradients, relative to the exact ones.
fn check(folder: &str, task: Task, dtype: DType, loss_off_max: f64, gradient_off_max: f64) {
    let fixture = Fixture::load(&folder_of(folder), task);
    let trace = Trace::new();
    let traced = fixture.trace(&trace, false, dtype);
    assert_eq!(traced.logits.dtype(), DType::F32);
    assert!(traced.gradients.iter().all(|gradient| gradient.dtype() == DType::F32));
    let dots = dots_of(&trace);
    assert!(dots.len() >= 10 && dots.iter().all(|&found| found == dtype), "{folder}: {dots:?}");

    let outputs: Vec<&Tensor> = [&traced.loss].into_iter().chain(&traced.gradients).collect();
    let results = Program::compile(&trace, &outputs).run(&fixture.arguments());
    let loss_off = distance(&results[0].to_f32().unwrap(), fixture.expected("loss"));
    assert!(loss_off.0 <= loss_off_max * loss_off.1, "{folder}: loss off by {}", loss_off.0);
    let specs = fixture.model.parameters().iter();
    let squares = specs.zip(&results[1..]).map(|(spec, gradient)| {
        let name = format!("grad.{}", spec.name);
        distance(&gradient.to_f32().unwrap(), fixture.expected(&name)).0.powi(2)
    });
    let off = squares.sum::<f64>().sqrt() / fixture.global_norm();
    println!("{folder} {dtype}: loss off by {:e}, gradients by {off:e}", loss_off.0 / loss_off.1);
    assert!(off <= gradient_off_max, "{folder}: gradients off by {off}");
}

/// The types of all products in layers and heads. Embeddings, of which some
/// are products with one-hot rows, stay exact.
fn dots_of(trace: &Trace) -> Vec<DType> {
    let graph = trace.graph();
    let dots = graph.nodes().filter(|(_, node)| node.op.name() == "dot_general");
    let scoped = dots.filter(|(_, node)| {
        let scope = &graph.scope(node.scope).name;
        scope == "head" || scope.starts_with("layer")
    });
    scoped.map(|(_, node)| node.shape.dtype).collect()
}
