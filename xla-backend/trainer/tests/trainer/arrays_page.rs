//! The page of the arrays of each task. `TRAIND_WRITE_DOCS=1 cargo test -p traind-trainer --test trainer` writes it
//! anew; without that it is checked.

use std::path::Path;
use std::sync::Arc;
use std::{env, fs};

use serde_json::Map;
use traind_loader::ModelInputs;
use traind_models::tasks::embedding::{
    BatchHardTriplet, CosineSimilarity, Distance, EmbeddingLoss, Gist, GuideVectors,
};
use traind_models::tasks::preference::{Kto, Orpo, PreferenceObjective, Reward};
use traind_models::tasks::replaced_tokens::ReplacedTokenDetection;
use traind_models::tasks::reranker::ListNet;
use traind_models::{
    InputDim, InputRole, InputSpec, InputValues, Model, ModelConfig, Task, registry,
};
use traind_trainer::step::{EmbeddingObjective, ForwardConfig, JobPrograms, Readout, StepConfig};
use traind_xla::kernels::{GpuOptions, Kernels};
use traind_xla::runtime::Recorder;

const HEAD: &str = "\
Each array has the rows of all cores. A row of the data may have several sequences, such as the two of a pair, which are
rows of the batch one behind the other. The shapes' letters:

- B: the rows of the batch, the sequences of a row of the data among them;
- S: the positions that all rows are padded to, and T those of their targets;
- N: the classes or numbers of a row, and K its sequences;
- H, W, C: the height, width and channels of images.

[`Trainer::arrays`] lists those of a trainer with their numbers. Other arrays and values, and a second array of the same
name, are refused. [`Trainer::forward`] takes the same arrays, and without targets returns no loss.
";

/// A task with a model of the fixtures.
struct Case {
    title: &'static str,
    fixture: &'static str,
    task: Task,
    forward: ForwardConfig,
    /// The meaning of `labels`.
    labels: &'static str,
}

fn case(title: &'static str, fixture: &'static str, task: Task, labels: &'static str) -> Case {
    Case { title, fixture, task, forward: ForwardConfig::default(), labels }
}

fn embedded(loss: impl EmbeddingLoss + 'static, texts: usize) -> ForwardConfig {
    let loss: Option<Arc<dyn EmbeddingLoss>> = Some(Arc::new(loss));
    let objective = EmbeddingObjective { loss, texts, part_rows: None, of_sets: Vec::new() };
    ForwardConfig { embedding: Some(objective), ..ForwardConfig::default() }
}

fn preferred(objective: impl PreferenceObjective + 'static) -> ForwardConfig {
    ForwardConfig { preference: Some(Arc::new(objective)), ..ForwardConfig::default() }
}

