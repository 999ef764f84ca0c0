//! The parameters of a model: names, shapes, roles, initial values and how each
//! may be divided over cores. Layers declare theirs while the model is built,
//! below a path that grows like a PyTorch module's, so that names are those of
//! the checkpoint.

use std::ops::Range;

use traind_xla::{DType, Shape};

/// Initial values of a parameter that no checkpoint holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// Zeros.
    Zeros,
    /// Ones.
    Ones,
    /// Uniform from -bound to bound.
    Uniform {
        /// The largest number.
        bound: f64,
    },
    /// Normal around 0.
    Normal {
        /// The standard deviation.
        std: f64,
    },
    /// Normal values of at most `cutoff` deviations `std`, drawn anew beyond (`trunc_normal_`).
    TruncatedNormal {
        /// The standard deviation.
        std: f64,
        /// The deviations beyond which numbers are drawn anew.
        cutoff: f64,
    },
    /// Normal, except for a row of zeros: an embedding's padding token.
    NormalWithZeroRow {
        /// The standard deviation.
        std: f64,
        /// The row of zeros.
        row: usize,
    },
    /// A table of sin(p / 10000^(2i/W)) at row p and column 2i of W, and the cosine at 2i + 1
    /// (Vaswani et al., 2017).
    Sinusoids,
}

/// A number is the standard deviation of a normal.
impl From<f64> for Init {
    fn from(std: f64) -> Init {
        Init::Normal { std }
    }
}

/// The part that a parameter has in its layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The matrix of a linear layer, [outputs, inputs].
    Projection,
    /// The matrix of a linear layer that stores it transposed, [inputs, outputs].
    TransposedProjection,
    /// A table of rows that are looked up by number (`torch.nn.Embedding`).
    Embedding,
    /// The scale or the shift of a normalization.
    Norm,
    /// The shift behind a product.
    Bias,
}

/// The division of a dimension over the cores of the `tensor` axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Every core holds all of it.
    Replicated,
    /// Equal runs of the features of each of `projections`, which stand one behind the other, such as
    /// the inner width of a feed-forward network.
    Features {
        /// The number of projections.
        projections: usize,
    },
    /// Whole attention heads of each of `projections`, which stand one behind the other.
    Heads {
        /// The heads of each projection.
        num_heads: usize,
        /// The number of projections.
        projections: usize,
    },
    /// Whole heads of keys or of values, each of which serves several queries. Where there are fewer
    /// heads than cores, several cores hold the same one.
    SharedHeads {
        /// The number of heads.
        num_heads: usize,
    },
    /// Whole heads of queries, then those of keys, then those of values.
    JoinedHeads {
        /// The heads of queries.
        queries: usize,
        /// The heads of keys, and those of values.
        keys: usize,
    },
    /// Runs of token ids.
    Vocabulary,
}

impl Partition {
    /// The division of one of the projections that stand one behind the other, by its place.
    pub(crate) fn of_projection(self, index: usize) -> Partition {
        match self {
            Partition::Features { .. } => Partition::Features { projections: 1 },
            Partition::Heads { num_heads, .. } => Partition::Heads { num_heads, projections: 1 },
            Partition::JoinedHeads { queries, keys } => {
                let num_heads = if index == 0 { queries } else { keys };
                Partition::Heads { num_heads, projections: 1 }
            }
            Partition::Replicated | Partition::SharedHeads { .. } | Partition::Vocabulary => self,
        }
    }
}

/// Whether the cores of the `tensor` axis have different gradients of a parameter that each of them
/// holds whole. Their sum is the gradient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialGradient {
    /// Each core has the whole gradient.
    Never,
    /// Where cores divide the positions between layers, each has the gradient of its positions.
    OfPositions,
    /// Each core has the gradient of its heads or features.
    Always,
}

/// A part of a model that can be recorded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Before the first layer.
    Embeddings,
    /// One of the repeated layers, by its number.
    Layer(usize),
    /// All that follows the last layer.
    Head,
}

