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
    } = asked;
    let hosts = hosts.max(1);
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
        neuron_runtime,
        hosts,
        across_hosts,
        price_per_hour,
        rows,
        ..MeshSearch::default()
    };
    Search { meshes, is_elsewhere }
}