fn cases() -> Vec<Case> {
    let (sequence, embedding) = (Task::SequenceClassification, Task::Embedding);
    let completions = "the tokens of completions; -100 for those of prompts and for padding";
    let kto = Kto {
        beta: 0.1,
        desirable_weight: 1.0,
        undesirable_weight: 1.0,
        estimates_divergence: true,
    };
    let gist = Gist {
        temperature: 0.1,
        margin: 0.0,
        is_relative: false,
        contrasts_anchors: true,
        contrasts_positives: true,
        texts: 2,
        guide: GuideVectors::OfLabels,
        guide_width: 8,
    };
    let triplets = BatchHardTriplet { distance: Distance::Euclidean, margin: 5.0 };
    let replaced = ReplacedTokenDetection { generator_weight: 1.0, discriminator_weight: 50.0 };
    let seeds = "the original tokens of masked ones; -100 for others";
    vec![
        case(
            "`sequence-classification`, one class",
            "bert-sequence-classification",
            sequence,
            "the class of each row",
        ),
        case(
            "`sequence-classification`, several classes",
            "bert-multi-label",
            sequence,
            "1 for each class of a row, and 0 for others, or shares",
        ),
        case(
            "`sequence-classification`, one number",
            "bert-regression",
            sequence,
            "the number of each row",
        ),
        case(
            "`sequence-classification`, several numbers",
            "bert-regression-of-two",
            sequence,
            "the numbers of each row",
        ),
        case(
            "`image-classification`",
            "vit-image-classification",
            Task::ImageClassification,
            "the class of each image; several classes and numbers are as those of texts",
        ),
        case(
            "`token-classification`",
            "bert-token-classification",
            Task::TokenClassification,
            "the class of each token; -100 for those without one",
        ),
        case("`question-answering`", "bert-question-answering", Task::QuestionAnswering, ""),
        case(
            "`masked-lm`",
            "bert-masked-lm",
            Task::MaskedLm,
            "the original tokens of masked ones; -100 for others",
        ),
        case(
            "`causal-lm`",
            "gpt2-causal-lm",
            Task::CausalLm,
            "the tokens themselves, which the one before each predicts; -100 for those that do not count",
        ),
        case(
            "`seq2seq-lm`",
            "t5-seq2seq-lm",
            Task::Seq2SeqLm,
            "the token behind each of `decoder_input_ids`; -100 for padding",
        ),
        Case {
            forward: preferred(Orpo { beta: 0.1 }),
            ..case(
                "`dpo`, `orpo` and `cpo`: the chosen completion before the rejected one",
                "llama-causal-lm",
                Task::CausalLm,
                completions,
            )
        },
        Case {
            forward: preferred(kto),
            ..case(
                "`kto`: a completion, and the prompt with another row's",
                "llama-causal-lm",
                Task::CausalLm,
                completions,
            )
        },
        Case {
            forward: preferred(Reward { center_rewards_coefficient: None }),
            ..case(
                "`reward`: the chosen text before the rejected one",
                "bert-regression",
                sequence,
                "the margin of each pair, at its first row; 0 without one",
            )
        },
        Case {
            forward: embedded(CosineSimilarity, 2),
            ..case(
                "`embedding`, with a loss that compares a number",
                "bert-masked-lm",
                embedding,
                "the number of each row of the data, at its first row",
            )
        },
        Case {
            forward: embedded(triplets, 1),
            ..case(
                "`embedding`, with a loss that compares classes",
                "bert-masked-lm",
                embedding,
                "the class of each row; equal numbers are equal classes",
            )
        },
        Case {
            forward: embedded(gist, 2),
            ..case(
                "`embedding`, with a loss that compares several numbers",
                "bert-masked-lm",
                embedding,
                "the numbers of each row",
            )
        },
        Case {
            forward: embedded(ListNet { passages: 2 }, 2),
            ..case(
                "`reranker`: the query with each of its passages",
                "bert-regression",
                sequence,
                "the labels of all passages of a query, at the first of its rows",
            )
        },
        Case {
            forward: preferred(replaced),
            ..case(
                "`replaced-token-detection`",
                "electra-replaced-token-detection",
                Task::ReplacedTokenDetection,
                seeds,
            )
        },
    ]
}

impl Case {
    fn model(&self) -> Arc<Model> {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/fixtures");
        let config = ModelConfig::load(&fixtures.join(self.fixture), &Map::new()).unwrap();
        registry::build(config, self.task).unwrap().into()
    }

    fn section(&self) -> String {
        let model = self.model();
        let rows = inputs(&model, &self.forward).into_iter().map(|spec| {
            let InputSpec { name, dtype, .. } = spec;
            let shape = shape(&spec, self.forward.embedding.is_some()).join(", ");
            let (values, meaning) = (values(&spec, &model), self.meaning(&spec));
            format!("| `{name}` | {dtype}\\[{shape}\\] | {values} | {meaning} |\n")
        });
        let rows: String = rows.collect();
        let Case { title, .. } = self;
        format!(
            "## {title}\n\n| array | shape | values | meaning |\n| --- | --- | --- | --- |\n{rows}"
        )
    }

