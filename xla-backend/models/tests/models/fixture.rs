//! One folder of `fixtures/`: a tiny model of transformers, a batch, and what
//! PyTorch answered to it. The expected numbers were computed in float64, so
//! every tolerance is float32's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safetensors::{Dtype, SafeTensors};
use serde_json::Map;
use traind_models::parameter_shards::ParameterShards;
use traind_models::tasks::preference::{Compared, PreferenceObjective};
use traind_models::tasks::replaced_tokens::ReplacedTokenDetection;
use traind_models::{
    Batch, Forward, Model, ModelConfig, OutputKind, ParameterTensors, Sharding, Task, TensorCores,
    TokenGenerator,
};
use traind_models::{registry, tuning, weights};
use traind_xla::mesh::{Mesh, Placement};
use traind_xla::ops::ShardGroups;
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Tensor, Trace, autodiff};

use crate::support::{check_close, distance};

/// The folder of the fixtures, where the tests run on another machine than that which built them.
const FOLDER: &str = "TRAIND_TEST_FIXTURES";

pub(crate) fn folder_of(fixture: &str) -> PathBuf {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let own = || Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    folder.unwrap_or_else(own).join(fixture)
}

/// The config of a fixture, with that of its generator where it has one.
pub(crate) fn config_of(folder: &Path, task: Task) -> ModelConfig {
    let mut config = ModelConfig::load(folder, &Map::new()).unwrap();
    if task == Task::ReplacedTokenDetection {
        let generator = ModelConfig::load(&folder.join("generator"), &Map::new()).unwrap();
        let generator = Some(Box::new(generator));
        config
            .set_token_generator(TokenGenerator { config: generator, ..TokenGenerator::default() });
    }
    config
}

pub(crate) struct Fixture {
    pub model: Arc<Model>,
    pub weights: Vec<HostArray>,
    /// The batch's inputs, those that the model takes.
    pub inputs: Vec<(&'static str, HostArray)>,
    /// The loss, where it is not the model's own.
    pub objective: Option<Arc<dyn PreferenceObjective>>,
    expected: BTreeMap<String, Vec<f32>>,
}

/// A fixture's forward and backward pass in a trace, whose next parameters are
/// the inputs and the weights, in this order.
pub(crate) struct Traced {
    pub batch: Batch,
    pub weights: Vec<Tensor>,
    pub logits: Tensor,
    pub loss: Tensor,
    pub gradients: Vec<Tensor>,
}

impl Fixture {
    pub(crate) fn load(folder: &Path, task: Task) -> Fixture {
        Fixture::of_config(folder, config_of(folder, task), task)
    }

    pub(crate) fn of_config(folder: &Path, config: ModelConfig, task: Task) -> Fixture {
        let model = registry::build(config, task).unwrap();
        Fixture::with_answers(folder, folder, model)
    }

    /// The model of the folder `base` with the adapters and the answers of `folder`.
    pub(crate) fn adapted(folder: &Path, base: &Path, task: Task) -> Fixture {
        let mut model = registry::build(config_of(base, task), task).unwrap();
        let lora = tuning::load_lora_of(folder, &model).unwrap();
        tuning::add_lora(&mut model, &lora).unwrap();
        let mut fixture = Fixture::with_answers(base, folder, model);
        let adapters = tuning::load_adapter(folder, &fixture.model).unwrap();
        tuning::put_adapter(&fixture.model, &mut fixture.weights, adapters);
        let saved = |name: &str| format!("grad.{}", fixture.model.adapters().saved_name(name));
        for spec in fixture.model.parameters() {
            if let Some(gradient) = fixture.expected.remove(&saved(&spec.name)) {
                fixture.expected.insert(format!("grad.{}", spec.name), gradient);
            }
        }
        fixture
    }

