//! DeBERTa's second and third versions (He et al., 2021), as transformers' `DebertaV2Model` computes them:
//! BERT whose scores are sums of what contents say of each other and of their distance.
//!
//! B rows, S positions, H `hidden_size`, N heads, D head size, A half the rows of the table of distances,
//! C labels, V `vocab_size`.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use super::headed::{BodyConfig, Build, embedding, with_head};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::flops;
use crate::heads::{
    MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Pooling, Predicts, SPAN_SCORES,
    SpanHead, TokenClassifier, Transform,
};
use crate::layers::{
    Activation, AttentionConfig, AttentionMask, DisentangledAttention, DisentangledConfig,
    Distances, Embedding, LayerNorm, Linear, PositionEmbedding, Residual, dropout, flatten_tokens,
    with_noise,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths, Model};
use crate::parameters::{Dimension, Init, ParameterPath, Role, Stage};
use crate::tasks::{SequenceClassification, Task};

/// The keys of a DeBERTa `config.json` that bear on its computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id", "relative_attention", "max_relative_positions", "position_buckets",
    "position_biased_input", "pos_att_type", "share_att_key", "norm_rel_ebd", "pooler_dropout",
    "pooler_hidden_act", "cls_dropout", "legacy", "tie_word_embeddings",
];

/// The name of the body in a model with a head.
const PREFIX: &str = "deberta";

const MASKED_LM: MaskedLmNames = MaskedLmNames {
    dense: "cls.predictions.transform.dense",
    norm: "cls.predictions.transform.LayerNorm",
    words: "deberta.embeddings.word_embeddings.weight",
    bias: "cls.predictions.bias",
    decoder_weight: "cls.predictions.decoder.weight",
    decoder_bias: Some("cls.predictions.decoder.bias"),
};

pub(crate) const FAMILY: DebertaFamily = DebertaFamily;

#[derive(Debug)]
pub(crate) struct DebertaFamily;

impl Family for DebertaFamily {
    fn model_type(&self) -> &'static str {
        "deberta-v2"
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(DebertaConfig::resolve(config)?.max_position_embeddings)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        let (class, build): (_, Build) = match task {
            Task::SequenceClassification => ("ForSequenceClassification", sequence_classification),
            Task::TokenClassification => ("ForTokenClassification", token_classification),
            Task::QuestionAnswering => ("ForQuestionAnswering", question_answering),
            Task::MaskedLm => ("ForMaskedLM", masked_lm),
            Task::Embedding => ("Model", |config| embedding::<DebertaConfig>(config, PREFIX)),
            Task::CausalLm | Task::Seq2SeqLm | Task::ImageClassification => return None,
        };
        Some(FamilyModel::new(format!("DebertaV2{class}"), build))
    }
}

/// Logits f32[B, C].
fn sequence_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, deberta: &DebertaConfig, root| {
        let (hidden, std) = (deberta.hidden_size(), deberta.std());
        let task = SequenceClassification::new(config)?;
        let transform = Transform {
            dense: Linear::new(root.at("pooler.dense"), hidden, hidden, std),
            activation: Activation::from_config(config, "pooler_hidden_act", "gelu")?,
            norm: None,
            widths: [hidden; 2],
        };
        Ok(PooledClassifier {
            pooling: Pooling::First,
            input_dropout: config.dropout_or("pooler_dropout", 0.0)?,
            transform,
            dropout: config.dropout_or("cls_dropout", deberta.dropout)?,
            classifier: Linear::new(root.at("classifier"), hidden, task.num_labels, std),
            task,
        })
    })
}

/// Logits f32[B, S, C].
fn token_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, deberta: &DebertaConfig, root| {
        let (hidden, std) = (deberta.hidden_size(), deberta.std());
        Ok(TokenClassifier::new(root, hidden, std, config.num_labels()?, deberta.dropout))
    })
}

/// Logits f32[B, S, 2]. Transformers wants the two to be the labels.
fn question_answering(mut config: ModelConfig) -> Result<Model> {
    config.set_num_labels(SPAN_SCORES);
    with_head(config, |_, deberta: &DebertaConfig, root| {
        Ok(SpanHead::new(root, deberta.hidden_size(), deberta.std(), 0.0))
    })
}

