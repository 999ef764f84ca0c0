//! Adapters against PEFT: logits, loss and gradients of one batch, the files, and merged weights.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use safetensors::SafeTensors;
use serde_json::{Map, Value};
use traind_models::tuning::{
    Lora, PeftBias, TargetModules, TokenIndices, add_lora, load_adapter, load_lora, merged,
    put_adapter, save_adapter, save_adapter_with_generator,
};
use traind_models::{Model, ModelConfig, Task, registry, weights};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Trace};

use crate::fixture::{Fixture, folder_of};
use crate::fixtures::check_fixture;
use crate::parameters::decayed;
use crate::support::{Program, check_close};

/// A folder of adapters, the one of their model, and its task.
#[rustfmt::skip]
const ADAPTERS: &[(&str, &str, Task)] = &[
    ("lora-bert", "bert-sequence-classification", Task::SequenceClassification),
    ("lora-bert-rslora", "bert-masked-lm", Task::MaskedLm),
    ("lora-bert-questions", "bert-question-answering", Task::QuestionAnswering),
    ("lora-distilbert-dora", "distilbert-sequence-classification", Task::SequenceClassification),
    ("lora-roberta-biases", "roberta-sequence-classification", Task::SequenceClassification),
    ("lora-modernbert", "modernbert-sequence-classification", Task::SequenceClassification),
    ("lora-modernbert-questions", "modernbert-question-answering", Task::QuestionAnswering),
    ("lora-eurobert", "eurobert-sequence-classification", Task::SequenceClassification),
    ("lora-eurobert-dora", "eurobert-masked-lm", Task::MaskedLm),
    ("lora-electra", "electra-sequence-classification", Task::SequenceClassification),
    ("lora-mpnet", "mpnet-question-answering", Task::QuestionAnswering),
    ("lora-albert", "albert-grouped-masked-lm", Task::MaskedLm),
    ("lora-deberta", "deberta-v2-sequence-classification", Task::SequenceClassification),
    ("lora-gpt2", "gpt2-causal-lm", Task::CausalLm),
    ("lora-gpt2-dora", "gpt2-untied-causal-lm", Task::CausalLm),
    ("lora-gpt2-tokens", "gpt2-token-classification", Task::TokenClassification),
    ("lora-llama-biases", "llama-3-causal-lm", Task::CausalLm),
    ("lora-llama-dora", "llama-sequence-classification", Task::SequenceClassification),
    ("lora-mistral", "mistral-causal-lm", Task::CausalLm),
    ("lora-qwen2", "qwen2-causal-lm", Task::CausalLm),
    ("lora-qwen3", "qwen3-causal-lm", Task::CausalLm),
    ("lora-gemma", "gemma-causal-lm", Task::CausalLm),
    ("lora-phi3", "phi3-causal-lm", Task::CausalLm),
    ("lora-gemma2", "gemma2-causal-lm", Task::CausalLm),
    ("lora-gemma3", "gemma3-causal-lm", Task::CausalLm),
    ("lora-smollm3", "smollm3-sequence-classification", Task::SequenceClassification),
    ("lora-granite", "granite-causal-lm", Task::CausalLm),
    ("lora-olmo2", "olmo2-causal-lm", Task::CausalLm),
    ("lora-vit", "vit-image-classification", Task::ImageClassification),
    ("lora-deit-dora", "deit-image-classification", Task::ImageClassification),
    ("lora-t5", "t5-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-t5-biases", "t5-gated-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-mt5-dora", "mt5-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-bart", "bart-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-bart-biases", "bart-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-mbart", "mbart-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-xlm-roberta", "xlm-roberta-sequence-classification", Task::SequenceClassification),
    ("lora-gpt2-rows", "gpt2-causal-lm", Task::CausalLm),
    ("lora-llama-rows", "llama-causal-lm", Task::CausalLm),
    ("lora-llama-tied", "llama-3-causal-lm", Task::CausalLm),
    ("lora-t5-rows", "t5-seq2seq-lm", Task::Seq2SeqLm),
    ("lora-xlm-roberta-xl", "xlm-roberta-xl-sequence-classification", Task::SequenceClassification),
    ("lora-nomic-bert", "nomic-bert-sequence-classification", Task::SequenceClassification),
    ("lora-nomic-bert-dora", "nomic-bert-masked-lm", Task::MaskedLm),
    ("lora-gte", "gte-token-classification", Task::TokenClassification),
    ("lora-gte-dora", "gte-sequence-classification", Task::SequenceClassification),
    ("lora-jina", "jina-embeddings-v3-question-answering", Task::QuestionAnswering),
    ("lora-jina-dora", "jina-embeddings-v3-masked-lm", Task::MaskedLm),
];

