//! Conversions between the daemon's types and the wire's. Those of states and outcomes are in
//! `jobs::wire`.

use traind_job_file::commands::{Effect, MeshPlan, Parallelism, Place, Plan, PlannedGroup};
use traind_proto::v1;

use crate::access::Role;
use crate::access::tokens::Token;
use crate::clock::timestamp;
use crate::control::error::Error;
use crate::jobs::state::JobState;
use crate::jobs::store::{HostFence, Job, JobWarning, Parent};
use crate::jobs::wire;

/// Converts the fence of a cluster's host.
pub(crate) fn fenced_host(fence: HostFence) -> v1::FencedHost {
    let HostFence { engine, host, since, reason } = fence;
    v1::FencedHost {
        engine,
        host,
        fence: Some(v1::Fence { since: Some(timestamp(since)), reason }),
    }
}

/// Converts a stored job.
pub(crate) fn job(job: Job) -> v1::Job {
    let cancelled = matches!(job.state, JobState::Cancelling | JobState::Cancelled);
    v1::Job {
        avoided_hosts: job.avoided_hosts(),
        id: job.id,
        name: job.name,
        request_id: job.request_id,
        owner: job.owner,
        state: wire::job_state(job.state).into(),
        waiting_reason: job.waiting_reason,
        cancel_reason: if cancelled { job.cancel_reason } else { String::new() },
        create_time: Some(timestamp(job.create_time)),
        start_time: job.start_time.map(timestamp),
        end_time: job.end_time.map(timestamp),
        platform: job.platform,
        core_count: job.core_count,
        cores: job.cores,
        output_dir: job.output_dir,
        progress: job.progress,
        metrics: job.metrics,
        failure: job.failure,
        job_file: job.job_file,
        base_dir: job.base_dir,
        attempt: job.attempt,
        last_sequence: job.last_sequence,
        warnings: job.warnings.into_iter().map(warning).collect(),
        restarts: job.restarts,
        billed_seconds: job.billed_seconds,
        energy_joules: job.energy_joules,
        price_per_hour: job.price_per_hour,
        engine: job.engine,
        host_count: job.hosts,
        cluster_job: job.cluster.map(|job| job.to_string()).unwrap_or_default(),
        host_names: job.host_names,
        on_demand_price_per_hour: job.on_demand_price_per_hour,
        parent: job.parent.map(|Parent { job_id, step }| v1::Parent { job_id, step }),
        // Filled in by `services::jobs::present`.
        queue_position: 0,
        estimated_start_time: None,
        data: Vec::new(),
    }
}

/// Converts a plan.
pub(crate) fn plan(plan: Plan) -> v1::Plan {
    let (effects, places, stages) = match plan.parallelism {
        Some(Parallelism { effects, places, stages }) => (effects, places, stages),
        None => Default::default(),
    };
    v1::Plan {
        model_type: plan.model_type,
        parameters: plan.parameters,
        rows: plan.rows,
        positions: plan.positions,
        weights_bytes: plan.memory.weights_bytes,
        reference_bytes: plan.memory.reference_bytes,
        gradients_bytes: plan.memory.gradients_bytes,
        optimizer_bytes: plan.memory.optimizer_bytes,
        activations_bytes: plan.memory.activations_bytes,
        bytes_per_core: plan.memory.bytes_per_core,
        host_bytes_per_core: plan.memory.host_bytes,
        bytes_per_core_max: plan.bytes_per_core_max.unwrap_or_default(),
        checkpoint_bytes: plan.checkpoint_bytes,
        disk_bytes: plan.disk_bytes,
        meshes: plan.meshes.into_iter().map(mesh_plan).collect(),
        network: plan.network,
        effects: effects.into_iter().map(plan_effect).collect(),
        places: places.into_iter().map(mesh_place).collect(),
        stages: stages.into_iter().map(|stage| v1::StagePasses { passes: stage.passes }).collect(),
        parameter_groups: plan.parameter_groups.into_iter().map(parameter_group).collect(),
        warnings: plan.warnings.into_iter().map(|it| warning(it.into())).collect(),
    }
}

