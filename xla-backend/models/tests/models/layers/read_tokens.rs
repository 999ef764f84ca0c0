//! A last layer that leaves out the tokens that the head does not read computes what one of all tokens computes for the
//! others: results, gradients and random bits.

use serde_json::{Map, Value, json};
use traind_models::sentence::{PoolingMode, SentenceModules};
use traind_models::{
    Batch, Model, ModelConfig, Output, PACKED_TOKENS, PADDED_TOKENS, PREDICTED_SLOTS,
    PREDICTED_TOKENS, Task, registry,
};
use traind_xla::kernels::Kernels;
use traind_xla::{DType, Tensor, Trace};

use super::training_pass::{TrainingPass, check_alike};

const POSITIONS: usize = 6;
/// The tokens of each row.
const LENGTHS: [usize; 3] = [6, 2, 4];
/// Slots of a packed row: one more than there are tokens.
const PACKED: usize = 5;
/// Slots of the masked tokens of a row: two more than there are.
const MASKED: usize = 2;
/// The positions of the masked tokens in each row.
const MASKED_POSITIONS: [&[usize]; 3] = [&[0, 3, 5], &[], &[2]];
const WIDTH: usize = 8;
/// One encoder of each kind of layer.
const ENCODERS: [&str; 5] = ["bert", "deberta-v2", "modernbert", "nomic_bert", "eurobert"];
const DECODERS: [&str; 2] = ["llama", "gemma3_text"];

fn config(model_type: &str) -> ModelConfig {
    let mut keys: Map<String, Value> = json!({
        "model_type": model_type, "vocab_size": 20, "initializer_range": 0.3, "pad_token_id": 0,
    })
    .as_object()
    .unwrap()
    .clone();
    let more = json!({
        "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 16, "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.2, "attention_dropout": 0.2, "mlp_dropout": 0.2,
        "embedding_dropout": 0.2, "local_attention": 2, "global_attn_every_n_layers": 2,
        "relative_attention": true, "pos_att_type": ["c2p", "p2c"], "head_dim": 4,
    });
    keys.extend(more.as_object().unwrap().clone());
    ModelConfig::new("config.json", keys)
}

/// The tokens of a batch whose predictions are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Predicted {
    All,
    /// Those with a label.
    Labelled,
    /// Those before a label.
    BeforeLabels,
}

impl Predicted {
    fn has(self, label_at: &[usize], at: usize) -> bool {
        match self {
            Predicted::All => false,
            Predicted::Labelled => label_at.contains(&at),
            Predicted::BeforeLabels => label_at.contains(&(at + 1)),
        }
    }
}

/// The ids, the mask and the labels of the masked tokens, in padded rows.
fn batch(trace: &Trace, is_packed: bool, predicted: Predicted) -> Batch {
    let rows = LENGTHS.len();
    let places = rows * POSITIONS;
    let (mut ids, mut mask, mut labels) =
        (vec![7.0; places], vec![0.0; places], vec![-100.0; places]);
    let (mut packed, mut padded) = places_of(places, rows * PACKED);
    let (mut of_slots, mut slots) = places_of(places, rows * MASKED);
    let (mut token, mut slot) = (0, 0);
    for (row, length) in LENGTHS.iter().enumerate() {
        for at in 0..*length {
            let place = row * POSITIONS + at;
            (ids[place], mask[place]) = (((3 * token + 1) % 20) as f64, 1.0);
            (packed[token], padded[place]) = (place as f64, token as f64);
            token += 1;
            if MASKED_POSITIONS[row].contains(&at) {
                labels[place] = ((token + 4) % 20) as f64;
            }
            if predicted.has(MASKED_POSITIONS[row], at) {
                (of_slots[slot], slots[place]) = (place as f64, slot as f64);
                slot += 1;
            }
        }
    }
    let mut batch = Batch::new();
    let mut insert = |name: &str, values: &[f64]| {
        let values = trace.constant(DType::S32, &[rows, values.len() / rows], values).unwrap();
        batch.insert(name, values);
    };
    insert("input_ids", &ids);
    insert("attention_mask", &mask);
    insert("labels", &labels);
    if is_packed {
        insert(PACKED_TOKENS, &packed);
        insert(PADDED_TOKENS, &padded);
    }
    if predicted != Predicted::All {
        insert(PREDICTED_TOKENS, &of_slots);
        insert(PREDICTED_SLOTS, &slots);
    }
    batch
}

