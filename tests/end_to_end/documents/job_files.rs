//! Job files and parts of them that documents show: the parser accepts them.

use std::path::Path;

use traind_job_file::JobFile;

use super::{Document, check};

#[test]
fn every_job_file_is_accepted() {
    check(|document: &Document| {
        let blocks = document.blocks("yaml").map(completed);
        blocks.filter_map(|job_file| problem(&job_file)).collect::<Vec<_>>()
    });
}

#[test]
fn parts_are_completed_and_mistakes_reported() {
    assert_eq!(problem(&completed("parallel: {tensor: 2}\nresources:\n  cores: 2\n")), None);
    assert_eq!(problem(&completed("data:\n  text: review\n")), None);
    let wrong = problem(&completed("train:\n  learning_rat: 1\n")).unwrap();
    assert!(wrong.contains("train.learning_rat"), "{wrong}");
}

/// The job file, with the keys that every job needs where the block leaves them out.
fn completed(block: &str) -> String {
    let mut job_file = block.to_owned();
    for (section, key, value) in [
        ("model", "task", "sequence-classification"),
        ("model", "name_or_path", "./model"),
        ("data", "train", "train.csv"),
    ] {
        let (head, line) = (format!("{section}:\n"), format!("  {key}: "));
        if !job_file.contains(&head) {
            job_file += &head;
        }
        if !job_file.contains(&line) {
            job_file = job_file.replacen(&head, &format!("{head}{line}{value}\n"), 1);
        }
    }
    for key in ["name", "output_dir"] {
        if !job_file.lines().any(|line| line.starts_with(&format!("{key}:"))) {
            job_file += &format!("{key}: example\n");
        }
    }
    job_file
}

fn problem(job_file: &str) -> Option<String> {
    let violations = JobFile::parse(job_file, Path::new("/job")).err()?;
    let violations: Vec<String> = violations.iter().map(ToString::to_string).collect();
    Some(format!("{}\n{job_file}", violations.join("; ")))
}
