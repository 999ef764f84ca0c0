//! Where plugins are installed: `<cache_dir>/plugins/<platform>-<version>/*.so`.

use std::cmp::Ordering;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// The file of a platform's plugin: what `$TRAIND_PLUGIN_<PLATFORM>` names, be it
/// there or not, or else the newest one installed.
pub fn installed_plugin(platform: &str) -> Option<PathBuf> {
    let named = env::var_os(plugin_variable(platform)).filter(|path| !path.is_empty());
    match named {
        Some(path) => Some(path.into()),
        None => find_plugin(&cache_dir()?.join("plugins"), platform),
    }
}

/// The newest folder of what `traind plugins install NAME` has installed.
pub fn installed_folder(name: &str) -> Option<PathBuf> {
    folders(&cache_dir()?.join("plugins"), name).pop()
}

/// `TRAIND_PLUGIN_CPU` for `cpu`.
pub fn plugin_variable(platform: &str) -> String {
    format!("TRAIND_PLUGIN_{}", platform.to_uppercase().replace('-', "_"))
}

/// `$TRAIND_CACHE_DIR`, `$XDG_CACHE_HOME/traind` or `~/.cache/traind`.
pub fn cache_dir() -> Option<PathBuf> {
    let variable = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    let below = |dir: OsString, name: &str| PathBuf::from(dir).join(name);
    variable("TRAIND_CACHE_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(below(variable("XDG_CACHE_HOME")?, "traind")))
        .or_else(|| Some(below(variable("HOME")?, ".cache/traind")))
}

fn find_plugin(plugins: &Path, platform: &str) -> Option<PathBuf> {
    folders(plugins, platform).iter().rev().find_map(|folder| library_in(folder))
}

/// The folders of a platform's plugin, the newest version last.
fn folders(plugins: &Path, platform: &str) -> Vec<PathBuf> {
    let version_of = |folder: &Path| {
        let name = folder.file_name()?.to_str()?;
        Some(name.strip_prefix(platform)?.strip_prefix('-')?.to_owned())
    };
    let mut found: Vec<(String, PathBuf)> = entries(plugins)
        .into_iter()
        .filter_map(|folder| Some((version_of(&folder)?, folder)))
        .collect();
    found.sort_by(|a, b| compare_versions(&a.0, &b.0));
    found.into_iter().map(|(_, folder)| folder).collect()
}

fn library_in(folder: &Path) -> Option<PathBuf> {
    entries(folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "so"))
        .min()
}

/// The entries of a folder; none where it cannot be read, since nothing is installed there.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Part by part, numbers by value: 0.10.0 is newer than 0.9.1.
fn compare_versions(a: &str, b: &str) -> Ordering {
    let parts = |version: &str| -> Vec<(Option<u64>, String)> {
        version.split('.').map(|part| (part.parse().ok(), part.to_owned())).collect()
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(plugins: &Path, folder: &str, file: &str) -> PathBuf {
        let folder = plugins.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(file), []).unwrap();
        folder.join(file)
    }

    #[test]
    fn the_newest_version_of_the_platform_is_found() {
        let plugins = tempfile::tempdir().unwrap();
        install(plugins.path(), "cpu-0.9.1", "old.so");
        let newest = install(plugins.path(), "cpu-0.10.0", "new.so");
        install(plugins.path(), "cpu-0.11.0", "header.h");
        install(plugins.path(), "cuda-9.0.0", "other.so");
        assert_eq!(find_plugin(plugins.path(), "cpu"), Some(newest));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let plugins = tempfile::tempdir().unwrap();
        assert_eq!(find_plugin(plugins.path(), "cpu"), None);
        assert_eq!(find_plugin(&plugins.path().join("absent"), "cpu"), None);
    }

    #[test]
    fn the_variable_is_named_after_the_platform() {
        assert_eq!(plugin_variable("cpu"), "TRAIND_PLUGIN_CPU");
    }
}
