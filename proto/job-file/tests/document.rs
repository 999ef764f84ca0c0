//! The page of the job file's keys. `TRAIND_WRITE_DOCS=1 cargo test -p traind-job-file --test document`
//! writes it anew; without that it is checked.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_page_says_what_the_declarations_say() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/job-file.md");
    let markdown = traind_job_file::markdown();
    if env::var_os("TRAIND_WRITE_DOCS").is_some() {
        fs::write(&page, &markdown).unwrap();
    }
    let found = fs::read_to_string(&page).unwrap();
    assert!(
        found == markdown,
        "docs/job-file.md is out of date; write it with TRAIND_WRITE_DOCS=1 cargo test \
         -p traind-job-file --test document"
    );
}

#[test]
fn the_page_has_every_key_once() {
    let markdown = traind_job_file::markdown();
    let rows: Vec<&str> = markdown.lines().filter(|line| line.starts_with("| `")).collect();
    let treatments = ["| no effect |", "| refused |", "| always in effect |", "| some are always"];
    let keys = rows.iter().filter(|row| !treatments.iter().any(|it| row.contains(it)));
    assert_eq!(keys.count(), traind_job_file::fields().len());
    assert!(markdown.contains("| `learning_rate` | number, at least 0 | `"));
    assert!(markdown.contains("- `train.evaluation_strategy`: `train.eval_strategy`"));
}
