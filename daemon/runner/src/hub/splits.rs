//! Which files of a data set make a split, as `datasets` decides it: by its card, else by the
//! names of folders or files, else all are to train on.

use std::collections::BTreeMap;

use super::HubProblem;
use super::card::{self, Config};

/// Words that stand for a split in the names of folders and files.
const KEYWORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Of formats that are equally common among the files of a split, the last one counts.
const PREFERRED: [&str; 5] = ["txt", "csv", "json", "jsonl", "parquet"];
/// Files that are told of where there are none to read.
const FOUND_MAX: usize = 8;

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) split: String,
    pub(super) config: Option<String>,
    /// Of the files themselves, in place of the other two; may be a glob.
    pub(super) path: Option<String>,
}

/// The files of a split, sorted.
pub(super) fn choose(
    files: &[String],
    card: Option<&str>,
    wanted: &Wanted,
) -> Result<Vec<String>, HubProblem> {
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.sort_unstable();
    if let Some(path) = &wanted.path {
        return found(matching(&files, path), || HubProblem::NoMatch { path: path.clone() });
    }
    of_split(&files, card, wanted).map(of_one_format)
}

fn of_split(
    files: &[&str],
    card: Option<&str>,
    wanted: &Wanted,
) -> Result<Vec<String>, HubProblem> {
    let data: Vec<&str> = files.iter().copied().filter(|file| is_data(file)).collect();
    if data.is_empty() {
        let found = &files[..files.len().min(FOUND_MAX)];
        return Err(HubProblem::NoData { found: found.join(", ") });
    }
    match config_of(&card::configs(card.unwrap_or_default()), wanted.config.as_deref())? {
        Some(config) if !config.splits.is_empty() => of_card(files, config, wanted),
        Some(config) => by_names(&below(&data, config.folder.as_deref()), wanted),
        None => match &wanted.config {
            None => by_names(&data, wanted),
            Some(name) => {
                by_names(&found(below(&data, Some(name)), || no_config(name, &data))?, wanted)
            }
        },
    }
}

fn found<T>(files: Vec<T>, problem: impl FnOnce() -> HubProblem) -> Result<Vec<String>, HubProblem>
where
    T: AsRef<str>,
{
    match files.is_empty() {
        true => Err(problem()),
        false => Ok(files.iter().map(|file| file.as_ref().to_owned()).collect()),
    }
}

/// The one that is named, else the default one, else the only one; `None` where the card has none.
fn config_of<'a>(
    configs: &'a [Config],
    name: Option<&str>,
) -> Result<Option<&'a Config>, HubProblem> {
    let known = || configs.iter().map(|config| config.name.clone()).collect::<Vec<_>>();
    match (configs, name) {
        ([], _) => Ok(None),
        (configs, Some(name)) => {
            let named = configs.iter().find(|config| config.name == name);
            let missing = || HubProblem::NoConfig { name: name.to_owned(), known: known() };
            named.ok_or_else(missing).map(Some)
        }
        ([only], None) => Ok(Some(only)),
        (configs, None) => {
            let default = configs.iter().find(|config| config.is_default);
            default.ok_or_else(|| HubProblem::WhichConfig { known: known() }).map(Some)
        }
    }
}

fn of_card(files: &[&str], config: &Config, wanted: &Wanted) -> Result<Vec<String>, HubProblem> {
    let splits = &config.splits;
    let Some((_, patterns)) = splits.iter().find(|(split, _)| *split == wanted.split) else {
        let known = splits.iter().map(|(split, _)| split.clone()).collect();
        return Err(HubProblem::NoSplit { split: wanted.split.clone(), known });
    };
    let folder = config.folder.as_deref().map(|folder| format!("{}/", folder.trim_matches('/')));
    let matches = patterns.iter().flat_map(|pattern| {
        let pattern = format!("{}{pattern}", folder.as_deref().unwrap_or_default());
        matching(files, pattern.trim_start_matches("./"))
    });
    found(matches.collect(), || HubProblem::NoMatch { path: patterns.join(", ") })
}

fn below<'a, T: AsRef<str>>(files: &'a [T], folder: Option<&str>) -> Vec<&'a str> {
    let folder = folder.map(|folder| format!("{}/", folder.trim_matches('/'))).unwrap_or_default();
    files.iter().map(AsRef::as_ref).filter(|file| file.starts_with(&folder)).collect()
}

