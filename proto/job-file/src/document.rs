//! The job file's page of documentation, from the declarations in `schema`.

use crate::aliases;
use crate::field_doc::FieldDoc;
use crate::schema::fields;
use crate::training_arguments::{self, Treatment};

const INTRODUCTION: &str = "\
# The job file

The file that `traind submit` takes: YAML, with the keys of Hugging Face's TrainingArguments wherever
one exists. Unknown keys, values of the wrong type and values out of range are errors, all reported at
once; for an unknown key, the error names the nearest one. Relative paths are resolved against the folder
that `traind submit` runs in. `--set train.learning_rate=1e-4` overrides a value for one submission.

Generated from the declarations in `proto/job-file/src/schema`; the package's tests keep it true.
";

/// The page, as Markdown.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut section = None;
    let mut fields = fields();
    fields.sort_by_key(|field| field.path.contains('.')); // those of no section together
    for field in fields {
        let (of, key) = field.path.rsplit_once('.').unwrap_or(("", &field.path));
        if section.as_deref() != Some(of) {
            page += &heading(of);
            section = Some(of.to_owned());
        }
        page += &row(&field, key);
    }
    page + &other_names() + &other_arguments()
}

fn heading(section: &str) -> String {
    let title = if section.is_empty() { "The job" } else { &format!("`{section}`") };
    format!("\n## {title}\n\n| key | value | default | |\n| --- | --- | --- | --- |\n")
}

fn row(field: &FieldDoc, key: &str) -> String {
    let range = field.range.as_ref().map(|range| format!(", {range}")).unwrap_or_default();
    let default = match (&field.default, field.required) {
        (_, true) => "**required**".to_owned(),
        (Some(default), _) => format!("`{default}`"),
        (None, _) => String::new(),
    };
    let value = cell(&format!("{}{range}", field.type_name));
    format!("| `{key}` | {value} | {default} | {} |\n", cell(&field.doc))
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn other_names() -> String {
    let mut text = "\n## Other names\n\nRead with a warning, as today's key:\n\n".to_owned();
    for (old, new) in aliases::keys() {
        text += &format!("- `{old}`: `{new}`\n");
    }
    text += "\nRead with a warning, without effect:\n\n";
    for (key, reason) in aliases::keys_without_effect() {
        text += &format!("- `{key}`: {reason}\n");
    }
    text
}

fn other_arguments() -> String {
    let mut text = "\n## Other TrainingArguments\n\nFields of TrainingArguments, including \
        earlier versions, that are not keys above. Each may be given its default. Any other value is \
        already in effect, is ignored with a warning, or is refused.\n\n| field | default | with another value | |\n\
        | --- | --- | --- | --- |\n"
        .to_owned();
    for argument in training_arguments::ALL.iter().copied().flatten() {
        let (effect, reason) = match argument.treatment {
            Treatment::NoEffect(reason) => ("no effect", reason),
            Treatment::Always(reason) => ("always in effect", reason),
            Treatment::Only(_, advice) => ("some are always in effect, others refused", advice),
            Treatment::Refused(advice) => ("refused", advice),
        };
        let (name, default) = (argument.name, argument.default);
        text += &format!("| `{name}` | `{default}` | {effect} | {} |\n", cell(reason));
    }
    text + &optimizers()
}

fn optimizers() -> String {
    let mut text = "\nNames of `optim` that are refused:\n\n".to_owned();
    for (names, advice) in training_arguments::OPTIMIZERS {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        text += &format!("- {}: {advice}.\n", names.join(", "));
    }
    text
}
