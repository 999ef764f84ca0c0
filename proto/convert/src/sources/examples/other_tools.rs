//! Commands of tools that have files of settings, or scripts of their own.

use traind_job_file::Tool;

/// Returns what to do instead, for the command of another tool.
pub(super) fn advice(words: &[String]) -> Option<String> {
    let names = |wanted: &[&str]| {
        let name = |word: &String| word.rsplit('/').next().unwrap_or_default().to_owned();
        words.iter().any(|word| wanted.contains(&name(word).as_str()))
    };
    let file = words.iter().rev().find(|word| is_settings(word));
    let of_file = |tool: &str| {
        let file = file.map_or("FILE", String::as_str);
        format!(
            "runs {tool}: convert its file, by `traind convert {file} --output job.yaml`, with the values that \
            follow it by --set"
        )
    };
    Some(match () {
        () if names(&["axolotl", "axolotl.cli.train", "axolotl.cli.preprocess"]) => {
            of_file("axolotl")
        }
        () if names(&["llamafactory-cli", "llamafactory.launcher"]) => of_file("LLaMA-Factory"),
        () if names(&["trl", "grpo.py", "rloo.py"]) => {
            "runs TRL, of whose scripts sft, dpo, reward, kto, orpo and cpo are converted".to_owned()
        }
        () if file_of(words, SENTENCE_TRANSFORMERS).is_some() => {
            "trains embeddings or a reranker, by Python that is not converted: begin with docs/examples/embeddings.yaml or \
             docs/examples/reranker.yaml, and put the loss, its arguments and the columns of the data set into them, under \
             sentence-transformers' names"
                .to_owned()
        }
        () if names(&["tune"]) => {
            format!("runs torchtune, whose settings are not converted. {}", its(Tool::Torchtune))
        }
        () if names(&["swift"]) && ["sft", "pt", "rlhf"].iter().any(|verb| names(&[verb])) => {
            own_settings("ms-swift")
        }
        () if names(&["autotrain"]) => own_settings("AutoTrain"),
        () if names(&["litgpt"]) => own_settings("LitGPT"),
        () if names(&["unsloth-cli.py", "unsloth"]) => own_settings("Unsloth's command"),
        () if names(&["sbatch", "qsub"]) => {
            let script = words.iter().skip(1).find(|word| !word.starts_with('-'));
            let script = script.map_or("SCRIPT", String::as_str);
            format!("submits a script: convert that, by `traind convert {script} --from command`")
        }
        () => return None,
    })
}

/// The sentence on a tool whose settings have names of their own.
fn own_settings(tool: &str) -> String {
    format!(
        "runs {tool}, whose settings are not converted: begin with `traind init MODEL DATA`, and put its values \
         under the names of docs/job-file.md, which are TrainingArguments' and PEFT's"
    )
}

/// Beginnings of the names of scripts, as sentence-transformers' examples and documentation have them.
const SENTENCE_TRANSFORMERS: &[&str] = &[
    "2d_matryoshka_",
    "adaptive_layer_",
    "matryoshka_",
    "train_bi-encoder",
    "train_cross-encoder",
    "train_ct",
    "train_simcse",
    "train_sts",
    "training_batch_hard",
    "training_gooaq",
    "training_ms_marco",
    "training_multi_task",
    "training_nli",
    "training_paraphrase",
    "training_quora",
    "training_sts",
];

/// The Python file among the words whose name begins with one of `names`.
fn file_of<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    let mut files = words.iter().filter_map(|word| word.rsplit('/').next()?.strip_suffix(".py"));
    files.find(|file| names.iter().any(|name| file.starts_with(name)))
}

/// The advice on a tool's files, without the words that say whose they are.
fn its(tool: Tool) -> String {
    let advice = tool.advice();
    let rest =
        advice.split_once(": ").or_else(|| advice.split_once("; ")).map_or(advice, |(_, it)| it);
    let mut letters = rest.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Whether a word is the file of a tool's settings.
pub(super) fn is_settings(word: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|end| word.ends_with(end)) && !word.contains('=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, sentence: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let found = advice(&words);
        match sentence {
            Some(sentence) => {
                assert!(found.as_ref().is_some_and(|it| it.contains(sentence)), "{found:?}")
            }
            None => assert_eq!(found, None, "{command}"),
        }
    }

    #[test]
    fn commands_of_other_tools_are_named_with_what_converts() {
        check("axolotl train a.yml --micro-batch-size 2", Some("`traind convert a.yml "));
        check("accelerate launch -m axolotl.cli.train b.yaml", Some("axolotl: convert its file"));
        check("llamafactory-cli train c.yaml", Some("LLaMA-Factory: convert its file"));
        check("trl grpo --model_name_or_path a/b", Some("kto, orpo and cpo are"));
        check("python examples/training_nli.py a/b", Some("docs/examples/embeddings.yaml"));
        check("tune run full_finetune --config d.yaml", Some("Begin with"));
        check("swift sft --model a/b --dataset c.jsonl", Some("runs ms-swift"));
        check("autotrain llm --train", Some("runs AutoTrain"));
        check("litgpt finetune_lora a", Some("runs LitGPT"));
        check("python unsloth-cli.py --r 8", Some("runs Unsloth's command"));
        check("sbatch -N 2 train.slurm", Some("--from command"));
        check("python run_glue.py --do_train", None);
    }
}
