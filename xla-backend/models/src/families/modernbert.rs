//! ModernBERT (Warner et al., 2024), as transformers' `ModernBertModel` computes it: rotary positions, of
//! which layers that see their neighbours alone have other ones, gated feed-forward networks, and norms
//! before both parts of a layer.
//!
//! B rows, S positions, H `hidden_size`, N heads, D head size, C labels, V `vocab_size`.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use super::layer_types::local_layers;
use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::flops;
use crate::heads::{
    EmbeddingHead, MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Pooling, Predicts,
    SPAN_SCORES, SpanHead, TokenClassifier, Transform,
};
use crate::layers::{
    Activation, AttentionMask, ByKind, Embedding, GateNames, GatedMlp, GatedMlpConfig, HeadCounts,
    Heads, LayerNorm, Linear, ProjectionNames, Projections, Rotary, RotaryTable, Window,
    add_dropped, attend_heads, check_heads, check_positions, dropout, flatten_tokens, split_heads,
    with_noise,
};
use crate::model::{Batch, Body, Forward, Head, HiddenStates, InputSpec, Lengths, Model};
use crate::parameters::{Dimension, Init, ParameterPath, Stage};
use crate::rope::{self, LayerKind};
use crate::tasks::{SequenceClassification, Task};

/// The keys of a ModernBERT `config.json` that bear on its computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "hidden_activation", "max_position_embeddings", "initializer_range",
    "initializer_cutoff_factor", "norm_eps", "norm_bias", "pad_token_id", "attention_bias",
    "attention_dropout", "layer_types", "global_attn_every_n_layers", "local_attention",
    "rope_parameters", "rope_scaling", "global_rope_theta", "local_rope_theta",
    "embedding_dropout", "mlp_bias", "mlp_dropout", "decoder_bias", "classifier_pooling",
    "classifier_dropout", "classifier_bias", "classifier_activation", "tie_word_embeddings",
];

/// The name of the body in a model with a head.
const PREFIX: &str = "model";

const MASKED_LM: MaskedLmNames = MaskedLmNames {
    dense: "head.dense",
    norm: "head.norm",
    words: "model.embeddings.tok_embeddings.weight",
    bias: "decoder.bias",
    decoder_weight: "decoder.weight",
    decoder_bias: None,
};

const GLOBAL: LayerKind = LayerKind {
    section: Some("full_attention"),
    theta_key: "global_rope_theta",
    theta: 160_000.0,
    is_scaled: true,
};
const LOCAL: LayerKind = LayerKind {
    section: Some("sliding_attention"),
    theta_key: "local_rope_theta",
    theta: 10_000.0,
    is_scaled: true,
};

pub(crate) const FAMILY: ModernBertFamily = ModernBertFamily;

#[derive(Debug)]
pub(crate) struct ModernBertFamily;

impl Family for ModernBertFamily {
    fn model_type(&self) -> &'static str {
        "modernbert"
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(ModernBertConfig::resolve(config)?.max_position_embeddings)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        let (class, build): (_, fn(ModelConfig) -> _) = match task {
            Task::SequenceClassification => ("ForSequenceClassification", sequence_classification),
            Task::TokenClassification => ("ForTokenClassification", token_classification),
            Task::QuestionAnswering => ("ForQuestionAnswering", question_answering),
            Task::MaskedLm => ("ForMaskedLM", masked_lm),
            Task::Embedding => ("Model", embedding),
            Task::CausalLm | Task::Seq2SeqLm | Task::ImageClassification => return None,
        };
        Some(FamilyModel::new(format!("ModernBert{class}"), build))
    }
}

/// Logits f32[B, C].
fn sequence_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let task = SequenceClassification::new(config)?;
        Ok(PooledClassifier {
            pooling: modern.pooling,
            input_dropout: 0.0,
            transform: modern.transform(root),
            dropout: modern.classifier_dropout,
            classifier: modern.classifier(root, task.num_labels),
            task,
        })
    })
}

/// Logits f32[B, S, C].
fn token_classification(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let (transform, init) = (modern.transform(root), modern.inits().classifier);
        let (labels, dropout) = (config.num_labels()?, modern.classifier_dropout);
        let classifier = TokenClassifier::new(root, modern.hidden_size, init, labels, dropout);
        Ok(classifier.behind(transform))
    })
}