/// Logits f32[B, S, V].
fn masked_lm(config: ModelConfig) -> Result<Model> {
    if !config.bool_or("legacy", true)? {
        return Err(config.error("legacy", "only the head of true is supported"));
    }
    with_head(config, |config, deberta: &DebertaConfig, root| {
        let sizes = MaskedLmSizes {
            hidden_size: deberta.hidden_size(),
            embedding_size: deberta.hidden_size(),
            vocab_size: deberta.vocab_size,
            layer_norm_eps: deberta.layer_norm_eps,
            init: deberta.std().into(),
            dense_bias: true,
            norm_bias: true,
            decoder_bias: true,
        };
        MaskedLmHead::new(root, &MASKED_LM, config, &sizes, deberta.hidden_act, Predicts::Itself)
    })
}

/// `DebertaV2Config`, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
struct DebertaConfig {
    vocab_size: usize,
    num_hidden_layers: usize,
    intermediate_size: usize,
    hidden_act: Activation,
    dropout: f64,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    pad_token_id: Option<usize>,
    position_biased_input: bool,
    attention: DisentangledConfig,
    /// Whether the table of distances is normalized.
    normalizes_distances: bool,
}

impl BodyConfig for DebertaConfig {
    type Body = Deberta;

    fn resolve(config: &ModelConfig) -> Result<DebertaConfig> {
        refuse_other_widths(config)?;
        let vocab_size = config.size_or("vocab_size", 128_100)?;
        let max_position_embeddings = config.size_or("max_position_embeddings", 512)?;
        let dropout = config.dropout_or("hidden_dropout_prob", 0.1)?;
        let attention = resolve_attention(config, max_position_embeddings, dropout)?;
        Ok(DebertaConfig {
            vocab_size,
            num_hidden_layers: config.size_or("num_hidden_layers", 24)?,
            intermediate_size: config.size_or("intermediate_size", 6144)?,
            hidden_act: Activation::from_config(config, "hidden_act", "gelu")?,
            dropout,
            max_position_embeddings,
            type_vocab_size: config.count_or("type_vocab_size", 0)?,
            layer_norm_eps: config.positive_or("layer_norm_eps", 1e-7)?,
            pad_token_id: config.token_id_or("pad_token_id", vocab_size, 0)?,
            position_biased_input: config.bool_or("position_biased_input", true)?,
            normalizes_distances: normalizes_distances(config, attention.distances.is_some())?,
            attention,
        })
    }

    fn body(self, root: &mut ParameterPath<'_>) -> Deberta {
        Deberta::new(root, self)
    }

    fn hidden_size(&self) -> usize {
        self.attention.sizes.hidden_size
    }
}

impl DebertaConfig {
    fn std(&self) -> f64 {
        self.attention.sizes.initializer_range
    }

    fn layer_norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.hidden_size(), self.layer_norm_eps)
    }

    fn linear(
        &self,
        path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear::new(path, inputs, outputs, self.std())
    }
}

fn resolve_attention(
    config: &ModelConfig,
    max_position_embeddings: usize,
    position_dropout: f64,
) -> Result<DisentangledConfig> {
    let sizes = AttentionConfig {
        hidden_size: config.size_or("hidden_size", 1536)?,
        num_heads: config.size_or("num_attention_heads", 24)?,
        dropout: config.dropout_or("attention_probs_dropout_prob", 0.1)?,
        initializer_range: config.positive_or("initializer_range", 0.02)?,
    };
    sizes.check(config, "num_attention_heads")?;
    let [to_position, from_position] = position_terms(config)?;
    let reach = config.size_above_zero("max_relative_positions")?;
    let distances = Distances {
        buckets: config.size_above_zero("position_buckets")?,
        reach: reach.unwrap_or(max_position_embeddings),
    };
    let is_relative = config.bool_or("relative_attention", false)?;
    Ok(DisentangledConfig {
        sizes,
        distances: is_relative.then_some(distances),
        to_position,
        from_position,
        shares_projections: config.bool_or("share_att_key", false)?,
        position_dropout,
    })
}

/// Whether `norm_rel_ebd` has a norm for the table of distances, which a model without one has no use for.
fn normalizes_distances(config: &ModelConfig, is_relative: bool) -> Result<bool> {
    const KEY: &str = "norm_rel_ebd";
    let norms = config.string_or(KEY, "none")?.to_lowercase();
    let normalizes = norms.split('|').any(|norm| norm.trim() == "layer_norm");
    if normalizes && !is_relative {
        return Err(config.error(KEY, "expected none, since relative_attention is false"));
    }
    Ok(normalizes)
}