    fn meaning(&self, spec: &InputSpec) -> String {
        let meaning = match spec.name {
            "input_ids" => "the tokens, or any for padding",
            "attention_mask" => "1 for tokens, 0 for padding",
            "token_type_ids" => "the segment of each token",
            "position_ids" => "positions that begin anew with each text of a row",
            "pixel_values" => "the pixels, before the model's normalization",
            "decoder_input_ids" => "the targets, one token further right",
            "labels" => self.labels,
            "start_positions" => {
                "the position of the answer's first token; from `padded_length` on it does not count"
            }
            "end_positions" => "the position of its last token",
            "padded_length" => "the positions that the loss is taken over, S for all",
            "answer_weights" => {
                "the weights of the answer's start and end beside that of the row, by which the losses of both are \
                 means over those that count; computed where the array is absent"
            }
            "desirable" => "1 where the completion is desirable",
            "sampling_seeds" => "the seed by which tokens of a row are drawn",
            "batch_sums" => {
                "the sums over the rows of a core, in each of them: of their weights, and of these times \
                 their masked tokens and times all of their tokens; computed where the array is absent"
            }
            "sample_weights" => "the weight of each row in the loss; 1 where the array is absent",
            name => panic!("the page does not say what {name} is: add it here"),
        };
        let is_optional = spec.role == InputRole::Optional && spec.name != "sample_weights";
        let note = format!("; only with `ModelInputs::{}`", spec.name);
        format!("{meaning}{}", if is_optional { &note } else { "" })
    }
}

/// The inputs of a training step.
fn inputs(model: &Arc<Model>, forward: &ForwardConfig) -> Vec<InputSpec> {
    let config = StepConfig { forward: forward.clone(), ..StepConfig::default() };
    let (mesh, kernels) = (config.mesh.mesh().unwrap(), Kernels::own_if(false));
    let mut recorder = Recorder::new(mesh, "cpu", GpuOptions::default(), kernels);
    let given = ModelInputs { token_type_ids: true, attention_mask: true, position_ids: true };
    let recorders = [&mut recorder];
    let programs = JobPrograms::declare(&config, model, given, Readout::Logits, recorders).unwrap();
    programs.train.forward.layout.specs().to_vec()
}

fn shape(spec: &InputSpec, compares_sequences: bool) -> Vec<&'static str> {
    let of_images = ["H", "W", "C"];
    let mut sizes = 0..;
    let name = |dim: &InputDim| match dim {
        InputDim::Rows => "B",
        InputDim::Positions => "S",
        InputDim::TargetPositions => "T",
        InputDim::Size(_) if spec.name == "pixel_values" => of_images[sizes.next().unwrap_or(0)],
        InputDim::Size(2) if compares_sequences => "K",
        InputDim::Size(_) => "N",
    };
    spec.dims.iter().map(name).collect()
}

/// The values of an input, with the names of the model's numbers in their place.
fn values(spec: &InputSpec, model: &Model) -> String {
    let bound = |end: usize| {
        let segments = model.config().keys().get("type_vocab_size").and_then(|it| it.as_u64());
        let (name, expect) = match spec.name {
            "token_type_ids" if segments.is_some() => {
                ("type_vocab_size", segments.map(|it| it as usize))
            }
            "position_ids" => ("max_positions", Some(model.max_positions())),
            "labels" if model.config().num_labels().is_ok_and(|labels| labels == end) => {
                ("num_labels", Some(end))
            }
            _ => ("vocab_size", Some(model.vocab_size())),
        };
        assert_eq!(Some(end), expect, "{} of {name}", spec.name);
        format!("from 0, below `{name}`")
    };
    match spec.values {
        InputValues::Below(end) => bound(end),
        InputValues::LabelsBelow(end) => format!("{}, or -100", bound(end)),
        values => match spec.dtype {
            traind_xla::DType::F32 => values.to_string(),
            traind_xla::DType::U8 => "from 0 to 255".to_owned(),
            _ if values == InputValues::Finite => "any".to_owned(),
            _ if values == InputValues::NotNegative => "at least 0".to_owned(),
            _ => values.to_string(),
        },
    }
}

#[test]
fn the_page_has_the_arrays_of_each_task() {
    let sections = cases().iter().map(Case::section).collect::<Vec<_>>().join("\n");
    let expect = format!("{HEAD}\n{sections}");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/arrays.md");
    if env::var_os("TRAIND_WRITE_DOCS").is_some() {
        fs::write(&page, &expect).unwrap();
    }
    let found = fs::read_to_string(&page).unwrap_or_default();
    assert!(
        found == expect,
        "src/arrays.md is out of date; write it with TRAIND_WRITE_DOCS=1 cargo test \
         -p traind-trainer --test trainer"
    );
}

#[test]
fn the_page_has_each_task() {
    let cases = cases();
    for task in Task::ALL {
        assert!(cases.iter().any(|case| case.task == task), "no arrays of {}", task.name());
    }
}