/// Logits f32[B, S, 2]. Transformers wants the two to be the labels.
fn question_answering(mut config: ModelConfig) -> Result<Model> {
    config.set_num_labels(SPAN_SCORES);
    with_head(config, |_, modern, root| {
        let (transform, dropout) = (modern.transform(root), modern.classifier_dropout);
        Ok(SpanHead::behind(transform, dropout, modern.classifier(root, SPAN_SCORES)))
    })
}

/// Logits f32[B, S, V].
fn masked_lm(config: ModelConfig) -> Result<Model> {
    with_head(config, |config, modern, root| {
        let sizes = MaskedLmSizes {
            hidden_size: modern.hidden_size,
            embedding_size: modern.hidden_size,
            vocab_size: modern.vocab_size,
            layer_norm_eps: modern.norm_eps,
            init: modern.inits().output,
            dense_bias: modern.classifier_bias,
            norm_bias: modern.norm_bias,
            decoder_bias: modern.decoder_bias,
        };
        let activation = modern.classifier_activation;
        MaskedLmHead::new(root, &MASKED_LM, config, &sizes, activation, Predicts::Itself)
    })
}

/// Embeddings f32[B, D].
fn embedding(config: ModelConfig) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let modern = ModernBertConfig::resolve(config)?;
        let hidden_size = modern.hidden_size;
        let body = ModernBert::new(&mut root.at("").as_base_model(PREFIX), modern);
        Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
    })
}

/// The model with a head.
fn with_head<H: Head + 'static>(
    config: ModelConfig,
    head: impl FnOnce(&ModelConfig, &ModernBertConfig, &mut ParameterPath<'_>) -> Result<H>,
) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let modern = ModernBertConfig::resolve(config)?;
        let body = ModernBert::new(root, modern.clone());
        Ok((body, head(config, &modern, root)?))
    })
}

/// `ModernBertConfig`, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
struct ModernBertConfig {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_attention_heads: usize,
    hidden_activation: Activation,
    max_position_embeddings: usize,
    initializer_range: f64,
    initializer_cutoff_factor: f64,
    norm_eps: f64,
    norm_bias: bool,
    pad_token_id: Option<usize>,
    attention_bias: bool,
    attention_dropout: f64,
    /// The keys that the queries of each layer see.
    windows: Vec<Window>,
    /// The rotary embedding of each layer.
    rotaries: Vec<Rotary>,
    embedding_dropout: f64,
    mlp_bias: bool,
    mlp_dropout: f64,
    decoder_bias: bool,
    pooling: Pooling,
    classifier_dropout: f64,
    classifier_bias: bool,
    classifier_activation: Activation,
}

/// How the weights of layers are drawn.
struct Inits {
    input: Init,
    output: Init,
    classifier: Init,
}

impl ModernBertConfig {
    fn resolve(config: &ModelConfig) -> Result<ModernBertConfig> {
        let vocab_size = config.size_or("vocab_size", 50_368)?;
        let hidden_size = config.size_or("hidden_size", 768)?;
        let num_attention_heads = config.size_or("num_attention_heads", 12)?;
        check_heads(config, "num_attention_heads", num_attention_heads, hidden_size)?;
        let layers = config.size_or("num_hidden_layers", 22)?;
        let interval = config.size_or("global_attn_every_n_layers", 3)?;
        let is_local = local_layers(config, layers, |layer| !layer.is_multiple_of(interval))?;
        let reach = Window::Symmetric(config.size_or("local_attention", 128)? / 2);
        let head_size = hidden_size / num_attention_heads;
        let rotaries = rope::resolve_by_window(config, head_size, &is_local, [&GLOBAL, &LOCAL])?;
        Ok(ModernBertConfig {
            vocab_size,
            hidden_size,
            intermediate_size: config.size_or("intermediate_size", 1152)?,
            num_attention_heads,
            hidden_activation: Activation::from_config(config, "hidden_activation", "gelu")?,
            max_position_embeddings: config.size_or("max_position_embeddings", 8192)?,
            initializer_range: config.positive_or("initializer_range", 0.02)?,
            initializer_cutoff_factor: cutoff_factor(config)?,
            norm_eps: config.positive_or("norm_eps", 1e-5)?,
            norm_bias: config.bool_or("norm_bias", false)?,
            pad_token_id: config.token_id_or("pad_token_id", vocab_size, 50_283)?,
            attention_bias: config.bool_or("attention_bias", false)?,
            attention_dropout: config.dropout_or("attention_dropout", 0.0)?,
            rotaries,
            windows: is_local.iter().map(|it| if *it { reach } else { Window::All }).collect(),
            embedding_dropout: config.dropout_or("embedding_dropout", 0.0)?,
            mlp_bias: config.bool_or("mlp_bias", false)?,
            mlp_dropout: config.dropout_or("mlp_dropout", 0.0)?,
            decoder_bias: config.bool_or("decoder_bias", true)?,
            pooling: pooling(config)?,
            classifier_dropout: config.dropout_or("classifier_dropout", 0.0)?,
            classifier_bias: config.bool_or("classifier_bias", false)?,
            classifier_activation: Activation::from_config(
                config,
                "classifier_activation",
                "gelu",
            )?,
        })
    }

    fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    fn num_hidden_layers(&self) -> usize {
        self.windows.len()
    }

    fn inits(&self) -> Inits {
        let normal = |std| Init::TruncatedNormal { std, cutoff: self.initializer_cutoff_factor };
        let std = self.initializer_range;
        Inits {
            input: normal(std),
            output: normal(std / (2.0 * self.num_hidden_layers() as f64).sqrt()),
            classifier: normal((self.hidden_size as f64).powf(-0.5)),
        }
    }

    fn norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::with_bias_if(self.norm_bias, path, self.hidden_size, self.norm_eps)
    }

    /// `ModernBertPredictionHead`, of states that all cores have.
    fn transform(&self, root: &mut ParameterPath<'_>) -> Transform {
        let (width, init) = (self.hidden_size, self.inits().output);
        let dense = root.at("head.dense");
        Transform {
            dense: Linear::with_bias_if(self.classifier_bias, dense, width, width, init),
            activation: self.classifier_activation,
            norm: Some(LayerNorm::of_all(
                self.norm_bias,
                root.at("head.norm"),
                width,
                self.norm_eps,
            )),
            widths: [width; 2],
        }
    }

    fn classifier(&self, root: &mut ParameterPath<'_>, outputs: usize) -> Linear {
        Linear::new(root.at("classifier"), self.hidden_size, outputs, self.inits().classifier)
    }
}

/// `initializer_cutoff_factor`, which is 3 where it is null.
fn cutoff_factor(config: &ModelConfig) -> Result<f64> {
    const KEY: &str = "initializer_cutoff_factor";
    config.positive_or(KEY, if config.is_null(KEY) { 3.0 } else { 2.0 })
}

fn pooling(config: &ModelConfig) -> Result<Pooling> {
    const KEY: &str = "classifier_pooling";
    match config.string_or(KEY, "cls")? {
        "cls" => Ok(Pooling::First),
        "mean" => Ok(Pooling::Mean),
        other => Err(config.error(KEY, format!("expected cls or mean, found {other}"))),
    }
}

#[derive(Debug)]
struct ModernBert {
    config: ModernBertConfig,
    words: Embedding,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
    norm: LayerNorm,
}

impl ModernBert {
    fn new(root: &mut ParameterPath<'_>, config: ModernBertConfig) -> ModernBert {
        let mut path = root.at(PREFIX);
        let mut embeddings = path.at("embeddings").in_stage(Stage::Embeddings);
        let words = Embedding::with_padding(
            embeddings.at("tok_embeddings"),
            Dimension::vocabulary(config.vocab_size),
            config.hidden_size,
            config.inits().input,
            config.pad_token_id,
        );
        let embedding_norm = config.norm(embeddings.at("norm"));
        let layers = path.layers("layers", 0..config.num_hidden_layers(), |path, index| {
            Layer::new(path, index, &config)
        });
        let norm = config.norm(path.at("final_norm"));
        ModernBert { config, words, embedding_norm, layers, norm }
    }
}

