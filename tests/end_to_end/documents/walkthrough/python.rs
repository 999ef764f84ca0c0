//! The Python of `docs/python.md`, run block by block in one interpreter.

use std::process::Command;

use serde_json::json;
use traind_tests::{CommandOutput, Host, JOB_FILE, data};

use super::Walk;
use crate::clients::python_client::{in_tests, python};

/// The texts that are replaced because they need accelerators, a bucket or the network.
const REPLACED: [(&str, &str); 6] = [
    ("\"distilbert-base-uncased\"", "\"./model\""),
    ("instance_type=\"ml.trn1.32xlarge\"", "cores=1"),
    ("{1: \"bad\", 2: \"good\"}", "[\"animal\", \"fruit\", \"tool\"]"),
    ("\"/models\"", "\"models\""),
    ("\"s3://bucket/train\"", "\"train.csv\""),
    ("\"s3://bucket/test\"", "\"validation.parquet\""),
];
/// A block that connects to a daemon on another host.
const REMOTE: &str = "traind.Client(\"host:7443\"";

#[tokio::test(flavor = "multi_thread")]
async fn the_python_of_its_page_works() {
    let Some(python) = python() else { return };
    let walk = Walk::new(Host::started(1).await, "docs/python.md", &[]);
    walk.write_model("model", "bert-sequence-classification");
    walk.write("train.csv", data::csv(&data::rows(1, 60, 6)));
    walk.write("validation.parquet", data::parquet(&data::rows(2, 53, 6)));
    walk.write("job.yaml", JOB_FILE);
    let page: String = walk.blocks("python").collect();
    for (shown, _) in REPLACED {
        assert!(page.contains(shown), "the page has no {shown}");
    }
    let blocks: Vec<String> = walk
        .blocks("python")
        .filter(|block| !block.starts_with(REMOTE))
        .map(|block| REPLACED.iter().fold(block.to_owned(), |block, (a, b)| block.replace(a, b)))
        .collect();
    assert!(blocks.len() >= 4, "{blocks:?}");

    let package = walk.folder().join("package");
    let mut generate = Command::new(&python);
    generate.arg(in_tests("../proto/python/generate.py")).arg(&package);
    run(&mut generate);
    let mut page = Command::new(&python);
    page.arg(in_tests("end_to_end/documents/walkthrough/blocks.py")).arg(json!(blocks).to_string());
    page.current_dir(walk.folder());
    page.env("PYTHONPATH", &package).env("TRAIND_SOCKET", walk.host.socket());
    let shown = run(&mut page);
    assert!(shown.contains("eval_accuracy"), "{shown}");
    assert!(shown.contains("train.learning_rat is not a known key"), "{shown}");
    assert!(walk.folder().join("models").is_dir(), "{shown}");
}

pub(super) fn run(command: &mut Command) -> String {
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, Some(0), "{}\n{}", output.stdout, output.stderr);
    output.stdout
}
