//! The daemon's unix socket. It is bound under a temporary name and renamed once its mode is set,
//! so that no client connects before.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;

/// Access for the daemon's user and the socket's group.
const MODE: u32 = 0o660;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("another daemon answers on {path}", path = .path.display())]
    InUse { path: PathBuf },
    #[error("{path} exists and is not a socket", path = .path.display())]
    NoSocket { path: PathBuf },
    #[error("{action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

pub(crate) fn bind(path: &Path, group: Option<u32>) -> Result<UnixListener, SocketError> {
    refuse_existing(path)?;
    let io_error = |action| {
        let path = path.to_owned();
        move |source| SocketError::Io { action, path, source }
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(io_error("create the folder of"))?;
    }
    let draft = path.with_extension("new");
    let _ = fs::remove_file(&draft);
    let listener = UnixListener::bind(&draft).map_err(io_error("bind"))?;
    std::os::unix::fs::chown(&draft, None, group).map_err(io_error("give a group to"))?;
    fs::set_permissions(&draft, Permissions::from_mode(MODE))
        .map_err(io_error("set the mode of"))?;
    fs::rename(&draft, path).map_err(io_error("rename"))?;
    Ok(listener)
}

/// Refuses the socket of a running daemon, and other files. A dead daemon's socket is replaced.
fn refuse_existing(path: &Path) -> Result<(), SocketError> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Ok(metadata) if !metadata.file_type().is_socket() => {
            return Err(SocketError::NoSocket { path: path.to_owned() });
        }
        _ => {}
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(SocketError::InUse { path: path.to_owned() }),
        Err(_) => Ok(()),
    }
}

pub(crate) fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "remove the socket");
    }
}
