//! `scripts/neuron/first-contact` on the twin finds the options that the twin was given.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use traind_tests::UNOPTIMIZED;

use crate::installed;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/neuron/first_contact.py");
const COMPLETE_WITHIN: Duration = Duration::from_secs(600);
/// The parts that say nothing about options.
const WITHOUT: [&str; 12] = [
    "--without",
    "refusals",
    "--without",
    "processors",
    "--without",
    "doctor",
    "--without",
    "profile",
    "--without",
    "index_outside",
    "--without",
    "quickstart",
];

/// The report of a contact with a twin of these options.
async fn report(options: &str, more: &[&str], variables: &[(&str, &str)]) -> Value {
    let instance = options.split(',').find_map(|option| option.strip_prefix("instance="));
    let instance = instance.unwrap_or("trn1.2xlarge");
    let host = installed::stopped_host(2, instance, options);
    let python = std::env::var("TRAIND_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    installed::install_quickstart(&host);
    let out = host.path("report.json");
    let programs = traind_tests::traind().parent().unwrap().to_owned();
    let output = Command::new(python)
        .arg(fs::canonicalize(SCRIPT).unwrap())
        .current_dir(host.path(""))
        .args([Path::new("--out"), &out, Path::new("--bin"), &programs])
        .args([Path::new("--tools"), &host.path("twin/bin")])
        .args([Path::new("--sysfs"), &host.path("twin/sysfs")])
        .args([Path::new("--cpu-plugin"), &host.plugin()])
        .args([Path::new("--libraries"), &host.path("twin/lib")])
        .args([Path::new("--cache-dir"), &host.path("cache")])
        .args(more)
        .envs(installed::environment(&host, &format!("instance={instance},{options}")))
        .env("TRAIND_PYTHON", "/nowhere/python3")
        .envs(variables.iter().copied())
        .envs([UNOPTIMIZED])
        .output()
        .unwrap();
    let text = fs::read(out);
    let text = text.unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let report: Value = serde_json::from_slice(&text).unwrap();
    let has_errors = report.as_object().unwrap().values().any(|part| part["error"].is_string());
    assert_eq!(output.status.success(), !has_errors, "{report}");
    report
}

/// Checks the quickstart's job. Nothing is downloaded, so a small model takes the place of one that is missing.
fn check_quickstart(found: &Value, steps: usize) {
    assert_eq!(found["losses"].as_array().unwrap().len(), steps, "{found}");
    assert!(found["difference"].as_f64().unwrap() < 1e-6, "{found}");
    if installed::has_quickstart() {
        assert_eq!(found["model"], "the quickstart's", "{found}");
        assert_eq!(found["texts"], "generated texts and their topics", "{found}");
    } else {
        check_substitute(found);
    }
}

fn check_substitute(found: &Value) {
    assert_eq!(found["model"], "bert-sequence-classification", "{found}");
    assert!(found["why"].as_str().unwrap().contains("/nowhere/python3"), "{found}");
}

/// Checks that no part failed.
fn assert_complete(report: &Value) {
    let errors = report.as_object().unwrap().values().filter(|part| part["error"].is_string());
    assert_eq!(errors.count(), 0, "{report}");
}

/// Jobs of all families have the losses of CPU devices, on two cores nearly so, and a resumed one its bits.
fn check_jobs(jobs: &Value, families: usize, steps: usize) {
    let found = jobs["families"].as_object().unwrap();
    assert_eq!(found.len(), families, "{jobs}");
    for (name, found) in found {
        assert_eq!(found["losses"].as_array().unwrap().len(), steps, "{name}: {jobs}");
        assert!(found["difference"].as_f64().unwrap() < 1e-6, "{name}: {jobs}");
    }
    assert!(jobs["collectives"]["2"].as_f64().unwrap() < 1e-4, "{jobs}");
    assert_eq!(jobs["resume"], json!({"same_losses": true, "same_weights": true}));
}

fn check_refusals(refusals: &Value) {
    assert!(refusals["other_api_version"].as_str().unwrap().contains("struct_size"), "{refusals}");
    assert!(refusals["cores_with_a_gap"].as_str().unwrap().contains("0,2"), "{refusals}");
    assert!(refusals.as_object().unwrap().values().all(Value::is_string), "{refusals}");
}

#[tokio::test]
async fn a_brief_report_is_complete_and_finds_the_options_of_the_twin() {
    let report = report("donation=garbage,init_ms=60", &["--brief"], &[]).await;
    assert_complete(&report);
    check_jobs(&report["jobs"]["found"], 1, 4);
    check_quickstart(&report["quickstart"]["found"], 4);
    check_refusals(&report["refusals"]["found"]);
    let client = &report["client"]["found"];
    assert_eq!(client["custom_calls"], false);
    assert_eq!(client["integer_dot"], "rounded");
    let topology = client["topology"].as_str().unwrap();
    assert!(topology.contains("PJRT_TopologyDescription_Create"), "{topology}");
    assert_eq!(report["processors"]["found"]["integer_dot"], "exact");
    assert_eq!(client["devices"][0]["kind"], "NC_v2");
    assert_eq!(client["devices"][0]["memories"].as_array().unwrap().len(), 1);
    assert_eq!(report["instance"]["found"]["cores"], 2);
    assert_eq!(report["core_counts"]["found"], json!({"2": null}));
    let busy = report["held_cores"]["found"]["busy"].as_str().unwrap();
    assert!(busy.contains("not available - Requested:lnc0-lnc0"), "{busy}");
    assert_eq!(report["processors"]["found"]["chlo"], true);
    for operation in ["gather", "dynamic_slice", "dynamic_update_slice", "scatter"] {
        let found = report["index_outside"]["found"][operation].as_str().unwrap();
        assert!(found.contains("NRT_EXEC_OOB"), "{operation}: {found}");
    }
    assert_eq!(report["profile"]["found"]["files"].as_array().unwrap().len(), 1, "{report}");
    let found = &report["options"]["found"];
    for (name, value) in [
        ("instance", json!("trn1.2xlarge")),
        ("reversed", json!(true)),
        ("chlo", json!(false)),
        ("analysis", json!(false)),
        ("version_2", json!(false)),
        ("compiles_without_cores", json!(false)),
        ("inexact", json!(false)),
        ("donation", json!("garbage")),
        ("driver", json!("2.30.2.0")),
        ("runtime", json!("2.34.10")),
        ("next_sdk", json!("no")),
        ("errors", json!("whole")),
        ("null_events", json!("error")),
        ("work_folder", json!("tmpdir")),
        ("kind", json!("NC_v2")),
        ("extensions", json!(false)),
        ("failure", Value::Null),
    ] {
        assert_eq!(found[name], value, "{name}: {found}");
    }
    assert!(found["init_ms"].as_u64().unwrap() >= 60, "{found}");
}

/// Each option with the finding that shows it: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes minutes"]
async fn each_option_is_found() {
    let limit = [("NEURON_RT_EXEC_TIMEOUT", "1")];
    let exact = [
        ("instance=trn2.48xlarge", "instance", json!("trn2.48xlarge")),
        ("instance=inf2.48xlarge", "instance", json!("inf2.48xlarge")),
        ("instance=trn3", "instance", json!("trn3")),
        ("reversed=false", "reversed", json!(false)),
        ("chlo=true", "chlo", json!(true)),
        ("analysis=true", "analysis", json!(true)),
        ("instance=trn1.32xlarge,any_count=true", "any_count", json!(true)),
        ("instance=trn1.32xlarge", "any_count", json!(false)),
        ("version_2=true", "version_2", json!(true)),
        ("compiles_without_cores=true", "compiles_without_cores", json!(true)),
        ("inexact=true", "inexact", json!(true)),
        ("donation=ignored", "donation", json!("ignored")),
        ("donation=garbage", "donation", json!("garbage")),
        ("donation=refused", "donation", json!("refused")),
        ("driver=2.29.0.0", "driver", json!("2.29.0.0")),
        ("driver=2.26.0.0", "driver", json!("2.26.0.0")),
        ("runtime=2.33.10", "runtime", json!("2.33.10")),
        ("next_sdk=serves", "next_sdk", json!("serves")),
        ("next_sdk=strict", "next_sdk", json!("strict")),
        ("errors=brief", "errors", json!("brief")),
        ("null_events=works", "null_events", json!("works")),
        ("null_events=leaks", "null_events", json!("leaks")),
        ("work_folder=tmp", "work_folder", json!("tmp")),
        ("kind=NC_v9", "kind", json!("NC_v9")),
        ("extensions=true", "extensions", json!(true)),
        ("fail_status=1006,fail_at=2", "failure", json!("NRT 1006")),
        ("hang_at=2", "failure", json!("NRT 5")),
        ("memory_full_at=1", "failure", json!("NRT 4")),
        ("compile_code=EOOM002", "failure", json!("NCC_EOOM002")),
    ];
    let least = [("init_ms", 700), ("compile_ms", 300), ("dispatch_us", 5000)];
    for (options, name, expected) in &exact {
        let fails = *name == "failure";
        let more = ["--brief", "--without", if fails { "core_counts" } else { "jobs" }];
        let more = [&more[..], &WITHOUT].concat();
        let report = report(options, &more, if fails { &limit } else { &[] }).await;
        assert_eq!(report["options"]["found"][name], *expected, "{options}: {report}");
    }
    for (name, least) in least {
        let more = [&["--brief", "--without", "jobs"], &WITHOUT[..]].concat();
        let report = report(&format!("{name}={least}"), &more, &[]).await;
        assert!(report["options"]["found"][name].as_u64().unwrap() >= least, "{report}");
    }
    println!("{} options of the twin: each found", exact.len() + least.len());
}

/// The whole report of all families: `scripts/soak/neuron` runs it.
#[tokio::test]
#[ignore = "takes minutes"]
async fn a_whole_report_takes_less_than_ten_minutes() {
    let start = Instant::now();
    let report = report("compile_ms=100", &[], &[]).await;
    assert_complete(&report);
    check_jobs(&report["jobs"]["found"], 3, 20);
    check_quickstart(&report["quickstart"]["found"], 20);
    check_refusals(&report["refusals"]["found"]);
    let families = &report["families"]["found"];
    assert_eq!((&families["errors"], &families["left"]), (&json!({}), &json!([])), "{report}");
    let differences = families["differences"].as_object().unwrap();
    assert!(differences.len() > 25, "{families}");
    assert!(differences.values().all(|it| it.as_f64().unwrap() < 1e-6), "{families}");
    let seconds = start.elapsed().as_secs();
    println!("a whole report in {seconds} s: jobs of {} families", differences.len());
    assert!(start.elapsed() < COMPLETE_WITHIN, "{seconds} s");
}
