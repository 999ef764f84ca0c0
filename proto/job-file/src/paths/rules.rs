//! Paths that a shell would change, and those that no file system takes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

/// Explains why a path is probably not meant as it is written: `~`, variables of a shell, and NUL. A name with a dollar
/// sign is taken as it is if there is such a file.
pub(crate) fn unexpanded(path: &Path, base_dir: &Path) -> Option<String> {
    if path.as_os_str().as_bytes().contains(&0) {
        return Some("has a NUL character, which no path can have".to_owned());
    }
    if path.starts_with("~") {
        return Some("`~` is not expanded in a job file; write the folder out".to_owned());
    }
    if path.to_string_lossy().contains("://") {
        return None;
    }
    let mut existing = base_dir.to_owned();
    for component in path.components() {
        existing.push(component);
        if let Component::Normal(name) = component
            && let Some(variable) = variable(&name.to_string_lossy())
            && existing.symlink_metadata().is_err()
        {
            return Some(format!(
                "variables such as `{variable}` are not expanded in a job file; write the path out"
            ));
        }
    }
    None
}

/// The first `$NAME` or `${NAME}` of a text.
fn variable(text: &str) -> Option<&str> {
    for (at, _) in text.match_indices('$') {
        let rest = &text[at + 1..];
        let (open, close) = if rest.starts_with('{') { (1, 1) } else { (0, 0) };
        let is_of_name = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
        let name = &rest[open..];
        let length = name.find(|letter| !is_of_name(letter)).unwrap_or(name.len());
        let begins = name.starts_with(|letter: char| letter == '_' || letter.is_ascii_alphabetic());
        if begins && (close == 0 || name[length..].starts_with('}')) {
            return Some(&text[at..at + 1 + open + length + close]);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_expanded() {
        let base = tempfile::tempdir().unwrap();
        std::fs::create_dir(base.path().join("$HERE")).unwrap();
        let check = |path: &str, expect: Option<&str>| {
            let found = unexpanded(Path::new(path), base.path());
            let is_expected = match (&found, expect) {
                (Some(found), Some(expect)) => found.contains(expect),
                (found, expect) => found.is_none() && expect.is_none(),
            };
            assert!(is_expected, "{path:?}: {found:?}, not {expect:?}");
        };
        check("~/out", Some("`~` is not expanded"));
        check("${HOME}/x", Some("variables such as `${HOME}` are not expanded"));
        check("$HOME/x", Some("`$HOME`"));
        check("/scratch/$USER", Some("`$USER`"));
        check("runs/job-$SLURM_JOB_ID/out", Some("`$SLURM_JOB_ID`"));
        check("a\0b", Some("NUL"));
        for path in
            ["out", "~out", "a$", "5$ off", "cost$5", "${", "${}", "$HERE/out", "s3://bucket/$x"]
        {
            check(path, None);
        }
    }
}
