//! Default paths of the state folder, the cache folder and the socket.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the store and the run folders, which must be kept.
pub(crate) fn state_dir() -> Option<PathBuf> {
    variable("TRAIND_STATE_DIR")
        .or_else(|| variable("STATE_DIRECTORY")) // systemd's StateDirectory=
        .or_else(|| variable("XDG_STATE_HOME").map(|home| home.join("traind")))
        .or_else(|| variable("HOME").map(|home| home.join(".local/state/traind")))
}

/// The folder of files that can be fetched or computed again: plugins, tokenized data, executables.
pub(crate) fn cache_dir() -> Option<PathBuf> {
    variable("TRAIND_CACHE_DIR")
        .or_else(|| variable("CACHE_DIRECTORY")) // systemd's CacheDirectory=
        .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("traind")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/traind")))
}

/// The socket of a daemon: in the runtime folder, or else in its state folder.
pub(crate) fn server_socket(state_dir: &Path) -> PathBuf {
    variable("TRAIND_SOCKET")
        .or_else(|| variable("RUNTIME_DIRECTORY").map(|folder| folder.join("traind.sock")))
        .or_else(|| variable("XDG_RUNTIME_DIR").map(|folder| folder.join("traind/traind.sock")))
        .unwrap_or_else(|| state_dir.join("traind.sock"))
}

/// The socket that clients use: the user's own if one exists, or else the system's.
pub(crate) fn client_socket() -> PathBuf {
    if let Some(path) = variable("TRAIND_SOCKET") {
        return path;
    }
    let system = PathBuf::from("/run/traind/traind.sock");
    let own = [
        variable("XDG_RUNTIME_DIR").map(|folder| folder.join("traind/traind.sock")),
        state_dir().map(|folder| folder.join("traind.sock")),
    ];
    own.into_iter().flatten().find(|path| path.exists()).unwrap_or(system)
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