    fn with_answers(weights: &Path, answers: &Path, model: Model) -> Fixture {
        let loaded = weights::load(weights, &model, 0).unwrap();
        let report = loaded.report;
        let own = model.parameters().iter().filter(|spec| !model.adapters().owns(&spec.name));
        assert_eq!(report.loaded.len(), own.count(), "{report:?}");
        assert!(report.unexpected.is_empty(), "{report:?}");
        let file = std::fs::read(answers.join("expected.safetensors")).unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let input = |name| Some((name, input(&tensors, name)?));
        let inputs = model.inputs().iter().filter_map(|spec| input(spec.name)).collect();
        let expected = tensors
            .names()
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), floats(&tensors, name)?)));
        let objective: Option<Arc<dyn PreferenceObjective>> = match model.output() {
            OutputKind::ReplacedTokens => Some(Arc::new(ReplacedTokenDetection::default())),
            _ => None,
        };
        Fixture {
            objective,
            weights: loaded.arrays,
            expected: expected.collect(),
            inputs,
            model: model.into(),
        }
    }

    pub(crate) fn trace(
        &self,
        trace: &Trace,
        gradient_checkpointing: bool,
        compute_dtype: DType,
    ) -> Traced {
        self.trace_shared(trace, gradient_checkpointing, compute_dtype, None, &[])
    }

    /// Traces the model where other cores have parts of each layer, and groups of cores the shards of each part.
    pub(crate) fn trace_shared(
        &self,
        trace: &Trace,
        gradient_checkpointing: bool,
        compute_dtype: DType,
        cores: Option<TensorCores>,
        shard_groups: &[Vec<usize>],
    ) -> Traced {
        let parameter = |name: &str, shape: &Shape| trace.parameter(name, shape.clone()).unwrap();
        let mut batch = Batch::new();
        for (name, array) in &self.inputs {
            batch.insert(name, parameter(name, array.shape()));
        }
        let specs = self.model.parameters();
        let count = cores.as_ref().map_or(1, TensorCores::count);
        let shape = |spec| Sharding::of(spec, count).unwrap().held_shape();
        let shards = shard_groups.first().map_or(1, Vec::len);
        let stored = |spec| shard_shape(&shape(spec), shards);
        let weights: Vec<Tensor> = specs.iter().map(|s| parameter(&s.name, &stored(s))).collect();
        let in_shards = specs.iter().filter(|spec| stored(spec) != shape(spec));
        let in_shards = in_shards.map(|spec| (spec.name.clone(), shape(spec)));
        let in_shards =
            ParameterShards::new(ShardGroups { cores: shard_groups.to_vec(), hosts: 1 }, in_shards);
        let names = specs.iter().map(|spec| &spec.name);
        let parameters = ParameterTensors::new(names.zip(weights.iter().cloned()));
        let parameters = parameters.computed_in(compute_dtype).divided_over(cores);
        let parameters = &parameters.stored_in(in_shards);
        let adapters = Some(self.model.adapters());
        let cx = Forward {
            trace,
            parameters,
            random: None,
            gradient_checkpointing,
            adapters,
            cache: None,
            embedding_noise: None,
        };
        let output = self.model.forward(&cx, &batch).unwrap();
        let sums = match &self.objective {
            Some(objective) => {
                let data = shard_groups.first().map_or(1, Vec::len);
                let mesh = &Mesh::new(data, count, 1, Placement::Cluster).unwrap();
                let (policy, batch) = (&output.logits, &batch);
                let compared = Compared { policy, reference: None, batch, mesh };
                objective.compare(&compared).unwrap().loss
            }
            None => output.loss.unwrap(),
        };
        let loss = sums.loss_sum.div(&sums.weight_sum).unwrap();
        let references: Vec<&Tensor> = weights.iter().collect();
        let gradients = autodiff::gradients(&loss, &references).unwrap();
        Traced { batch, weights, logits: output.logits.values, loss, gradients }
    }

    /// The values of [`Traced`]'s parameters: the inputs, then the weights.
    pub(crate) fn arguments(&self) -> Vec<HostArray> {
        let inputs = self.inputs.iter().map(|(_, array)| array.clone());
        inputs.chain(self.weights.iter().cloned()).collect()
    }

    pub(crate) fn expected(&self, name: &str) -> &[f32] {
        self.expected.get(name).unwrap_or_else(|| panic!("the fixture has no {name}"))
    }

    /// Logits, loss and gradients of the batch.
    pub(crate) fn check_answers(
        &self,
        logits: &HostArray,
        loss: &HostArray,
        gradients: &[HostArray],
    ) {
        check_close("logits", &logits.to_f32().unwrap(), self.expected("logits"), 1e-5);
        self.check_loss_and_gradients(loss, gradients);
    }

    pub(crate) fn check_loss_and_gradients(&self, loss: &HostArray, gradients: &[HostArray]) {
        self.check_relative("loss", &loss.to_f32().unwrap(), 1e-6);
        let global_norm = self.global_norm();
        let trained = self.model.parameters().iter().zip(gradients);
        for (spec, gradient) in trained.filter(|(spec, _)| spec.trainable) {
            let name = format!("grad.{}", spec.name);
            let (difference, norm) = distance(&gradient.to_f32().unwrap(), self.expected(&name));
            // A key's bias shifts all scores of a query alike: its gradient is
            // zero but for rounding, which is measured against the whole.
            let scale = if norm < 1e-9 * global_norm { global_norm } else { norm };
            // A small sum of large terms keeps their rounding, which depends on the processor: a sixth of
            // float32's unit roundoff of the whole.
            let tolerance = f64::max(1e-5 * scale, 1e-8 * global_norm);
            assert!(difference <= tolerance, "{name}: off by {difference}, norm {norm}");
        }
    }

    pub(crate) fn check_relative(&self, name: &str, got: &[f32], tolerance: f64) {
        let expect = self.expected(name);
        assert_eq!(got.len(), expect.len(), "{name}");
        for (got, expect) in got.iter().zip(expect) {
            let off = (f64::from(*got) / f64::from(*expect) - 1.0).abs();
            assert!(off <= tolerance, "{name}: {got}, expected {expect}, off by {off:e}");
        }
    }

    /// The norm of all gradients.
    pub(crate) fn global_norm(&self) -> f64 {
        let gradients = self.expected.iter().filter(|(name, _)| name.starts_with("grad."));
        let values = gradients.flat_map(|(_, values)| values);
        values.map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt()
    }
}

