//! Each family and task against transformers: logits, loss and gradients of
//! one batch, and what is saved.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Map;
use traind_models::{ModelConfig, Task, registry, weights};
use traind_xla::kernels::Kernels;
use traind_xla::{DType, Tensor, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::support::{Program, has_kernels};

/// A folder of `fixtures/` and the task that it trains.
#[rustfmt::skip]
pub(crate) const FIXTURES: &[(&str, Task)] = &[
    ("bert-sequence-classification", Task::SequenceClassification),
    ("bert-regression", Task::SequenceClassification),
    ("bert-regression-of-two", Task::SequenceClassification),
    ("bert-multi-label", Task::SequenceClassification),
    ("bert-token-classification", Task::TokenClassification),
    ("bert-question-answering", Task::QuestionAnswering),
    ("bert-masked-lm", Task::MaskedLm),
    ("bert-untied-masked-lm", Task::MaskedLm),
    ("bert-causal-lm", Task::CausalLm),
    ("distilbert-sequence-classification", Task::SequenceClassification),
    ("distilbert-regression", Task::SequenceClassification),
    ("distilbert-regression-of-two", Task::SequenceClassification),
    ("distilbert-multi-label", Task::SequenceClassification),
    ("distilbert-token-classification", Task::TokenClassification),
    ("distilbert-question-answering", Task::QuestionAnswering),
    ("distilbert-masked-lm", Task::MaskedLm),
    ("distilbert-untied-masked-lm", Task::MaskedLm),
    ("roberta-sequence-classification", Task::SequenceClassification),
    ("roberta-regression", Task::SequenceClassification),
    ("roberta-regression-of-two", Task::SequenceClassification),
    ("roberta-multi-label", Task::SequenceClassification),
    ("roberta-token-classification", Task::TokenClassification),
    ("roberta-question-answering", Task::QuestionAnswering),
    ("roberta-masked-lm", Task::MaskedLm),
    ("roberta-causal-lm", Task::CausalLm),
    ("xlm-roberta-sequence-classification", Task::SequenceClassification),
    ("xlm-roberta-regression", Task::SequenceClassification),
    ("xlm-roberta-regression-of-two", Task::SequenceClassification),
    ("xlm-roberta-multi-label", Task::SequenceClassification),
    ("xlm-roberta-token-classification", Task::TokenClassification),
    ("xlm-roberta-question-answering", Task::QuestionAnswering),
    ("xlm-roberta-masked-lm", Task::MaskedLm),
    ("xlm-roberta-causal-lm", Task::CausalLm),
    ("xlm-roberta-xl-sequence-classification", Task::SequenceClassification),
    ("xlm-roberta-xl-token-classification", Task::TokenClassification),
    ("xlm-roberta-xl-question-answering", Task::QuestionAnswering),
    ("xlm-roberta-xl-masked-lm", Task::MaskedLm),
    ("xlm-roberta-xl-causal-lm", Task::CausalLm),
    ("modernbert-sequence-classification", Task::SequenceClassification),
    ("modernbert-more-sequence-classification", Task::SequenceClassification),
    ("modernbert-token-classification", Task::TokenClassification),
    ("modernbert-question-answering", Task::QuestionAnswering),
    ("modernbert-masked-lm", Task::MaskedLm),
    ("modernbert-more-masked-lm", Task::MaskedLm),
    ("eurobert-sequence-classification", Task::SequenceClassification),
    ("eurobert-first-sequence-classification", Task::SequenceClassification),
    ("eurobert-mean-sequence-classification", Task::SequenceClassification),
    ("eurobert-token-classification", Task::TokenClassification),
    ("eurobert-masked-lm", Task::MaskedLm),
    ("eurobert-tied-masked-lm", Task::MaskedLm),
    ("electra-sequence-classification", Task::SequenceClassification),
    ("electra-token-classification", Task::TokenClassification),
    ("electra-question-answering", Task::QuestionAnswering),
    ("electra-masked-lm", Task::MaskedLm),
    ("electra-wide-sequence-classification", Task::SequenceClassification),
    ("electra-untied-masked-lm", Task::MaskedLm),
    ("electra-causal-lm", Task::CausalLm),
    ("electra-replaced-token-detection", Task::ReplacedTokenDetection),
    ("mpnet-sequence-classification", Task::SequenceClassification),
    ("mpnet-token-classification", Task::TokenClassification),
    ("mpnet-question-answering", Task::QuestionAnswering),
    ("mpnet-masked-lm", Task::MaskedLm),
    ("mpnet-long-masked-lm", Task::MaskedLm),
    ("nomic-bert-sequence-classification", Task::SequenceClassification),
    ("nomic-bert-token-classification", Task::TokenClassification),
    ("nomic-bert-masked-lm", Task::MaskedLm),
    ("gte-sequence-classification", Task::SequenceClassification),
    ("gte-token-classification", Task::TokenClassification),
    ("gte-masked-lm", Task::MaskedLm),
    ("jina-embeddings-v3-sequence-classification", Task::SequenceClassification),
    ("jina-embeddings-v3-token-classification", Task::TokenClassification),
    ("jina-embeddings-v3-question-answering", Task::QuestionAnswering),
    ("jina-embeddings-v3-masked-lm", Task::MaskedLm),
    ("albert-sequence-classification", Task::SequenceClassification),
    ("albert-token-classification", Task::TokenClassification),
    ("albert-question-answering", Task::QuestionAnswering),
    ("albert-masked-lm", Task::MaskedLm),
    ("albert-grouped-masked-lm", Task::MaskedLm),
    ("deberta-v2-sequence-classification", Task::SequenceClassification),
    ("deberta-v2-plain-sequence-classification", Task::SequenceClassification),
    ("deberta-v2-token-classification", Task::TokenClassification),
    ("deberta-v2-keys-token-classification", Task::TokenClassification),
    ("deberta-v2-question-answering", Task::QuestionAnswering),
    ("deberta-v2-masked-lm", Task::MaskedLm),
    ("deberta-v2-own-masked-lm", Task::MaskedLm),
    ("gpt2-causal-lm", Task::CausalLm),
    ("gpt2-untied-causal-lm", Task::CausalLm),
    ("gpt2-packed-causal-lm", Task::CausalLm),
    ("gpt2-sequence-classification", Task::SequenceClassification),
    ("gpt2-token-classification", Task::TokenClassification),
    ("gpt2-question-answering", Task::QuestionAnswering),
    ("gpt2-regression", Task::SequenceClassification),
    ("gpt2-regression-of-two", Task::SequenceClassification),
    ("gpt2-multi-label", Task::SequenceClassification),
    ("llama-causal-lm", Task::CausalLm),
    ("llama-3-causal-lm", Task::CausalLm),
    ("llama-yarn-causal-lm", Task::CausalLm),
    ("llama-linear-causal-lm", Task::CausalLm),
    ("llama-dynamic-causal-lm", Task::CausalLm),
    ("llama-packed-causal-lm", Task::CausalLm),
    ("llama-sequence-classification", Task::SequenceClassification),
    ("mistral-causal-lm", Task::CausalLm),
    ("mistral-packed-causal-lm", Task::CausalLm),
    ("mistral-sequence-classification", Task::SequenceClassification),
    ("qwen2-causal-lm", Task::CausalLm),
    ("qwen2-packed-causal-lm", Task::CausalLm),
    ("qwen2-sequence-classification", Task::SequenceClassification),
    ("qwen3-causal-lm", Task::CausalLm),
    ("qwen3-packed-causal-lm", Task::CausalLm),
    ("qwen3-sequence-classification", Task::SequenceClassification),
    ("gemma-causal-lm", Task::CausalLm),
    ("gemma-packed-causal-lm", Task::CausalLm),
    ("gemma-sequence-classification", Task::SequenceClassification),
    ("phi3-causal-lm", Task::CausalLm),
    ("phi3-packed-causal-lm", Task::CausalLm),
    ("phi3-sequence-classification", Task::SequenceClassification),
    ("gemma2-causal-lm", Task::CausalLm),
    ("gemma2-packed-causal-lm", Task::CausalLm),
    ("gemma2-sequence-classification", Task::SequenceClassification),
    ("gemma3-causal-lm", Task::CausalLm),
    ("gemma3-packed-causal-lm", Task::CausalLm),
    ("gemma3-sequence-classification", Task::SequenceClassification),
    ("smollm3-causal-lm", Task::CausalLm),
    ("smollm3-sequence-classification", Task::SequenceClassification),
    ("granite-causal-lm", Task::CausalLm),
    ("olmo2-causal-lm", Task::CausalLm),
    ("olmo2-packed-causal-lm", Task::CausalLm),
    ("olmo2-sequence-classification", Task::SequenceClassification),
    ("olmo3-causal-lm", Task::CausalLm),
    ("olmo3-packed-causal-lm", Task::CausalLm),
    ("olmo3-sequence-classification", Task::SequenceClassification),
    ("phi3-long-causal-lm", Task::CausalLm),
    ("phi3-short-causal-lm", Task::CausalLm),
    ("t5-seq2seq-lm", Task::Seq2SeqLm),
    ("t5-gated-seq2seq-lm", Task::Seq2SeqLm),
    ("t5-untied-seq2seq-lm", Task::Seq2SeqLm),
    ("mt5-seq2seq-lm", Task::Seq2SeqLm),
    ("bart-seq2seq-lm", Task::Seq2SeqLm),
    ("mbart-seq2seq-lm", Task::Seq2SeqLm),
    ("vit-image-classification", Task::ImageClassification),
    ("deit-image-classification", Task::ImageClassification),
    ("vit-without-qkv-bias", Task::ImageClassification),
];

/// All fixtures of one family compute what transformers computes.
fn check_family(model_type: &str) {
    let own = FIXTURES.iter().filter(|fixture| model_type_of(fixture.0) == model_type);
    for (folder, task) in own.clone() {
        check(&folder_of(folder), *task, false);
    }
    assert!(own.count() > 0, "{model_type} has no fixture");
}

fn check(folder: &Path, task: Task, gradient_checkpointing: bool) {
    println!("{}", folder.display());
    check_fixture(&Fixture::load(folder, task), gradient_checkpointing);
}

pub(crate) fn check_fixture(fixture: &Fixture, gradient_checkpointing: bool) {
    check_traced(
        fixture,
        &Trace::with_kernels(Kernels::own_if(has_kernels())),
        gradient_checkpointing,
    );
}

fn check_traced(fixture: &Fixture, trace: &Trace, gradient_checkpointing: bool) {
    let traced = fixture.trace(trace, gradient_checkpointing, DType::F32);
    let outputs: Vec<&Tensor> =
        [&traced.logits, &traced.loss].into_iter().chain(&traced.gradients).collect();
    let results = Program::compile(trace, &outputs).run(&fixture.arguments());
    fixture.check_answers(&results[0], &results[1], &results[2..]);
}

fn model_type_of(folder: &str) -> String {
    let config = ModelConfig::load(&folder_of(folder), &Map::new()).unwrap();
    config.model_type().unwrap().to_owned()
}

/// A test for each family, so that they run side by side.
macro_rules! families {
    ($($test:ident: $model_type:literal,)*) => {
        $(
            #[test]
            fn $test() {
                check_family($model_type);
            }
        )*

        const TESTED: &[&str] = &[$($model_type),*];
    };
}

families! {
    bert_is_that_of_transformers: "bert",
    distilbert_is_that_of_transformers: "distilbert",
    roberta_is_that_of_transformers: "roberta",
    xlm_roberta_is_that_of_transformers: "xlm-roberta",
    xlm_roberta_xl_is_that_of_transformers: "xlm-roberta-xl",
    modernbert_is_that_of_transformers: "modernbert",
    eurobert_is_that_of_transformers: "eurobert",
    electra_is_that_of_transformers: "electra",
    mpnet_is_that_of_transformers: "mpnet",
    nomic_bert_is_that_of_transformers: "nomic_bert",
    gte_is_that_of_transformers: "gte",
    jina_embeddings_v3_is_that_of_transformers: "jina_embeddings_v3",
    albert_is_that_of_transformers: "albert",
    deberta_v2_is_that_of_transformers: "deberta-v2",
    gpt2_is_that_of_transformers: "gpt2",
    llama_is_that_of_transformers: "llama",
    mistral_is_that_of_transformers: "mistral",
    qwen2_is_that_of_transformers: "qwen2",
    qwen3_is_that_of_transformers: "qwen3",
    gemma_is_that_of_transformers: "gemma",
    phi3_is_that_of_transformers: "phi3",
    gemma2_is_that_of_transformers: "gemma2",
    gemma3_is_that_of_transformers: "gemma3_text",
    smollm3_is_that_of_transformers: "smollm3",
    granite_is_that_of_transformers: "granite",
    olmo2_is_that_of_transformers: "olmo2",
    olmo3_is_that_of_transformers: "olmo3",
    t5_is_that_of_transformers: "t5",
    mt5_is_that_of_transformers: "mt5",
    bart_is_that_of_transformers: "bart",
    mbart_is_that_of_transformers: "mbart",
    vit_is_that_of_transformers: "vit",
    deit_is_that_of_transformers: "deit",
}

#[test]
fn gradient_checkpointing_changes_nothing() {
    check(&folder_of("bert-sequence-classification"), Task::SequenceClassification, true);
    check(&folder_of("gpt2-causal-lm"), Task::CausalLm, true);
    check(&folder_of("modernbert-masked-lm"), Task::MaskedLm, true);
    check(&folder_of("t5-gated-seq2seq-lm"), Task::Seq2SeqLm, true);
    check(&folder_of("vit-image-classification"), Task::ImageClassification, true);
}

/// Compares the operations that GPUs and NeuronCores compile.
#[test]
fn operations_without_kernels_are_those_of_transformers() {
    for (folder, task) in [
        ("bert-sequence-classification", Task::SequenceClassification),
        ("mistral-packed-causal-lm", Task::CausalLm),
        ("modernbert-masked-lm", Task::MaskedLm),
    ] {
        println!("{folder}");
        check_traced(&Fixture::load(&folder_of(folder), task), &Trace::new(), false);
    }
}

/// Families with the parameters of another one, which `initial.json` has alone, and those whose fixtures
/// have another name.
const DRAWN_AS: &[(&str, &str)] = &[
    ("xlm-roberta", "roberta"),
    ("nomic_bert", "nomic-bert"),
    ("jina_embeddings_v3", "jina-embeddings-v3"),
    ("gemma3_text", "gemma3"),
];

#[test]
fn every_model_of_the_registry_has_fixtures() {
    const HERE: &str = "xla-backend/models/tests/models/fixtures.rs";
    let text = std::fs::read_to_string(folder_of("initial").join("initial.json")).unwrap();
    let drawn: Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    for family in registry::FAMILIES {
        let model_type = family.model_type();
        assert!(TESTED.contains(&model_type), "add {model_type} to families! in {HERE}");
        let found: Vec<Task> = FIXTURES
            .iter()
            .filter(|(folder, _)| model_type_of(folder) == model_type)
            .map(|(_, task)| *task)
            .collect();
        // Embeddings are the body's output, pooled: `scoring/embeddings.rs` compares them.
        for task in registry::tasks(*family).filter(|task| *task != Task::Embedding) {
            let name = format!("{model_type}-{}", task.name());
            assert!(
                found.contains(&task),
                "let scripts/fixtures write {name}, and add it to FIXTURES in {HERE}"
            );
            let same = DRAWN_AS.iter().find(|(own, _)| *own == model_type);
            let first = same.map_or(model_type, |(_, first)| first);
            let name = format!("{first}-{}", task.name());
            assert!(
                drawn.contains_key(&name),
                "add {name} to models() in scripts/fixtures/initial.py"
            );
        }
    }
}

#[test]
fn saved_models_are_those_that_transformers_saves() {
    for (folder, task) in FIXTURES {
        let fixture = Fixture::load(&folder_of(folder), *task);
        let saved = tempfile::tempdir().unwrap();
        let model = &*fixture.model;
        let (config, specs) = (model.config(), model.parameters());
        let array = |place: usize| Ok(Cow::Borrowed(&fixture.weights[place]));
        weights::save_with_modules(saved.path(), config, specs, &array, u64::MAX).unwrap();
        assert_eq!(tensors_of(saved.path()), tensors_of(&folder_of(folder)), "{folder}");
        if let Some(generator) = model.generator_folder() {
            let [ours, theirs] = [saved.path(), &folder_of(folder)].map(|it| it.join(generator));
            assert_eq!(tensors_of(&ours), tensors_of(&theirs), "{folder}: {generator}");
            let [ours, theirs] =
                [ours, theirs].map(|it| ModelConfig::load(&it, &Map::new()).unwrap());
            assert_eq!(ours.architecture(), theirs.architecture(), "{folder}: {generator}");
        }
        for key in ["architectures", "id2label", "label2id"] {
            let config = |folder| ModelConfig::load(folder, &Map::new()).unwrap();
            let (ours, theirs) = (config(saved.path()), config(&folder_of(folder)));
            assert_eq!(ours.keys().get(key), theirs.keys().get(key), "{folder}: {key}");
        }
    }
}

/// Name to dims and bytes.
fn tensors_of(folder: &Path) -> BTreeMap<String, (Vec<usize>, Vec<u8>)> {
    let file = std::fs::read(folder.join("model.safetensors")).unwrap();
    let entry = |(name, view): (String, TensorView<'_>)| {
        (name, (view.shape().to_vec(), view.data().to_vec()))
    };
    SafeTensors::deserialize(&file).unwrap().tensors().into_iter().map(entry).collect()
}

/// The first batch only: at real size some gradients are rounding noise, and
/// Adam makes full steps of those.
#[test]
#[ignore = "TRAIND_FIXTURE names a folder that reference.py wrote for a real model"]
fn a_real_model_computes_what_transformers_computes() {
    let folder = std::env::var_os("TRAIND_FIXTURE").unwrap();
    check(Path::new(&folder), Task::SequenceClassification, false);
}
