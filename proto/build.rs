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

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=traind");
    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let descriptors = protox::compile(PROTO_FILES, ["."])?;
    fs::write(out_dir.join("traind_descriptor.bin"), descriptors.encode_to_vec())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    // Ordered maps: metrics print the same way everywhere.
    tonic_prost_build::configure().btree_map(".").compile_fds_with_config(descriptors, config)?;
    Ok(())
}