/// One dimension of a parameter; a plain number is a replicated one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The elements of the whole dimension.
    pub size: usize,
    /// The runs of elements that cores can divide between them.
    pub partition: Partition,
}

impl Dimension {
    /// A width that may be divided anywhere.
    pub fn features(size: usize) -> Dimension {
        Dimension::joined_features(size, 1)
    }

    /// The joined width of `projections` that may each be divided anywhere.
    pub fn joined_features(size: usize, projections: usize) -> Dimension {
        Dimension { size, partition: Partition::Features { projections } }
    }

    /// The joined width of `projections`, each of `num_heads` heads.
    pub fn heads(size: usize, num_heads: usize, projections: usize) -> Dimension {
        Dimension { size, partition: Partition::Heads { num_heads, projections } }
    }

    /// The width of `num_heads` heads of keys or of values.
    pub fn shared_heads(size: usize, num_heads: usize) -> Dimension {
        Dimension { size, partition: Partition::SharedHeads { num_heads } }
    }

    /// The joined width of heads of queries, of `keys` heads of keys and of as many of values.
    pub fn joined_heads(size: usize, queries: usize, keys: usize) -> Dimension {
        Dimension { size, partition: Partition::JoinedHeads { queries, keys } }
    }

    /// Rows by token id.
    pub fn vocabulary(size: usize) -> Dimension {
        Dimension { size, partition: Partition::Vocabulary }
    }
}

impl Dimension {
    /// Whether cores may hold parts of it.
    pub fn is_divisible(&self) -> bool {
        self.partition != Partition::Replicated
    }
}

impl From<usize> for Dimension {
    fn from(size: usize) -> Dimension {
        Dimension { size, partition: Partition::Replicated }
    }
}

/// A parameter of a model: its name, its shape and all that its training depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The name in Hugging Face's checkpoint.
    pub name: String,
    /// Float32, unless it is frozen and stored in another type.
    pub shape: Shape,
    /// The distribution that it is drawn from, where a checkpoint lacks it.
    pub init: Init,
    /// The use that layers make of it.
    pub role: Role,
    /// False for a frozen parameter, which has neither gradient nor optimizer state.
    pub trainable: bool,
    /// The division that each dimension allows.
    pub partitions: Vec<Partition>,
    /// The case in which cores that share layers have different gradients of it.
    pub partial_gradient: PartialGradient,
    /// The stages that read it: more than one where it is tied.
    pub stages: Vec<Stage>,
    /// Names of other parameters of transformers' model that are this one.
    /// Checkpoints may hold them too; they are never saved.
    pub tied: Vec<String>,
}

impl ParameterSpec {
    /// Returns whether the optimizer decays it, by the Trainer's `get_decay_parameter_names`: neither
    /// normalization layers nor a parameter whose path in the model names a bias or a normalization, as
    /// T5's `relative_attention_bias` does.
    pub fn weight_decay(&self) -> bool {
        let is_matrix =
            matches!(self.role, Role::Projection | Role::TransposedProjection | Role::Embedding);
        is_matrix && !names_bias_or_norm(&self.name)
    }

    /// The number of the layer that reads it, if nothing else does.
    pub fn layer(&self) -> Option<usize> {
        match self.stages[..] {
            [Stage::Layer(layer)] => Some(layer),
            _ => None,
        }
    }

    /// Returns whether its gradient is the sum of those of the cores that share layers.
    /// `divides_positions` says whether they also divide the positions between layers.
    pub fn adds_gradients(&self, divides_positions: bool) -> bool {
        match self.partial_gradient {
            PartialGradient::Never => false,
            PartialGradient::OfPositions => divides_positions,
            PartialGradient::Always => true,
        }
    }
}

/// Returns whether a name matches one of `bias`, `layernorm`, `rmsnorm`, `(^|\.)norm($|\.)` and
/// `_norm($|\.)`.
fn names_bias_or_norm(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_norm = |module: &str| module == "norm" || module.ends_with("_norm");
    ["bias", "layernorm", "rmsnorm"].iter().any(|part| name.contains(part))
        || name.split('.').any(is_norm)
}

