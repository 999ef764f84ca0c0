//! GPT-2 (Radford et al., 2019), as transformers' `GPT2Model` computes it:
//! norms stand before attention and feed-forward network, and a token sees
//! none behind itself.
//!
//! B rows, S positions, H `n_embd`, C labels, V `vocab_size`.

use std::ops::Range;

use traind_xla::Tensor;

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::flops;
use crate::heads::{
    CausalLmHead, LastTokenClassifier, LogitsTransform, SPAN_SCORES, SpanHead, TokenClassifier,
    lm_head,
};
use crate::layers::{
    Activation, AttentionMask, Conv1d, Embedding, Heads, LayerNorm, Linear, PositionEmbedding,
    Window, add_dropped, attend, check_heads, dropout, flatten_tokens, with_noise, within_texts,
    without_padding,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputSpec, Lengths, Model};
use crate::parameters::{Dimension, ParameterPath, Stage};
use crate::tasks::{SequenceClassification, Task};

/// The keys of a GPT-2 `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "vocab_size",
    "n_positions",
    "n_embd",
    "n_layer",
    "n_head",
    "n_inner",
    "activation_function",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "layer_norm_epsilon",
    "initializer_range",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "reorder_and_upcast_attn",
    "add_cross_attention",
    "pad_token_id",
    "tie_word_embeddings",
    "classifier_dropout",
    "hidden_dropout",
];

pub(crate) const FAMILY: Gpt2Family = Gpt2Family;

pub(crate) struct Gpt2Family;

impl Family for Gpt2Family {
    fn model_type(&self) -> &'static str {
        "gpt2"
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        Ok(Gpt2Config::resolve(config)?.n_positions)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        match task {
            Task::CausalLm => Some(FamilyModel::new("GPT2LMHeadModel", causal_lm)),
            Task::SequenceClassification => {
                Some(FamilyModel::new("GPT2ForSequenceClassification", sequence_classification))
            }
            Task::TokenClassification => {
                Some(FamilyModel::new("GPT2ForTokenClassification", token_classification))
            }
            Task::QuestionAnswering => {
                Some(FamilyModel::new("GPT2ForQuestionAnswering", question_answering))
            }
            Task::MaskedLm
            | Task::Seq2SeqLm
            | Task::ImageClassification
            | Task::Embedding
            | Task::ReplacedTokenDetection => None,
        }
    }
}

const PREFIX: &str = "transformer";
const WORDS: &str = "transformer.wte.weight";

/// `GPT2Config`, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
struct Gpt2Config {
    vocab_size: usize,
    n_positions: usize,
    n_embd: usize,
    n_layer: usize,
    n_head: usize,
    n_inner: usize,
    activation: Activation,
    resid_pdrop: f64,
    embd_pdrop: f64,
    attn_pdrop: f64,
    layer_norm_epsilon: f64,
    initializer_range: f64,
    scale_attn_weights: bool,
    scale_attn_by_inverse_layer_idx: bool,
}

impl Gpt2Config {
    fn resolve(config: &ModelConfig) -> Result<Gpt2Config> {
        if config.bool_or("add_cross_attention", false)? {
            return Err(config.error("add_cross_attention", "cross attention is not supported"));
        }
        let n_embd = config.size_or("n_embd", 768)?;
        let n_head = config.size_or("n_head", 12)?;
        check_heads(config, "n_head", n_head, n_embd)?;
        Ok(Gpt2Config {
            vocab_size: config.size("vocab_size")?,
            n_positions: config.size_or("n_positions", 1024)?,
            n_embd,
            n_layer: config.size_or("n_layer", 12)?,
            n_head,
            n_inner: config.size_or("n_inner", 4 * n_embd)?,
            activation: Activation::from_config(config, "activation_function", "gelu_new")?,
            resid_pdrop: config.dropout_or("resid_pdrop", 0.1)?,
            embd_pdrop: config.dropout_or("embd_pdrop", 0.1)?,
            attn_pdrop: config.dropout_or("attn_pdrop", 0.1)?,
            layer_norm_epsilon: config.positive_or("layer_norm_epsilon", 1e-5)?,
            initializer_range: config.positive_or("initializer_range", 0.02)?,
            scale_attn_weights: config.bool_or("scale_attn_weights", true)?,
            scale_attn_by_inverse_layer_idx: config
                .bool_or("scale_attn_by_inverse_layer_idx", false)?,
        })
    }

