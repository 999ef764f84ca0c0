//! The model card: a README.md in the hub's format with the model's origin, training arguments and
//! metrics, which the hub shows from `model-index`.

use std::fmt::Write;

use super::yaml::quoted;
use crate::metrics::Metrics;

#[derive(Debug)]
pub(crate) struct ModelCard<'a> {
    pub name: &'a str,
    pub base_model: &'a str,
    /// Whether the base model is one of the hub.
    pub is_of_hub: bool,
    /// The library that loads the folder: `transformers`, or `peft` for adapters.
    pub library_name: &'a str,
    pub task: &'a str,
    pub pipeline_tag: &'a str,
    pub train_rows: u64,
    /// The time of training and its cost, as a sentence; empty without a time.
    pub effort: String,
    /// The data set that the metrics are of.
    pub evaluated: Option<EvaluatedData>,
    pub labels: &'a [String],
    /// The main training arguments, in order.
    pub arguments: Vec<(&'static str, String)>,
    /// The `eval_*` metrics of the saved model; empty without an evaluation.
    pub metrics: &'a Metrics,
}

/// A data set with a split.
#[derive(Debug)]
pub(crate) struct EvaluatedData {
    /// The id of a data set of the hub, else a file's name.
    pub name: String,
    pub is_of_hub: bool,
    pub split: &'static str,
}

/// Values of an evaluation that say nothing about the model.
const SPEEDS: [&str; 3] = ["runtime", "samples_per_second", "steps_per_second"];
const PREFIX: &str = "eval_";

impl ModelCard<'_> {
    pub(crate) fn render(&self) -> String {
        let mut card = String::new();
        self.front_matter(&mut card);
        let _ = writeln!(card, "# {}\n", self.name);
        let _ = writeln!(
            card,
            "A {} model, fine-tuned from `{}` on {} rows with traind.\n",
            self.task, self.base_model, self.train_rows
        );
        if !self.effort.is_empty() {
            let _ = writeln!(card, "{}\n", self.effort);
        }
        self.labels(&mut card);
        self.results(&mut card);
        self.arguments(&mut card);
        card
    }

    fn front_matter(&self, card: &mut String) {
        let _ = writeln!(card, "---\nlibrary_name: {}", self.library_name);
        if self.is_of_hub {
            let _ = writeln!(card, "base_model: {}", quoted(self.base_model));
        }
        let _ = writeln!(card, "tags:\n- traind\npipeline_tag: {}", self.pipeline_tag);
        if let Some(evaluated) = &self.evaluated {
            self.index(card, evaluated);
        }
        card.push_str("---\n\n");
    }

    /// Writes the results in the form that `huggingface_hub` calls `model-index`.
    fn index(&self, card: &mut String, evaluated: &EvaluatedData) {
        let measured = self.metrics.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix(PREFIX).unwrap_or(name);
            (!SPEEDS.contains(&name) && value.is_finite()).then_some((name, value))
        });
        let measured: Vec<_> = measured.collect();
        if measured.is_empty() {
            return;
        }
        let EvaluatedData { name: data, is_of_hub, split } = evaluated;
        if *is_of_hub {
            let _ = writeln!(card, "datasets:\n- {}", quoted(data));
        }
        let names = measured.iter().map(|(name, _)| format!("- {name}\n"));
        let _ = write!(card, "metrics:\n{}", names.collect::<String>());
        let (tag, data) = (self.pipeline_tag, quoted(data));
        let _ = writeln!(card, "model-index:\n- name: {}\n  results:", quoted(self.name));
        let _ = writeln!(card, "  - task:\n      type: {tag}\n      name: {}", title(tag));
        let _ = writeln!(card, "    dataset:\n      name: {data}\n      type: {data}");
        let _ = writeln!(card, "      split: {split}\n    metrics:");
        for (name, value) in measured {
            let _ = writeln!(
                card,
                "    - type: {name}\n      value: {value}\n      name: {}",
                title(name)
            );
        }
    }

    fn labels(&self, card: &mut String) {
        if !self.labels.is_empty() {
            let _ = writeln!(card, "Labels: {}.\n", self.labels.join(", "));
        }
    }

    fn results(&self, card: &mut String) {
        if self.metrics.is_empty() {
            return;
        }
        let _ = writeln!(card, "## Evaluation\n\n| metric | value |\n| --- | --- |");
        for (name, value) in self.metrics {
            let _ = writeln!(card, "| {name} | {value:.4} |");
        }
        card.push('\n');
    }

    fn arguments(&self, card: &mut String) {
        let _ = writeln!(card, "## Training arguments\n\n| argument | value |\n| --- | --- |");
        for (name, value) in &self.arguments {
            let _ = writeln!(card, "| {name} | {value} |");
        }
    }
}

/// `text-classification` as "Text Classification".
fn title(name: &str) -> String {
    let words = name.split(['-', '_']).map(|word| {
        let (first, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        first.to_uppercase() + rest
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_labels_results_and_arguments() {
        let card = ModelCard {
            name: "sections",
            library_name: "transformers",
            base_model: "org/minilm",
            is_of_hub: true,
            evaluated: Some(EvaluatedData {
                name: "net: \"x\".csv".to_owned(),
                is_of_hub: false,
                split: "validation",
            }),
            task: "sequence-classification",
            pipeline_tag: "text-classification",
            train_rows: 8000,
            effort: "Training took 90 s on 2 cores, which cost 0.05.".to_owned(),
            labels: &["net".to_owned(), "web".to_owned()],
            arguments: vec![("learning_rate", "0.0001".to_owned())],
            metrics: &Metrics::from([
                ("eval_accuracy".to_owned(), 0.75),
                ("eval_runtime".to_owned(), 2.0),
            ]),
        };
        let text = card.render();
        for part in [
            "library_name: transformers\nbase_model: \"org/minilm\"",
            "metrics:\n- accuracy\nmodel-index:\n- name: \"sections\"\n",
            "      type: text-classification\n      name: Text Classification\n",
            "      name: \"net: \\\"x\\\".csv\"\n",
            "    - type: accuracy\n      value: 0.75\n      name: Accuracy\n---\n",
            "pipeline_tag: text-classification",
            "on 8000 rows",
            "Training took 90 s on 2 cores, which cost 0.05.\n\nLabels",
            "Labels: net, web.",
            "| eval_accuracy | 0.7500 |",
            "| learning_rate | 0.0001 |",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