/// Whether `pos_att_type`, a list or names joined by bars, has `c2p` and `p2c`.
fn position_terms(config: &ModelConfig) -> Result<[bool; 2]> {
    const KEY: &str = "pos_att_type";
    const TERMS: [&str; 2] = ["c2p", "p2c"];
    let is_text = config.keys().get(KEY).is_some_and(serde_json::Value::is_string);
    let text = if is_text { config.string_or(KEY, "")?.to_lowercase() } else { String::new() };
    let names: Vec<&str> = match is_text {
        true => text.split('|').map(str::trim).filter(|name| !name.is_empty()).collect(),
        false => config.strings(KEY)?.unwrap_or_default(),
    };
    match names.iter().find(|name| !TERMS.contains(name)) {
        Some(other) => Err(config.error(KEY, format!("expected c2p and p2c, found {other}"))),
        None => Ok(TERMS.map(|term| names.contains(&term))),
    }
}

/// Refuses convolutions, and parts that are not as wide as hidden states.
fn refuse_other_widths(config: &ModelConfig) -> Result<()> {
    if config.count_or("conv_kernel_size", 0)? > 0 {
        let problem = "convolutions are not supported; 0 has none";
        return Err(config.error("conv_kernel_size", problem));
    }
    let hidden = config.size_or("hidden_size", 1536)?;
    let head = hidden / config.size_or("num_attention_heads", 24)?;
    let widths =
        [("embedding_size", hidden), ("pooler_hidden_size", hidden), ("attention_head_size", head)];
    for (key, expected) in widths {
        let found = config.size_or(key, expected)?;
        if found != expected {
            let problem = format!("expected {expected} as hidden_size has it, found {found}");
            return Err(config.error(key, problem));
        }
    }
    Ok(())
}

#[derive(Debug)]
struct Deberta {
    config: DebertaConfig,
    embeddings: Embeddings,
    layers: Vec<Layer>,
    distances: Option<DistanceTable>,
}

/// The vectors of distances, which all layers read.
#[derive(Debug)]
struct DistanceTable {
    /// The name of the table f32[2 A, H].
    weight: String,
    norm: Option<LayerNorm>,
}

impl Deberta {
    fn new(root: &mut ParameterPath<'_>, config: DebertaConfig) -> Deberta {
        let mut path = root.at(PREFIX);
        let embeddings =
            Embeddings::new(path.at("embeddings").in_stage(Stage::Embeddings), &config);
        let layers = (0..config.num_hidden_layers)
            .map(|index| {
                let path = path.at(&format!("encoder.layer.{index}"));
                Layer::new(path.in_stage(Stage::Layer(index)), &config)
            })
            .collect();
        let distances = DistanceTable::new(&mut path.at("encoder"), &config);
        Deberta { config, embeddings, layers, distances }
    }
}

impl DistanceTable {
    fn new(path: &mut ParameterPath<'_>, config: &DebertaConfig) -> Option<DistanceTable> {
        let rows = 2 * config.attention.distances?.span();
        let all = (0..config.num_hidden_layers).map(Stage::Layer);
        let mut table = path.at("rel_embeddings").in_stage(Stage::Layer(0));
        let dims = [rows.into(), config.hidden_size().into()];
        let init = Init::Normal { std: config.std() };
        let weight = table.declare("weight", Role::Embedding, &dims, init);
        table.share_in(all.clone());
        let norm = config.normalizes_distances.then(|| {
            let mut path = path.at("LayerNorm").in_stage(Stage::Layer(0));
            let norm =
                LayerNorm::of_all(true, path.at(""), config.hidden_size(), config.layer_norm_eps);
            path.share_in(all);
            norm
        });
        Some(DistanceTable { weight, norm })
    }

    /// f32[2 A, H], from which each core that shares the layers computes its part.
    fn forward(&self, cx: &Forward<'_>) -> Result<Tensor> {
        let table = cx.parameter(&self.weight)?;
        let table = match &self.norm {
            Some(norm) => norm.forward(cx, &table)?,
            None => table,
        };
        cx.fan_out_copies(table, 1)
    }
}

