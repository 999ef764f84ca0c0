//! `traind plugins`: installs into this user's cache folder, without a daemon.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Subcommand;

use super::Global;
use super::exit::Exit;
use super::show::table::print_table;
use crate::host::plugins::install::{Installed, install};
use crate::host::plugins::{MPI, PLUGINS, installable};
use crate::paths;

/// List the PJRT plugins, or install one
#[derive(clap::Args)]
pub(crate) struct Plugins {
    /// Folder of the plugins [default: $TRAIND_CACHE_DIR or ~/.cache/traind]
    #[arg(long, value_name = "DIR", global = true)]
    cache_dir: Option<PathBuf>,
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List platforms, versions and paths
    List,
    /// Download a platform's plugin, with the libraries that it needs, and check the pinned sha256
    Install {
        /// cpu or cuda; or mpi, the library by which CPU hosts of one job exchange data
        platform: String,
        /// Install from this wheel, or from the wheels in this folder, instead of the package index
        #[arg(long, value_name = "PATH")]
        from: Option<PathBuf>,
    },
}

impl Plugins {
    pub(crate) async fn run(self, _: Global) -> anyhow::Result<Exit> {
        let cache_dir = self.cache_dir.or_else(paths::cache_dir);
        let cache_dir = cache_dir.context("no cache folder: HOME is not set; set --cache-dir")?;
        let cache_dir = std::path::absolute(&cache_dir).context("resolve the cache folder")?;
        match self.action {
            None | Some(Action::List) => list(&cache_dir),
            Some(Action::Install { platform, from }) => {
                let plugin = installable(&platform)?;
                let install = move || {
                    install(plugin, &cache_dir, from.as_deref(), |wheel| {
                        eprintln!("fetching {} {}", wheel.package, wheel.version);
                    })
                };
                match tokio::task::spawn_blocking(install).await?? {
                    Installed::Present(path) => println!("{} is installed already", path.display()),
                    Installed::Unpacked(path) => println!("installed {}", path.display()),
                }
            }
        }
        Ok(Exit::Done)
    }
}

fn list(cache_dir: &Path) {
    let rows: Vec<Vec<String>> = PLUGINS
        .iter()
        .chain([&MPI])
        .map(|plugin| {
            let found = plugin.find(cache_dir);
            let place = found.as_ref().map(|path| path.display().to_string());
            vec![
                plugin.platform.to_owned(),
                plugin.version().unwrap_or("-").to_owned(),
                if found.is_some() { "yes" } else { "no" }.to_owned(),
                place.unwrap_or_else(|| plugin.instructions()),
            ]
        })
        .collect();
    print_table(&["PLATFORM", "VERSION", "INSTALLED", "PATH"], &rows);
}
