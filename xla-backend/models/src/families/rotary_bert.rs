//! BERT with rotary positions and gated feed-forward networks: the layers of Nomic BERT and of GTE. A family gives
//! names, defaults, and which layers have biases.
//!
//! B rows, S positions, H `hidden_size`, N heads, D head size, C labels, V `vocab_size`.

use std::ops::Range;

use traind_xla::{DType, Tensor};

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::family::{Family, FamilyModel};
use crate::flops;
use crate::heads::{
    EmbeddingHead, MaskedLmHead, MaskedLmNames, MaskedLmSizes, PooledClassifier, Pooling, Predicts,
    TokenClassifier, Transform,
};
use crate::layers::{
    Activation, AttentionMask, Embedding, GateNames, GatedMlp, GatedMlpConfig, HeadCounts, Heads,
    LayerNorm, Linear, ProjectionNames, Projections, Rotary, RotaryTable, Window, attend_heads,
    check_heads, dropout, flatten_tokens, split_heads, with_noise,
};
use crate::model::{Batch, Body, Forward, Head, HiddenStates, InputSpec, Lengths, Model};
use crate::parameters::{Dimension, ParameterPath, Stage};
use crate::rope;
use crate::tasks::{SequenceClassification, Task};

/// The keys of their `config.json` that bear on the computation.
#[rustfmt::skip]
const KEYS: &[&str] = &[
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "head_dim",
    "intermediate_size", "hidden_act", "hidden_dropout_prob", "attention_probs_dropout_prob",
    "max_position_embeddings", "type_vocab_size", "initializer_range", "layer_norm_eps",
    "pad_token_id", "classifier_dropout", "rope_parameters", "rope_scaling", "rope_theta",
    "tie_word_embeddings",
];

/// A family of such encoders.
#[derive(Debug)]
pub(crate) struct RotaryBertFamily {
    pub(super) model_type: &'static str,
    /// The beginning of the classes' names in transformers.
    pub(super) class: &'static str,
    /// The name of the body in a model with a head.
    pub(super) prefix: &'static str,
    /// The name of the dense layer behind the first token, which classifiers of rows have.
    pub(super) pooler: &'static str,
    pub(super) names: LayerNames,
    pub(super) masked_lm: MaskedLmNames,
    /// The activation of the head of masked language models, where it is not that of the layers.
    pub(super) masked_lm_activation: Option<Activation>,
    /// Whether attention, and the output of feed-forward networks, have biases.
    pub(super) has_biases: bool,
    /// Whether feed-forward networks drop the product of gate and factor.
    pub(super) drops_features: bool,
    pub(super) defaults: Defaults,
}

/// The names of layers and of what is in them, as models on the hub have them and transformers saves them.
#[derive(Clone, Copy, Debug)]
pub(super) struct LayerNames {
    pub embedding_norm: &'static str,
    pub layers: &'static str,
    pub attention: &'static str,
    /// Queries, keys and values in one matrix.
    pub projections: &'static str,
    pub output: &'static str,
    /// The norms behind the attention and behind the feed-forward network.
    pub norms: [&'static str; 2],
    pub gate: GateNames,
    pub down: &'static str,
}

/// Transformers' defaults of keys that differ between families.
#[derive(Clone, Copy, Debug)]
pub(super) struct Defaults {
    pub vocab_size: usize,
    pub hidden_act: &'static str,
    pub hidden_dropout: f64,
    pub max_position_embeddings: usize,
    pub type_vocab_size: usize,
    pub pad_token_id: usize,
    pub theta: f64,
}

impl Family for RotaryBertFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(RotaryBertConfig::resolve(self, config)?.max_position_embeddings)
    }

    /// Transformers has no classes of these that answer questions.
    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        type Build = fn(&RotaryBertFamily, ModelConfig) -> Result<Model>;
        let (class, build): (_, Build) = match task {
            Task::SequenceClassification => {
                ("ForSequenceClassification", Self::sequence_classification)
            }
            Task::TokenClassification => ("ForTokenClassification", Self::token_classification),
            Task::MaskedLm => ("ForMaskedLM", Self::masked_lm),
            Task::Embedding => ("Model", Self::embedding),
            Task::QuestionAnswering
            | Task::CausalLm
            | Task::Seq2SeqLm
            | Task::ImageClassification => return None,
        };
        let architecture = format!("{}{class}", self.class);
        Some(FamilyModel::new(architecture, move |config| build(self, config)))
    }
}

