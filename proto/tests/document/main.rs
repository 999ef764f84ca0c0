//! Pages of `docs` that must agree with the schema and with the reasons of errors.
//! `TRAIND_WRITE_DOCS=1 cargo test -p traind-proto --test document` writes `docs/rpc.md` anew;
//! without that it is checked.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod rpc_page;
mod troubleshooting;

use std::fs;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

fn page(name: &str) -> String {
    fs::read_to_string(docs().join(name)).unwrap()
}
