//! `traind plugins install`: fetches pinned wheels, verifies and unpacks them, and renames the result
//! into place.
//!
//! Concurrent installations wait for each other, and an installed plugin is not fetched again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use traind_durable::open_regular;

use super::{ANY_ARCH, Build, Contents, Origin, Plugin, PluginError, Wheel, wheel};

/// The result of an installation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Installed {
    /// The plugin was installed already.
    Present(PathBuf),
    /// The plugin was installed now.
    Unpacked(PathBuf),
}

/// Installs `plugin` into `cache_dir`, from the wheel or the folder of wheels `from`, or else from the
/// package index. `report` is called before each download.
pub(crate) fn install(
    plugin: &Plugin,
    cache_dir: &Path,
    from: Option<&Path>,
    report: impl Fn(&Wheel),
) -> Result<Installed, PluginError> {
    let (Origin::Wheels(wheels), Some(folder)) = (&plugin.origin, plugin.folder(cache_dir)) else {
        let instructions = plugin.instructions();
        return Err(PluginError::NotFetched { platform: plugin.platform, instructions });
    };
    install_wheels(wheels, &folder, plugin.library, from, report)
}

/// Unpacks wheels into `folder`, which is complete once it has the file `main`; returns the path of
/// that file.
pub(crate) fn install_wheels(
    wheels: &[Wheel],
    folder: &Path,
    main: &str,
    from: Option<&Path>,
    report: impl Fn(&Wheel),
) -> Result<Installed, PluginError> {
    let parent = folder.parent().unwrap_or(folder);
    fs::create_dir_all(parent).map_err(PluginError::io("create", parent))?;
    let _lock = lock(parent)?;
    let file = folder.join(main);
    if file.is_file() {
        return Ok(Installed::Present(file));
    }
    let scratch = tempfile::Builder::new().prefix(".install-").tempdir_in(parent);
    let scratch = scratch.map_err(PluginError::io("create a folder in", parent))?;
    let unpacked = scratch.path().join("unpacked");
    fs::create_dir(&unpacked).map_err(PluginError::io("create", &unpacked))?;
    for wheel in wheels {
        let build = build(wheel)?;
        match from {
            Some(from) => {
                let given = given(from, wheels, wheel, build)?;
                let copy = copy_verified(&given, scratch.path(), build)?;
                add(wheel, build, &copy, &unpacked)?;
                fs::remove_file(&copy).map_err(PluginError::io("remove", &copy))?;
            }
            None => {
                report(wheel);
                let file = download(wheel, build, scratch.path())?;
                add(wheel, build, &file, &unpacked)?;
                fs::remove_file(&file).map_err(PluginError::io("remove", &file))?;
            }
        }
    }
    publish(&unpacked, folder)?;
    Ok(Installed::Unpacked(file))
}

/// The user's file of a wheel: `from` itself, or in the folder `from`.
fn given(
    from: &Path,
    wheels: &[Wheel],
    wheel: &Wheel,
    build: &Build,
) -> Result<PathBuf, PluginError> {
    match (from.is_dir(), wheels.len()) {
        (true, _) => Ok(from.join(file_name(wheel, build))),
        (false, 1) => Ok(from.to_owned()),
        (false, count) => Err(PluginError::SeveralWheels { path: from.to_owned(), count }),
    }
}

/// Copies a user's file, which others may be able to replace after it was verified: of the copy, they are not.
fn copy_verified(given: &Path, folder: &Path, build: &Build) -> Result<PathBuf, PluginError> {
    // An error about another file names the given one, and comes before a long copy.
    wheel::verify(given, build.sha256)?;
    let copy = folder.join("given.whl");
    let source = open_regular(given).map_err(PluginError::io("open", given));
    let mut target = File::create(&copy).map_err(PluginError::io("create", &copy))?;
    io::copy(&mut source?, &mut target).map_err(PluginError::io("copy", given))?;
    Ok(copy)
}

/// Verifies a wheel and adds its files.
fn add(wheel: &Wheel, build: &Build, file: &Path, unpacked: &Path) -> Result<(), PluginError> {
    wheel::verify(file, build.sha256)?;
    match wheel.contents {
        Contents::Members(members) => wheel::unpack(file, members, unpacked),
        Contents::All => wheel::unpack_below(file, "", unpacked),
        Contents::Below(prefix) => wheel::unpack_below(file, prefix, unpacked),
    }
}

/// The lock is held as long as the file is open.
fn lock(parent: &Path) -> Result<File, PluginError> {
    let path = parent.join(".lock");
    let file = File::create(&path).map_err(PluginError::io("create", &path))?;
    file.lock().map_err(PluginError::io("lock", &path))?;
    Ok(file)
}

/// Renames the unpacked files into place. A folder without the library is replaced.
fn publish(unpacked: &Path, folder: &Path) -> Result<(), PluginError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(PluginError::io("remove", folder))?;
    }
    fs::rename(unpacked, folder).map_err(PluginError::io("rename into", folder))
}

fn build(wheel: &Wheel) -> Result<&'static Build, PluginError> {
    let arch = std::env::consts::ARCH;
    let found = wheel.builds.iter().find(|build| [arch, ANY_ARCH].contains(&build.arch));
    found.ok_or_else(|| PluginError::NoBuild {
        package: wheel.package,
        arch,
        builds: wheel.builds.iter().map(|build| build.arch).collect(),
    })
}

fn download(wheel: &Wheel, build: &Build, folder: &Path) -> Result<PathBuf, PluginError> {
    let python = python();
    let requirement = format!("{}=={}", wheel.package, wheel.version);
    let name = file_name(wheel, build);
    let output = Command::new(&python)
        .args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check"])
        .args(["--no-deps", "--only-binary=:all:", "--platform", platform(build), "--dest"])
        .arg(folder)
        .arg(&requirement)
        .output()
        .map_err(|source| PluginError::Python {
            python: python.clone(),
            wheel: name.clone(),
            source,
        })?;
    if !output.status.success() {
        return Err(pip_error(python, requirement, name, &output));
    }
    let path = folder.join(name);
    if path.is_file() { Ok(path) } else { Err(PluginError::NoWheel { folder: folder.to_owned() }) }
}

/// The interpreter that runs pip: `$TRAIND_PYTHON`, else the one beside this program, as in a virtual
/// environment, else that on `PATH`.
fn python() -> String {
    let beside = || {
        let python = std::env::current_exe().ok()?.with_file_name("python3");
        python.is_file().then(|| python.to_str().map(str::to_owned)).flatten()
    };
    let set = std::env::var("TRAIND_PYTHON").ok().filter(|python| !python.is_empty());
    set.or_else(beside).unwrap_or_else(|| "python3".to_owned())
}

/// One of the tags, since pip takes no more.
fn platform(build: &Build) -> &'static str {
    build.tag.split_once('.').map_or(build.tag, |(first, _)| first)
}

fn file_name(wheel: &Wheel, build: &Build) -> String {
    format!("{}-{}-py3-none-{}.whl", wheel.package.replace('-', "_"), wheel.version, build.tag)
}

fn pip_error(python: String, requirement: String, wheel: String, output: &Output) -> PluginError {
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if text.contains("No module named pip") {
        return PluginError::NoPip { python, wheel };
    }
    PluginError::Pip { requirement, status: output.status.to_string(), output: text, wheel }
}