impl RotaryBertFamily {
    /// Logits f32[B, C].
    fn sequence_classification(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let (hidden, std) = (bert.hidden_size, bert.initializer_range);
            let task = SequenceClassification::new(config)?;
            Ok(PooledClassifier {
                pooling: Pooling::First,
                input_dropout: 0.0,
                transform: Transform {
                    dense: Linear::new(root.at(self.pooler), hidden, hidden, std),
                    activation: Activation::Tanh,
                    norm: None,
                    widths: [hidden; 2],
                },
                dropout: bert.classifier_dropout,
                classifier: Linear::new(root.at("classifier"), hidden, task.num_labels, std),
                task,
            })
        })
    }

    /// Logits f32[B, S, C].
    fn token_classification(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let (labels, std) = (config.num_labels()?, bert.initializer_range);
            Ok(TokenClassifier::new(root, bert.hidden_size, std, labels, bert.classifier_dropout))
        })
    }

    /// Logits f32[B, S, V].
    fn masked_lm(&self, config: ModelConfig) -> Result<Model> {
        self.with_head(config, |config, bert, root| {
            let sizes = MaskedLmSizes {
                hidden_size: bert.hidden_size,
                embedding_size: bert.hidden_size,
                vocab_size: bert.vocab_size,
                layer_norm_eps: bert.layer_norm_eps,
                init: bert.initializer_range.into(),
                dense_bias: true,
                norm_bias: true,
                decoder_bias: true,
            };
            let activation = self.masked_lm_activation.unwrap_or(bert.hidden_act);
            MaskedLmHead::new(root, &self.masked_lm, config, &sizes, activation, Predicts::Itself)
        })
    }

    /// Embeddings f32[B, D].
    fn embedding(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let bert = RotaryBertConfig::resolve(self, config)?;
            let hidden_size = bert.hidden_size;
            let body = RotaryBert::new(&mut root.at("").as_base_model(self.prefix), bert);
            Ok((body, EmbeddingHead::new(root, config, hidden_size)?))
        })
    }

    /// The model with a head.
    fn with_head<H: Head + 'static>(
        &self,
        config: ModelConfig,
        head: impl FnOnce(&ModelConfig, &RotaryBertConfig, &mut ParameterPath<'_>) -> Result<H>,
    ) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let bert = RotaryBertConfig::resolve(self, config)?;
            let body = RotaryBert::new(root, bert.clone());
            Ok((body, head(config, &bert, root)?))
        })
    }
}

/// A config, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
struct RotaryBertConfig {
    prefix: &'static str,
    names: LayerNames,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    head_dim: usize,
    intermediate_size: usize,
    hidden_act: Activation,
    hidden_dropout: f64,
    mlp_dropout: f64,
    attention_dropout: f64,
    max_position_embeddings: usize,
    /// None where tokens have no segments.
    type_vocab_size: Option<usize>,
    initializer_range: f64,
    layer_norm_eps: f64,
    pad_token_id: Option<usize>,
    classifier_dropout: f64,
    rotary: Rotary,
    has_biases: bool,
}