/// The places of as many `slots`, and the slots of `places`, where there are no tokens yet.
fn places_of(places: usize, slots: usize) -> (Vec<f64>, Vec<f64>) {
    (vec![places as f64; slots], vec![slots as f64; places])
}

fn pass(kernels: Kernels, gradient_checkpointing: bool) -> TrainingPass {
    TrainingPass { kernels, gradient_checkpointing, rows: LENGTHS.len() }
}

fn embedder(model_type: &str, pooling: &[PoolingMode]) -> Model {
    let mut config = config(model_type);
    config.set_sentence_modules(SentenceModules {
        pooling: pooling.to_vec(),
        ..SentenceModules::default()
    });
    registry::build(config, Task::Embedding).unwrap()
}

/// The numbers of an embedding that are the state of one token.
fn of_token(output: &Output, place: usize) -> Tensor {
    output.logits.values.slice(1, place * WIDTH, (place + 1) * WIDTH).unwrap()
}

/// Checks embeddings that are the state of one token beside those to which all tokens add their states too.
fn check_one_token(model_type: &str, mode: PoolingMode, is_packed: bool, kernels: &[Kernels]) {
    let of_rows = |trace: &Trace| batch(trace, is_packed, Predicted::All).without("labels");
    let all = embedder(model_type, &[PoolingMode::Mean, mode]);
    let one = embedder(model_type, &[mode]);
    let whole = pass(Kernels::Own, false).results(&all, of_rows, |output| of_token(output, 1));
    for kernels in kernels {
        let pass = pass(*kernels, *kernels == Kernels::None);
        let found = pass.results(&one, of_rows, |output| of_token(output, 0));
        check_alike(&format!("{model_type}, {mode:?}, {kernels:?}"), &found, &whole);
    }
}

/// Without kernels, activations are also computed again.
#[test]
fn a_head_that_reads_one_token_of_a_row_gets_its_state() {
    check_one_token("bert", PoolingMode::LastToken, false, &[Kernels::Own, Kernels::None]);
    for model_type in ENCODERS {
        check_one_token(model_type, PoolingMode::Cls, false, &[Kernels::Own]);
    }
    for model_type in DECODERS {
        check_one_token(model_type, PoolingMode::LastToken, false, &[Kernels::Own]);
    }
}

#[test]
fn packed_tokens_are_left_out_as_padded_ones() {
    check_one_token("bert", PoolingMode::LastToken, true, &[Kernels::Own]);
    for model_type in ["mpnet", "modernbert"] {
        check_one_token(model_type, PoolingMode::Cls, true, &[Kernels::Own]);
    }
}

fn mean_loss(output: &Output) -> Tensor {
    let loss = output.loss.as_ref().unwrap();
    loss.loss_sum.div(&loss.weight_sum).unwrap()
}

/// The loss, and its gradients, of a batch that says where its masked tokens are and of one that does not.
#[test]
fn masked_tokens_alone_have_the_loss_of_all() {
    for model_type in ENCODERS {
        let model = registry::build(config(model_type), Task::MaskedLm).unwrap();
        let pass = pass(Kernels::Own, false);
        let whole = pass.results(&model, |trace| batch(trace, false, Predicted::All), mean_loss);
        for is_packed in [false, model.packs_tokens()] {
            let found = pass.results(
                &model,
                |trace| batch(trace, is_packed, Predicted::Labelled),
                mean_loss,
            );
            check_alike(&format!("{model_type}, packed: {is_packed}"), &found, &whole);
        }
    }
}

/// The next token is predicted for packed ones alone, or for those before a label, which labels of padded rows are
/// compared with.
#[test]
fn packed_and_predicted_tokens_have_the_loss_of_padded_rows() {
    for model_type in DECODERS {
        let model = registry::build(config(model_type), Task::CausalLm).unwrap();
        let pass = pass(Kernels::Own, false);
        let results = |is_packed, predicted| {
            pass.results(&model, |trace| batch(trace, is_packed, predicted), mean_loss)
        };
        let padded = results(false, Predicted::All);
        for (is_packed, predicted) in [
            (true, Predicted::All),
            (true, Predicted::BeforeLabels),
            (false, Predicted::BeforeLabels),
        ] {
            let found = results(is_packed, predicted);
            check_alike(&format!("{model_type}, {is_packed}, {predicted:?}"), &found, &padded);
        }
    }
}
