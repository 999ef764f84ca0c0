//! Rows of weight zero are as if they were not there, whatever they hold: the
//! empty slots of a last batch.

use traind_models::{Batch, Forward, ParameterTensors, Task};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, check_close};

#[test]
fn an_empty_slot_of_each_task_changes_nothing() {
    check("xlm-roberta-sequence-classification", Task::SequenceClassification);
    check("distilbert-token-classification", Task::TokenClassification);
    check("distilbert-question-answering", Task::QuestionAnswering);
    check("roberta-masked-lm", Task::MaskedLm);
    check("gpt2-causal-lm", Task::CausalLm);
}

fn check(folder: &str, task: Task) {
    let fixture = Fixture::load(&folder_of(folder), task);
    let rows = fixture.inputs[0].1.shape().dims[0];
    let whole = answers(&fixture, &fixture.inputs, &vec![1.0; rows]);
    let mut weights = vec![1.0; rows];
    weights.push(0.0);
    let inputs: Vec<_> =
        fixture.inputs.iter().map(|(name, array)| (*name, with_empty_row(name, array))).collect();
    let padded = answers(&fixture, &inputs, &weights);
    check_close(&format!("{folder}: weight"), &padded.0, &whole.0, 0.0);
    check_close(&format!("{folder}: gradients"), &padded.1, &whole.1, 1e-5);
}

/// The sum of weights, then the loss and all gradients.
fn answers(
    fixture: &Fixture,
    inputs: &[(&'static str, HostArray)],
    weights: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let trace = Trace::new();
    let parameter = |name: &str, shape: &Shape| trace.parameter(name, shape.clone()).unwrap();
    let mut batch = Batch::new();
    for (name, array) in inputs {
        batch.insert(name, parameter(name, array.shape()));
    }
    batch.insert(
        "sample_weights",
        parameter("sample_weights", &Shape::new(DType::F32, [weights.len()])),
    );
    let specs = fixture.model.parameters();
    let tensors: Vec<Tensor> = specs.iter().map(|s| parameter(&s.name, &s.shape)).collect();
    let names = specs.iter().map(|spec| &spec.name);
    let cx = Forward {
        trace: &trace,
        parameters: &ParameterTensors::new(names.zip(tensors.iter().cloned())),
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    };
    let sums = fixture.model.forward(&cx, &batch).unwrap().loss.unwrap();
    let wrt: Vec<&Tensor> = tensors.iter().collect();
    let gradients = autodiff::gradients(&sums.loss_sum, &wrt).unwrap();
    let outputs: Vec<&Tensor> =
        [&sums.weight_sum, &sums.loss_sum].into_iter().chain(&gradients).collect();
    let mut arguments: Vec<HostArray> = inputs.iter().map(|(_, array)| array.clone()).collect();
    arguments.push(HostArray::from_f32(&[weights.len()], weights).unwrap());
    arguments.extend(fixture.weights.iter().cloned());
    let results = Program::compile(&trace, &outputs).run(&arguments);
    let mut values = results.iter().map(|array| array.to_f32().unwrap());
    let weight_sum = values.next().unwrap();
    (weight_sum, values.flatten().collect())
}

/// A row more: token 5 everywhere, labels that would count, nothing attended.
fn with_empty_row(name: &str, array: &HostArray) -> HostArray {
    let mut dims = array.shape().dims.clone();
    let width = dims[1..].iter().product::<usize>();
    let fill: i32 = match name {
        "input_ids" => 5,
        "attention_mask" | "token_type_ids" => 0,
        _ => 1,
    };
    let mut bytes = array.bytes().to_vec();
    bytes.extend(std::iter::repeat_n(fill.to_le_bytes(), width).flatten());
    dims[0] += 1;
    HostArray::from_bytes(Shape::new(DType::S32, dims), bytes).unwrap()
}