impl RotaryBertConfig {
    fn resolve(family: &RotaryBertFamily, config: &ModelConfig) -> Result<RotaryBertConfig> {
        let defaults = family.defaults;
        let vocab_size = config.size_or("vocab_size", defaults.vocab_size)?;
        let hidden_size = config.size_or("hidden_size", 768)?;
        let num_attention_heads = config.size_or("num_attention_heads", 12)?;
        let head_dim = match config.optional_size("head_dim")? {
            Some(head_dim) => head_dim,
            None => {
                check_heads(config, "num_attention_heads", num_attention_heads, hidden_size)?;
                hidden_size / num_attention_heads
            }
        };
        let hidden_dropout = config.dropout_or("hidden_dropout_prob", defaults.hidden_dropout)?;
        Ok(RotaryBertConfig {
            prefix: family.prefix,
            names: family.names,
            vocab_size,
            hidden_size,
            num_hidden_layers: config.size_or("num_hidden_layers", 12)?,
            num_attention_heads,
            head_dim,
            intermediate_size: config.size_or("intermediate_size", 3072)?,
            hidden_act: Activation::from_config(config, "hidden_act", defaults.hidden_act)?,
            hidden_dropout,
            mlp_dropout: if family.drops_features { hidden_dropout } else { 0.0 },
            attention_dropout: config.dropout_or("attention_probs_dropout_prob", 0.0)?,
            max_position_embeddings: config
                .size_or("max_position_embeddings", defaults.max_position_embeddings)?,
            type_vocab_size: match config.keys().contains_key("type_vocab_size") {
                true => config.size_above_zero("type_vocab_size")?,
                false => Some(defaults.type_vocab_size),
            },
            initializer_range: config.positive_or("initializer_range", 0.02)?,
            layer_norm_eps: config.positive_or("layer_norm_eps", 1e-12)?,
            pad_token_id: config.token_id_or("pad_token_id", vocab_size, defaults.pad_token_id)?,
            classifier_dropout: config.dropout_or("classifier_dropout", hidden_dropout)?,
            rotary: rope::resolve(config, head_dim, defaults.theta)?,
            has_biases: family.has_biases,
        })
    }

    fn norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.hidden_size, self.layer_norm_eps)
    }
}

#[derive(Debug)]
struct RotaryBert {
    config: RotaryBertConfig,
    words: Embedding,
    segments: Option<Embedding>,
    embedding_norm: LayerNorm,
    layers: Vec<Layer>,
}

impl RotaryBert {
    fn new(root: &mut ParameterPath<'_>, config: RotaryBertConfig) -> RotaryBert {
        let mut path = root.at(config.prefix);
        let (hidden, std) = (config.hidden_size, config.initializer_range);
        let mut embeddings = path.at("embeddings").in_stage(Stage::Embeddings);
        let vocabulary = Dimension::vocabulary(config.vocab_size);
        let words = embeddings.at("word_embeddings");
        let words = Embedding::with_padding(words, vocabulary, hidden, std, config.pad_token_id);
        let segments = config
            .type_vocab_size
            .map(|rows| Embedding::new(embeddings.at("token_type_embeddings"), rows, hidden, std));
        let embedding_norm = path.at(config.names.embedding_norm).in_stage(Stage::Embeddings);
        let embedding_norm = config.norm(embedding_norm);
        let layers = path.layers(config.names.layers, 0..config.num_hidden_layers, |path, _| {
            Layer::new(path, &config)
        });
        RotaryBert { config, words, segments, embedding_norm, layers }
    }
}

