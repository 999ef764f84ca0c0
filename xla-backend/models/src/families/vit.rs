//! ViT (Dosovitskiy et al., 2020) and DeiT (Touvron et al., 2020), as transformers' `ViTModel` and
//! `DeiTModel` compute them: patches of an image as tokens behind one that is classified, in layers
//! whose norms stand before attention and feed-forward network.
//!
//! B rows, N patches, S positions (patches and the tokens before them), H `hidden_size`, C labels.

use std::ops::Range;

use traind_xla::{DType, Shape, Tensor};

use crate::config::ModelConfig;
use crate::error::Result;
use crate::family::{Family, FamilyModel};
use crate::flops;
use crate::heads::FirstTokenClassifier;
use crate::layers::{
    Activation, Attention, AttentionConfig, AttentionMask, ImageSizes, LayerNorm, Linear,
    PatchEmbedding, add_dropped, dropout, flatten_tokens,
};
use crate::model::{Batch, Body, Forward, HiddenStates, InputDim, InputSpec, Lengths, Model};
use crate::parameters::{Dimension, Init, ParameterPath, Role, Stage};
use crate::tasks::{SequenceClassification, Task};

/// The keys of a ViT `config.json` that bear on its computation.
const KEYS: &[&str] = &[
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "layer_norm_eps",
    "image_size",
    "patch_size",
    "num_channels",
    "qkv_bias",
];

/// The input of a batch.
const PIXELS: &str = "pixel_values";

pub(crate) const FAMILY: VitFamily = VitFamily {
    model_type: "vit",
    class: "ViTForImageClassification",
    tokens: &["cls_token"],
    draws_tokens: true,
};

pub(crate) const DEIT_FAMILY: VitFamily = VitFamily {
    model_type: "deit",
    class: "DeiTForImageClassification",
    tokens: &["cls_token", "distillation_token"],
    draws_tokens: false,
};

/// The differences between the families.
#[derive(Debug)]
pub(crate) struct VitFamily {
    model_type: &'static str,
    class: &'static str,
    /// The tokens before the patches, the first of which is classified.
    tokens: &'static [&'static str],
    /// Whether tokens and positions begin with random values and not with zeros.
    draws_tokens: bool,
}

impl Family for VitFamily {
    fn model_type(&self) -> &'static str {
        self.model_type
    }

    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    /// A row is one image, whatever the number of its patches.
    fn max_positions(&self, config: &ModelConfig) -> Result<usize> {
        VitConfig::resolve(config).map(|_| 1)
    }

    fn model(&self, task: Task) -> Option<FamilyModel<'_>> {
        (task == Task::ImageClassification)
            .then(|| FamilyModel::new(self.class, |config| self.image_classification(config)))
    }
}

impl VitFamily {
    /// Logits f32[B, C].
    fn image_classification(&self, config: ModelConfig) -> Result<Model> {
        Model::assemble(config, |config, root| {
            let vit = VitConfig::resolve(config)?;
            let (hidden_size, std) = (vit.hidden_size(), vit.attention.initializer_range);
            let body = Vit::new(root, self, config, vit);
            let task = SequenceClassification::new(config)?;
            let classifier = Linear::new(root.at("classifier"), hidden_size, task.num_labels, std);
            Ok((body, FirstTokenClassifier { classifier, hidden_size, task }))
        })
    }
}

/// `ViTConfig`, resolved: transformers' defaults where the file is silent.
#[derive(Clone, Debug)]
struct VitConfig {
    num_hidden_layers: usize,
    intermediate_size: usize,
    hidden_act: Activation,
    hidden_dropout: f64,
    layer_norm_eps: f64,
    qkv_bias: bool,
    sizes: ImageSizes,
    attention: AttentionConfig,
}

impl VitConfig {
    fn resolve(config: &ModelConfig) -> Result<VitConfig> {
        let attention = AttentionConfig {
            hidden_size: config.size_or("hidden_size", 768)?,
            num_heads: config.size_or("num_attention_heads", 12)?,
            dropout: config.dropout_or("attention_probs_dropout_prob", 0.0)?,
            initializer_range: config.positive_or("initializer_range", 0.02)?,
        };
        attention.check(config, "num_attention_heads")?;
        Ok(VitConfig {
            num_hidden_layers: config.size_or("num_hidden_layers", 12)?,
            intermediate_size: config.size_or("intermediate_size", 3072)?,
            hidden_act: Activation::from_config(config, "hidden_act", "gelu")?,
            hidden_dropout: config.dropout_or("hidden_dropout_prob", 0.0)?,
            layer_norm_eps: config.positive_or("layer_norm_eps", 1e-12)?,
            qkv_bias: config.bool_or("qkv_bias", true)?,
            sizes: image_sizes(config)?,
            attention,
        })
    }

