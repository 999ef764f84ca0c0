//! Checkpoints as they come: other names, other types, several files, broken
//! ones; and that what is saved loads again.

use std::collections::HashMap;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use traind_models::{Error, Model, ModelConfig, Task, registry, weights};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bert-sequence-classification");

/// Name to (type, dims, little-endian bytes).
type Tensors = HashMap<String, (Dtype, Vec<usize>, Vec<u8>)>;

fn model() -> Model {
    let config = ModelConfig::load(Path::new(FIXTURE), &Map::new()).unwrap();
    registry::build(config, Task::SequenceClassification).unwrap()
}

fn fixture_tensors() -> Tensors {
    let bytes = std::fs::read(Path::new(FIXTURE).join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let entry = |(name, view): (String, TensorView<'_>)| {
        (name, (view.dtype(), view.shape().to_vec(), view.data().to_vec()))
    };
    file.tensors().into_iter().map(entry).collect()
}

fn serialized(tensors: &Tensors) -> Vec<u8> {
    let views = tensors.iter().map(|(name, (dtype, dims, bytes))| {
        (name.as_str(), TensorView::new(*dtype, dims.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

fn folder_with(file: &str, bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(file), bytes).unwrap();
    folder
}

fn load(tensors: &Tensors) -> Result<weights::Loaded, Error> {
    let folder = folder_with("model.safetensors", &serialized(tensors));
    weights::load(folder.path(), &model(), 0)
}

fn values(loaded: &weights::Loaded) -> Vec<Vec<f32>> {
    loaded.arrays.iter().map(|array| array.to_f32().unwrap()).collect()
}

fn renamed(tensors: &Tensors, rename: impl Fn(&str) -> String) -> Tensors {
    tensors.iter().map(|(name, tensor)| (rename(name), tensor.clone())).collect()
}

#[test]
fn saved_weights_and_config_load_again() {
    let folder = tempfile::tempdir().unwrap();
    let model = model();
    let loaded = weights::load(Path::new(FIXTURE), &model, 0).unwrap();
    let (specs, arrays) = (model.parameters(), &loaded.arrays);
    weights::save(folder.path(), model.config(), specs, arrays, u64::MAX).unwrap();

    let again = weights::load(folder.path(), &model, 1).unwrap();
    assert_eq!(again.arrays, loaded.arrays);
    assert_eq!(again.report, loaded.report);
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 2, "nothing else is left there");
    names.clear();

    let original = ModelConfig::load(Path::new(FIXTURE), &Map::new()).unwrap();
    let saved = ModelConfig::load(folder.path(), &Map::new()).unwrap();
    for (key, value) in original.keys() {
        assert_eq!(saved.keys().get(key), Some(value), "{key}");
    }
    assert_eq!(saved.keys()["dtype"], "float32");
}

#[test]
fn a_saved_file_is_marked_as_transformers_wants_it() {
    let folder = tempfile::tempdir().unwrap();
    let model = model();
    let path = folder.path().join("model.safetensors");
    let arrays = weights::initialize(model.parameters(), 0).unwrap();
    weights::save_weights(&path, model.parameters(), &arrays).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (header, metadata) = safetensors::SafeTensors::read_metadata(&bytes).unwrap();
    assert_eq!(metadata.metadata().as_ref().unwrap()["format"], "pt");
    assert_eq!(header % 8, 0);
}

#[test]
fn a_base_model_lacks_the_head_alone() {
    let mut tensors = fixture_tensors();
    tensors.retain(|name, _| !name.starts_with("classifier"));
    let base = renamed(&tensors, |name| name.trim_start_matches("bert.").to_owned());
    let loaded = load(&base).unwrap();
    assert_eq!(loaded.report.initialized, ["classifier.weight", "classifier.bias"]);
    assert!(loaded.report.missing.is_empty());
    assert!(loaded.report.unexpected.is_empty());
    let full = load(&fixture_tensors()).unwrap();
    let count = full.arrays.len() - 2;
    assert_eq!(values(&loaded)[..count], values(&full)[..count]);
    assert_eq!(values(&loaded)[count + 1], [0.0; 3]);
}

#[test]
fn other_missing_and_unexpected_tensors_are_reported() {
    let mut tensors = fixture_tensors();
    let pooler = tensors.remove("bert.pooler.dense.bias").unwrap();
    tensors.insert("cls.predictions.bias".to_owned(), pooler);
    let report = load(&tensors).unwrap().report;
    assert_eq!(report.missing, ["bert.pooler.dense.bias"]);
    assert_eq!(report.unexpected, ["cls.predictions.bias"]);
    assert!(report.initialized.is_empty());
}

#[test]
fn old_layer_norm_names_load() {
    let old = renamed(&fixture_tensors(), |name| {
        name.replace("LayerNorm.weight", "LayerNorm.gamma")
            .replace("LayerNorm.bias", "LayerNorm.beta")
    });
    let loaded = load(&old).unwrap();
    assert_eq!(values(&loaded), values(&load(&fixture_tensors()).unwrap()));
    assert!(loaded.report.unexpected.is_empty());
}

#[test]
fn half_and_double_precision_become_float32() {
    let source = [0.5f32, -1.25, 65504.0];
    let bytes = |dtype| -> Vec<u8> {
        let bytes_of = |value: &f32| match dtype {
            Dtype::F16 => half::f16::from_f32(*value).to_le_bytes().to_vec(),
            Dtype::BF16 => half::bf16::from_f32(*value).to_le_bytes().to_vec(),
            _ => f64::from(*value).to_le_bytes().to_vec(),
        };
        source.iter().flat_map(bytes_of).collect()
    };
    for (dtype, largest) in [(Dtype::F16, 65504.0), (Dtype::BF16, 65536.0), (Dtype::F64, 65504.0)] {
        let mut tensors = fixture_tensors();
        tensors.insert("classifier.bias".to_owned(), (dtype, vec![3], bytes(dtype)));
        let loaded = load(&tensors).unwrap();
        assert_eq!(values(&loaded).last().unwrap(), &[0.5, -1.25, largest], "{dtype:?}");
    }
}

#[test]
fn shards_load_through_their_index() {
    let (first, second): (Vec<_>, Vec<_>) =
        fixture_tensors().into_iter().partition(|(name, _)| name.contains("layer.0"));
    let folder = tempfile::tempdir().unwrap();
    let mut map = Map::new();
    for (file, tensors) in [("a.safetensors", first), ("b.safetensors", second)] {
        map.extend(tensors.iter().map(|(name, _)| (name.clone(), json!(file))));
        let bytes = serialized(&tensors.into_iter().collect());
        std::fs::write(folder.path().join(file), bytes).unwrap();
    }
    let index = folder.path().join("model.safetensors.index.json");
    std::fs::write(&index, json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
    let loaded = weights::load(folder.path(), &model(), 0).unwrap();
    assert_eq!(values(&loaded), values(&load(&fixture_tensors()).unwrap()));

    std::fs::write(&index, r#"{"weight_map": {"a": "../a.safetensors"}}"#).unwrap();
    let error = weights::load(folder.path(), &model(), 0).unwrap_err().to_string();
    assert!(error.ends_with("weight_map: expected names of files of this folder"), "{error}");
}

#[test]
fn what_is_saved_in_shards_loads_again() {
    let model = model();
    let loaded = weights::load(Path::new(FIXTURE), &model, 0).unwrap();
    let save = |folder: &Path, max_shard_bytes| {
        let (specs, arrays) = (model.parameters(), &loaded.arrays);
        let saved = weights::save(folder, model.config(), specs, arrays, max_shard_bytes);
        let mut saved = saved.unwrap();
        assert_eq!(weights::load(folder, &model, 1).unwrap().arrays, loaded.arrays);
        let names = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        saved.sort();
        assert_eq!(saved, names);
        names.retain(|name| name != "config.json");
        names
    };
    let folder = tempfile::tempdir().unwrap();
    let files = save(folder.path(), 10_000);
    assert_eq!(files.first().unwrap(), "model-00001-of-00003.safetensors");
    assert_eq!(files.len(), 4);
    let index = std::fs::read(folder.path().join("model.safetensors.index.json")).unwrap();
    let index: Value = serde_json::from_slice(&index).unwrap();
    let bytes: usize = loaded.arrays.iter().map(|array| array.bytes().len()).sum();
    assert_eq!(index["metadata"], json!({"total_parameters": bytes / 4, "total_size": bytes}));
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(save(folder.path(), 1 << 30), ["model.safetensors"]);
}

fn check_error(result: Result<weights::Loaded, Error>, expect: &str) {
    let error = result.unwrap_err();
    let text = error.to_string();
    assert!(text.contains(expect), "{text}, expected {expect}");
    assert!(text.contains("model.safetensors"), "{text} names no file");
}

#[test]
fn a_tensor_of_the_wrong_shape_or_type_is_named() {
    let mut tensors = fixture_tensors();
    tensors.insert("classifier.bias".to_owned(), (Dtype::F32, vec![2], vec![0; 8]));
    check_error(load(&tensors), "tensor classifier.bias is [2] and the config makes it [3]");
    tensors.insert("classifier.bias".to_owned(), (Dtype::I32, vec![3], vec![0; 12]));
    check_error(load(&tensors), "tensor classifier.bias holds I32");
}

#[test]
fn a_truncated_file_is_an_error_wherever_it_ends() {
    let whole = serialized(&fixture_tensors());
    for length in [0, 7, 8, 100, whole.len() / 2, whole.len() - 1] {
        let folder = folder_with("model.safetensors", &whole[..length]);
        let result = weights::load(folder.path(), &model(), 0);
        check_error(result, "is not a whole safetensors file");
    }
}

#[test]
fn headers_that_lie_are_errors() {
    let header = |json: &str| {
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes
    };
    let huge = r#"{"a":{"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,18446744073709551615]}}"#;
    let gap = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#;
    let files = [header(huge), header(gap), header("not json"), vec![0xff; 64]];
    for bytes in files {
        let folder = folder_with("model.safetensors", &bytes);
        let result = weights::load(folder.path(), &model(), 0);
        check_error(result, "is not a whole safetensors file");
    }
}

#[test]
fn a_folder_without_weights_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    check_error(weights::load(folder.path(), &model(), 0), "no model.safetensors");
    let pickled = folder_with("pytorch_model.bin", b"");
    check_error(weights::load(pickled.path(), &model(), 0), "weights_only=True");
}

/// Weights of other sizes are drawn anew, as with transformers' `ignore_mismatched_sizes`.
#[test]
fn weights_of_other_shapes_are_drawn_where_asked() {
    let mut config = ModelConfig::load(Path::new(FIXTURE), &Map::new()).unwrap();
    config.set_num_labels(5);
    let wider = registry::build(config, Task::SequenceClassification).unwrap();
    let strict = weights::load(Path::new(FIXTURE), &wider, 0);
    check_error(strict, "model.ignore_mismatched_sizes: true");
    let loaded = weights::load_fitting(Path::new(FIXTURE), &wider, 0).unwrap();
    assert_eq!(loaded.report.mismatched, ["classifier.weight", "classifier.bias"]);
    assert_eq!(loaded.report.loaded.len(), wider.parameters().len() - 2);
    let exact = weights::load(Path::new(FIXTURE), &model(), 0).unwrap();
    let others = loaded.arrays.len() - 2;
    assert_eq!(loaded.arrays[..others], exact.arrays[..others]);
}
