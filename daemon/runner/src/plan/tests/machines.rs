//! Plans for machines that are not here: the job's own mesh or all of them, and programs that are too large there.

use serde_json::{Value, json};
use traind_job_file::commands::MeshSearch;

use super::*;

/// Plans a job for the cores of a device.
fn planned_for(device: &str, own_mesh: bool, edit: impl Fn(&mut Value)) -> RunResult<Plan> {
    planned_with(device, own_mesh, None, edit)
}

fn planned_with(
    device: &str,
    own_mesh: bool,
    instructions_max: Option<u64>,
    edit: impl Fn(&mut Value),
) -> RunResult<Plan> {
    let resources = json!({"platform": "neuron", "cores": 4});
    let (_folder, mut request) = requested_on(resources, None, edit);
    (request.instructions_max, request.with_effects) = (instructions_max, true);
    request.search =
        Some(MeshSearch { device: device.to_owned(), own_mesh, ..MeshSearch::default() });
    plan(&request)
}

fn axes(plan: &Plan) -> Vec<[u32; 3]> {
    plan.meshes.iter().map(|it| [it.data, it.tensor, it.pipeline]).collect()
}

#[test]
fn a_job_keeps_its_own_mesh_unless_all_are_compared() {
    let on_two = |job: &mut Value| job["parallel"] = json!({"tensor": 2});
    let own = planned_for("trn2", true, on_two).unwrap();
    assert_eq!(axes(&own), [[2, 2, 1]]);
    let mebibytes = own.bytes_per_core_max.unwrap().div_ceil(1 << 20);
    assert_eq!(mebibytes, 24 << 10, "the memory of the device");
    assert!(own.meshes[0].step_seconds > 0.0 && own.warnings.is_empty(), "{own:?}");
    let compared = planned_for("trn2", false, on_two).unwrap();
    assert!(axes(&compared).len() > 1 && axes(&compared).contains(&[4, 1, 1]), "{compared:?}");
    // A job that leaves the choice to the planner has none of its own.
    let any = planned_for("trn2", true, |job| job["parallel"] = json!({"auto": true})).unwrap();
    assert!(axes(&any).len() > 1, "{any:?}");
}