/// The shape of each shard of a parameter; small parameters are not sharded.
pub(crate) fn shard_shape(shape: &Shape, shards: usize) -> Shape {
    let elements = shape.element_count();
    if shards == 1 || elements < 40 {
        shape.clone()
    } else {
        shape.with_dims([elements.div_ceil(shards)])
    }
}

/// Token ids and classes are integers, pixels are bytes, and numbers to regress on are neither.
fn input(tensors: &SafeTensors<'_>, name: &str) -> Option<HostArray> {
    let view = tensors.tensor(name).ok()?;
    if let Some(values) = floats(tensors, name) {
        return Some(HostArray::from_f32(view.shape(), &values).unwrap());
    }
    if view.dtype() == Dtype::U8 {
        let shape = Shape::new(DType::U8, view.shape());
        return Some(HostArray::from_bytes(shape, view.data().to_vec()).unwrap());
    }
    assert_eq!(view.dtype(), Dtype::I64, "{name}");
    let values = view.data().as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes) as i32);
    Some(HostArray::from_s32(view.shape(), &values.collect::<Vec<_>>()).unwrap())
}

pub(crate) fn floats(tensors: &SafeTensors<'_>, name: &str) -> Option<Vec<f32>> {
    let view = tensors.tensor(name).ok().filter(|view| view.dtype() == Dtype::F32)?;
    Some(view.data().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
}
