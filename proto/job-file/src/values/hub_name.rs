//! Names of the hub, and the address of a data set there.

/// The scheme of a data set's address.
pub(crate) const DATA_SETS: &str = "hf://datasets/";

/// `hf://datasets/ORG/NAME[@REVISION][/FILE]`: a data set of the hub, or files of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSetUrl {
    /// `org/name`.
    pub id: String,
    /// Branch, tag or commit.
    pub revision: Option<String>,
    /// A file, or a glob of files, instead of those of a split.
    pub path: Option<String>,
}

impl DataSetUrl {
    /// Parses an address; `None` if `text` is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let (org, rest) = text.strip_prefix(DATA_SETS)?.split_once('/')?;
        let (name, path) = match rest.split_once('/') {
            Some((name, path)) => (name, Some(path.to_owned()).filter(|path| !path.is_empty())),
            None => (rest, None),
        };
        let (name, revision) = match name.split_once('@') {
            Some((name, revision)) => (name, Some(revision.to_owned())),
            None => (name, None),
        };
        let names = [Some(org), Some(name), revision.as_deref()];
        let named = names.into_iter().flatten().all(|part| is_hub_name(part, 1));
        named.then(|| Self { id: format!("{org}/{name}"), revision, path })
    }

    /// The address of a data set written as `org/name` alone; `None` for a file name with an
    /// extension.
    pub(crate) fn of_id(text: &str) -> Option<String> {
        let (_, name) = text.split_once('/')?;
        let is_id = is_hub_name(text, 2) && !name.contains('.');
        is_id.then(|| format!("{DATA_SETS}{text}"))
    }
}

/// Returns true if `text` has at most `parts_max` parts between slashes, each of which can stand
/// in a path or a URL unchanged.
pub(crate) fn is_hub_name(text: &str, parts_max: usize) -> bool {
    let is_name_character =
        |character: char| character.is_ascii_alphanumeric() || ['-', '_', '.'].contains(&character);
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphanumeric())
            && part.chars().all(is_name_character)
    };
    text.split('/').count() <= parts_max && text.split('/').all(is_name)
}
