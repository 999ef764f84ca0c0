//! Generates the Rust of `traind.v1` with protox, a protobuf compiler that is a
//! crate: building needs no installed `protoc`.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;

const PROTO_FILES: &[&str] = &[
    "traind/v1/admin.proto",
    "traind/v1/cores.proto",
    "traind/v1/events.proto",
    "traind/v1/jobs.proto",
    "traind/v1/plugins.proto",
    "traind/v1/profile.proto",
    "traind/v1/runner.proto",
    "traind/v1/tokens.proto",
    "traind/v1/web.proto",
];

/// The messages that views of a job show as they are.
const SERIALIZED: [&str; 6] =
    ["Parent", "Step", "Failure", "DataPrepared", "TokenLengths", "ClassCount"];
/// Their fields that are no part of a job's state.
const NOT_SERIALIZED: [&str; 4] =
    ["Step.time", "Failure.transient", "DataPrepared.cache_hit", "DataPrepared.seconds"];
/// Their fields that are left out where they have no value.
const SERIALIZED_IF_SOME: [&str; 7] = [
    "Failure.field",
    "Failure.file",
    "Failure.row",
    "Failure.tensor",
    "Failure.step",
    "Failure.host",
    "DataPrepared.lengths",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=traind");
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(PROTO_FILES, ["."])?;
    fs::write(out_dir.join("traind_descriptor.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    serialize(&mut config);
    // Ordered maps: metrics print the same way everywhere.
    tonic_prost_build::configure().btree_map(".").compile_fds_with_config(descriptors, config)?;
    Ok(())
}

/// Derives serde's `Serialize`, with the wire's names, for the messages of a job.
fn serialize(config: &mut tonic_prost_build::Config) {
    let path = |name: &str| format!("traind.v1.{name}");
    let skip_if = |name: &str, predicate: &str| {
        let attribute = format!("#[serde(skip_serializing_if = \"{predicate}\")]");
        (path(name), attribute)
    };
    for name in SERIALIZED {
        config.type_attribute(path(name), "#[derive(::serde::Serialize)]");
    }
    for name in NOT_SERIALIZED {
        config.field_attribute(path(name), "#[serde(skip)]");
    }
    let left_out = SERIALIZED_IF_SOME.map(|name| skip_if(name, "Option::is_none"));
    let empty = [
        skip_if("Step.metrics", "::std::collections::BTreeMap::is_empty"),
        skip_if("DataPrepared.classes", "Vec::is_empty"),
    ];
    for (path, attribute) in left_out.into_iter().chain(empty) {
        config.field_attribute(path, attribute);
    }
}