impl Body for ModernBert {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(false)
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn traces_alike(&self, layer: usize, other: usize) -> bool {
        let has_norm = |layer: usize| self.layers[layer].attention_norm.is_some();
        self.config.windows[layer] == self.config.windows[other]
            && self.config.rotaries[layer] == self.config.rotaries[other]
            && has_norm(layer) == has_norm(other)
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let ids = batch.get("input_ids")?;
        check_positions(ids.dims()[1], self.max_positions())?;
        let words = with_noise(cx, &flatten_tokens(&self.words.forward(cx, ids)?)?)?;
        let normal = self.embedding_norm.forward(cx, &words)?;
        Ok(HiddenStates::of(dropout(cx, &normal, self.config.embedding_dropout)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let present = batch.get("attention_mask")?;
        let ModernBertConfig { windows, rotaries, .. } = &self.config;
        let tables = ByKind::new(&rotaries[layers.clone()], |rotary| {
            rotary.table(cx, present.dims()[1], None)
        })?;
        let masks = ByKind::new(&windows[layers.clone()], |window| window.mask(cx, present))?;
        let x = cx.layers("layer", layers, states.last, |cx, index, x| {
            let (mask, table) = (masks.get(&windows[index]), tables.get(&rotaries[index]));
            self.layers[index].forward(cx, x, mask, table)
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.norm.forward(cx, &states.last)
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

    /// The scores of all pairs are computed, also of those that a window hides.
    fn forward_flops(&self, lengths: Lengths) -> f64 {
        let layer = flops::DecoderLayer {
            hidden_size: self.config.hidden_size,
            intermediate_size: self.config.intermediate_size,
            queries_size: self.config.hidden_size,
            keys_size: self.config.hidden_size,
        };
        self.layers.len() as f64 * layer.forward(lengths.positions)
    }
}

/// `ModernBertEncoderLayer`.
#[derive(Debug)]
struct Layer {
    /// None in the first layer, whose input is normalized.
    attention_norm: Option<LayerNorm>,
    projections: Projections,
    heads: Heads,
    head_size: usize,
    output: Linear,
    mlp_norm: LayerNorm,
    mlp: GatedMlp,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, index: usize, config: &ModernBertConfig) -> Layer {
        let attention_norm = (index > 0).then(|| config.norm(path.at("attn_norm")));
        let (hidden, heads, head_size) =
            (config.hidden_size, config.num_attention_heads, config.head_size());
        let (inits, bias) = (config.inits(), config.attention_bias);
        let counts = HeadCounts { queries: heads, keys: heads, head_size };
        let mut attention = path.at("attn");
        let names = ProjectionNames::Joined("Wqkv");
        let projections =
            Projections::new(&mut attention, names, hidden, counts, bias, inits.input);
        let output = attention.at("Wo");
        let output = Linear::with_bias_if(bias, output, counts.query_width(), hidden, inits.output);
        let mlp_norm = config.norm(path.at("mlp_norm"));
        let mlp = GatedMlpConfig {
            hidden_size: hidden,
            intermediate_size: config.intermediate_size,
            activation: config.hidden_activation,
            biases: [config.mlp_bias; 2],
            dropout: config.mlp_dropout,
            inits: [inits.input, inits.output],
        };
        let scale = (head_size as f64).powf(-0.5);
        let dropout = config.attention_dropout;
        Layer {
            attention_norm,
            projections,
            heads: Heads { num_heads: heads, scale, score_cap: None, dropout },
            head_size,
            output,
            mlp_norm,
            mlp: GatedMlp::new(path.at("mlp"), GateNames::Joined("Wi"), "Wo", &mlp),
        }
    }

    /// f32[B S, H] to f32[B S, H].
    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let normal = match &self.attention_norm {
            Some(norm) => norm.forward(cx, x)?,
            None => x.clone(),
        };
        let attended = self.attend(cx, &normal, mask, table)?;
        let x = add_dropped(cx, x, &attended, self.heads.dropout)?;
        let inner = self.mlp.forward(cx, &self.mlp_norm.forward(cx, &x)?)?;
        Ok(x.add(&inner.convert(DType::F32)?)?)
    }

    fn attend(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let projected = self.projections.forward(cx, &cx.fan_out(x)?)?;
        // This core's heads.
        let split = |x: &Tensor| split_heads(x, mask.rows(), x.dims()[1] / self.head_size);
        let turned = |x: &Tensor| -> Result<Tensor> {
            Ok(table.rotate(&split(x)?)?.convert(cx.compute_dtype())?)
        };
        let [query, key, value] = &projected;
        let states = [&turned(query)?, &turned(key)?, &split(value)?];
        self.output.forward(cx, &attend_heads(cx, states, mask, &self.heads)?)
    }
}