/// The place in the module tree where a layer declares its parameters.
#[derive(Debug)]
pub struct ParameterPath<'a> {
    specs: &'a mut Vec<ParameterSpec>,
    prefix: String,
    trainable: bool,
    partial_gradient: PartialGradient,
    stage: Stage,
    /// The module whose name parameters lack: that of the model without a head.
    base: Option<&'static str>,
}

impl<'a> ParameterPath<'a> {
    /// The top of a module tree, whose parameters are added to `specs`.
    pub fn root(specs: &'a mut Vec<ParameterSpec>) -> ParameterPath<'a> {
        ParameterPath {
            specs,
            prefix: String::new(),
            trainable: true,
            partial_gradient: PartialGradient::Never,
            stage: Stage::Head,
            base: None,
        }
    }

    /// The submodule `name`, which may itself be dotted.
    pub fn at(&mut self, name: &str) -> ParameterPath<'_> {
        let prefix = if name.is_empty() { self.prefix.clone() } else { self.name_of(name) };
        let ParameterPath { trainable, partial_gradient, stage, base, .. } = *self;
        ParameterPath { specs: self.specs, prefix, trainable, partial_gradient, stage, base }
    }

    /// The tree of a model without a head, in which no parameter's name begins with that of the module `base`.
    pub fn as_base_model(self, base: &'static str) -> ParameterPath<'a> {
        ParameterPath { base: Some(base), ..self }
    }

    /// The module with its parameters frozen.
    pub fn frozen(self) -> ParameterPath<'a> {
        ParameterPath { trainable: false, ..self }
    }