    fn layer_norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.n_embd, self.layer_norm_epsilon)
    }

    fn conv1d(&self, path: ParameterPath<'_>, outputs: Dimension) -> Conv1d {
        Conv1d::new(path, self.n_embd, outputs, self.initializer_range)
    }

    /// A projection that is added to the residual stream, drawn narrower the
    /// more of them there are.
    fn residual(&self, path: ParameterPath<'_>, inputs: Dimension) -> Conv1d {
        let std = self.initializer_range / (2.0 * self.n_layer as f64).sqrt();
        Conv1d::new(path, inputs, self.n_embd, std)
    }

    /// The joined width of as many projections, divided by whole heads.
    fn heads_of(&self, projections: usize) -> Dimension {
        Dimension::heads(projections * self.n_embd, self.n_head, projections)
    }

    fn heads(&self, layer: usize) -> Heads {
        let head_size = (self.n_embd / self.n_head) as f64;
        let by_size = if self.scale_attn_weights { head_size.powf(-0.5) } else { 1.0 };
        let by_layer = if self.scale_attn_by_inverse_layer_idx { layer + 1 } else { 1 };
        Heads {
            num_heads: self.n_head,
            scale: by_size / by_layer as f64,
            score_cap: None,
            dropout: self.attn_pdrop,
        }
    }
}

/// `GPT2Block`.
#[derive(Debug)]
struct Block {
    attention_norm: LayerNorm,
    projections: Conv1d,
    attention_output: Conv1d,
    heads: Heads,
    feed_forward_norm: LayerNorm,
    intermediate: Conv1d,
    activation: Activation,
    output: Conv1d,
    dropout: f64,
}

impl Block {
    fn new(mut path: ParameterPath<'_>, layer: usize, config: &Gpt2Config) -> Block {
        let inner = Dimension::features(config.n_inner);
        Block {
            attention_norm: config.layer_norm(path.at("ln_1")),
            projections: config.conv1d(path.at("attn.c_attn"), config.heads_of(3)),
            attention_output: config.residual(path.at("attn.c_proj"), config.heads_of(1)),
            heads: config.heads(layer),
            feed_forward_norm: config.layer_norm(path.at("ln_2")),
            intermediate: config.conv1d(path.at("mlp.c_fc"), inner),
            activation: config.activation,
            output: config.residual(path.at("mlp.c_proj"), inner),
            dropout: config.resid_pdrop,
        }
    }

    fn forward(&self, cx: &Forward<'_>, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let attended = self.attend(cx, x, mask)?;
        let (x, cx) = (&cx.read_tokens(x)?, &cx.behind_attention());
        let x = add_dropped(cx, x, &attended, self.dropout)?;
        let normal = cx.fan_out(&self.feed_forward_norm.forward(cx, &x)?)?;
        let inner = self.activation.forward(&self.intermediate.forward(cx, &normal)?)?;
        add_dropped(cx, &x, &self.output.forward(cx, &inner)?, self.dropout)
    }

    /// [B S, H], or [R, H] of the tokens that are read, projected.
    fn attend(&self, cx: &Forward<'_>, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let normal = cx.fan_out(&self.attention_norm.forward(cx, x)?)?;
        let projected = self.projections.forward(cx, &normal)?;
        let hidden = projected.dims()[1] / 3;
        let part = |index: usize| projected.slice(1, index * hidden, (index + 1) * hidden);
        let (query, key, value) = (part(0)?, part(1)?, part(2)?);
        let attended = attend(cx, [&query, &key, &value], mask, &self.heads)?;
        self.attention_output.forward(&cx.behind_attention(), &cx.read_tokens(&attended)?)
    }
}

/// `GPT2Model`.
#[derive(Debug)]
struct Gpt2 {
    config: Gpt2Config,
    words: Embedding,
    positions: PositionEmbedding,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

impl Gpt2 {
    fn new(root: &mut ParameterPath<'_>, config: Gpt2Config) -> Gpt2 {
        let mut path = root.at(PREFIX);
        let (hidden, std) = (config.n_embd, config.initializer_range);
        let vocabulary = Dimension::vocabulary(config.vocab_size);
        let words =
            Embedding::new(path.at("wte").in_stage(Stage::Embeddings), vocabulary, hidden, std);
        let positions = PositionEmbedding::new(
            path.at("wpe").in_stage(Stage::Embeddings),
            config.n_positions,
            hidden,
            std,
        );
        let blocks =
            path.layers("h", 0..config.n_layer, |path, layer| Block::new(path, layer, &config));
        let norm = config.layer_norm(path.at("ln_f"));
        Gpt2 { config, words, positions, blocks, norm }
    }

