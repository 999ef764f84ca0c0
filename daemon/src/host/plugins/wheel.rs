//! Verifies a pinned wheel's checksum and unpacks its members.

use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use traind_durable::open_regular;
use zip::result::ZipError;

use super::PluginError;
use crate::hex::hex;

/// The owner's right to execute a file.
const EXECUTABLE: u32 = 0o100;

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

/// Unpacks the members whose paths begin with `prefix` into `folder`, without the prefix, with their
/// folders and permissions, durably.
pub(super) fn unpack_below(path: &Path, prefix: &str, folder: &Path) -> Result<(), PluginError> {
    let file = File::open(path).map_err(PluginError::io("open", path))?;
    let unpack_error = |member: String| {
        let path = path.to_owned();
        move |source| PluginError::Unpack { path, member, source }
    };
    let mut archive = zip::ZipArchive::new(file).map_err(unpack_error("the index".to_owned()))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(unpack_error(format!("member {index}")))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.enclosed_name().ok_or_else(|| {
            let outside = ZipError::InvalidArchive("is outside the wheel's folder".into());
            unpack_error(entry.name().to_owned())(outside)
        })?;
        let Ok(name) = name.strip_prefix(prefix) else { continue };
        let target = folder.join(name);
        let mode = entry.unix_mode();
        write_below(&mut entry, &target, mode).map_err(PluginError::io("write", &target))?;
    }
    Ok(())
}

fn write_below(source: &mut impl Read, target: &Path, mode: Option<u32>) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    write(source, target)?;
    match mode.filter(|mode| mode & EXECUTABLE != 0) {
        Some(_) => fs::set_permissions(target, Permissions::from_mode(0o755)),
        None => Ok(()),
    }
}

fn write(source: &mut impl Read, target: &Path) -> io::Result<()> {
    let mut file = File::create(target)?;
    io::copy(source, &mut file)?;
    file.sync_all()
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = open_regular(path)?;
    let mut digest = Sha256::new();
    io::copy(&mut file, &mut digest)?;
    Ok(hex(&digest.finalize()))
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
    fn a_whole_wheel_keeps_folders_and_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tools.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        for (name, mode) in [("nvidia/bin/ptxas", 0o755), ("nvidia/lib/libx.so", 0o644)] {
            let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
            writer.start_file(name, options).unwrap();
            writer.write_all(name.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
        unpack_below(&path, "", folder.path()).unwrap();
        for (name, executable) in [("nvidia/bin/ptxas", true), ("nvidia/lib/libx.so", false)] {
            let file = folder.path().join(name);
            assert_eq!(fs::read_to_string(&file).unwrap(), name);
            let mode = file.metadata().unwrap().permissions().mode();
            assert_eq!(mode & EXECUTABLE != 0, executable, "{name}");
        }
    }

    #[test]
    fn a_part_of_a_wheel_is_unpacked_without_its_prefix() {
        let folder = tempfile::tempdir().unwrap();
        let path = wheel(folder.path());
        let target = folder.path().join("target");
        unpack_below(&path, "p/include", &target).unwrap();
        assert_eq!(fs::read_to_string(target.join("api.h")).unwrap(), "header");
        assert!(!target.join("p").exists() && !target.join("lib.so").exists());
    }

    #[test]
    fn a_member_outside_the_folder_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hostile.whl");
        let mut writer = zip::ZipWriter::new(File::create(&path).unwrap());
        writer.start_file("../escaped", zip::write::SimpleFileOptions::default()).unwrap();
        writer.finish().unwrap();
        let target = folder.path().join("target");
        let error = unpack_below(&path, "", &target).unwrap_err().to_string();
        assert!(error.contains("../escaped"), "{error}");
        assert!(!folder.path().join("escaped").exists());
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
        let error = verify(Path::new("/dev/zero"), abc).unwrap_err().to_string();
        assert!(error.contains("read /dev/zero"), "{error}");
    }
}