fn parameter_group(group: PlannedGroup) -> v1::ParameterGroup {
    v1::ParameterGroup {
        r#match: group.pattern,
        tensors: group.tensors,
        parameters: group.parameters,
        learning_rate: group.learning_rate,
        weight_decay: group.weight_decay,
        optim: group.optim,
    }
}

fn plan_effect(effect: Effect) -> v1::PlanEffect {
    v1::PlanEffect {
        setting: effect.setting,
        effect: effect.effect,
        saved_bytes: effect.saved.saved_bytes,
        saved_weights_bytes: effect.saved.saved_weights_bytes,
        saved_gradients_bytes: effect.saved.saved_gradients_bytes,
        saved_optimizer_bytes: effect.saved.saved_optimizer_bytes,
        saved_activations_bytes: effect.saved.saved_activations_bytes,
        host_bytes: effect.saved.host_bytes,
    }
}

fn mesh_place(place: Place) -> v1::MeshPlace {
    let Place { host, core, data, pipeline, tensor } = place;
    v1::MeshPlace { host, core, data, pipeline, tensor }
}

fn mesh_plan(plan: MeshPlan) -> v1::MeshPlan {
    v1::MeshPlan {
        data: plan.data,
        tensor: plan.tensor,
        sequence_parallel: plan.sequence_parallel,
        fsdp: plan.fsdp,
        gradient_checkpointing: plan.gradient_checkpointing,
        per_device_train_batch_size: plan.per_device_train_batch_size,
        gradient_accumulation_steps: plan.gradient_accumulation_steps,
        weights_bytes: plan.memory.weights_bytes,
        gradients_bytes: plan.memory.gradients_bytes,
        optimizer_bytes: plan.memory.optimizer_bytes,
        activations_bytes: plan.memory.activations_bytes,
        bytes_per_core: plan.memory.bytes_per_core,
        compiled: plan.compiled,
        fits: plan.fits,
        data_axis_bytes: plan.data_axis_bytes,
        tensor_axis_bytes: plan.tensor_axis_bytes,
        compute_seconds: plan.compute_seconds,
        communication_seconds: plan.communication_seconds,
        step_seconds: plan.step_seconds,
        rows_per_second: plan.rows_per_second,
        hours: plan.hours,
        price: plan.price,
        pipeline: plan.pipeline,
        pipeline_interleave: plan.pipeline_interleave,
        microbatches: plan.microbatches,
        pipeline_axis_bytes: plan.pipeline_axis_bytes,
        idle_seconds: plan.idle_seconds,
    }
}

fn warning(warning: JobWarning) -> v1::Warning {
    v1::Warning { code: warning.code, message: warning.message }
}

/// Converts a token, without its hash.
pub(crate) fn token(token: Token) -> v1::Token {
    v1::Token {
        id: token.id,
        user: token.user,
        role_max: token.role_max.map_or(v1::Role::Unspecified, role).into(),
        create_time: Some(timestamp(token.create_time)),
        expire_time: token.expire_time.map(timestamp),
    }
}

fn role(role: Role) -> v1::Role {
    match role {
        Role::Viewer => v1::Role::Viewer,
        Role::Submitter => v1::Role::Submitter,
        Role::Admin => v1::Role::Admin,
    }
}

/// Returns `None` for the unspecified role.
pub(crate) fn role_from_proto(number: i32) -> Result<Option<Role>, Error> {
    match v1::Role::try_from(number) {
        Ok(v1::Role::Unspecified) => Ok(None),
        Ok(wire) => Ok(Role::ALL.into_iter().find(|known| role(*known) == wire)),
        Err(_) => {
            let description = format!("{number} is not a role");
            Err(Error::Request { field: "role_max", description })
        }
    }
}
