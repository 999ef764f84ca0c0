//! A model folder of a GGUF file, from which texts are generated.

use std::path::Path;

use serde_json::Value;
use traind_tests::Host;

#[tokio::test]
async fn files_of_llama_cpp_become_models() {
    let host = Host::started(1).await;
    let folder = tempfile::tempdir().unwrap();
    let fixtures =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../xla-backend/models/fixtures/gguf");
    let file = fixtures.join("llama-words.gguf").display().to_string();
    let run = |arguments: &[&str]| host.cli(folder.path(), arguments);
    let converted = run(&["convert-weights", &file]);
    assert_eq!(converted.code, Some(0), "{}", converted.stderr);
    let expect = "llama-words: a llama of ";
    assert!(converted.stdout.starts_with(expect), "{}", converted.stdout);
    let generated =
        run(&["generate", "llama-words", "the cat", "--max-new-tokens", "3", "-o", "json"]);
    assert_eq!(generated.code, Some(0), "{}", generated.stderr);
    let texts: Value = serde_json::from_str(&generated.stdout).unwrap();
    assert_eq!(texts[0]["tokens"].as_array().map(Vec::len), Some(3), "{texts}");
    let again = run(&["convert-weights", &file]);
    assert!(again.stderr.contains("llama-words has files already"), "{}", again.stderr);
    let absent = run(&["convert-weights", "absent.gguf"]);
    assert!(absent.stderr.contains("there is no file absent.gguf"), "{}", absent.stderr);
}
