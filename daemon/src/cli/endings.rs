//! The ends of names of files that commands write, which say what is in them.

use std::path::Path;

use anyhow::ensure;

/// File name ends of formats that are not text for a reader.
const KNOWN: [&str; 26] = [
    "arrow",
    "bin",
    "csv",
    "feather",
    "gguf",
    "gz",
    "html",
    "json",
    "jsonl",
    "ndjson",
    "npy",
    "npz",
    "parquet",
    "pickle",
    "pkl",
    "pq",
    "pt",
    "pth",
    "py",
    "safetensors",
    "sh",
    "toml",
    "tsv",
    "xlsx",
    "zip",
    "zst",
];

/// The content of job files, and the ends of their names.
pub(super) const JOB_FILES: &str = "job files are YAML";
pub(super) const JOB_FILE_ENDINGS: [&str; 2] = ["yaml", "yml"];

/// Fails unless a file's name ends in one of `allowed`. `what` begins the sentence about them.
pub(super) fn require(file: &Path, what: &str, allowed: &[&str]) -> anyhow::Result<()> {
    let list: Vec<String> = allowed.iter().map(|ending| format!(".{ending}")).collect();
    let list = list.join(", ");
    ensure!(
        ending(file).is_some_and(|ending| allowed.contains(&ending.as_str())),
        "{}: {what} to files whose names end in {list}: name one of these",
        file.display()
    );
    Ok(())
}

/// Fails where the end of a name says that the content is another than `what`.
pub(super) fn refuse_others(path: &Path, what: &str, allowed: &[&str]) -> anyhow::Result<()> {
    let other =
        ending(path).filter(|it| KNOWN.contains(&it.as_str()) && !allowed.contains(&it.as_str()));
    match other {
        None => Ok(()),
        Some(other) => anyhow::bail!(
            "{}: {what}, which .{other} does not say: choose another name",
            path.display()
        ),
    }
}

fn ending(path: &Path) -> Option<String> {
    Some(path.extension()?.to_str()?.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_what_is_in_a_file() {
        let rows = |name: &str| require(Path::new(name), "rows are written", &["jsonl", "parquet"]);
        for name in ["a.jsonl", "b/a.PARQUET", "a.b.jsonl"] {
            rows(name).unwrap();
        }
        for name in ["a.csv", "a", "jsonl", "a.parquet.gz"] {
            let error = rows(name).unwrap_err().to_string();
            let expect =
                "rows are written to files whose names end in .jsonl, .parquet: name one of these";
            assert_eq!(error, format!("{name}: {expect}"));
        }
        let job = |name: &str| refuse_others(Path::new(name), JOB_FILES, &JOB_FILE_ENDINGS);
        for name in ["job", "job.yaml", "job.v2", "job.YML", "run.job"] {
            job(name).unwrap();
        }
        let folder = |name: &str| refuse_others(Path::new(name), "a model is a folder", &[]);
        folder("out/SmolLM2-1.7B").unwrap();
        folder("model.safetensors").unwrap_err();
        let error = job("job.json").unwrap_err().to_string();
        assert_eq!(
            error,
            "job.json: job files are YAML, which .json does not say: choose another name"
        );
    }
}