impl Body for Deberta {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.config.type_vocab_size > 1)
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        Ok(HiddenStates::of(self.embeddings.forward(cx, batch)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let mask = AttentionMask::of_tokens(batch.get("attention_mask")?)?;
        let table = self.distances.as_ref().map(|table| table.forward(cx)).transpose()?;
        let mut x = states.last;
        for index in layers {
            let layer = &self.layers[index];
            x = cx.layer(&format!("layer{index}"), &x, |cx| {
                layer.forward(cx, &x, &mask, table.as_ref())
            })?;
        }
        Ok(HiddenStates::of(x))
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.config.max_position_embeddings
    }

    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let hidden = self.config.hidden_size();
        let layer = flops::EncoderLayer {
            hidden_size: hidden,
            intermediate_size: self.config.intermediate_size,
        };
        let positions = lengths.positions as f64;
        let attention = &self.config.attention;
        let terms = [attention.to_position, attention.from_position];
        let terms = terms.into_iter().filter(|has| *has && attention.distances.is_some()).count();
        // Each term projects and compares the vectors of all distances.
        let distances = 2.0 * positions - 1.0;
        let term = distances * flops::dot(hidden as f64, hidden as f64)
            + positions * flops::dot(distances, hidden as f64);
        let layer = layer.forward(lengths.positions) + terms as f64 * term;
        self.layers.len() as f64 * layer
    }
}

/// `DebertaV2Embeddings`: states of padding are zeros.
#[derive(Debug)]
struct Embeddings {
    words: Embedding,
    positions: Option<PositionEmbedding>,
    segments: Option<Embedding>,
    norm: LayerNorm,
    dropout: f64,
}

impl Embeddings {
    fn new(mut path: ParameterPath<'_>, config: &DebertaConfig) -> Embeddings {
        let (hidden, std) = (config.hidden_size(), config.std());
        let (vocabulary, padding) = (Dimension::vocabulary(config.vocab_size), config.pad_token_id);
        let words = path.at("word_embeddings");
        let words = Embedding::with_padding(words, vocabulary, hidden, std, padding);
        let rows = config.max_position_embeddings;
        let positions = config
            .position_biased_input
            .then(|| PositionEmbedding::new(path.at("position_embeddings"), rows, hidden, std));
        let segments = (config.type_vocab_size > 0).then(|| {
            let path = path.at("token_type_embeddings");
            Embedding::new(path, config.type_vocab_size, hidden, std)
        });
        let norm = config.layer_norm(path.at("LayerNorm"));
        Embeddings { words, positions, segments, norm, dropout: config.dropout }
    }

    /// [B S, H].
    fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?;
        if let Some(positions) = &self.positions {
            sum = sum.add(&positions.forward(cx, ids.dims()[1])?)?;
        }
        if let Some(segments) = &self.segments {
            sum = sum.add(&match batch.optional("token_type_ids") {
                Some(ids) => segments.forward(cx, ids)?,
                None => segments.first_row(cx)?,
            })?;
        }
        let normal = self.norm.forward(cx, &flatten_tokens(&sum)?)?;
        let present = cx.own_positions(batch.get("attention_mask")?, 1)?;
        let present = present.reshape(&[normal.dims()[0], 1])?.convert(DType::F32)?;
        dropout(cx, &normal.mul(&present)?, self.dropout)
    }
}

/// `DebertaV2Layer`.
#[derive(Debug)]
struct Layer {
    attention: DisentangledAttention,
    attention_output: Residual,
    intermediate: Linear,
    activation: Activation,
    output: Residual,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, config: &DebertaConfig) -> Layer {
        let hidden = config.hidden_size();
        let heads = Dimension::heads(hidden, config.attention.sizes.num_heads, 1);
        let inner = Dimension::features(config.intermediate_size);
        Layer {
            attention: DisentangledAttention::new(path.at("attention.self"), &config.attention),
            attention_output: Residual {
                dense: config.linear(path.at("attention.output.dense"), heads, hidden),
                norm: config.layer_norm(path.at("attention.output.LayerNorm")),
                dropout: config.dropout,
            },
            intermediate: config.linear(path.at("intermediate.dense"), hidden, inner),
            activation: config.hidden_act,
            output: Residual {
                dense: config.linear(path.at("output.dense"), inner, hidden),
                norm: config.layer_norm(path.at("output.LayerNorm")),
                dropout: config.dropout,
            },
        }
    }

    /// `x` [B S, H] to [B S, H].
    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        distances: Option<&Tensor>,
    ) -> Result<Tensor> {
        let attended = self.attention.forward(cx, x, mask, distances)?;
        let x = self.attention_output.forward(cx, &attended, x)?;
        let inner = self.intermediate.forward(cx, &cx.fan_out(&x)?)?;
        self.output.forward(cx, &self.activation.forward(&inner)?, &x)
    }
}
