//! `scripts/neuron/first-contact` on the twin finds the options that the twin was given.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::installed;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/neuron/first_contact.py");

/// The report of a contact with a twin of these options.
async fn report(options: &str, more: &[&str]) -> Value {
    let host = installed::host(2, "trn1.2xlarge", options).await;
    let python = std::env::var("TRAIND_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let out = host.path("report.json");
    let programs = traind_tests::traind().parent().unwrap().to_owned();
    let output = Command::new(python)
        .arg(std::fs::canonicalize(SCRIPT).unwrap())
        .current_dir(host.path(""))
        .args([Path::new("--out"), &out, Path::new("--bin"), &programs])
        .args([Path::new("--tools"), &host.path("twin/bin")])
        .args([Path::new("--sysfs"), &host.path("twin/sysfs")])
        .args([Path::new("--cpu-plugin"), &host.plugin()])
        .args(more)
        .envs(installed::environment(&host, &format!("instance=trn1.2xlarge,{options}")))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap()
}

/// Jobs of all families have the losses of CPU devices, on two cores nearly so, and a resumed one its bits.
fn check_jobs(jobs: &Value) {
    let families = jobs["families"].as_object().unwrap();
    assert_eq!(families.len(), 3, "{jobs}");
    for (name, found) in families {
        assert_eq!(found["losses"].as_array().unwrap().len(), 20, "{name}: {jobs}");
        assert!(found["difference"].as_f64().unwrap() < 1e-6, "{name}: {jobs}");
    }
    assert!(jobs["collectives"]["2"].as_f64().unwrap() < 1e-4, "{jobs}");
    assert_eq!(jobs["resume"], serde_json::json!({"same_losses": true, "same_weights": true}));
}

#[tokio::test]
async fn a_report_finds_the_options_of_the_twin() {
    for (options, chlo, analysis, reversed, exact, keeps) in [
        ("chlo=true,analysis=true,reversed=false", true, true, false, true, false),
        (
            "inexact=true,donation=garbage,init_ms=300,compile_ms=100",
            false,
            false,
            true,
            false,
            true,
        ),
    ] {
        let trains = options.contains("garbage");
        let more: &[&str] = if trains { &[] } else { &["--without", "jobs"] };
        let report = report(options, more).await;
        let client = &report["client"]["found"];
        assert_eq!(client["chlo"], chlo, "{report}");
        assert_eq!(client["cost_analysis"], analysis, "{report}");
        assert_eq!(client["is_reversed"], reversed, "{report}");
        assert_eq!(client["random_bits_are_exact"], exact, "{report}");
        assert_eq!(client["keeps_arguments"], keeps, "{report}");
        let seconds = |name: &str| client[name].as_f64().unwrap();
        let is_delayed = options.contains("init_ms");
        assert!(!is_delayed || seconds("client_seconds") >= 0.3, "{report}");
        assert!(!is_delayed || seconds("compile_seconds") >= 0.1, "{report}");
        if trains {
            check_jobs(&report["jobs"]["found"]);
        }
        assert_eq!(client["custom_calls"], false);
        assert_eq!(client["devices"][0]["kind"], "NC_v2");
        assert_eq!(client["devices"][0]["memories"].as_array().unwrap().len(), 1);
        assert_eq!(report["instance"]["found"]["cores"], 2);
        let refusals = &report["refusals"]["found"];
        assert!(
            refusals["other_api_version"].as_str().unwrap().contains("struct_size"),
            "{refusals}"
        );
        assert!(refusals["cores_with_a_gap"].as_str().unwrap().contains("0,2"), "{refusals}");
        assert!(refusals.as_object().unwrap().values().all(Value::is_string), "{refusals}");
        assert_eq!(report["processors"]["found"]["chlo"], true);
    }
}
