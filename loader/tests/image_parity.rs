//! Images become the pixels that transformers' image processors make of them. The fixture is written by
//! `scripts/fixtures/images.py`.

// A fixture of another shape is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use traind_loader::{
    ArrayValues, BatchAxis, BatchPlan, BatchSizes, Collator, DatasetOptions, ImageClassification,
    ImageProcessor, NoTokenizer, Padding, ScheduledBatch, TaskSpec, TokenLimits, prepare,
};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/images")
}

/// The pixels of an image, by way of a file that names it.
fn pixels(image: &str, processor: &Json) -> (Vec<usize>, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("preprocessor_config.json"), processor.to_string()).unwrap();
    let row = serde_json::json!({"image": fixtures().join(image)});
    std::fs::write(path("rows.jsonl"), row.to_string()).unwrap();
    let task = ImageClassification {
        image: "image".to_owned(),
        label: None,
        processor: ImageProcessor::open(folder.path()).unwrap(),
    };
    let options = DatasetOptions {
        files: [path("rows.jsonl").to_str().unwrap().to_owned()].into_iter().collect(),
        task: TaskSpec::ImageClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: None,
    };
    let set = prepare(&options, &NoTokenizer).unwrap().set;
    let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, 1);
    let plan = BatchPlan { sizes, rows: vec![0], cores: 1 };
    let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
    let mut batch = Collator::new(set, Padding::behind(0)).collate(scheduled).unwrap();
    let array = batch.cores.swap_remove(0).arrays.swap_remove(0);
    let ArrayValues::U8(values) = array.values else { panic!("{}", array.name) };
    (array.dims, values)
}

#[test]
fn pixels_are_those_of_transformers() {
    let cases = std::fs::read(fixtures().join("expected.json")).unwrap();
    let cases: Vec<Json> = serde_json::from_slice(&cases).unwrap();
    let expected = std::fs::read(fixtures().join("expected.rgb")).unwrap();
    let mut expected = expected.as_slice();
    let mut differ = Vec::new();
    for case in &cases {
        let image = case["image"].as_str().unwrap();
        let (dims, found) = pixels(image, &case["processor"]);
        let size = [&case["size"][0], &case["size"][1]].map(|it| it.as_u64().unwrap() as usize);
        assert_eq!(dims, [1, size[0], size[1], 3], "{case}");
        let (expect, rest) = expected.split_at(found.len());
        expected = rest;
        let different = found.iter().zip(expect).filter(|(found, expect)| found != expect).count();
        if different > 0 {
            differ.push(format!("{case}: {different} of {} values", found.len()));
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(expected.is_empty() && !cases.is_empty());
}
