//! The folders and URLs that jobs may name, if the operator restricts them.
//!
//! A job's paths are checked at submission, for a good error message: the kernel resolves each
//! beneath its root, so that neither `..` nor a symbolic link leads outside. A path that is
//! replaced later is stopped by the sandbox around the runner: see `fence.rs`.

use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

/// Folders below which jobs may read and write; without any, jobs are not restricted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roots {
    roots: Arc<Vec<Root>>,
    /// Prefixes of the URLs that jobs may read, if folders are set.
    urls: Arc<Vec<String>>,
}

#[derive(Debug)]
struct Root {
    path: PathBuf,
    folder: OwnedFd,
}

#[derive(Debug, thiserror::Error)]
#[error("--allow-root {path}: {source}", path = .path.display())]
pub(crate) struct RootError {
    path: PathBuf,
    source: io::Error,
}

impl Roots {
    pub(crate) fn open(paths: &[PathBuf], urls: &[String]) -> Result<Roots, RootError> {
        let roots = paths.iter().map(|path| {
            Root::open(path).map_err(|source| RootError { path: path.clone(), source })
        });
        let urls = urls.iter().map(|url| format!("{}/", url.trim_end_matches('/')));
        let (roots, urls) = (roots.collect::<Result<_, _>>()?, urls.collect());
        Ok(Roots { roots: Arc::new(roots), urls: Arc::new(urls) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.path.as_path())
    }

    /// Explains why a job may not use `path`, which need not exist yet; `None` if it may.
    pub(crate) fn objection(&self, path: &Path) -> Option<String> {
        if self.is_empty() || self.roots.iter().any(|root| root.contains(path)) {
            return None;
        }
        let roots: Vec<String> = self.paths().map(|root| root.display().to_string()).collect();
        let (path, roots) = (path.display(), roots.join(", "));
        Some(format!("{path} is outside the folders that this daemon allows: {roots}"))
    }

    /// Explains why a job may not read `url`; `None` if it may. URLs have neither `..` nor links, so
    /// comparing prefixes is enough.
    pub(crate) fn objection_to_url(&self, url: &str) -> Option<String> {
        if self.is_empty() || self.urls.iter().any(|allowed| url.starts_with(allowed)) {
            return None;
        }
        Some(match self.urls.is_empty() {
            true => format!("{url} is not on this host, and this daemon allows no URLs"),
            false => format!("{url} is not below {}", self.urls.join(", ")),
        })
    }
}

impl Root {
    fn open(path: &Path) -> io::Result<Root> {
        let path = path.canonicalize()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = open(&path, flags, Mode::empty())?;
        Ok(Root { path, folder })
    }

    fn contains(&self, path: &Path) -> bool {
        let Ok(mut inside) = path.strip_prefix(&self.path) else { return false };
        loop {
            match self.resolve(inside) {
                Ok(()) => return true,
                Err(Errno::NOENT) => {}
                Err(_) => return false,
            }
            // A missing path will be created below its parent, unless its name leads elsewhere.
            let named = matches!(inside.components().next_back(), Some(Component::Normal(_)));
            match inside.parent() {
                Some(parent) if named && !self.is_link(inside) => inside = parent,
                _ => return false,
            }
        }
    }

    fn resolve(&self, inside: &Path) -> Result<(), Errno> {
        self.open_beneath(inside, OFlags::PATH)
    }

    /// A dangling link looks absent when followed, but writing to it would create its target.
    fn is_link(&self, inside: &Path) -> bool {
        self.open_beneath(inside, OFlags::PATH | OFlags::NOFOLLOW).is_ok()
    }

    fn open_beneath(&self, inside: &Path, flags: OFlags) -> Result<(), Errno> {
        let inside = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        loop {
            match openat2(&self.folder, inside, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
                // The tree changed while the kernel resolved the path.
                Err(Errno::AGAIN | Errno::INTR) => {}
                found => return found.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn urls_must_be_below_an_allowed_one() {
        let host = tempfile::tempdir().unwrap();
        let roots = |urls: &[&str]| {
            let urls: Vec<String> = urls.iter().map(|url| (*url).to_owned()).collect();
            Roots::open(&[host.path().to_owned()], &urls).unwrap()
        };
        assert_eq!(Roots::default().objection_to_url("s3://b/k"), None);
        let none = roots(&[]).objection_to_url("s3://b/k").unwrap();
        assert!(none.contains("this daemon allows no URLs"), "{none}");
        for allowed in ["s3://b/data", "s3://b/data/"] {
            let roots = roots(&[allowed]);
            assert_eq!(roots.objection_to_url("s3://b/data/*.csv"), None);
            for other in ["s3://b/database/k", "s3://c/data/k", "s3://b/data", "s3://b/*/k"] {
                assert!(roots.objection_to_url(other).is_some(), "{other}");
            }
        }
    }

    #[test]
    fn paths_outside_a_root_are_refused() {
        let host = tempfile::tempdir().unwrap();
        let (root, other) = (host.path().join("root"), host.path().join("other"));
        fs::create_dir_all(root.join("data")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(root.join("data/train.csv"), "").unwrap();
        fs::write(other.join("secret"), "").unwrap();
        symlink(&other, root.join("out")).unwrap();
        symlink(other.join("not-there"), root.join("dangling")).unwrap();
        symlink("data", root.join("inside")).unwrap();
        let roots = Roots::open(std::slice::from_ref(&root), &[]).unwrap();
        let allowed = |path: &str| roots.objection(&root.join(path)).is_none();
        for path in ["", "data/train.csv", "inside/train.csv", "data/../data", "new/folder"] {
            assert!(allowed(path), "{path}");
        }
        let outside =
            ["../other/secret", "out/secret", "out", "dangling", "dangling/x", "new/../../other"];
        for path in outside {
            assert!(!allowed(path), "{path}");
        }
        assert!(roots.objection(Path::new("/etc/passwd")).unwrap().contains("allows"));
        assert!(Roots::default().objection(Path::new("/etc/passwd")).is_none());
    }
}
