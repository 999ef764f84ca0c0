//! Verifies a pinned wheel's checksum and unpacks a few of its members.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::PluginError;

/// Checks that a file has the pinned checksum.
pub(super) fn verify(path: &Path, expected: &'static str) -> Result<(), PluginError> {
    let found = sha256(path).map_err(PluginError::io("read", path))?;
    if found == expected {
        return Ok(());
    }
    Err(PluginError::Checksum { path: path.to_owned(), found, expected })
}

/// Unpacks `members` flat into `folder`, durably.
pub(super) fn unpack(path: &Path, members: &[&str], folder: &Path) -> Result<(), PluginError> {
    let file = File::open(path).map_err(PluginError::io("open", path))?;
    let unpack_error = |member: &str| {
        let (path, member) = (path.to_owned(), member.to_owned());
        move |source| PluginError::Unpack { path, member, source }
    };
    let mut archive = zip::ZipArchive::new(file).map_err(unpack_error("the index"))?;
    for member in members {
        let mut entry = archive.by_name(member).map_err(unpack_error(member))?;
        let name = member.rsplit('/').next().unwrap_or(member);
        let target = folder.join(name);
        write(&mut entry, &target).map_err(PluginError::io("write", &target))?;
    }
    let folder_file = File::open(folder).map_err(PluginError::io("open", folder))?;
    folder_file.sync_all().map_err(PluginError::io("sync", folder))
}

fn write(source: &mut impl Read, target: &Path) -> io::Result<()> {
    let mut file = File::create(target)?;
    io::copy(source, &mut file)?;
    file.sync_all()
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn wheel(folder: &Path) -> std::path::PathBuf {
        let path = folder.join("a.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        let options = zip::write::SimpleFileOptions::default();
        for (name, text) in [("p/lib.so", "library"), ("p/include/api.h", "header")] {
            writer.start_file(name, options).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        path
    }

    #[test]
    fn members_are_unpacked_flat() {
        let folder = tempfile::tempdir().unwrap();
        let path = wheel(folder.path());
        unpack(&path, &["p/lib.so", "p/include/api.h"], folder.path()).unwrap();
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!((read("lib.so"), read("api.h")), ("library".into(), "header".into()));
    }

    #[test]
    fn a_missing_member_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = wheel(folder.path());
        let error = unpack(&path, &["p/other.so"], folder.path()).unwrap_err().to_string();
        assert!(error.contains("p/other.so"), "{error}");
    }

    #[test]
    fn a_wrong_checksum_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        std::fs::write(&path, "abc").unwrap();
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        verify(&path, abc).unwrap();
        std::fs::write(&path, "abd").unwrap();
        assert!(matches!(verify(&path, abc), Err(PluginError::Checksum { .. })));
    }
}
