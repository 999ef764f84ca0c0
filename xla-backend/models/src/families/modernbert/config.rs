//! Reads ModernBERT's config.

use crate::config::ModelConfig;
use crate::error::Result;
use crate::families::layer_types::local_layers;
use crate::heads::{Pooling, Transform};
use crate::layers::{Activation, LayerNorm, Linear, Rotary, Window, check_heads};
use crate::parameters::{Init, ParameterPath};
use crate::rope::{self, LayerKind};

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

/// `ModernBertConfig`, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
pub(super) struct ModernBertConfig {
    pub vocab_size: usize,
    pub hidden_size: usize,
    pub intermediate_size: usize,
    pub num_attention_heads: usize,
    pub hidden_activation: Activation,
    pub max_position_embeddings: usize,
    pub initializer_range: f64,
    pub initializer_cutoff_factor: f64,
    pub norm_eps: f64,
    pub norm_bias: bool,
    pub pad_token_id: Option<usize>,
    pub attention_bias: bool,
    pub attention_dropout: f64,
    /// The keys that the queries of each layer see.
    pub windows: Vec<Window>,
    /// The rotary embedding of each layer.
    pub rotaries: Vec<Rotary>,
    pub embedding_dropout: f64,
    pub mlp_bias: bool,
    pub mlp_dropout: f64,
    pub decoder_bias: bool,
    pub pooling: Pooling,
    pub classifier_dropout: f64,
    pub classifier_bias: bool,
    pub classifier_activation: Activation,
}

/// How the weights of layers are drawn.
pub(super) struct Inits {
    pub input: Init,
    pub output: Init,
    pub classifier: Init,
}

impl ModernBertConfig {
    pub(super) fn resolve(config: &ModelConfig) -> Result<ModernBertConfig> {
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
            max_position_embeddings: config.computed_positions_or(8192)?,
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

    pub(super) fn head_size(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    pub(super) fn num_hidden_layers(&self) -> usize {
        self.windows.len()
    }

    pub(super) fn inits(&self) -> Inits {
        let normal = |std| Init::TruncatedNormal { std, cutoff: self.initializer_cutoff_factor };
        let std = self.initializer_range;
        Inits {
            input: normal(std),
            output: normal(std / (2.0 * self.num_hidden_layers() as f64).sqrt()),
            classifier: normal((self.hidden_size as f64).powf(-0.5)),
        }
    }

    pub(super) fn norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::with_bias_if(self.norm_bias, path, self.hidden_size, self.norm_eps)
    }

    /// `ModernBertPredictionHead`, of states that all cores have.
    pub(super) fn transform(&self, root: &mut ParameterPath<'_>) -> Transform {
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

    pub(super) fn classifier(&self, root: &mut ParameterPath<'_>, outputs: usize) -> Linear {
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
