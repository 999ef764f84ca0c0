//! Plans of jobs, which the RPC and the web page answer alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use traind_job_file::commands::MeshSearch;
use traind_proto::v1;

use crate::access::Caller;
use crate::control::admission::Submission;
use crate::control::daemon::Daemon;
use crate::control::error::Error;
use crate::control::planner::Search;
use crate::interfaces::convert;

/// Plans the job of a request, or compares the meshes that it searches.
pub(crate) async fn plan(
    daemon: &Arc<Daemon>,
    caller: Caller,
    request: v1::PlanJobRequest,
) -> Result<v1::Plan, Error> {
    let v1::PlanJobRequest { job_file, base_dir, mut overrides, search } = request;
    let search = search.map(|search| mesh_search(search, &mut overrides));
    let request_id = String::new();
    let request = v1::CreateJobRequest { request_id, job_file, base_dir, overrides };
    let plan = daemon.plan(Submission::new(request, caller)?, search).await?;
    Ok(convert::plan(plan))
}

/// The platform that the name of a device implies; the planner knows the names.
fn platform_of(device: &str) -> Option<&'static str> {
    let begins = |names: &[&str]| names.iter().any(|name| device.starts_with(name));
    match () {
        () if begins(&["trn", "inf", "NC_"]) => Some("neuron"),
        () if begins(&["h1", "h2", "a1", "v1"]) => Some("cuda"),
        () => None,
    }
}

/// The search that a request asks for. Its machines are overrides of the job's resources.
fn mesh_search(asked: v1::MeshSearch, overrides: &mut BTreeMap<String, String>) -> Search {
    let v1::MeshSearch {
        platform,
        device,
        hosts,
        cores_per_host,
        price_per_hour,
        across_hosts,
        rows,
        neuron_runtime,
        own_mesh,
    } = asked;
    let hosts = hosts.max(1);
    let platform = match platform_of(&device).filter(|_| platform.is_empty()) {
        Some(implied) => implied.to_owned(),
        None => platform,
    };
    let is_elsewhere =
        !platform.is_empty() || !device.is_empty() || hosts > 1 || cores_per_host > 0;
    if !platform.is_empty() {
        overrides.insert("resources.platform".to_owned(), platform);
    }
    if cores_per_host > 0 {
        let cores = u64::from(hosts) * u64::from(cores_per_host);
        overrides.insert("resources.cores".to_owned(), cores.to_string());
        overrides.insert("resources.hosts".to_owned(), "1".to_owned());
    }
    let meshes = MeshSearch {
        device,
        own_mesh,
        neuron_runtime,
        hosts,
        across_hosts,
        price_per_hour,
        rows,
        ..MeshSearch::default()
    };
    Search { meshes, is_elsewhere }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_implies_its_platform() {
        let platform = |device: &str, platform: &str| {
            let [device, platform] = [device, platform].map(str::to_owned);
            let mut overrides = BTreeMap::new();
            mesh_search(v1::MeshSearch { device, platform, ..Default::default() }, &mut overrides);
            overrides.remove("resources.platform")
        };
        assert_eq!(platform("inf2", "").as_deref(), Some("neuron"));
        assert_eq!(platform("h200", "").as_deref(), Some("cuda"));
        assert_eq!(platform("h200", "neuron").as_deref(), Some("neuron"));
        assert_eq!(platform("", ""), None);
    }
}