    /// The module with parameters that are read between the layers that cores share, beside tokens.
    pub fn beside_tokens(self) -> ParameterPath<'a> {
        ParameterPath { partial_gradient: PartialGradient::OfPositions, ..self }
    }

    /// The module with parameters that every core reads whole beside its part of a layer.
    pub fn beside_parts(self) -> ParameterPath<'a> {
        ParameterPath { partial_gradient: PartialGradient::Always, ..self }
    }

    /// The module with its parameters in `stage`.
    pub fn in_stage(self, stage: Stage) -> ParameterPath<'a> {
        ParameterPath { stage, ..self }
    }

    /// Declares the repeated modules NAME.0, NAME.1 and so on of one stack, which are `layers` of the model. `layer`
    /// declares one below its path, by its number in the stack.
    pub(crate) fn layers<L>(
        &mut self,
        name: &str,
        layers: Range<usize>,
        mut layer: impl FnMut(ParameterPath<'_>, usize) -> L,
    ) -> Vec<L> {
        let declare = |(index, number): (usize, usize)| {
            layer(self.at(&format!("{name}.{number}")).in_stage(Stage::Layer(index)), number)
        };
        layers.zip(0..).map(declare).collect()
    }

    /// Declares a float32 parameter and returns its full name.
    pub fn declare(
        &mut self,
        name: &str,
        role: Role,
        dimensions: &[Dimension],
        init: Init,
    ) -> String {
        let name = self.name_of(name);
        let dims: Vec<usize> = dimensions.iter().map(|dimension| dimension.size).collect();
        self.specs.push(ParameterSpec {
            name: name.clone(),
            shape: Shape::new(DType::F32, dims),
            init,
            role,
            trainable: self.trainable,
            partitions: dimensions.iter().map(|dimension| dimension.partition).collect(),
            partial_gradient: self.partial_gradient,
            stages: vec![self.stage],
            tied: Vec::new(),
        });
        name
    }

    /// Declares a bias that starts as zeros.
    pub fn bias(&mut self, name: &str, dimension: Dimension) -> String {
        self.declare(name, Role::Bias, &[dimension], Init::Zeros)
    }

    /// Says that `alias`, which this path's stage reads, is the declared parameter `name`.
    pub fn tie(&mut self, name: &str, alias: &str) {
        let (name, alias) = (self.name_of(name), self.name_of(alias));
        let spec = self.specs.iter_mut().find(|spec| spec.name == name);
        debug_assert!(spec.is_some(), "{alias} is tied to {name}, which nothing declares");
        if let Some(spec) = spec {
            spec.tied.push(alias);
            if !spec.stages.contains(&self.stage) {
                spec.stages.push(self.stage);
            }
        }
    }

    /// Says that `alias`, which `stage` reads, is the declared parameter `name`.
    pub fn tie_in(&mut self, name: &str, alias: &str, stage: Stage) {
        self.at("").in_stage(stage).tie(name, alias);
    }

    /// Says that the parameters of the module `alias`, which this path's stage reads, are those declared below `name`.
    pub fn tie_module(&mut self, name: &str, alias: &str) {
        let below = self.name_of(name);
        let names = self.specs.iter().filter_map(|spec| spec.name.strip_prefix(&below));
        let names: Vec<String> =
            names.filter(|rest| rest.starts_with('.')).map(str::to_owned).collect();
        for rest in names {
            self.tie(&format!("{name}{rest}"), &format!("{alias}{rest}"));
        }
    }

    /// Declares modules in other stages than they say: `stage` gives each.
    pub fn in_other_stages<T>(
        &mut self,
        stage: impl Fn(Stage) -> Stage,
        declare: impl FnOnce(&mut ParameterPath<'_>) -> T,
    ) -> T {
        let first = self.specs.len();
        let declared = declare(&mut self.at(""));
        let stages = self.specs[first..].iter_mut().flat_map(|spec| &mut spec.stages);
        stages.for_each(|it| *it = stage(*it));
        declared
    }

    /// Says that all parameters declared below this path are also read in `stages`.
    pub fn share_in(&mut self, stages: impl IntoIterator<Item = Stage> + Clone) {
        let below = self.name_of("");
        let is_below = |spec: &ParameterSpec| spec.name.starts_with(&below);
        debug_assert!(self.specs.iter().any(is_below), "nothing is declared below {below}");
        for spec in self.specs.iter_mut().filter(|spec| is_below(spec)) {
            let new = stages.clone().into_iter().filter(|stage| !spec.stages.contains(stage));
            let new: Vec<Stage> = new.collect();
            spec.stages.extend(new);
        }
    }

    fn name_of(&self, name: &str) -> String {
        let prefix = &self.prefix;
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let below = |base| name.strip_prefix(base)?.strip_prefix('.');
        self.base.and_then(below).map(str::to_owned).unwrap_or(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_and_freezes_what_is_declared_below_it() {
        let mut specs = Vec::new();
        let mut root = ParameterPath::root(&mut specs);
        let matrix = [Dimension::heads(6, 3, 1), 4.into()];
        let mut frozen = root.at("body").frozen();
        frozen.at("query").in_stage(Stage::Layer(1)).declare(
            "weight",
            Role::Projection,
            &matrix,
            Init::Zeros,
        );
        root.bias("bias", Dimension::vocabulary(9));
        root.tie("body.query.weight", "decoder.weight");
        root.at("body.query").share_in([Stage::Layer(1), Stage::Layer(2)]);
        let [query, bias] = &specs[..] else { panic!("{specs:?}") };
        assert_eq!((query.name.as_str(), query.trainable), ("body.query.weight", false));
        assert_eq!(query.shape.dims, [6, 4]);
        let heads = Partition::Heads { num_heads: 3, projections: 1 };
        assert_eq!(query.partitions, [heads, Partition::Replicated]);
        assert_eq!((bias.name.as_str(), bias.trainable), ("bias", true));
        assert_eq!(query.tied, ["decoder.weight"]);
        assert_eq!(
            (&query.stages[..], &bias.stages[..]),
            (&[Stage::Layer(1), Stage::Head, Stage::Layer(2)][..], &[Stage::Head][..])
        );
        assert_eq!((query.weight_decay(), bias.weight_decay()), (true, false));
    }
}