    fn hidden_size(&self) -> usize {
        self.attention.hidden_size
    }

    fn linear(
        &self,
        path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear::new(path, inputs, outputs, self.attention.initializer_range)
    }

    fn layer_norm(&self, path: ParameterPath<'_>) -> LayerNorm {
        LayerNorm::new(path, self.hidden_size(), self.layer_norm_eps)
    }
}

/// Refuses patches that are larger than the image.
fn image_sizes(config: &ModelConfig) -> Result<ImageSizes> {
    let sizes = ImageSizes {
        image: config.size_pair_or("image_size", 224)?,
        patch: config.size_pair_or("patch_size", 16)?,
        channels: config.size_or("num_channels", 3)?,
    };
    match sizes.patches() {
        0 => {
            let [height, width] = sizes.image;
            let problem = format!("expected at most the image's size {height}x{width}");
            Err(config.error("patch_size", problem))
        }
        _ => Ok(sizes),
    }
}

#[derive(Debug)]
struct Vit {
    prefix: &'static str,
    config: VitConfig,
    embeddings: Embeddings,
    layers: Vec<Layer>,
    norm: LayerNorm,
}

impl Vit {
    fn new(
        root: &mut ParameterPath<'_>,
        family: &VitFamily,
        model: &ModelConfig,
        config: VitConfig,
    ) -> Vit {
        let mut path = root.at(family.model_type);
        let embeddings = path.at("embeddings").in_stage(Stage::Embeddings);
        let embeddings = Embeddings::new(embeddings, family, model, &config);
        let layers = path.layers("encoder.layer", 0..config.num_hidden_layers, |path, _| {
            Layer::new(path, &config)
        });
        let norm = config.layer_norm(path.at("layernorm"));
        Vit { prefix: family.model_type, config, embeddings, layers, norm }
    }

    /// Patches and the tokens before them.
    fn positions(&self) -> usize {
        self.embeddings.tokens.len() + self.config.sizes.patches()
    }
}

impl Body for Vit {
    fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// `pixel_values` u8[B, height, width, channels], neither rescaled nor normalized.
    fn inputs(&self) -> Vec<InputSpec> {
        let ImageSizes { image: [height, width], channels, .. } = self.config.sizes;
        let sizes = [height, width, channels].map(InputDim::Size);
        let dims = [&[InputDim::Rows], &sizes[..]].concat();
        vec![InputSpec::required(PIXELS, DType::U8, &dims)]
    }

    fn token_dims(&self, batch: &Batch) -> Result<[usize; 2]> {
        Ok([batch.rows()?, self.positions()])
    }

    fn num_layers(&self) -> usize {
        self.layers.len()
    }

    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        Ok(HiddenStates::of(self.embeddings.forward(cx, batch.get(PIXELS)?)?))
    }

    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        let dims = [batch.rows()?, 1, 1, self.positions()];
        // Every token attends to all.
        let mask = AttentionMask::constant(cx.trace.full(0.0, Shape::new(DType::F32, dims))?);
        let x = cx.layers("layer", layers, states.last, |cx, index, x| {
            self.layers[index].forward(cx, x, &mask)
        })?;
        Ok(HiddenStates::of(x))
    }

    fn finish(&self, cx: &Forward<'_>, states: &HiddenStates) -> Result<Tensor> {
        self.norm.forward(cx, &states.last)
    }

    fn is_tensor_parallel(&self) -> bool {
        true
    }

    fn leaves_tokens_out(&self) -> bool {
        true
    }

    /// It looks up no tokens.
    fn vocab_size(&self) -> usize {
        0
    }

    fn max_positions(&self) -> usize {
        1
    }

    fn forward_flops(&self, _lengths: Lengths, read: Option<usize>) -> f64 {
        let (hidden, sizes) = (self.config.hidden_size(), &self.config.sizes);
        let layer = flops::Layer::plain(hidden, self.config.intermediate_size, false);
        let patch = flops::dot(sizes.patch_values() as f64, hidden as f64);
        let patches = sizes.patches() as f64 * patch;
        patches + layer.stack(self.layers.len(), self.positions(), read)
    }
}