#[test]
fn a_mesh_that_does_not_fit_there_has_a_warning_with_what_fits() {
    let large = |job: &mut Value| {
        job["model"]["config_overrides"] =
            json!({"hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 32768});
    };
    let plan = planned_for("trn1", true, large).unwrap();
    assert!(!plan.meshes[0].fits);
    let [warning] = &plan.warnings[..] else { panic!("{:?}", plan.warnings) };
    assert_eq!(warning.code, "DOES_NOT_FIT");
    let misfit = plan.misfit.unwrap();
    let (change, advice) = (words(&misfit).join(", "), misfit.advice());
    assert!(advice.starts_with(&format!("it fits with {change} (")), "{advice}");
    assert!(warning.message.ends_with(&advice), "{warning:?}");
}

/// Plans a job of 64 rows a step on all meshes of four cores that have so many bytes each.
fn compared_within(bytes: u64) -> Plan {
    let resources = json!({"platform": "neuron", "cores": 4});
    let (_folder, mut request) = requested_on(resources, Some(bytes), |job| {
        job["train"]["per_device_train_batch_size"] = 16.into();
        job["data"]["max_length"] = 128.into();
    });
    request.search = Some(MeshSearch { device: "trn1".to_owned(), ..MeshSearch::default() });
    plan(&request).unwrap()
}

/// All cores share layers, and more of them are what helps.
#[test]
fn a_job_whose_cores_share_all_layers_has_advice() {
    let large = |job: &mut Value| {
        job["model"]["config_overrides"] = json!({
            "hidden_size": 8192, "num_attention_heads": 64, "intermediate_size": 32768,
            "num_hidden_layers": 24,
        });
        (job["resources"]["cores"], job["parallel"]) = (8.into(), json!({"tensor": 8}));
        job["train"]["gradient_checkpointing"] = true.into();
        job["train"]["optim"] = "sgd".into();
        job["train"]["per_device_train_batch_size"] = 1.into();
    };
    let misfit = planned_for("trn1", true, large).unwrap().misfit.unwrap();
    let advice = misfit.advice();
    let expect =
        "it fits with parallel.tensor: 32 and resources.cores: 32 (32 cores in place of 8)";
    assert_eq!(advice, expect);
}

#[test]
fn a_comparison_of_meshes_of_which_none_fits_has_changes_that_do() {
    // Meshes of which none can fit are compared in part alone.
    let mut fits = compared_within(compared_within(1).memory.bytes_per_core);
    let plan = loop {
        let smaller = compared_within(fits.memory.bytes_per_core - 1);
        match smaller.misfit {
            None => fits = smaller,
            Some(_) => break smaller,
        }
    };
    assert!(fits.meshes[0].fits && fits.warnings.is_empty(), "{fits:?}");
    assert!(plan.meshes.iter().all(|it| !it.fits), "{plan:?}");
    let [warning] = &plan.warnings[..] else { panic!("{:?}", plan.warnings) };
    let remedy = "it fits with train.per_device_train_batch_size: 8 (a step has 32 rows in place of 64, or as many with";
    for part in ["none of ", " meshes of these cores fits: ", "a core would need", remedy] {
        assert!(warning.message.contains(part), "{warning:?}");
    }
    // Nothing fits in one byte.
    let [warning] = &compared_within(1).warnings[..] else { panic!() };
    assert!(
        warning
            .message
            .ends_with("no change and no mesh of its cores was found with which it fits")
    );
}

/// The heads and rows of a model that no mesh of these cores divides, and programs that are too large on all.
#[test]
fn a_search_without_a_mesh_names_those_that_were_tried() {
    let found = planned_with("trn1", false, Some(1), |job| {
        job["train"]["per_device_train_batch_size"] = 16.into();
    });
    let Err(RunError::Field { name: "resources.cores", value, problem }) = found else {
        panic!("{found:?}")
    };
    assert_eq!(value, "4");
    for part in
        ["none of ", "data 4", "data 2 x tensor 2", "tensor 4", "NCC_EXTP004", "64 rows of a step"]
    {
        assert!(problem.contains(part), "{part}: {problem}");
    }
}

/// Two or three of 24 equal layers are recorded, and the instructions of all are counted. The effect of a setting
/// compares with a job without it, whose programs may be too large.
#[test]
fn programs_with_too_many_instructions_name_operation_and_sizes_that_fit() {
    let of_limit = |instructions_max, layers: u32, cores: u32, changes: Value| {
        planned_with("trn1", true, instructions_max, |job| {
            job["model"]["config_overrides"] = json!({
                "hidden_size": 4096, "num_attention_heads": 32, "intermediate_size": 16384,
                "num_hidden_layers": layers,
            });
            job["train"]["per_device_train_batch_size"] = 24.into();
            job["train"]["gradient_checkpointing"] = true.into();
            job["resources"]["cores"] = cores.into();
            for (section, keys) in changes.as_object().unwrap() {
                for (key, value) in keys.as_object().unwrap() {
                    job[section][key] = value.clone();
                }
            }
        })
    };
    let of = |layers, cores, changes| of_limit(None, layers, cores, changes);
    let problem = |cores, changes: Value| match of(24, cores, changes) {
        Err(RunError::Field { problem, .. }) => problem,
        other => panic!("{other:?}"),
    };
    let found = problem(8, json!({}));
    for part in [
        "NCC_EXTP004",
        "instructions, of at most 5000000",
        "the matrix product",
        "in all layers, dot_general",
        "; it can with ",
    ] {
        assert!(found.contains(part), "{found}");
    }
    let (_, advice) = found.split_once("parallel.tensor: ").unwrap();
    let digits: String = advice.chars().take_while(char::is_ascii_digit).collect();
    let tensor: u32 = digits.parse().unwrap();
    let advised = of(24, 8, json!({"parallel": {"tensor": tensor, "data": 8 / tensor}})).unwrap();
    assert!(advised.meshes[0].fits, "{advised:?}");
    assert!(found.contains("cores have the same rows: a step has "), "costs are named: {found}");
    // A job whose cores all share layers has advice, too.
    let divided = json!({"parallel": {"tensor": 2}, "train": {"per_device_train_batch_size": 64}});
    let divided = of_limit(Some(800_000), 3, 2, divided);
    let Err(RunError::Field { problem: divided, .. }) = divided else { panic!("{divided:?}") };
    for part in
        ["; it can with ", "with train.per_device_train_batch_size: ", " rows in place of 64"]
    {
        assert!(divided.contains(part), "{part}: {divided}");
    }
    // One core alone has nothing to divide layers over.
    let alone = problem(1, json!({}));
    assert!(alone.contains("parallel.tensor: 8 and resources.cores: 8"), "{alone}");
    assert!(of(2, 8, json!({})).is_ok(), "two of these layers are few");
    assert!(of(24, 8, json!({"train": {"per_device_train_batch_size": 8}})).is_ok());
    // An operator may raise the limit.
    assert!(of_limit(Some(1 << 30), 24, 8, json!({})).is_ok());
}