    /// Where a tokenizer gives segments, their numbers are looked up as tokens.
    fn embed(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Tensor> {
        let ids = batch.get("input_ids")?;
        let positions = ids.dims().last().copied().unwrap_or_default();
        let places = match batch.optional("position_ids") {
            Some(position_ids) => self.positions.forward_at(cx, position_ids)?,
            None => self.positions.forward(cx, positions)?,
        };
        let mut sum = with_noise(cx, &self.words.forward(cx, ids)?)?.add(&places)?;
        if let Some(segments) = batch.optional("token_type_ids") {
            sum = sum.add(&with_noise(cx, &self.words.forward(cx, segments)?)?)?;
        }
        dropout(cx, &flatten_tokens(&sum)?, self.config.embd_pdrop)
    }
}

impl Body for Gpt2 {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    /// `input_ids`, `attention_mask` and, where a tokenizer gives them, `token_type_ids`; where
    /// several texts share a row, `position_ids`. Each s32[B, S].
    fn inputs(&self) -> Vec<InputSpec> {
        let vocab_size = self.vocab_size();
        // Segments are rows of the table of words.
        InputSpec::of_texts(vocab_size, Some(vocab_size), self.max_positions())
    }

    fn num_layers(&self) -> usize {
        self.blocks.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        Ok(HiddenStates::of(self.embed(cx, batch)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let mask = Window::Causal(None).mask(cx, batch.get("attention_mask")?)?;
        let mask = within_texts(mask, batch.optional("position_ids"))?;
        let mask = mask.for_reading_padding(batch)?;
        let x = without_padding(cx, batch, &states.last, |cx, packed, x| {
            let mask = mask.of_packed(packed);
            cx.layers("layer", layers, x, |cx, index, x| self.blocks[index].forward(cx, x, &mask))
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.norm.forward(cx, &states.last)
    }

    fn is_generative(&self) -> bool {
        true
    }

    fn packs_tokens(&self) -> bool {
        true
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn max_positions(&self) -> usize {
        self.config.n_positions
    }

    fn leaves_tokens_out(&self) -> bool {
        true
    }

    fn forward_flops(&self, lengths: Lengths, read: Option<usize>) -> f64 {
        let layer = flops::Layer::plain(self.config.n_embd, self.config.n_inner, true);
        layer.stack(self.config.n_layer, lengths.positions, read)
    }
}

/// `GPT2LMHeadModel`: logits f32[B, S, V].
fn causal_lm(config: ModelConfig) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let gpt2 = Gpt2Config::resolve(config)?;
        let (hidden_size, vocab_size) = (gpt2.n_embd, gpt2.vocab_size);
        let std = gpt2.initializer_range;
        let body = Gpt2::new(root, gpt2);
        let tied = config.bool_or("tie_word_embeddings", true)?;
        let decoder = lm_head(root, WORDS, tied, [hidden_size, vocab_size], std);
        let transform = LogitsTransform::default();
        Ok((body, CausalLmHead { decoder, hidden_size, vocab_size, transform }))
    })
}

/// `GPT2ForSequenceClassification`: logits f32[B, C].
fn sequence_classification(config: ModelConfig) -> Result<Model> {
    Model::assemble(config, |config, root| {
        let gpt2 = Gpt2Config::resolve(config)?;
        let task = SequenceClassification::new(config)?;
        let of_config = config.token_id("pad_token_id", gpt2.vocab_size)?;
        let pad_token_id = config.padding_token_or(of_config);
        let (hidden_size, std) = (gpt2.n_embd, gpt2.initializer_range);
        let body = Gpt2::new(root, gpt2);
        let score = Linear::without_bias(root.at("score"), hidden_size, task.num_labels, std);
        Ok((body, LastTokenClassifier { score, pad_token_id, hidden_size, task }))
    })
}

/// `GPT2ForTokenClassification`: logits f32[B, S, C].
pub(crate) fn token_classification(config: ModelConfig) -> Result<Model> {
    const DROPOUT: f64 = 0.1;
    Model::assemble(config, |config, root| {
        let gpt2 = Gpt2Config::resolve(config)?;
        let (num_labels, hidden_size) = (config.num_labels()?, gpt2.n_embd);
        let dropout = config.dropout_or("hidden_dropout", DROPOUT)?;
        let dropout = config.dropout_or("classifier_dropout", dropout)?;
        let std = gpt2.initializer_range;
        let body = Gpt2::new(root, gpt2);
        Ok((body, TokenClassifier::new(root, hidden_size, std, num_labels, dropout)))
    })
}

/// `GPT2ForQuestionAnswering`: logits f32[B, S, 2].
pub(crate) fn question_answering(mut config: ModelConfig) -> Result<Model> {
    config.set_num_labels(SPAN_SCORES);
    Model::assemble(config, |config, root| {
        let gpt2 = Gpt2Config::resolve(config)?;
        let (hidden_size, std) = (gpt2.n_embd, gpt2.initializer_range);
        let body = Gpt2::new(root, gpt2);
        Ok((body, SpanHead::new(root, hidden_size, std, 0.0)))
    })
}
