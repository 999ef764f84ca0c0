//! Generates the Rust of `traind.rendezvous` with protox.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=rendezvous.proto");
    let descriptors = protox::compile(["rendezvous.proto"], ["."])?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
