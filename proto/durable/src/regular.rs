//! Reads files that others may have put in place: opening a pipe may never return, and reading a device may never end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `O_NONBLOCK` of Linux on all supported processors.
const O_NONBLOCK: i32 = 0o4000;

/// Opens a regular file for reading. Refuses pipes, sockets and devices, and waits for none of them.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a device may have effects.
    check(&fs::metadata(path)?)?;
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    // It may have been replaced meanwhile.
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most `bytes_max` bytes.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let (file, mut content) = (open_regular(path)?, Vec::new());
    // A long file is not read in vain. A short one may grow meanwhile, and those of the kernel have no length.
    if file.metadata()?.len() <= bytes_max {
        file.take(bytes_max.saturating_add(1)).read_to_end(&mut content)?;
        if content.len() as u64 <= bytes_max {
            return Ok(content);
        }
    }
    Err(invalid(format!("it has more than {bytes_max} bytes")))
}

/// The longest file that describes a model: configs, indexes of weights, vocabularies. The largest published ones have
/// some tens of megabytes.
const DESCRIPTION_BYTES_MAX: u64 = 256 << 20;

/// Reads a file that describes a model or data, of which a folder may have any number of bytes: a sparse file takes no
/// room on a disk, and all memory.
pub fn read_description(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, DESCRIPTION_BYTES_MAX)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    match found.is_file() {
        true => Ok(()),
        false => {
            Err(invalid("it is not a file, but a folder, a pipe, a socket or a device".to_owned()))
        }
    }
}

fn invalid(message: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn only_files_of_a_bounded_size_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "12345").unwrap();
        symlink(path("file"), path("link")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read_regular(&path(name), 5).unwrap(), b"12345");
            let error = read_regular(&path(name), 4).unwrap_err().to_string();
            assert_eq!(error, "it has more than 4 bytes");
        }
        assert!(Command::new("mkfifo").arg(path("pipe")).status().unwrap().success());
        let _socket = UnixListener::bind(path("socket")).unwrap();
        symlink("/dev/zero", path("endless")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        for name in ["pipe", "socket", "endless", "folder"] {
            let error = read_regular(&path(name), 1 << 20).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{name}: {error}");
        }
        assert_eq!(read_regular(&path("none"), 1).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
