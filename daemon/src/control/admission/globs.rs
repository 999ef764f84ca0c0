//! The files that a pattern matches, looked for within a budget: `/**/*` leads through all disks of the host, and a
//! user may have made millions of entries. The runner, whose time is the job's, looks at all of them.

use std::fs::{self, DirEntry};
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use traind_job_file::DataFiles;

/// The entries of folders that are looked at for a pattern.
const ENTRIES_MAX: usize = 20_000;

/// `*` stays within a folder, as where files are listed.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// The result of a search.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Whether a file matches.
    pub has_file: bool,
    /// A match that is neither a file nor a folder.
    pub special: Option<PathBuf>,
    /// Whether all entries were looked at.
    pub is_complete: bool,
}

/// Looks for the matches of an absolute pattern; `None` for one that cannot be parsed.
pub(super) fn look(pattern: &Path) -> Option<Found> {
    look_at(pattern, ENTRIES_MAX)
}

fn look_at(pattern: &Path, entries_max: usize) -> Option<Found> {
    let is_wild = |part: &Component<'_>| DataFiles::is_glob(Path::new(part.as_os_str()));
    let fixed: PathBuf = pattern.components().take_while(|part| !is_wild(part)).collect();
    let wild = pattern.components().skip_while(|part| !is_wild(part));
    let is_recursive = wild.clone().any(|part| part.as_os_str() == "**");
    let mut search = Search {
        pattern: Pattern::new(pattern.to_str()?).ok()?,
        is_recursive,
        depth_max: wild.count(),
        entries_left: entries_max,
        found: Found { is_complete: true, ..Found::default() },
    };
    search.walk(fixed);
    Some(search.found)
}

struct Search {
    pattern: Pattern,
    /// Whether the pattern has a `**`, which stands for any depth and follows no links.
    is_recursive: bool,
    depth_max: usize,
    entries_left: usize,
    found: Found,
}

impl Search {
    fn walk(&mut self, start: PathBuf) {
        let mut folders = vec![(start, 1)];
        while let Some((folder, depth)) = folders.pop() {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let Some(left) = self.entries_left.checked_sub(1) else {
                    self.found.is_complete = false;
                    return;
                };
                self.entries_left = left;
                let path = entry.path();
                self.note(&path);
                if self.descends(&entry, depth) {
                    folders.push((path, depth + 1));
                }
            }
        }
    }

    fn note(&mut self, path: &Path) {
        if !self.pattern.matches_path_with(path, OPTIONS) {
            return;
        }
        match path.metadata() {
            Ok(found) if found.is_file() => self.found.has_file = true,
            Ok(found) if !found.is_dir() => self.found.special = Some(path.to_owned()),
            _ => {}
        }
    }

    fn descends(&self, entry: &DirEntry, depth: usize) -> bool {
        let Ok(kind) = entry.file_type() else { return false };
        match self.is_recursive {
            true => kind.is_dir(),
            false if depth >= self.depth_max => false,
            false => kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::control::admission::make_pipe;

    #[test]
    fn files_are_found_as_globs_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a/b", "c"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        for name in ["x.csv", "a/y.csv", "a/b/z.csv", "c/.h.csv"] {
            fs::write(path(name), "").unwrap();
        }
        symlink("a", path("link")).unwrap();
        let has = |pattern: &str| {
            let found = look(&path(pattern)).unwrap();
            let all = glob::glob(path(pattern).to_str().unwrap()).unwrap().flatten();
            assert_eq!(found.has_file, all.filter(|path| path.is_file()).count() > 0, "{pattern}");
            assert!(found.is_complete && found.special.is_none(), "{pattern}: {found:?}");
            found.has_file
        };
        for pattern in [
            "*.csv",
            "*/*.csv",
            "**/z.csv",
            "**/*.csv",
            "link/*.csv",
            "l*/y.csv",
            "?/.h*",
            "a/**/*",
        ] {
            assert!(has(pattern), "{pattern}");
        }
        for pattern in ["*.txt", "*/z.csv", "**/w.csv", "none/*.csv", "x*/y.csv"] {
            assert!(!has(pattern), "{pattern}");
        }
        make_pipe(&path("p.csv"));
        assert_eq!(look(&path("*.csv")).unwrap().special, Some(path("p.csv")));
        assert!(look(&path("[")).is_none());
    }

    /// The search ends long before such a tree does.
    #[test]
    fn a_pattern_that_leads_everywhere_has_a_budget() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..300 {
            fs::write(folder.path().join(number.to_string()), "").unwrap();
        }
        // `**` follows no links, of which this one leads in a circle.
        symlink(".", folder.path().join("loop")).unwrap();
        let pattern = folder.path().join("**/none");
        assert!(look_at(&pattern, 1000).unwrap().is_complete);
        assert!(!look_at(&pattern, 200).unwrap().is_complete);
        let wide = folder.path().join("*/*/*/*/*/*/*/none");
        assert!(!look_at(&wide, 1000).unwrap().is_complete);
        assert!(!look(Path::new("/**/no such file")).unwrap().has_file);
    }
}
