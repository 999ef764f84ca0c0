//! A folder that a job writes, on the disk or in a bucket.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use traind_job_file::DataFiles;

use crate::identity::{Identity, Relation};

/// The longest name of a file on all file systems of Linux, and the longest path, in bytes.
const NAME_MAX: usize = 255;
const PATH_MAX: usize = 4095;
/// Linux's number of the error for links that lead back to themselves, which has no stable `ErrorKind`.
const ELOOP: i32 = 40;

/// A folder that a job writes, to be compared with those of other jobs.
#[derive(Clone, Debug)]
pub enum Place {
    Disk(Identity),
    /// The parts of a URL.
    Bucket(Vec<String>),
}

impl Place {
    /// Returns the place of an absolute path or of a URL.
    pub fn of(path: &Path) -> io::Result<Place> {
        if !DataFiles::is_url(path) {
            return Identity::of(path).map(Place::Disk);
        }
        let text = path.to_string_lossy();
        let parts = text.split('/').filter(|part| !part.is_empty());
        Ok(Place::Bucket(parts.map(str::to_owned).collect()))
    }

    /// The position of this folder relative to `other`.
    pub fn relation(&self, other: &Place) -> Relation {
        match (self, other) {
            (Place::Disk(one), Place::Disk(other)) => one.relation(other),
            (Place::Bucket(one), Place::Bucket(other)) if one == other => Relation::Same,
            (Place::Bucket(one), Place::Bucket(other)) if one.starts_with(other) => {
                Relation::Inside
            }
            (Place::Bucket(one), Place::Bucket(other)) if other.starts_with(one) => {
                Relation::Around
            }
            _ => Relation::Apart,
        }
    }
}

/// Explains why no folder can have this path: names that are too long, and links that lead nowhere.
pub fn objection(path: &Path) -> Option<String> {
    let bytes = path.as_os_str().len();
    if bytes > PATH_MAX {
        return Some(format!("is {bytes} bytes long; a path has at most {PATH_MAX}"));
    }
    if let Some(name) = path.iter().find(|name| name.len() > NAME_MAX) {
        let (bytes, start) = (name.len(), String::from_utf8_lossy(&name.as_bytes()[..24]));
        return Some(format!(
            "has the name `{start}…` of {bytes} bytes; a name has at most {NAME_MAX}"
        ));
    }
    let mut parents: Vec<&Path> = path.ancestors().collect();
    parents.reverse();
    parents.into_iter().find_map(dangling)
}

fn dangling(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    let shown = (path.display(), target.display());
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Some(format!("{} is a link to {}, which does not exist", shown.0, shown.1))
        }
        Err(error) if error.raw_os_error() == Some(ELOOP) => {
            Some(format!("{} is a link to {}, which leads back to it", shown.0, shown.1))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_buckets_are_compared_by_their_parts() {
        let check = |one: &str, other: &str, expect| {
            let of = |url: &str| Place::of(Path::new(url)).unwrap();
            assert_eq!(of(one).relation(&of(other)), expect, "{one} and {other}");
        };
        check("s3://b/x", "s3://b/x/", Relation::Same);
        check("s3://b/x/y", "s3://b/x", Relation::Inside);
        check("s3://b/x", "s3://b/xy", Relation::Apart);
        check("s3://b/x", "/b/x", Relation::Apart);
    }

    #[test]
    fn paths_that_cannot_be_created_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        symlink("nowhere", path("dangling")).unwrap();
        symlink("loop", path("loop")).unwrap();
        symlink(".", path("here")).unwrap();
        let check = |name: &str, expect: Option<&str>| {
            let found = objection(&path(name));
            assert!(
                found.as_deref().map_or(expect.is_none(), |found| expect
                    .is_some_and(|expect| found.contains(expect))),
                "{name:.30}: {found:?}"
            );
        };
        check("new/folder", None);
        check("here/new", None);
        check("dangling", Some("dangling is a link to nowhere, which does not exist"));
        check("dangling/out", Some("is a link to nowhere, which does not exist"));
        check("loop/out", Some("which leads back to it"));
        check(&"x".repeat(255), None);
        check(&"x".repeat(256), Some("of 256 bytes; a name has at most 255"));
        check(&"long/".repeat(1000), Some("a path has at most 4095"));
    }
}
