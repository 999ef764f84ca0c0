//! Plans for the page: what a job needs, and the meshes that its cores or others can form.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use traind_proto::v1;

use super::failure::Failure;
use super::session::User;
use super::{Answer, Site};
use crate::interfaces::detached::detached;
use crate::interfaces::server::services::plans;
use crate::interfaces::text;

/// A job file, and the machines to compare meshes for: empty and 0 for those of the job.
#[derive(Deserialize)]
pub(super) struct Form {
    job_file: String,
    base_dir: String,
    #[serde(default)]
    platform: String,
    #[serde(default)]
    device: String,
    #[serde(default)]
    hosts: u32,
    #[serde(default)]
    cores_per_host: u32,
    #[serde(default)]
    price_per_hour: f64,
    #[serde(default)]
    rows: u64,
}

impl Form {
    fn request(self) -> v1::PlanJobRequest {
        let search = v1::MeshSearch {
            platform: self.platform,
            device: self.device,
            hosts: self.hosts,
            cores_per_host: self.cores_per_host,
            price_per_hour: self.price_per_hour,
            rows: self.rows,
            ..v1::MeshSearch::default()
        };
        v1::PlanJobRequest {
            job_file: self.job_file,
            base_dir: self.base_dir,
            search: Some(search),
            ..v1::PlanJobRequest::default()
        }
    }
}

/// `POST /api/plan`: the plan on the best mesh, and all meshes, the best first.
pub(super) async fn plan(State(site): State<Site>, user: User, Json(form): Json<Form>) -> Answer {
    let caller = user.authorize(&site, "/traind.v1.Jobs/PlanJob")?;
    let permit = site.plans.take(&caller.user).ok_or_else(Failure::planning)?;
    let planning = async move {
        let plan = plans::plan(&site.daemon, caller, form.request()).await;
        drop(permit);
        plan
    };
    Ok(Json(view(&detached(planning).await?)))
}

fn view(plan: &v1::Plan) -> Value {
    json!({
        "model_type": plan.model_type,
        "parameters": plan.parameters,
        "positions": plan.positions,
        "bytes_per_core_max": plan.bytes_per_core_max,
        "checkpoint_bytes": plan.checkpoint_bytes,
        "disk_bytes": plan.disk_bytes,
        "network": plan.network,
        "notes": text::mesh_notes(&plan.meshes),
        "warnings": plan.warnings.iter().map(|it| it.message.as_str()).collect::<Vec<_>>(),
        "meshes": plan.meshes.iter().map(mesh).collect::<Vec<_>>(),
    })
}

fn mesh(mesh: &v1::MeshPlan) -> Value {
    json!({
        "data": mesh.data,
        "tensor": mesh.tensor,
        "pipeline": mesh.pipeline,
        "settings": text::mesh_settings(mesh),
        "fits": mesh.fits,
        "compiled": mesh.compiled,
        "step_seconds": mesh.step_seconds,
        "compute_seconds": mesh.compute_seconds,
        "communication_seconds": mesh.communication_seconds,
        "idle_seconds": mesh.idle_seconds,
        "rows_per_second": mesh.rows_per_second,
        "bytes_per_core": mesh.bytes_per_core,
        "weights_bytes": mesh.weights_bytes,
        "gradients_bytes": mesh.gradients_bytes,
        "optimizer_bytes": mesh.optimizer_bytes,
        "activations_bytes": mesh.activations_bytes,
        "sent_bytes": [mesh.data_axis_bytes, mesh.tensor_axis_bytes, mesh.pipeline_axis_bytes],
        "hours": mesh.hours,
        "price": mesh.price,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_without_machines_asks_for_those_of_the_job() {
        let form = json!({ "job_file": "name: a", "base_dir": "/data" });
        let request = serde_json::from_value::<Form>(form).unwrap().request();
        assert_eq!((request.job_file.as_str(), request.base_dir.as_str()), ("name: a", "/data"));
        assert_eq!(request.search, Some(v1::MeshSearch::default()));
    }
}