fn entry(folder: &str) -> (&'static str, &'static str, Task) {
    *ADAPTERS.iter().find(|entry| entry.0 == folder).unwrap()
}

/// The parameters of adapters that the optimizer decays are those that the Trainer decays.
#[test]
fn the_trainer_decays_the_same_parameters_of_adapters() {
    let expected = decayed();
    for entry in ADAPTERS {
        let model = fixture(*entry).model;
        let trained =
            model.parameters().iter().filter(|spec| spec.trainable && spec.weight_decay());
        let names = trained.map(|spec| model.adapters().saved_name(&spec.name));
        assert_eq!(names.collect::<BTreeSet<_>>(), expected[entry.0], "{}", entry.0);
    }
}

fn fixture((folder, base, task): (&str, &str, Task)) -> Fixture {
    println!("{folder}");
    Fixture::adapted(&folder_of(folder), &folder_of(base), task)
}

/// The adapters of models whose names begin so; one with gradient checkpointing.
fn check_models(prefix: &str) {
    for entry in ADAPTERS.iter().filter(|(_, base, _)| base.starts_with(prefix)) {
        check_fixture(&fixture(*entry), entry.0 == "lora-gpt2-dora");
    }
}

#[test]
fn adapters_of_encoders_compute_what_peft_computes() {
    [
        "bert",
        "distilbert",
        "roberta",
        "xlm-roberta",
        "modernbert",
        "eurobert",
        "electra",
        "mpnet",
        "albert",
        "deberta-v2",
    ]
    .into_iter()
    .for_each(check_models);
}

/// Layers that share a matrix have adapters of their own.
#[test]
fn adapters_of_joined_layers_compute_what_peft_computes() {
    ["nomic-bert", "gte", "jina"].into_iter().for_each(check_models);
}

#[test]
fn adapters_of_gpt2_compute_what_peft_computes() {
    check_models("gpt2");
}

#[test]
fn adapters_of_decoders_compute_what_peft_computes() {
    ["llama", "mistral", "qwen", "gemma", "phi3", "smollm3", "granite", "olmo2"]
        .into_iter()
        .for_each(check_models);
}

#[test]
fn adapters_of_encoder_decoders_compute_what_peft_computes() {
    ["t5", "mt5", "bart", "mbart"].into_iter().for_each(check_models);
}

#[test]
fn adapters_of_image_models_compute_what_peft_computes() {
    ["vit", "deit"].into_iter().for_each(check_models);
}

