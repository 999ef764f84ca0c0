//! `traind.v1.Plugins`.

use std::path::Path;
use std::sync::Arc;

use tonic::{Request, Response, Status};
use traind_proto::v1;

use crate::control::daemon::Daemon;
use crate::host::Host;
use crate::host::plugins::{PLUGINS, Plugin};

pub(crate) struct Plugins {
    daemon: Arc<Daemon>,
}

impl Plugins {
    pub(crate) fn new(daemon: Arc<Daemon>) -> Plugins {
        Plugins { daemon }
    }
}

#[tonic::async_trait]
impl v1::plugins_server::Plugins for Plugins {
    async fn list_plugins(
        &self,
        _: Request<v1::ListPluginsRequest>,
    ) -> Result<Response<v1::ListPluginsResponse>, Status> {
        let settings = &self.daemon.settings;
        let describe = |plugin| describe(plugin, &settings.cache_dir, &settings.host);
        let plugins = PLUGINS.iter().map(describe).collect();
        Ok(Response::new(v1::ListPluginsResponse { plugins }))
    }
}

fn describe(plugin: &Plugin, cache_dir: &Path, host: &Host) -> v1::Plugin {
    let found = plugin.find(cache_dir);
    v1::Plugin {
        platform: plugin.platform.to_owned(),
        version: plugin.version().unwrap_or_default().to_owned(),
        available: found.is_some(),
        detail: match &found {
            Some(path) => format!("found at {}", path.display()),
            None => plugin.instructions(),
        },
        path: found.map(|path| path.display().to_string()).unwrap_or_default(),
        core_count: if plugin.platform == host.platform { host.core_count() } else { 0 },
    }
}