/// `ViTEmbeddings`: the first tokens and the patches, added to their positions.
#[derive(Debug)]
struct Embeddings {
    /// The names of the tokens before the patches, each [1, 1, H].
    tokens: Vec<String>,
    patches: PatchEmbedding,
    /// The name of the positions, [1, S, H].
    positions: String,
    dropout: f64,
}

impl Embeddings {
    fn new(
        path: ParameterPath<'_>,
        family: &VitFamily,
        model: &ModelConfig,
        config: &VitConfig,
    ) -> Embeddings {
        let mut path = path.beside_tokens();
        let (hidden_size, std) = (config.hidden_size(), config.attention.initializer_range);
        let init = if family.draws_tokens { Init::Normal { std } } else { Init::Zeros };
        let mut declare = |name: &str, rows: usize| {
            let dims = [1, rows, hidden_size].map(Into::into);
            path.declare(name, Role::Projection, &dims, init)
        };
        let tokens: Vec<String> = family.tokens.iter().map(|name| declare(name, 1)).collect();
        let positions = declare("position_embeddings", tokens.len() + config.sizes.patches());
        let projection = path.at("patch_embeddings.projection");
        let normalization = model.pixel_normalization();
        let patches =
            PatchEmbedding::new(projection, config.sizes, hidden_size, std, normalization);
        Embeddings { tokens, patches, positions, dropout: config.hidden_dropout }
    }

    /// Pixels u8[B, height, width, channels] to [B S, H], of this core's positions where cores divide them.
    fn forward(&self, cx: &Forward<'_>, pixels: &Tensor) -> Result<Tensor> {
        let patches = self.patches.forward(cx, pixels)?;
        let &[rows, _, hidden_size] = patches.dims() else { return Ok(patches) };
        let token = |name| Ok(cx.parameter(name)?.broadcast_to(&[rows, 1, hidden_size])?);
        let mut parts = self.tokens.iter().map(|name| token(name)).collect::<Result<Vec<_>>>()?;
        parts.push(patches);
        let parts: Vec<&Tensor> = parts.iter().collect();
        let sum = cx.trace.concatenate(&parts, 1)?.add(&cx.parameter(&self.positions)?)?;
        dropout(cx, &flatten_tokens(&cx.own_positions(&sum, 1)?)?, self.dropout)
    }
}

/// `ViTLayer`.
#[derive(Debug)]
struct Layer {
    attention_norm: LayerNorm,
    attention: Attention,
    attention_output: Linear,
    feed_forward_norm: LayerNorm,
    intermediate: Linear,
    activation: Activation,
    output: Linear,
    dropout: f64,
}

impl Layer {
    fn new(mut path: ParameterPath<'_>, config: &VitConfig) -> Layer {
        const PROJECTIONS: [&str; 3] =
            ["attention.attention.query", "attention.attention.key", "attention.attention.value"];
        let hidden_size = config.hidden_size();
        let heads = Dimension::heads(hidden_size, config.attention.num_heads, 1);
        let inner = Dimension::features(config.intermediate_size);
        Layer {
            attention_norm: config.layer_norm(path.at("layernorm_before")),
            attention: Attention::projected(
                &mut path,
                PROJECTIONS,
                &config.attention,
                config.qkv_bias,
            ),
            attention_output: config.linear(path.at("attention.output.dense"), heads, hidden_size),
            feed_forward_norm: config.layer_norm(path.at("layernorm_after")),
            intermediate: config.linear(path.at("intermediate.dense"), hidden_size, inner),
            activation: config.hidden_act,
            output: config.linear(path.at("output.dense"), inner, hidden_size),
            dropout: config.hidden_dropout,
        }
    }

    /// `x` [T, H] to [T, H], or to [R, H] of the tokens that are read.
    fn forward(&self, cx: &Forward<'_>, x: &Tensor, mask: &AttentionMask) -> Result<Tensor> {
        let normal = self.attention_norm.forward(cx, x)?;
        let attended = self.attention.forward(cx, &normal, mask)?;
        let (attended, x) = (cx.read_tokens(&attended)?, &cx.read_tokens(x)?);
        let cx = &cx.behind_attention();
        let attended = self.attention_output.forward(cx, &attended)?;
        let x = add_dropped(cx, x, &attended, self.dropout)?;
        let normal = cx.fan_out(&self.feed_forward_norm.forward(cx, &x)?)?;
        let inner = self.activation.forward(&self.intermediate.forward(cx, &normal)?)?;
        add_dropped(cx, &x, &self.output.forward(cx, &inner)?, self.dropout)
    }
}
