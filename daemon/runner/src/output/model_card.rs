//! The model card: a README.md in the hub's format with the model's origin, training arguments and
//! metrics.

use std::fmt::Write;

use crate::metrics::Metrics;

#[derive(Debug)]
pub(crate) struct ModelCard<'a> {
    pub name: &'a str,
    pub base_model: &'a str,
    /// The library that loads the folder: `transformers`, or `peft` for adapters.
    pub library_name: &'a str,
    pub task: &'a str,
    pub pipeline_tag: &'a str,
    pub train_rows: u64,
    pub labels: &'a [String],
    /// The main training arguments, in order.
    pub arguments: Vec<(&'static str, String)>,
    /// The `eval_*` metrics of the saved model; empty without an evaluation.
    pub metrics: &'a Metrics,
}

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
        self.labels(&mut card);
        self.results(&mut card);
        self.arguments(&mut card);
        card
    }

    fn front_matter(&self, card: &mut String) {
        let _ = writeln!(card, "---\nlibrary_name: {}\ntags:\n- traind", self.library_name);
        let _ = writeln!(card, "pipeline_tag: {}\n---\n", self.pipeline_tag);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn has_labels_results_and_arguments() {
        let card = ModelCard {
            name: "sections",
            library_name: "transformers",
            base_model: "minilm",
            task: "sequence-classification",
            pipeline_tag: "text-classification",
            train_rows: 8000,
            labels: &["net".to_owned(), "web".to_owned()],
            arguments: vec![("learning_rate", "0.0001".to_owned())],
            metrics: &Metrics::from([("eval_accuracy".to_owned(), 0.75)]),
        };
        let text = card.render();
        for part in [
            "library_name: transformers",
            "pipeline_tag: text-classification",
            "on 8000 rows",
            "Labels: net, web.",
            "| eval_accuracy | 0.7500 |",
            "| learning_rate | 0.0001 |",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
