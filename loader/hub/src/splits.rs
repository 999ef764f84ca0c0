//! Chooses the files of a split as `datasets` does: by the card, else by the names of folders or
//! files, else all files are the training split.

use std::collections::BTreeMap;

use traind_loader::{names_split, split_names};

use super::Problem;
use super::card::{self, Config};

/// Breaks ties between the formats of a split: the last wins.
const PREFERENCE: [&str; 5] = ["txt", "csv", "json", "jsonl", "parquet"];
/// The number of files that an error lists.
const LISTED_MAX: usize = 8;

/// A split of a data set that a job names.
#[derive(Clone, Debug, Default)]
pub struct DataSetRequest {
    pub id: String,
    /// `None` for the main branch.
    pub revision: Option<String>,
    pub split: String,
    pub config: Option<String>,
    /// The files themselves, in place of split and configuration; may be a glob.
    pub path: Option<String>,
}

/// Returns the files of a split, sorted.
pub(crate) fn choose(
    files: &[String],
    card: Option<&str>,
    request: &DataSetRequest,
) -> Result<Vec<String>, Problem> {
    let mut files: Vec<&str> = files.iter().map(String::as_str).collect();
    files.sort_unstable();
    if let Some(path) = &request.path {
        return found(matching(&files, path), || Problem::NoMatch { path: path.clone() });
    }
    split_files(&files, card, request).map(keep_one_format)
}

fn split_files(
    files: &[&str],
    card: Option<&str>,
    request: &DataSetRequest,
) -> Result<Vec<String>, Problem> {
    let data: Vec<&str> = files.iter().copied().filter(|file| is_data(file)).collect();
    if data.is_empty() {
        let found = &files[..files.len().min(LISTED_MAX)];
        return Err(Problem::NoData { found: found.join(", ") });
    }
    match chosen_config(&card::configs(card.unwrap_or_default()), request.config.as_deref())? {
        Some(config) if !config.splits.is_empty() => by_card(files, config, request),
        Some(config) => by_names(&below(&data, config.folder.as_deref()), request),
        None => match &request.config {
            None => by_names(&data, request),
            Some(name) => {
                by_names(&found(below(&data, Some(name)), || no_config(name, &data))?, request)
            }
        },
    }
}

fn found<T>(files: Vec<T>, problem: impl FnOnce() -> Problem) -> Result<Vec<String>, Problem>
where
    T: AsRef<str>,
{
    match files.is_empty() {
        true => Err(problem()),
        false => Ok(files.iter().map(|file| file.as_ref().to_owned()).collect()),
    }
}

/// Returns the named configuration, else the default, else the only one; `None` where the card lists
/// none.
fn chosen_config<'a>(
    configs: &'a [Config],
    name: Option<&str>,
) -> Result<Option<&'a Config>, Problem> {
    let known = || configs.iter().map(|config| config.name.clone()).collect::<Vec<_>>();
    match (configs, name) {
        ([], _) => Ok(None),
        (configs, Some(name)) => {
            let named = configs.iter().find(|config| config.name == name);
            let missing = || Problem::NoConfig { name: name.to_owned(), known: known() };
            named.ok_or_else(missing).map(Some)
        }
        ([only], None) => Ok(Some(only)),
        (configs, None) => {
            let default = configs.iter().find(|config| config.is_default);
            default.ok_or_else(|| Problem::WhichConfig { known: known() }).map(Some)
        }
    }
}

fn by_card(
    files: &[&str],
    config: &Config,
    request: &DataSetRequest,
) -> Result<Vec<String>, Problem> {
    let splits = &config.splits;
    let Some((_, patterns)) = splits.iter().find(|(split, _)| *split == request.split) else {
        let known = splits.iter().map(|(split, _)| split.clone()).collect();
        return Err(Problem::NoSplit { split: request.split.clone(), known });
    };
    let folder = config.folder.as_deref().map(|folder| format!("{}/", folder.trim_matches('/')));
    let matches = patterns.iter().flat_map(|pattern| {
        let pattern = format!("{}{pattern}", folder.as_deref().unwrap_or_default());
        matching(files, pattern.trim_start_matches("./"))
    });
    found(matches.collect(), || Problem::NoMatch { path: patterns.join(", ") })
}

fn below<'a, T: AsRef<str>>(files: &'a [T], folder: Option<&str>) -> Vec<&'a str> {
    let folder = folder.map(|folder| format!("{}/", folder.trim_matches('/'))).unwrap_or_default();
    files.iter().map(AsRef::as_ref).filter(|file| file.starts_with(&folder)).collect()
}

fn no_config(name: &str, files: &[&str]) -> Problem {
    let mut known: Vec<String> =
        files.iter().filter_map(|file| Some(file.split_once('/')?.0.to_owned())).collect();
    known.dedup();
    Problem::NoConfig { name: name.to_owned(), known }
}

