//! The place of a folder on the disk, whatever its spelling.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Device and inode.
type Inode = (u64, u64);

/// A key of a folder for maps: a folder around it that exists, and the way from there.
pub type FolderKey = (Inode, Vec<OsString>);

/// Identifies a folder that may not exist yet: by device and inode of its deepest existing parent, and the names of
/// the folders that would be created in it. `..`, symbolic links and bind mounts do not matter.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Each existing folder on the way, the deepest first, with the path from there.
    parents: Vec<FolderKey>,
    path: PathBuf,
}

/// The position of a folder relative to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    Same,
    /// It is in the other folder, at any depth.
    Inside,
    /// The other folder is in it, at any depth.
    Around,
    Apart,
}

impl Identity {
    /// Identifies the folder of an absolute path. Fails if a parent cannot be looked up.
    pub fn of(path: &Path) -> io::Result<Identity> {
        let (mut existing, mut rest) = (PathBuf::from("/"), Vec::new());
        for component in path.components() {
            match component {
                Component::Normal(name) if rest.is_empty() => match existing
                    .join(name)
                    .canonicalize()
                {
                    Ok(found) => existing = found,
                    Err(error) if error.kind() == ErrorKind::NotFound => rest.push(name.to_owned()),
                    Err(error) => return Err(error),
                },
                Component::Normal(name) => rest.push(name.to_owned()),
                Component::ParentDir if rest.pop().is_none() => drop(existing.pop()),
                _ => {}
            }
        }
        let parents = parents_of(&existing, &rest)?;
        Ok(Identity { parents, path: rest.iter().fold(existing, |path, name| path.join(name)) })
    }

    /// The path without symbolic links and `..`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder's key. It is among [`Identity::keys_around`] of the same folder and of all folders in it.
    pub fn key(&self) -> Option<&FolderKey> {
        self.parents.first()
    }

    /// The keys that this folder and the folders around it may have, each with the name of the folder that
    /// leads from there to this one; `None` for this folder itself.
    pub fn keys_around(&self) -> impl Iterator<Item = (FolderKey, Option<&OsStr>)> {
        self.parents.iter().flat_map(|(inode, way)| {
            (0..=way.len()).map(|depth| {
                ((*inode, way[..depth].to_vec()), way.get(depth).map(OsString::as_os_str))
            })
        })
    }

    /// The position of this folder relative to `other`.
    pub fn relation(&self, other: &Identity) -> Relation {
        match (self.is_within(other), other.is_within(self)) {
            (true, true) => Relation::Same,
            (true, false) => Relation::Inside,
            (false, true) => Relation::Around,
            (false, false) => Relation::Apart,
        }
    }

    /// Returns true if both are the same folder.
    pub fn is(&self, other: &Identity) -> bool {
        self.relation(other) == Relation::Same
    }

    /// Whether this folder is `other` or in it.
    fn is_within(&self, other: &Identity) -> bool {
        let Some((inode, rest)) = other.parents.first() else { return false };
        let meets =
            |(parent, way): &(Inode, Vec<OsString>)| parent == inode && way.starts_with(rest);
        self.parents.iter().any(meets)
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.is(other)
    }
}

fn parents_of(existing: &Path, rest: &[OsString]) -> io::Result<Vec<FolderKey>> {
    let mut way: Vec<OsString> = rest.to_vec();
    let mut parents = Vec::new();
    for parent in existing.ancestors() {
        let metadata = fs::metadata(parent)?;
        parents.push(((metadata.dev(), metadata.ino()), way.clone()));
        way.insert(0, parent.file_name().unwrap_or(OsStr::new("")).to_owned());
    }
    Ok(parents)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch() -> tempfile::TempDir {
        let scratch = tempfile::tempdir().unwrap();
        for folder in ["a/b", "c"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        symlink(scratch.path().join("a"), scratch.path().join("link")).unwrap();
        symlink("c", scratch.path().join("relative")).unwrap();
        scratch
    }

    #[test]
    fn spellings_of_one_folder_are_equal() {
        let scratch = scratch();
        let check = |one: &str, other: &str, expect| {
            let of = |path: &str| Identity::of(&scratch.path().join(path)).unwrap();
            assert_eq!(of(one).relation(&of(other)), expect, "{one} and {other}");
            let is_within = matches!(expect, Relation::Same | Relation::Inside);
            let key = of(other).key().cloned().unwrap();
            assert_eq!(of(one).keys_around().any(|(around, _)| around == key), is_within);
            let mirrored = match expect {
                Relation::Inside => Relation::Around,
                Relation::Around => Relation::Inside,
                other => other,
            };
            assert_eq!(of(other).relation(&of(one)), mirrored, "{other} and {one}");
        };
        for (one, other) in [
            ("a", "a/"),
            ("a", "./a/."),
            ("a", "c/../a"),
            ("a", "link"),
            ("a/b", "link/b"),
            ("c", "relative"),
            ("c", "link/../c"),
            ("new", "x/../new"),
            ("new", "a/b/../../new"),
            ("a/new/deep", "link/new/./deep"),
            ("a/new", "a/new/other/.."),
            ("", "c/.."),
        ] {
            check(one, other, Relation::Same);
        }
        for (one, other) in
            [("a/b", "link"), ("link/b/new", "a"), ("new/deep", "x/../new"), ("a/n/m", "a/n")]
        {
            check(one, other, Relation::Inside);
        }
        for (one, other) in
            [("a", "c"), ("a/new", "c/new"), ("new", "newer"), ("a/b", "b"), ("n/m", "n/o")]
        {
            check(one, other, Relation::Apart);
        }
    }

    #[test]
    fn the_path_is_free_of_links() {
        let scratch = scratch();
        let root = scratch.path().canonicalize().unwrap();
        let found = Identity::of(&scratch.path().join("link/b/../new")).unwrap();
        assert_eq!(found.path(), root.join("a/new"));
    }
}
