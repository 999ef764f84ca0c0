//! Paths of the binaries and the plugin under test. `scripts/test` builds and fetches them
//! beforehand, so that no test waits for it.

use std::env;
use std::fs;
use std::path::PathBuf;

/// The path of `traind`, with the runner beside it: in `$TRAIND_BIN_DIR` if set, else in the folder
/// of the profile that the tests were built with.
pub fn traind() -> PathBuf {
    let folder = env::var_os("TRAIND_BIN_DIR").map_or_else(profile_folder, PathBuf::from);
    for name in ["traind", "traind-runner"] {
        let path = folder.join(name);
        assert!(path.is_file(), "no {}: cargo build --workspace --bins", path.display());
    }
    folder.join("traind")
}

/// A folder of compiled programs that all tests share. `cargo clean` deletes it.
pub(crate) fn shared_executables() -> PathBuf {
    let folder = profile_folder().with_file_name("tmp").join("traind-executables");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// `target/debug` of `target/debug/deps/end_to_end-…`.
fn profile_folder() -> PathBuf {
    let own = env::current_exe().unwrap();
    own.parent().and_then(|deps| deps.parent()).unwrap().to_owned()
}

/// The CPU plugin as `traind plugins install cpu` installs it.
pub(crate) fn cpu_plugin() -> PathBuf {
    let cache = variable("TRAIND_CACHE_DIR")
        .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("traind")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/traind")));
    let installed = cache.map(|cache| cache.join("plugins/cpu-0.0.1/xla_cpu_pjrt.so"));
    let path = variable("TRAIND_PLUGIN_CPU").or(installed).unwrap();
    assert!(path.is_file(), "no {}: traind plugins install cpu", path.display());
    path
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
