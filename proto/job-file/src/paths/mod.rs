//! Makes the paths of a job file absolute.

mod rules;

use std::path::{Component, Path, PathBuf};

use crate::problems::{HUB_ID_IS_FOLDER, Problems};
use crate::schema::JobFile;
use crate::schema::data_files::DataFiles;
use crate::values::template_names::is_own_template;
use crate::values::{DataSetUrl, ModelSource, ResumeFrom};

use rules::unexpanded;

/// Resolves all paths of a job against `base_dir`.
pub(crate) fn resolve(job: &mut JobFile, base_dir: &Path, problems: &mut Problems) {
    if !base_dir.is_absolute() {
        let found = base_dir.display();
        problems.violation("base_dir", format!("must be absolute, not `{found}`"));
        return;
    }
    let mut paths = Paths { base_dir, problems };
    paths.resolve_model("model.name_or_path", &mut job.model.name_or_path);
    if let Some(source) = &mut job.model.generator {
        paths.resolve_model("model.generator", source);
    }
    if let Some(source) = &mut job.dpo.ref_model_name_or_path {
        paths.resolve_model("dpo.ref_model_name_or_path", source);
    }
    if let Some(source) = &mut job.kto.ref_model_name_or_path {
        paths.resolve_model("kto.ref_model_name_or_path", source);
    }
    if let Some(source) = &mut job.embedding.guide {
        paths.resolve_model("embedding.guide", source);
    }
    paths.resolve_files("data.train", job.data.train.as_mut());
    paths.resolve_files("data.validation", job.data.validation.as_mut());
    paths.resolve_files("data.test", job.data.test.as_mut());
    if let Some(template) = &mut job.data.chat_template {
        paths.resolve_template("data.chat_template", template);
    }
    if let Some(ResumeFrom::Folder(path)) = &mut job.train.resume_from_checkpoint {
        paths.resolve_folder("train.resume_from_checkpoint", path);
    }
    if let Some(path) = &mut job.peft.adapter_name_or_path {
        paths.resolve("peft.adapter_name_or_path", path);
    }
    if let Some(path) = &mut job.notify.secret_file {
        paths.resolve("notify.secret_file", path);
    }
    paths.resolve_folder("output_dir", &mut job.output_dir);
    if let Some(path) = &mut job.checkpoint_dir {
        paths.resolve_folder("checkpoint_dir", path);
    }
}

struct Paths<'a> {
    base_dir: &'a Path,
    problems: &'a mut Problems,
}

impl Paths<'_> {
    fn resolve(&mut self, field: &str, path: &mut PathBuf) {
        if let Some(description) = unexpanded(path, self.base_dir) {
            self.problems.violation(field, description);
        }
        *path = without_dots(&self.base_dir.join(&path));
    }

    /// Resolves the file of a chat template, unless it is the name of one or its text.
    fn resolve_template(&mut self, field: &str, template: &mut String) {
        let is_text = template.contains("{{") || template.contains("{%");
        if !is_text && is_own_template(template) {
            let mut path = PathBuf::from(&*template);
            self.resolve(field, &mut path);
            *template = path.to_string_lossy().into_owned();
        }
    }

    /// Resolves the folder of a model, unless it is one of the hub. As in transformers, a folder that is there comes
    /// before a model of the hub with the same name.
    fn resolve_model(&mut self, field: &str, model: &mut ModelSource) {
        if let ModelSource::Hub(id) = model {
            if let Some(description) = unexpanded(Path::new(id), self.base_dir) {
                return self.problems.violation(field, description);
            }
            if id.is_empty() || !self.base_dir.join(&*id).is_dir() {
                return;
            }
            let description =
                format!("is read as the folder `./{id}`, not as the model `{id}` of the hub");
            self.problems.warning(HUB_ID_IS_FOLDER, field, description);
            *model = ModelSource::Folder(Path::new(".").join(&*id));
        }
        if let ModelSource::Folder(path) = model {
            self.resolve(field, path);
        }
    }

    /// Resolves a folder that may be a bucket's.
    fn resolve_folder(&mut self, field: &str, path: &mut PathBuf) {
        let text = path.to_string_lossy().into_owned();
        if !DataFiles::is_url(path) {
            self.resolve(field, path);
        } else if is_bucket_folder(&text) {
            *path = text.trim_end_matches('/').into();
        } else {
            let description = format!("must be a folder or s3://BUCKET/PREFIX, not `{text}`");
            self.problems.violation(field, description);
        }
    }

    fn resolve_files(&mut self, field: &str, files: Option<&mut DataFiles>) {
        let Some(files) = files else { return };
        self.resolve_patterns(field, &mut files.patterns);
        files.share_patterns();
    }

    fn resolve_patterns(&mut self, field: &str, patterns: &mut [PathBuf]) {
        for pattern in patterns {
            if DataFiles::is_url(pattern) {
                continue;
            }
            let base_dir = self.base_dir;
            // As `load_dataset` takes it: what is there comes before what the hub has.
            if let Some(url) = pattern.to_str().and_then(DataSetUrl::of_id)
                && !base_dir.join(&pattern).exists()
            {
                *pattern = url.into();
                continue;
            }
            let literal = pattern.is_relative() && DataFiles::is_glob(base_dir);
            self.resolve(field, pattern);
            if literal && !pattern.exists() {
                escape_base(pattern, base_dir);
            }
        }
    }
}

/// Whether `text` is `s3://BUCKET/PREFIX`, whose prefix has no part that could mean another folder.
fn is_bucket_folder(text: &str) -> bool {
    let parts =
        text.strip_prefix("s3://").and_then(|rest| rest.trim_end_matches('/').split_once('/'));
    let is_name = |part: &str| !["", ".", ".."].contains(&part) && !part.contains(['*', '?', '[']);
    parts.is_some_and(|(bucket, prefix)| is_name(bucket) && prefix.split('/').all(is_name))
}

/// Keeps the special characters of the folder out of the glob: a relative path
/// is meant inside `base_dir`, however that is called.
fn escape_base(pattern: &mut PathBuf, base_dir: &Path) {
    if let Ok(relative) = pattern.strip_prefix(without_dots(base_dir)) {
        let base = glob::Pattern::escape(&base_dir.to_string_lossy());
        *pattern = without_dots(&Path::new(&base).join(relative));
    }
}

/// Drops `.`; keeps `..`, which means another folder behind a symbolic link.
fn without_dots(path: &Path) -> PathBuf {
    path.components().filter(|component| *component != Component::CurDir).collect()
}
