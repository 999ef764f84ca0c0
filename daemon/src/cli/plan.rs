//! `traind plan`.

mod effects;
mod meshes;

use std::path::PathBuf;

use anyhow::Context as _;
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::list::ListFormat;
use super::submit::{parse_override, read, working_directory};
use crate::interfaces::text;

/// Show the memory and disk space that a job needs, without submitting it
///
/// The job keeps its own mesh, here or on the machines that options name, unless --auto compares all.
#[derive(clap::Args)]
pub(crate) struct Plan {
    /// The job file, YAML; - is standard input. Its relative paths start at the current directory
    job_file: PathBuf,
    /// Replace a value of the job file, such as train.learning_rate=3e-5
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_override)]
    set: Vec<(String, String)>,
    /// Compare all meshes that the cores can form, fastest first according to the prediction
    #[arg(long)]
    auto: bool,
    /// Platform to plan for, which this host need not have: neuron, cuda or cpu
    #[arg(long)]
    platform: Option<String>,
    /// Device to plan for, which implies its platform: trn1, trn1n, inf2, trn2, trn2-lnc1, trn3, trn3-lnc1,
    /// h100, h200, a100-80, a100-40 or v100
    #[arg(long)]
    device: Option<String>,
    /// Version of Neuron's runtime that programs are for, such as 2.34, which allows 16 sets of replica groups in place
    /// of 12 [default: that of the daemon's host]
    #[arg(long, value_name = "VERSION")]
    neuron_runtime: Option<String>,
    /// Number of hosts, among which the job's cores are divided unless --cores is given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    hosts: Option<u32>,
    /// Number of cores of each host
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    cores: Option<u32>,
    /// Also compare meshes that divide layers over hosts, and send states between stages from device to
    /// device, which no job does yet
    #[arg(long, requires = "auto")]
    across_hosts: bool,
    /// Price per hour of all hosts together [default: that of the job's cores, unless the machines are
    /// others]
    #[arg(long, value_parser = price, allow_negative_numbers = true)]
    price_per_hour: Option<f64>,
    /// Rows of the training data after preparation, for the hours of a job that counts epochs
    #[arg(long)]
    rows: Option<u64>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
}

fn price(text: &str) -> Result<f64, String> {
    let price = text.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
    price.ok_or_else(|| "expected a number of at least 0".to_owned())
}

impl Plan {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let output = self.output;
        let request = v1::PlanJobRequest {
            job_file: read(&self.job_file)?,
            base_dir: working_directory()?,
            search: self.search(),
            overrides: self.set.into_iter().collect(),
        };
        let plan = client::jobs(&global).await?.plan_job(request).await?.into_inner();
        if matches!(output, ListFormat::Json) {
            println!("{}", serde_json::to_string_pretty(&json(&plan)).context("print as JSON")?);
            return Ok(Exit::Done);
        }
        for (name, value) in lines(&plan) {
            println!("{name:<16} {value}");
        }
        for warning in &plan.warnings {
            println!("{:<16} {}", "warning", text::one_line(&warning.message));
        }
        groups(&plan).iter().for_each(|line| println!("{}", text::one_line(line)));
        for more in [effects::lines(&plan), meshes::lines(&plan.meshes)] {
            if !more.is_empty() {
                println!();
            }
            more.iter().for_each(|line| println!("{}", text::one_line(line)));
        }
        Ok(Exit::Done)
    }

    /// The machines and meshes to plan for, if any option names them.
    fn search(&self) -> Option<v1::MeshSearch> {
        let search = v1::MeshSearch {
            platform: self.platform.clone().unwrap_or_default(),
            device: self.device.clone().unwrap_or_default(),
            neuron_runtime: self.neuron_runtime.clone().unwrap_or_default(),
            hosts: self.hosts.unwrap_or_default(),
            cores_per_host: self.cores.unwrap_or_default(),
            price_per_hour: self.price_per_hour.unwrap_or_default(),
            across_hosts: self.across_hosts,
            rows: self.rows.unwrap_or_default(),
            own_mesh: false,
        };
        let is_asked = self.auto || search != v1::MeshSearch::default();
        is_asked.then_some(v1::MeshSearch { own_mesh: !self.auto, ..search })
    }
}

