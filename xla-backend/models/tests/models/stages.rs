//! A model traced stage by stage, each with its own parameters alone, is the whole model.

use traind_models::{Batch, Forward, Output, ParameterTensors, Stage, Task};
use traind_xla::{DType, Tensor, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::support::Program;

/// Traces the stages of a model one after the other.
fn staged(fixture: &Fixture, trace: &Trace, weights: &[Tensor], batch: &Batch) -> Output {
    let model = &*fixture.model;
    let parameters_of = |stage| {
        let specs = model.parameters().iter().zip(weights);
        let read = specs.filter(|(spec, _)| spec.stages.contains(&stage));
        ParameterTensors::new(read.map(|(spec, tensor)| (&spec.name, tensor.clone())))
    };
    let embeddings = parameters_of(Stage::Embeddings);
    let mut states = model.embeddings(&forward(trace, &embeddings), batch).unwrap();
    for layer in 0..model.num_layers() {
        let parameters = parameters_of(Stage::Layer(layer));
        let cx = forward(trace, &parameters);
        states = model.layers(&cx, layer..layer + 1, states, batch).unwrap();
    }
    let head = parameters_of(Stage::Head);
    model.head(&forward(trace, &head), &states, batch).unwrap()
}

fn forward<'a>(trace: &'a Trace, parameters: &'a ParameterTensors) -> Forward<'a> {
    Forward {
        trace,
        parameters,
        random: None,
        gradient_checkpointing: false,
        adapters: None,
        cache: None,
        embedding_noise: None,
    }
}

#[test]
fn stages_in_a_row_are_the_model() {
    for (folder, task) in [
        ("bert-masked-lm", Task::MaskedLm),
        ("roberta-sequence-classification", Task::SequenceClassification),
        ("modernbert-more-masked-lm", Task::MaskedLm),
        ("eurobert-tied-masked-lm", Task::MaskedLm),
        ("electra-masked-lm", Task::MaskedLm),
        ("mpnet-masked-lm", Task::MaskedLm),
        ("xlm-roberta-xl-masked-lm", Task::MaskedLm),
        ("nomic-bert-masked-lm", Task::MaskedLm),
        ("jina-embeddings-v3-masked-lm", Task::MaskedLm),
        ("albert-grouped-masked-lm", Task::MaskedLm),
        ("deberta-v2-masked-lm", Task::MaskedLm),
        ("gpt2-causal-lm", Task::CausalLm),
        ("gpt2-untied-causal-lm", Task::CausalLm),
        ("t5-seq2seq-lm", Task::Seq2SeqLm),
        ("mbart-seq2seq-lm", Task::Seq2SeqLm),
        ("vit-image-classification", Task::ImageClassification),
    ] {
        let fixture = Fixture::load(&folder_of(folder), task);
        let trace = Trace::new();
        let traced = fixture.trace(&trace, false, DType::F32);
        let output = staged(&fixture, &trace, &traced.weights, &traced.batch);
        let loss = output.loss.unwrap();
        let loss = loss.loss_sum.div(&loss.weight_sum).unwrap();
        let outputs = [&traced.logits, &output.logits.values, &traced.loss, &loss];
        let results = Program::compile(&trace, &outputs).run(&fixture.arguments());
        assert_eq!(results[0], results[1], "{folder}: logits");
        assert_eq!(results[2], results[3], "{folder}: loss");
        let layers = fixture.model.num_layers();
        let known = |stage: &Stage| !matches!(stage, Stage::Layer(layer) if *layer >= layers);
        for spec in fixture.model.parameters() {
            assert!(spec.stages.iter().all(known), "{folder}: {}", spec.name);
        }
    }
}
