//! Each option of the twin is tried with each of its values, by a test or by one that `scripts/soak/neuron` runs.

use traind_twin::Options;

/// The tests that run jobs and commands on a twin.
const TESTS: [&str; 8] = [
    include_str!("commands.rs"),
    include_str!("contact.rs"),
    include_str!("failures.rs"),
    include_str!("families.rs"),
    include_str!("hosts.rs"),
    include_str!("jobs.rs"),
    include_str!("product.rs"),
    include_str!("script.rs"),
];

/// The tests of a first contact, which say what it has to find.
const CONTACT: &str = include_str!("contact.rs");
/// About processes of several hosts, which a contact with one does not have.
const NOT_FOUND: &str = "meet_ms";

/// The options that `tests` name, each with the values that it may have besides the default.
fn assert_named(tests: &[&str], left_out: &[&str]) {
    let is_named = |text: &str| tests.iter().any(|tests| tests.contains(text));
    for (name, default) in Options::described().filter(|(name, _)| !left_out.contains(name)) {
        match &Options::values(name)[..] {
            [] => assert!(
                is_named(&format!("{name}=")) || is_named(&format!("(\"{name}\", ")),
                "no test has the option {name}"
            ),
            values => {
                for value in values.iter().filter(|value| **value != default) {
                    assert!(is_named(&format!("{name}={value}")), "no test has {name}={value}");
                }
            }
        }
    }
}

/// Jobs that name no option try the defaults, and `tools.rs` goes through all instances.
#[test]
fn each_option_is_tried_with_each_value() {
    assert_named(&TESTS, &["instance"]);
}

/// Instances differ in numbers alone, which a contact reads of the tools.
#[test]
fn a_first_contact_finds_each_option_with_each_value() {
    assert_named(&[CONTACT], &["instance", NOT_FOUND]);
}