/// Where a folder has the names of weights for the layers of ViT, as adapters of transformers 4 do, the
/// layers are found, and saved by the names of transformers 5.
#[test]
fn former_names_of_layers_find_them() {
    let adapters = ADAPTERS.iter().find(|(folder, ..)| *folder == "lora-vit");
    let (folder, base, task) = *adapters.unwrap();
    let theirs = load_lora(&folder_of(folder)).unwrap();
    let former = ["query", "value", "intermediate.dense"].map(str::to_owned);
    let lora = Lora { target_modules: TargetModules::Named(former.into()), ..theirs };
    let config = ModelConfig::load(&folder_of(base), &Map::new()).unwrap();
    let mut model = registry::build(config, task).unwrap();
    add_lora(&mut model, &lora).unwrap();
    let expected = fixture((folder, base, task));
    let names = |model: &Model| -> Vec<String> {
        model.parameters().iter().map(|spec| spec.name.clone()).collect()
    };
    assert_eq!(names(&model), names(&expected.model));

    let bytes = std::fs::read(folder_of(folder).join("adapter_model.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let renamed = model.parameters().iter().filter(|spec| model.adapters().saves(spec));
    let renamed = renamed.map(|spec| {
        let tensor = tensors.tensor(&model.adapters().saved_name(&spec.name)).unwrap();
        (format!("base_model.model.{}", spec.name), tensor)
    });
    let saved = tempfile::tempdir().unwrap();
    let path = saved.path().join("adapter_model.safetensors");
    safetensors::serialize_to_file(renamed, None, &path).unwrap();
    let arrays = load_adapter(saved.path(), &model).unwrap();
    save_adapter(saved.path(), &model, task, "base", &arrays).unwrap();
    check_tensors(saved.path(), &folder_of(folder));
    let Some(TargetModules::Named(layers)) =
        load_lora(saved.path()).ok().map(|lora| lora.target_modules)
    else {
        panic!("the layers are not named")
    };
    assert!(layers.contains(&"vit.layers.1.attention.q_proj".to_owned()), "{layers:?}");
    assert_eq!(layers.len(), 6);
}

#[test]
fn saved_adapters_are_those_that_peft_saves() {
    for (folder, base, task) in ADAPTERS {
        let fixture = fixture((folder, base, *task));
        let model = &*fixture.model;
        let saved = tempfile::tempdir().unwrap();
        let pairs = model.parameters().iter().zip(&fixture.weights);
        let arrays: Vec<_> = pairs
            .filter(|(spec, _)| model.adapters().saves(spec))
            .map(|(_, array)| array.clone())
            .collect();
        save_adapter(saved.path(), model, *task, "base", &arrays).unwrap();
        check_tensors(saved.path(), &folder_of(folder));
        check_config(saved.path(), &folder_of(folder));
        // The output of a job, also of one without a generator.
        let output = tempfile::tempdir().unwrap();
        let bases = ["base", "other"];
        save_adapter_with_generator(output.path(), model, *task, bases, &arrays).unwrap();
        check_tensors(output.path(), &folder_of(folder));
        check_config(output.path(), &folder_of(folder));
    }
}

/// The adapters of a generator and of the discriminator of its tokens compute, and are saved, as those that PEFT makes
/// of each by itself.
#[test]
fn adapters_of_two_models_are_those_of_each() {
    let (base, task) =
        (folder_of("electra-replaced-token-detection"), Task::ReplacedTokenDetection);
    for folder in ["lora-electra-pair", "lora-electra-pair-dora"].map(folder_of) {
        let fixture = Fixture::adapted(&folder, &base, task);
        check_fixture(&fixture, false);
        let model = &*fixture.model;
        let saved = tempfile::tempdir().unwrap();
        let arrays = load_adapter(&folder, model).unwrap();
        save_adapter_with_generator(saved.path(), model, task, ["base", "other"], &arrays).unwrap();
        for (part, base) in [("", "base"), ("generator", "other")] {
            let (ours, theirs) = (saved.path().join(part), folder.join(part));
            check_tensors(&ours, &theirs);
            check_config(&ours, &theirs);
            let config = std::fs::read_to_string(ours.join("adapter_config.json")).unwrap();
            assert!(
                config.contains(&format!("\"base_model_name_or_path\": \"{base}\"")),
                "{config}"
            );
        }
        // A checkpoint has one file of both.
        let checkpoint = tempfile::tempdir().unwrap();
        save_adapter(checkpoint.path(), model, task, "base", &arrays).unwrap();
        let bytes = |arrays: &[HostArray]| -> Vec<Vec<u8>> {
            arrays.iter().map(|array| array.bytes().to_vec()).collect()
        };
        for folder in [&checkpoint, &saved] {
            assert_eq!(bytes(&load_adapter(folder.path(), model).unwrap()), bytes(&arrays));
        }
    }
}

/// PEFT also saves the head that a trained one replaced, which is in the model's own folder.
fn check_tensors(ours: &Path, theirs: &Path) {
    let read = |folder: &Path| std::fs::read(folder.join("adapter_model.safetensors")).unwrap();
    let (ours, theirs) = (read(ours), read(theirs));
    let theirs = SafeTensors::deserialize(&theirs).unwrap();
    let ours = SafeTensors::deserialize(&ours).unwrap();
    let is_replaced =
        |name: &str| name.contains(".original_module.") || name.contains(".modules_to_save.");
    let names: BTreeSet<&str> =
        theirs.names().into_iter().filter(|name| !is_replaced(name)).collect();
    assert_eq!(ours.names().into_iter().collect::<BTreeSet<_>>(), names);
    for name in names {
        assert_eq!(
            ours.tensor(name).unwrap().data(),
            theirs.tensor(name).unwrap().data(),
            "{name}"
        );
    }
}

fn check_config(ours: &Path, theirs: &Path) {
    let read = |folder: &Path| -> Map<String, Value> {
        let text = std::fs::read(folder.join("adapter_config.json")).unwrap();
        serde_json::from_slice(&text).unwrap()
    };
    let theirs = read(theirs);
    for (key, value) in read(ours) {
        match (&value, &theirs[&key]) {
            _ if key == "base_model_name_or_path" => {}
            // PEFT names an embedding that is tied twice; the head that ties it says the same.
            (Value::Array(ours), Value::Array(_)) if ours == &["embed_tokens", "lm_head"] => {}
            (Value::Number(ours), Value::Number(theirs)) => {
                assert_eq!(ours.as_f64(), theirs.as_f64(), "{key}");
            }
            (value, expect) => assert_eq!(value, expect, "{key}"),
        }
    }
}

#[test]
fn a_merged_model_answers_as_the_adapted_one() {
    // A plain layer, a transposed one, with magnitudes, with biases, with rows of a tied embedding, in joined layers.
    let folders = ["lora-gpt2-rows", "lora-gte-dora"].map(entry);
    for (folder, base, task) in [ADAPTERS[4], ADAPTERS[6]].into_iter().chain(folders) {
        let fixture = fixture((folder, base, task));
        let (specs, arrays) = merged(&fixture.model, &fixture.weights).unwrap();
        let saved = tempfile::tempdir().unwrap();
        let config = fixture.model.config();
        weights::save(saved.path(), config, &specs, &arrays, u64::MAX).unwrap();
        let expected = folder_of(folder).join("expected.safetensors");
        std::fs::copy(expected, saved.path().join("expected.safetensors")).unwrap();
        let whole = Fixture::load(saved.path(), task);
        let trace = Trace::new();
        let traced = whole.trace(&trace, false, DType::F32);
        let results = Program::compile(&trace, &[&traced.logits]).run(&whole.arguments());
        check_close("logits", &results[0].to_f32().unwrap(), whole.expected("logits"), 2e-5);
    }
}

/// A folder of adapters that is named as a model was once one whose config could not be read.
#[test]
fn adapters_are_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let load = || ModelConfig::load(folder.path(), &Map::new()).unwrap_err().to_string();
    assert!(load().starts_with("read "), "{}", load());
    let config = r#"{"peft_type": "LORA", "base_model_name_or_path": "org/bert"}"#;
    std::fs::write(folder.path().join("adapter_config.json"), config).unwrap();
    let said = load();
    assert!(said.contains("has adapters and no model: name org/bert as the model"), "{said}");
    assert!(said.contains("peft.adapter_name_or_path") && said.contains("peft.merge"), "{said}");
}

/// With PEFT's defaults the same layers are adapted.
#[test]
fn defaults_are_those_of_peft() {
    for (folder, base, task) in ADAPTERS.iter().filter(|(folder, ..)| {
        let defaults =
            "bert electra deberta gpt2 llama-dora mistral qwen2 gemma gemma2 gemma3 t5 bart xlm-roberta";
        defaults.split(' ').any(|name| folder.strip_prefix("lora-") == Some(name))
    }) {
        let config = ModelConfig::load(&folder_of(base), &Map::new()).unwrap();
        let model_type = config.model_type().unwrap();
        let default = Lora::default_targets(model_type).unwrap();
        let lora = load_lora(&folder_of(folder)).unwrap();
        assert_eq!(lora.target_modules, default, "{folder}");
        assert_eq!(lora.clone().with_head_of(*task, model_type), lora, "{folder}");
    }
    for (folder, base, task) in [ADAPTERS[1], ADAPTERS[6]] {
        let theirs = load_lora(&folder_of(folder)).unwrap();
        let ours = Lora { target_modules: TargetModules::AllLinear, ..theirs.clone() };
        let names = |lora: &Lora| {
            let config = ModelConfig::load(&folder_of(base), &Map::new()).unwrap();
            let mut model = registry::build(config, task).unwrap();
            add_lora(&mut model, lora).unwrap();
            let names = model.parameters().iter().map(|spec| spec.name.clone());
            names.collect::<BTreeSet<_>>()
        };
        assert_eq!(names(&ours), names(&theirs), "{folder}");
    }
}

#[test]
fn fresh_adapters_change_nothing() {
    let (folder, base, task) = ADAPTERS[3];
    let mut fixture = fixture((folder, base, task));
    fixture.weights = weights::load(&folder_of(base), &fixture.model, 1).unwrap().arrays;
    let plain = Fixture::load(&folder_of(base), task);
    let trace = Trace::new();
    let traced = fixture.trace(&trace, false, DType::F32);
    let results = Program::compile(&trace, &[&traced.logits]).run(&fixture.arguments());
    check_close(folder, &results[0].to_f32().unwrap(), plain.expected("logits"), 1e-5);
}

#[test]
fn adapters_that_do_not_fit_are_refused() {
    let refused = |change: &dyn Fn(&mut Lora)| {
        let config = ModelConfig::load(&folder_of("llama-causal-lm"), &Map::new()).unwrap();
        let mut model = registry::build(config, Task::CausalLm).unwrap();
        let mut lora = load_lora(&folder_of("lora-mistral")).unwrap();
        change(&mut lora);
        add_lora(&mut model, &lora).unwrap_err().to_string()
    };
    let named = |names: &[&str]| {
        TargetModules::Named(names.iter().map(|name| (*name).to_owned()).collect())
    };
    let message = refused(&|lora| lora.target_modules = named(&["q_proj", "vproj"]));
    assert_eq!(message, "peft.target_modules: the model has no vproj, did you mean v_proj?");
    let message = refused(&|lora| lora.target_modules = named(&["q_proj", "embed_tokens"]));
    assert!(message.contains("embed_tokens is not a linear layer"), "{message}");
    let message = refused(&|lora| lora.layers_to_transform = Some(vec![0, 2]));
    assert_eq!(message, "peft.layers_to_transform: the model has no 2");
    let message = refused(&|lora| lora.modules_to_save = vec!["embed_token".to_owned()]);
    assert!(message.contains("did you mean embed_tokens?"), "{message}");
    let message = refused(&|lora| {
        lora.target_modules = named(&["lm_head"]);
        lora.modules_to_save = vec!["lm_head".to_owned()];
    });
    assert!(message.contains("nothing of the model is left to train"), "{message}");
    let folder = folder_of("lora-mistral");
    let bert =
        Fixture::load(&folder_of("bert-sequence-classification"), Task::SequenceClassification);
    let mut model = bert.model;
    let lora = load_lora(&folder_of("lora-bert")).unwrap();
    add_lora(Arc::get_mut(&mut model).unwrap(), &lora).unwrap();
    let message = load_adapter(&folder, &model).unwrap_err().to_string();
    assert!(
        message.contains("adapter_model.safetensors: no tensor base_model.model."),
        "{message}"
    );
    put_adapter(&model, &mut [], Vec::new());
}

/// Layers that share a matrix are found by the name of the matrix too; what they share is not trained whole.
#[test]
fn joined_layers_are_found_by_their_matrix_and_not_trained_whole() {
    let added = |change: &dyn Fn(&mut Lora)| {
        let config = ModelConfig::load(&folder_of("gte-masked-lm"), &Map::new()).unwrap();
        let mut model = registry::build(config, Task::MaskedLm).unwrap();
        let mut lora = load_lora(&folder_of("lora-mistral")).unwrap();
        change(&mut lora);
        add_lora(&mut model, &lora).map(|()| model)
    };
    let named = |name: &str| TargetModules::Named(vec![name.to_owned()]);
    let model = added(&|lora| lora.target_modules = named("qkv_proj")).unwrap();
    let saved = model.parameters().iter().filter(|spec| spec.trainable);
    let saved: Vec<String> =
        saved.take(4).map(|spec| model.adapters().saved_name(&spec.name)).collect();
    let name = |module, part| {
        format!("base_model.model.gte.layers.0.self_attn.{module}.lora_{part}.weight")
    };
    let expect = [("q_proj", "A"), ("q_proj", "B"), ("k_proj", "A"), ("k_proj", "B")];
    assert_eq!(saved, expect.map(|(module, part)| name(module, part)));
    let message = added(&|lora| lora.bias = PeftBias::LoraOnly).map(drop);
    assert!(message.is_ok(), "{message:?}");
    let refused = |change: &dyn Fn(&mut Lora)| added(change).unwrap_err().to_string();
    let message = refused(&|lora| lora.bias = PeftBias::All);
    assert!(
        message.starts_with("peft.bias: gte.encoder.layer.0.attention.qkv_proj.bias"),
        "{message}"
    );
    let message = refused(&|lora| lora.modules_to_save = vec!["up_gate_proj".to_owned()]);
    assert!(message.starts_with("peft.modules_to_save: "), "{message}");
}

/// Tokens whose rows cannot be trained, and modules that are tied, are refused with the way out.
#[test]
fn rows_and_tied_modules_that_cannot_be_trained_are_refused() {
    let refused = |base: &str, change: &dyn Fn(&mut Lora)| {
        let config = ModelConfig::load(&folder_of(base), &Map::new()).unwrap();
        let mut lora = load_lora(&folder_of("lora-llama-rows")).unwrap();
        lora.trainable_token_indices = None;
        change(&mut lora);
        let mut model = registry::build(config, Task::CausalLm).unwrap();
        add_lora(&mut model, &lora).unwrap_err().to_string()
    };
    let of_embedding = |base: &str, tokens: &[usize]| {
        let tokens = TokenIndices::OfEmbedding(tokens.to_vec());
        refused(base, &|lora: &mut Lora| lora.trainable_token_indices = Some(tokens.clone()))
    };
    let of_modules = |base: &str, modules: &[(&str, &[usize])]| {
        let modules = modules.iter().map(|(name, tokens)| ((*name).to_owned(), tokens.to_vec()));
        let tokens = TokenIndices::OfModules(modules.collect());
        refused(base, &|lora: &mut Lora| lora.trainable_token_indices = Some(tokens.clone()))
    };
    let (tied, untied) = ("llama-3-causal-lm", "llama-causal-lm");
    let field = "peft.trainable_token_indices";
    let no_token = format!("{field}: 50 is not a token of model.embed_tokens.weight, which has 50");
    assert_eq!(of_embedding(tied, &[3, 50]), no_token);
    assert_eq!(of_embedding(tied, &[3, 3]), format!("{field}: token 3 is named twice"));
    let other = of_modules(tied, &[("embed_tokens", &[1]), ("lm_head", &[2])]);
    let expect = format!("{field}: lm_head is tied to model.embed_tokens.weight");
    assert!(other.starts_with(&expect), "{other}");
    let alone = of_modules(tied, &[("lm_head", &[2])]);
    assert!(alone.starts_with(&expect), "{alone}");
    let unknown = of_modules(untied, &[("embed_token", &[2])]);
    assert!(unknown.contains("embed_token") && unknown.contains("embed_tokens"), "{unknown}");
    let modules = refused(tied, &|lora: &mut Lora| {
        lora.modules_to_save = vec!["embed_tokens".to_owned(), "lm_head".to_owned()];
    });
    let expect = "model.embed_tokens.weight is also another parameter of the model \
        (tie_word_embeddings); peft.ensure_weight_tying: true trains both as one";
    assert_eq!(modules, format!("peft.modules_to_save: {expect}"));
}

/// Trained rows begin as those of the embedding, also of a tied one that two modules name.
#[test]
fn fresh_rows_are_those_of_the_embedding() {
    let (_, base, task) = entry("lora-gpt2-rows");
    let config = ModelConfig::load(&folder_of(base), &Map::new()).unwrap();
    let mut model = registry::build(config, task).unwrap();
    let mut lora = load_lora(&folder_of("lora-gpt2-rows")).unwrap();
    let same = [("wte", vec![4, 2]), ("lm_head", vec![4, 2])];
    let same = same.map(|(name, tokens)| (name.to_owned(), tokens));
    lora.trainable_token_indices = Some(TokenIndices::OfModules(same.into_iter().collect()));
    add_lora(&mut model, &lora).unwrap();
    let arrays = weights::load(&folder_of(base), &model, 1).unwrap().arrays;
    let array = |name: &str| {
        let place = model.parameters().iter().position(|spec| spec.name == name).unwrap();
        arrays[place].to_f32().unwrap()
    };
    let table = array("transformer.wte.weight");
    let rows = array("transformer.wte.token_adapter.trainable_tokens_delta");
    assert_eq!(rows, [&table[64..80], &table[32..48]].concat());
    let error = model.check_tensor_parallel(2).unwrap_err().to_string();
    assert!(error.contains("parallel.tensor"), "{error}");
}