impl Body for RotaryBert {
    fn prefix(&self) -> &'static str {
        self.config.prefix
    }

    fn inputs(&self) -> Vec<InputSpec> {
        InputSpec::of_tokens(self.config.type_vocab_size.is_some_and(|segments| segments > 1))
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let ids = batch.get("input_ids")?;
        let (positions, max_positions) = (ids.dims()[1], self.max_positions());
        if positions > max_positions {
            return Err(Error::TooManyPositions { positions, max_positions });
        }
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?;
        if let Some(segments) = &self.segments {
            sum = sum.add(&match batch.optional("token_type_ids") {
                Some(ids) => segments.forward(cx, ids)?,
                None => segments.first_row(cx)?,
            })?;
        }
        let normal = self.embedding_norm.forward(cx, &flatten_tokens(&sum)?)?;
        Ok(HiddenStates::of(dropout(cx, &normal, self.config.hidden_dropout)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let present = batch.get("attention_mask")?;
        let table = self.config.rotary.table(cx, present.dims()[1], None)?;
        let mask = Window::All.mask(cx, present)?;
        let x = cx.layers("layer", layers, states.last, |cx, index, x| {
            self.layers[index].forward(cx, x, &mask, &table)
        })?;
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
        let width = self.config.num_attention_heads * self.config.head_dim;
        let layer = flops::DecoderLayer {
            hidden_size: self.config.hidden_size,
            intermediate_size: self.config.intermediate_size,
            queries_size: width,
            keys_size: width,
        };
        self.layers.len() as f64 * layer.forward(lengths.positions)
    }
}

/// `NomicBertLayer` and `GteLayer`.
#[derive(Debug)]
struct Layer {
    projections: Projections,
    heads: Heads,
    head_dim: usize,
    output: Linear,
    attention_norm: LayerNorm,
    mlp: GatedMlp,
    mlp_norm: LayerNorm,
    dropout: f64,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, config: &RotaryBertConfig) -> Layer {
        let (hidden, std) = (config.hidden_size, config.initializer_range);
        let (heads, head_dim) = (config.num_attention_heads, config.head_dim);
        let counts = HeadCounts { queries: heads, keys: heads, head_size: head_dim };
        let names = config.names;
        let attention_norm = config.norm(path.at(names.norms[0]));
        let mlp = GatedMlpConfig {
            hidden_size: hidden,
            intermediate_size: config.intermediate_size,
            activation: config.hidden_act,
            biases: [false, config.has_biases],
            dropout: config.mlp_dropout,
            inits: [std.into(); 2],
        };
        let mlp = GatedMlp::new(path.at("mlp"), names.gate, names.down, &mlp);
        let mlp_norm = config.norm(path.at(names.norms[1]));
        let mut attention = path.at(names.attention);
        let joined = ProjectionNames::Joined(names.projections);
        let projections =
            Projections::new(&mut attention, joined, hidden, counts, config.has_biases, std);
        let output = attention.at(names.output);
        Layer {
            projections,
            heads: Heads {
                num_heads: heads,
                scale: (head_dim as f64).powf(-0.5),
                score_cap: None,
                dropout: config.attention_dropout,
            },
            head_dim,
            output: Linear::with_bias_if(
                config.has_biases,
                output,
                counts.query_width(),
                hidden,
                std,
            ),
            attention_norm,
            mlp,
            mlp_norm,
            dropout: config.hidden_dropout,
        }
    }

    /// `x` [B S, H] to [B S, H].
    fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let attended = self.attend(cx, x, mask, table)?;
        let x = self.attention_norm.forward_sum(cx, &attended, x, self.dropout)?;
        let inner = self.mlp.forward(cx, &x)?;
        self.mlp_norm.forward_sum(cx, &inner, &x, self.dropout)
    }

    fn attend(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        mask: &AttentionMask,
        table: &RotaryTable,
    ) -> Result<Tensor> {
        let [query, key, value] = self.projections.forward(cx, &cx.fan_out(x)?)?;
        // This core's heads.
        let split = |x: &Tensor| split_heads(x, mask.rows(), x.dims()[1] / self.head_dim);
        let turned = |x: &Tensor| -> Result<Tensor> {
            Ok(table.rotate(&split(x)?)?.convert(cx.compute_dtype())?)
        };
        let states = [&turned(&query)?, &turned(&key)?, &split(&value)?];
        let states = attend_heads(cx, states, mask, &self.heads)?;
        Ok(self.output.forward(cx, &states)?.convert(DType::F32)?)
    }
}