/// The weights, and how much of them is the reference's.
fn weights(plan: &v1::Plan) -> String {
    let weights = text::bytes(plan.weights_bytes);
    match plan.reference_bytes {
        0 => weights,
        reference => format!("{weights}, of which {} of the reference", text::bytes(reference)),
    }
}

/// The plan for programs to read, with the meshes of a search.
fn json(plan: &v1::Plan) -> serde_json::Value {
    serde_json::json!({
        "model_type": plan.model_type,
        "parameters": plan.parameters,
        "rows": plan.rows,
        "positions": plan.positions,
        "bytes_per_core": plan.bytes_per_core,
        "bytes_per_core_max": plan.bytes_per_core_max,
        "weights_bytes": plan.weights_bytes,
        "reference_bytes": plan.reference_bytes,
        "gradients_bytes": plan.gradients_bytes,
        "optimizer_bytes": plan.optimizer_bytes,
        "activations_bytes": plan.activations_bytes,
        "host_bytes_per_core": plan.host_bytes_per_core,
        "checkpoint_bytes": plan.checkpoint_bytes,
        "disk_bytes": plan.disk_bytes,
        "network": plan.network,
        "warnings": plan.warnings.iter().map(warning).collect::<Vec<_>>(),
        "parallelism": effects::json(plan),
        "meshes": plan.meshes.iter().map(meshes::json).collect::<Vec<_>>(),
    })
}

fn warning(warning: &v1::Warning) -> serde_json::Value {
    serde_json::json!({"code": warning.code, "message": warning.message})
}

/// A line for each group of parameters.
fn groups(plan: &v1::Plan) -> Vec<String> {
    let line = |group: &v1::ParameterGroup| {
        let names = match group.r#match.as_str() {
            "" => "other parameters",
            pattern => pattern,
        };
        let v1::ParameterGroup { tensors, parameters, learning_rate, weight_decay, optim, .. } =
            group;
        format!(
            "  {names}: {parameters} in {}, {optim}, learning rate {learning_rate}, weight decay {weight_decay}",
            counted(tensors, "tensor")
        )
    };
    let title = (!plan.parameter_groups.is_empty()).then(|| "parameter groups".to_owned());
    title.into_iter().chain(plan.parameter_groups.iter().map(line)).collect()
}

fn lines(plan: &v1::Plan) -> Vec<(&'static str, String)> {
    let limit = match plan.bytes_per_core_max {
        0 => String::new(),
        max => format!(" of {}", text::bytes(max)),
    };
    let on_host = ("on the host", format!("{} per core", text::bytes(plan.host_bytes_per_core)));
    let lines = vec![
        ("model", format!("{}, {} parameters", plan.model_type, plan.parameters)),
        (
            "batch",
            format!(
                "{} per core, up to {} each",
                counted(plan.rows, "row"),
                counted(plan.positions, "token")
            ),
        ),
        ("per core", format!("{}{limit}", text::bytes(plan.bytes_per_core))),
        ("  weights", weights(plan)),
        ("  gradients", text::bytes(plan.gradients_bytes)),
        ("  optimizer", text::bytes(plan.optimizer_bytes)),
        ("  activations", text::bytes(plan.activations_bytes)),
        ("checkpoint", text::bytes(plan.checkpoint_bytes)),
        ("on disk", text::bytes(plan.disk_bytes)),
    ];
    let is_offloaded = plan.host_bytes_per_core > 0;
    let between_hosts = ("between hosts", plan.network.clone());
    // The mesh of the estimates above, where other machines or several meshes were asked for.
    let mesh = plan.meshes.first().map(|it| {
        let axes = format!("data {}, tensor {}, pipeline {}", it.data, it.tensor, it.pipeline);
        let others = if plan.meshes.len() > 1 { ", the first of those below" } else { "" };
        ("mesh", format!("{axes}{others}"))
    });
    let lines = lines.into_iter().chain(is_offloaded.then_some(on_host)).chain(mesh);
    lines.chain((!plan.network.is_empty()).then_some(between_hosts)).collect()
}