fn no_config(name: &str, files: &[&str]) -> HubProblem {
    let mut known: Vec<String> =
        files.iter().filter_map(|file| Some(file.split_once('/')?.0.to_owned())).collect();
    known.dedup();
    HubProblem::NoConfig { name: name.to_owned(), known }
}

/// The first rule counts that finds files of any split.
fn by_names<T: AsRef<str>>(files: &[T], wanted: &Wanted) -> Result<Vec<String>, HubProblem> {
    let rules: [fn(&str, &[&str]) -> bool; 3] = [is_numbered, folder_says, name_says];
    for rule in rules {
        let of = |keywords: &[&str]| -> Vec<String> {
            let of_split = files.iter().map(AsRef::as_ref).filter(|file| rule(file, keywords));
            of_split.map(str::to_owned).collect()
        };
        let splits = KEYWORDS.map(|(split, keywords)| (split, of(keywords)));
        if splits.iter().all(|(_, files)| files.is_empty()) {
            continue;
        }
        let known = splits.iter().filter(|(_, files)| !files.is_empty());
        let known = known.map(|(split, _)| (*split).to_owned()).collect();
        let of_wanted = splits.into_iter().find(|(split, _)| *split == wanted.split);
        let missing = || HubProblem::NoSplit { split: wanted.split.clone(), known };
        return found(of_wanted.map(|(_, files)| files).unwrap_or_default(), missing);
    }
    let all = if wanted.split == "train" { below(files, None) } else { Vec::new() };
    let known = vec!["train".to_owned()];
    found(all, || HubProblem::NoSplit { split: wanted.split.clone(), known })
}

/// `data/train-00000-of-00002….parquet`, as `push_to_hub` writes it.
fn is_numbered(file: &str, keywords: &[&str]) -> bool {
    let number =
        |text: &str| text.len() >= 5 && text.as_bytes()[..5].iter().all(u8::is_ascii_digit);
    let rest = file.strip_prefix("data/").and_then(|name| name.strip_prefix(keywords[0]));
    let parts = rest.and_then(|rest| rest.strip_prefix('-')?.split_once("-of-"));
    parts.is_some_and(|(part, of)| part.len() == 5 && number(part) && number(of))
}

fn folder_says(file: &str, keywords: &[&str]) -> bool {
    let folders = file.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').any(|folder| has_word(folder, keywords))
}

fn name_says(file: &str, keywords: &[&str]) -> bool {
    has_word(file.rsplit('/').next().unwrap_or(file), keywords)
}

/// Words are divided by `-`, `.`, `_`, spaces and digits.
fn has_word(name: &str, keywords: &[&str]) -> bool {
    let is_divider = |c: char| matches!(c, '-' | '.' | '_' | ' ') || c.is_ascii_digit();
    name.split(is_divider).any(|word| keywords.contains(&word))
}

/// Those of the commonest format, as `datasets` takes them: what lies beside them is a licence, a
/// list of requirements, or the same data once more.
fn of_one_format(mut files: Vec<String>) -> Vec<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    files.iter().filter_map(format_of).for_each(|format| *counts.entry(format).or_default() += 1);
    let preference = |format: &str| PREFERRED.iter().position(|preferred| *preferred == format);
    let commonest = counts.into_iter().max_by_key(|&(format, count)| (count, preference(format)));
    if let Some((commonest, _)) = commonest {
        files.retain(|file| format_of(file) == Some(commonest));
    }
    files
}

fn format_of(file: impl AsRef<str>) -> Option<&'static str> {
    traind_loader::data_format(file.as_ref().as_ref())
}

fn is_data(file: &str) -> bool {
    let hidden = |part: &str| part.starts_with('.') || part.starts_with("__");
    let about = ["dataset_infos.json", "dataset_dict.json", "state.json", "dataset_info.json"];
    let name = file.rsplit('/').next().unwrap_or(file);
    !file.split('/').any(hidden) && !about.contains(&name) && format_of(file).is_some()
}