/// Applies the first rule that finds files of any split.
fn by_names<T: AsRef<str>>(files: &[T], request: &DataSetRequest) -> Result<Vec<String>, Problem> {
    let rules: [fn(&str, &str) -> bool; 3] = [is_numbered, folder_names, file_names];
    for rule in rules {
        let splits = split_names().map(|split| {
            let matches = files.iter().map(AsRef::as_ref).filter(|file| rule(file, split));
            (split, matches.map(str::to_owned).collect::<Vec<_>>())
        });
        let splits: Vec<_> = splits.collect();
        if splits.iter().all(|(_, files)| files.is_empty()) {
            continue;
        }
        let known = splits.iter().filter(|(_, files)| !files.is_empty());
        let known = known.map(|(split, _)| (*split).to_owned()).collect();
        let requested = splits.into_iter().find(|(split, _)| *split == request.split);
        let missing = || Problem::NoSplit { split: request.split.clone(), known };
        return found(requested.map(|(_, files)| files).unwrap_or_default(), missing);
    }
    let all = if request.split == "train" { below(files, None) } else { Vec::new() };
    let known = vec!["train".to_owned()];
    found(all, || Problem::NoSplit { split: request.split.clone(), known })
}

/// `data/train-00000-of-00002….parquet`, as `push_to_hub` writes it.
fn is_numbered(file: &str, split: &str) -> bool {
    let number =
        |text: &str| text.len() >= 5 && text.as_bytes()[..5].iter().all(u8::is_ascii_digit);
    let rest = file.strip_prefix("data/").and_then(|name| name.strip_prefix(split));
    let parts = rest.and_then(|rest| rest.strip_prefix('-')?.split_once("-of-"));
    parts.is_some_and(|(part, of)| part.len() == 5 && number(part) && number(of))
}

fn folder_names(file: &str, split: &str) -> bool {
    let folders = file.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.split('/').any(|folder| names_split(folder, split))
}

fn file_names(file: &str, split: &str) -> bool {
    names_split(file.rsplit('/').next().unwrap_or(file), split)
}

/// Keeps the files of the most common format, as `datasets` does: the others are a licence, a list of
/// requirements, or the same data in another form.
fn keep_one_format(mut files: Vec<String>) -> Vec<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    files.iter().filter_map(format_of).for_each(|format| *counts.entry(format).or_default() += 1);
    let preference = |format: &str| PREFERENCE.iter().position(|preferred| *preferred == format);
    let most_common = counts.into_iter().max_by_key(|&(format, count)| (count, preference(format)));
    if let Some((most_common, _)) = most_common {
        files.retain(|file| format_of(file) == Some(most_common));
    }
    files
}

fn format_of(file: impl AsRef<str>) -> Option<&'static str> {
    traind_loader::data_format(file.as_ref().as_ref())
}

fn is_data(file: &str) -> bool {
    let is_hidden = |part: &str| part.starts_with('.') || part.starts_with("__");
    let metadata = ["dataset_infos.json", "dataset_dict.json", "state.json", "dataset_info.json"];
    let name = file.rsplit('/').next().unwrap_or(file);
    !file.split('/').any(is_hidden) && !metadata.contains(&name) && format_of(file).is_some()
}

/// Returns the files that match a pattern, whose `**` alone crosses folders.
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
    fn chosen(names: &[&str], card: &str, request: &DataSetRequest) -> Result<Vec<String>, String> {
        choose(&files(names), Some(card), request).map_err(|problem| problem.to_string())
    }

    fn split(split: &str) -> DataSetRequest {
        DataSetRequest { split: split.to_owned(), ..DataSetRequest::default() }
    }

    fn check(names: &[&str], split_name: &str, expect: Result<&[&str], &str>) {
        let found = chosen(names, "", &split(split_name));
        assert_eq!(found, expect.map(files).map_err(str::to_owned), "{names:?} {split_name}");
    }

    #[test]
    fn names_of_files_and_folders_determine_the_split() {
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
            Err("it has no data files of a known format; it has README.md, script.py"),
        );
    }

    #[test]
    fn a_configuration_is_a_folder_without_a_card() {
        let names = ["en/train.csv", "en/test.csv", "de/train.csv"];
        let of =
            |config: &str| DataSetRequest { config: Some(config.to_owned()), ..split("train") };
        assert_eq!(chosen(&names, "", &of("de")), Ok(files(&["de/train.csv"])));
        assert_eq!(
            chosen(&names, "", &of("fr")),
            Err("it has no configuration fr; it has de, en".to_owned())
        );
    }

    #[test]
    fn the_card_takes_precedence_over_names() {
        let card = "---\nconfigs:\n- config_name: en\n  data_files:\n  - {split: train, path: en/*.csv}\n\
            - config_name: de\n  data_files:\n  - {split: train, path: 'de/**'}\n---\n";
        let names = ["en/a.csv", "en/x/b.csv", "de/a.csv", "de/x/b.csv", "train.csv"];
        let of = |config: Option<&str>, split_name| DataSetRequest {
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
    fn a_path_selects_files_directly() {
        let names = ["a/1.csv", "a/2.csv", "b/1.csv"];
        let of = |path: &str| DataSetRequest { path: Some(path.to_owned()), ..split("train") };
        assert_eq!(chosen(&names, "", &of("a/*.csv")), Ok(files(&["a/1.csv", "a/2.csv"])));
        assert_eq!(chosen(&names, "", &of("c.csv")), Err("it has no file c.csv".to_owned()));
    }
}
