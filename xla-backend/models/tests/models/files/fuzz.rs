//! Damaged weights: each file is read or refused with an error that names it, and what its
//! header claims is believed only as far as the file goes.

use std::path::Path;

use traind_fuzz::{Format, Outcome, cases, fuzz};
use traind_models::weights::{Checkpoint, SafetensorsFile};
use traind_models::{Error, ModelConfig};

const WORDS: [&[u8]; 12] = [
    b"\"",
    b"{",
    b"]",
    b"null",
    b"-1",
    b"18446744073709551615",
    b"9223372036854775807",
    b"\"F16\"",
    b"\"F8_E4M3\"",
    b"\"data_offsets\":[0,0]",
    b"\"shape\":[]",
    b"\0\0\0\0\0\0\0\0",
];

/// Tensors of several types, a scalar and one without values among them.
fn good() -> Vec<u8> {
    let header = serde_json::json!({
        "__metadata__": {"format": "pt"},
        "a.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b.weight": {"dtype": "F16", "shape": [4], "data_offsets": [24, 32]},
        "c.weight": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [32, 36]},
        "d.scale": {"dtype": "F32", "shape": [], "data_offsets": [36, 40]},
        "e.none": {"dtype": "F64", "shape": [0, 7], "data_offsets": [40, 40]},
    });
    let header = header.to_string();
    let values: Vec<u8> = (0..40).collect();
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &values].concat()
}

/// Reads all that it has.
fn read(path: &Path) -> Result<(), Error> {
    let file = SafetensorsFile::open(path)?;
    file.names().iter().try_for_each(|name| {
        let array = file.read_f32(name)?;
        assert_eq!(array.shape().dims, file.shape(name)?);
        Ok(())
    })
}

fn outcome(path: &Path) -> Outcome {
    match read(path) {
        Ok(()) => Outcome::Read,
        Err(Error::Corrupt { path: named, .. } | Error::WeightDType { path: named, .. })
            if named == path =>
        {
            Outcome::Refused
        }
        Err(error) => Outcome::Fault(format!("not an error about the file: {error:?}")),
    }
}

#[test]
fn damaged_safetensors_are_read_or_refused() {
    let cases = cases(5_000);
    fuzz(&Format { file: "a.safetensors", good: good(), words: &WORDS, cases }, outcome);
}

/// A sparse file has a terabyte, and takes no room on a disk.
#[test]
fn sparse_files_that_describe_a_model_are_not_read() {
    let folder = traind_fuzz::folder();
    let sparse = |name: &str| {
        let file = std::fs::File::create(folder.path().join(name)).unwrap();
        file.set_len(1 << 40).unwrap();
    };
    let check = |error: Error, name: &str| {
        let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(
            error.to_string().contains(name) && why.contains("268435456 bytes"),
            "{error}: {why}"
        );
    };
    sparse("config.json");
    let config = ModelConfig::load(folder.path(), &Default::default());
    check(config.unwrap_err(), "config.json");
    sparse("model.safetensors.index.json");
    check(Checkpoint::open(folder.path()).unwrap_err(), "model.safetensors.index.json");
}

/// A file of a few bytes must not have megabytes allocated for it, whatever it says.
#[test]
fn sizes_that_a_header_claims_are_not_allocated() {
    let folder = traind_fuzz::folder();
    let path = folder.path().join("a.safetensors");
    let with_header =
        |header: &str| [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 16]].concat();
    let of_one = |shape: &str, offsets: &str| {
        with_header(&format!(
            r#"{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": {offsets}}}}}"#
        ))
    };
    let claims = [
        u64::MAX.to_le_bytes().to_vec(),
        99_000_000_u64.to_le_bytes().to_vec(),
        of_one("[1000000000000]", "[0, 4000000000000]"),
        of_one("[4]", "[0, 18446744073709551615]"),
        of_one("[4294967296, 4294967296, 4294967296]", "[0, 16]"),
        of_one("[4]", "[16, 0]"),
        of_one("[4]", "[4, 20]"),
    ];
    for claim in claims {
        std::fs::write(&path, &claim).unwrap();
        let error = read(&path).expect_err("a damaged file").to_string();
        assert!(error.contains("a.safetensors"), "{error}");
        assert_eq!(outcome(&path), Outcome::Refused, "{error}");
    }
}