/// Files that a pattern names; a wildcard does not go beyond a folder, but `**` does.
fn matching<'a>(files: &[&'a str], pattern: &str) -> Vec<&'a str> {
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    let Ok(glob) = glob::Pattern::new(pattern) else { return Vec::new() };
    files.iter().copied().filter(|file| glob.matches_with(file, options)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// Chooses from `names`; an error as its text.
    fn chosen(names: &[&str], card: &str, wanted: &Wanted) -> Result<Vec<String>, String> {
        choose(&files(names), Some(card), wanted).map_err(|problem| problem.to_string())
    }

    fn split(split: &str) -> Wanted {
        Wanted { split: split.to_owned(), ..Wanted::default() }
    }

    fn check(names: &[&str], wanted: &str, expect: Result<&[&str], &str>) {
        let found = chosen(names, "", &split(wanted));
        assert_eq!(found, expect.map(files).map_err(str::to_owned), "{names:?} {wanted}");
    }

    #[test]
    fn names_of_files_and_folders_tell_the_split() {
        let pushed = [
            "data/train-00001-of-00002-ab.parquet",
            "data/train-00000-of-00002-ab.parquet",
            "data/test-00000-of-00001.parquet",
            "extra/train.csv",
        ];
        check(&pushed, "train", Ok(&[pushed[1], pushed[0]]));
        check(&pushed, "test", Ok(&[pushed[2]]));
        check(&pushed, "validation", Err("it has no split validation; it has train, test"));
        check(&["my_train_file.csv", "dev.csv", "README.md"], "validation", Ok(&["dev.csv"]));
        check(&["my_train_file.csv", "dev.csv"], "train", Ok(&["my_train_file.csv"]));
        check(&["trained.csv", "tested.csv"], "train", Ok(&["tested.csv", "trained.csv"]));
        check(&["train/a.csv", "train/b.csv", "testing/a.csv"], "test", Ok(&["testing/a.csv"]));
        check(&["a.csv", "requirements.txt"], "train", Ok(&["a.csv"]));
        check(&["a.csv", "b.csv", "c.parquet"], "train", Ok(&["a.csv", "b.csv"]));
        check(&["train.json", "train.parquet", "test.csv"], "train", Ok(&["train.parquet"]));
        check(&["a.txt", "b.txt.gz"], "train", Ok(&["a.txt", "b.txt.gz"]));
        check(
            &["a.jsonl.gz", "b.jsonl.gz", ".cache/c.csv"],
            "train",
            Ok(&["a.jsonl.gz", "b.jsonl.gz"]),
        );
        check(&["a.csv"], "test", Err("it has no split test; it has train"));
        check(
            &["script.py", "README.md"],
            "train",
            Err("it has no data files that can be read; it has README.md, script.py"),
        );
    }

    #[test]
    fn a_configuration_is_a_folder_where_the_card_says_nothing() {
        let names = ["en/train.csv", "en/test.csv", "de/train.csv"];
        let of = |config: &str| Wanted { config: Some(config.to_owned()), ..split("train") };
        assert_eq!(chosen(&names, "", &of("de")), Ok(files(&["de/train.csv"])));
        assert_eq!(
            chosen(&names, "", &of("fr")),
            Err("it has no configuration fr; it has de, en".to_owned())
        );
    }

    #[test]
    fn the_card_comes_before_names() {
        let card = "---\nconfigs:\n- config_name: en\n  data_files:\n  - {split: train, path: en/*.csv}\n\
            - config_name: de\n  data_files:\n  - {split: train, path: 'de/**'}\n---\n";
        let names = ["en/a.csv", "en/x/b.csv", "de/a.csv", "de/x/b.csv", "train.csv"];
        let of = |config: Option<&str>, split_name| Wanted {
            config: config.map(str::to_owned),
            ..split(split_name)
        };
        assert_eq!(chosen(&names, card, &of(Some("en"), "train")), Ok(files(&["en/a.csv"])));
        assert_eq!(
            chosen(&names, card, &of(Some("de"), "train")),
            Ok(files(&["de/a.csv", "de/x/b.csv"]))
        );
        let which = "it has several configurations; data.dataset_config_name is one of en, de";
        assert_eq!(chosen(&names, card, &of(None, "train")), Err(which.to_owned()));
        assert_eq!(
            chosen(&names, card, &of(Some("en"), "test")),
            Err("it has no split test; it has train".to_owned())
        );
        assert_eq!(
            chosen(&names, card, &of(Some("fr"), "train")),
            Err("it has no configuration fr; it has en, de".to_owned())
        );
    }

    #[test]
    fn files_may_be_named_themselves() {
        let names = ["a/1.csv", "a/2.csv", "b/1.csv"];
        let of = |path: &str| Wanted { path: Some(path.to_owned()), ..split("train") };
        assert_eq!(chosen(&names, "", &of("a/*.csv")), Ok(files(&["a/1.csv", "a/2.csv"])));
        assert_eq!(chosen(&names, "", &of("c.csv")), Err("it has no file c.csv".to_owned()));
    }
}
