//! Where the library of the MPI ABI is.

use std::env;
use std::path::PathBuf;

/// Names a library of the MPI ABI, such as that of a cluster.
pub const LIBRARY_VARIABLE: &str = "TRAIND_PLUGIN_MPI";

/// The name by which the system's loader finds a library of the ABI's version 1.
const SYSTEM_LIBRARY: &str = "libmpi_abi.so.1";

/// The library: that which [`LIBRARY_VARIABLE`] names, or the one that `traind plugins install mpi`
/// installed, or the system's.
pub fn installed_library() -> PathBuf {
    let named = env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
    let installed = || {
        let folder = traind_pjrt::installed_folder("mpi")?;
        Some(folder.join("lib").join(SYSTEM_LIBRARY)).filter(|path| path.is_file())
    };
    named.map(PathBuf::from).or_else(installed).unwrap_or_else(|| SYSTEM_LIBRARY.into())
}
