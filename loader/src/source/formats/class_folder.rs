//! A folder with a folder for each class: of images, as `imagefolder` of `datasets` reads it, in the columns
//! `image`, which holds paths, and `label`; or of texts, one in each file, as scikit-learn's `load_files`, in the
//! columns `text` and `label`. Classes and files are in the order of their names.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use traind_wording::{counted, counted_as};

use super::{DataFile, Encoding, FormatOptions, text};
use crate::error::{Error, Result};
use crate::source::{Records, Sink, Value};

const LABEL: &str = "label";

/// Ends of the names of images. Some are of formats that are not read: such an image is an error, and
/// is not left out in silence.
const EXTENSIONS: [&str; 13] = [
    "png", "jpg", "jpeg", "jpe", "jfif", "webp", "gif", "bmp", "tif", "tiff", "avif", "heic", "ppm",
];

/// The ends of the names of texts.
const TEXTS: [&str; 1] = ["txt"];

/// Files that a warning names of those that are left out.
const NAMED_MAX: usize = 3;

/// Why something in the folder of a class is no row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    OtherFile,
    Hidden,
    DeadLink,
    LinkedFolder,
    Special,
    /// A row, but for its name, which is not UTF-8 as all texts are.
    NamedOtherwise,
    /// The folder of a class, but for its name.
    ClassNamedOtherwise,
}

impl Cause {
    const ALL: [Self; 7] = [
        Self::OtherFile,
        Self::Hidden,
        Self::DeadLink,
        Self::LinkedFolder,
        Self::Special,
        Self::NamedOtherwise,
        Self::ClassNamedOtherwise,
    ];

    /// The cause of what is neither a file that is read nor a folder, which may have misplaced ones.
    fn of(path: &Path) -> Option<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match fs::metadata(path) {
            Err(_) => Some(Self::DeadLink),
            Ok(found) if found.is_dir() => path.is_symlink().then_some(Self::LinkedFolder),
            Ok(found) if !found.is_file() => Some(Self::Special),
            Ok(_) if name.starts_with('.') => Some(Self::Hidden),
            Ok(_) => Some(Self::OtherFile),
        }
    }

    /// The number of such files, in words.
    fn counted(self, count: usize) -> String {
        let counted = match self {
            Self::OtherFile => counted(count, "file"),
            Self::Hidden => counted(count, "hidden file"),
            Self::DeadLink => {
                counted_as(count, "link that leads nowhere", "links that lead nowhere")
            }
            Self::LinkedFolder => counted_as(count, "link to a folder", "links to folders"),
            Self::Special => {
                counted_as(count, "pipe, socket or device", "pipes, sockets and devices")
            }
            Self::NamedOtherwise => {
                counted_as(count, "file whose name is not UTF-8", "files whose names are not UTF-8")
            }
            Self::ClassNamedOtherwise => counted_as(
                count,
                "folder whose name is not UTF-8",
                "folders whose names are not UTF-8",
            ),
        };
        counted.to_string()
    }

    /// Returns true where a new name makes a row of it.
    fn is_of_name(self) -> bool {
        matches!(self, Self::NamedOtherwise | Self::ClassNamedOtherwise)
    }
}

/// The kind of a folder's files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Images,
    Texts,
}

impl Content {
    fn column(self) -> &'static str {
        match self {
            Self::Images => "image",
            Self::Texts => "text",
        }
    }

    /// The files that are read, in words.
    fn files(self) -> &'static str {
        match self {
            Self::Images => "images are read",
            Self::Texts => ".txt is read",
        }
    }

    fn is_in(self, path: &Path) -> bool {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let known: &[&str] = match self {
            Self::Images => &EXTENSIONS,
            Self::Texts => &TEXTS,
        };
        known.contains(&extension.as_str())
    }
}

struct ClassFolder {
    folder: PathBuf,
    content: Content,
    encoding: Option<Encoding>,
    classes: Vec<String>,
    /// The path of each file from the folder, and its class.
    files: Vec<(PathBuf, usize)>,
    /// The paths from the folder of what else is in those of classes.
    others: Vec<(PathBuf, Cause)>,
}

/// Opens a folder; `None` where none of its folders has an image or a text. An image that is not directly in the
/// folder of a class is an error, as `datasets` then gives no image a label, and so is a text below one. A text beside
/// the classes says something about them.
pub(in crate::source) fn open(
    folder: &Path,
    options: &FormatOptions,
) -> Result<Option<Box<dyn DataFile>>> {
    let mut renamed = None;
    for content in [Content::Images, Content::Texts] {
        let found = ClassFolder::list(folder, content, options.encoding)?;
        if found.files.is_empty() {
            renamed = renamed.or_else(|| found.named_otherwise());
            continue;
        }
        return match misplaced(folder, content, 0)? {
            Some(file) if content == Content::Images => Err(Error::MisplacedImage { file }),
            Some(file) => Err(Error::MisplacedText { file }),
            None => Ok(Some(Box::new(found))),
        };
    }
    renamed.map_or(Ok(None), |file| Err(Error::NameNotUtf8 { file }))
}

/// The texts of a folder of texts; none of another folder.
pub(crate) fn texts(folder: &Path) -> Result<Vec<PathBuf>> {
    let images = ClassFolder::list(folder, Content::Images, None)?;
    match images.files.is_empty() {
        true => Ok(ClassFolder::list(folder, Content::Texts, None)?.paths().collect()),
        false => Ok(Vec::new()),
    }
}

impl ClassFolder {
    fn list(folder: &Path, content: Content, encoding: Option<Encoding>) -> Result<Self> {
        let folder = folder.to_owned();
        let (classes, files, others) = (Vec::new(), Vec::new(), Vec::new());
        let mut found = Self { folder, content, encoding, classes, files, others };
        for class in names(&found.folder, is_folder)? {
            let class = match class.into_string() {
                Ok(class) => class,
                Err(other) => {
                    found.others.push((other.into(), Cause::ClassNamedOtherwise));
                    continue;
                }
            };
            let folder = found.folder.join(&class);
            let of_class = |file| Path::new(&class).join(file);
            let files = entries(&folder, |path| is_row(path, content))?;
            let others = entries(&folder, |path| !is_row(path, content))?.into_iter();
            found.others.extend(
                others.filter_map(|name| {
                    Some((of_class(name.clone()), Cause::of(&folder.join(name))?))
                }),
            );
            let (files, otherwise): (Vec<_>, Vec<_>) =
                files.into_iter().map(of_class).partition(|path| path.to_str().is_some());
            found.others.extend(otherwise.into_iter().map(|path| (path, Cause::NamedOtherwise)));
            if files.is_empty() {
                continue;
            }
            let number = found.classes.len();
            found.files.extend(files.into_iter().map(|path| (path, number)));
            found.classes.push(class);
        }
        Ok(found)
    }

    /// The first file that has no row because of its name.
    fn named_otherwise(&self) -> Option<PathBuf> {
        let is_file = |(_, cause): &&(PathBuf, Cause)| *cause == Cause::NamedOtherwise;
        self.others.iter().find(is_file).map(|(path, _)| self.folder.join(path))
    }

    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|(path, _)| self.folder.join(path))
    }
}

/// The first file that is not directly in the folder of a class, of those in `folder`, which is `depth` folders
/// below the one that was opened.
fn misplaced(folder: &Path, content: Content, depth: usize) -> Result<Option<PathBuf>> {
    let is_right = depth == 1 || (depth == 0 && content == Content::Texts);
    if !is_right
        && let Some(file) = names(folder, |path| path.is_file() && content.is_in(path))?.first()
    {
        return Ok(Some(folder.join(file)));
    }
    for inner in names(folder, |entry| is_folder(entry) && !entry.is_symlink())? {
        if let Some(file) = misplaced(&folder.join(inner), content, depth + 1)? {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

/// Returns true for a file that is read: also for a link to one, as `datasets` does.
fn is_row(path: &Path, content: Content) -> bool {
    !is_hidden(path) && path.is_file() && content.is_in(path)
}

/// Returns true for a name that begins with a dot.
pub(crate) fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

/// The names in a folder of what is neither hidden nor refused, sorted.
fn names(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<OsString>> {
    entries(folder, |path| !is_hidden(path) && is_wanted(path))
}

/// The names in a folder of what is wanted, sorted.
fn entries(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<OsString>> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder, "list"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(folder, "list"))?;
        if is_wanted(&entry.path()) {
            names.push(entry.file_name());
        }
    }
    names.sort();
    Ok(names)
}

/// Returns true for a folder that `datasets` does not pass over.
fn is_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    !name.starts_with("__") && path.is_dir()
}

impl DataFile for ClassFolder {
    fn columns(&self) -> Result<Vec<String>> {
        Ok([self.content.column(), LABEL].map(str::to_owned).to_vec())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.files.len() as u64)
    }

    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        (column == LABEL).then(|| self.classes.clone())
    }

    fn file_of_row(&self, row: u64) -> Option<&Path> {
        let (path, _) = self.files.get(usize::try_from(row).ok()?)?;
        // Errors about an image name its path as the cell's content.
        (self.content == Content::Texts).then_some(path)
    }

    fn left_out(&self) -> Vec<String> {
        let warning = |cause: &Cause| {
            let others = self.others.iter().filter(|(_, it)| it == cause);
            let paths: Vec<String> = others.map(|(path, _)| path.display().to_string()).collect();
            let named = paths.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
            let more = if paths.len() > NAMED_MAX { ", …" } else { "" };
            let why = match cause.is_of_name() {
                true => "which texts cannot have: rename them".to_owned(),
                false => format!("where only {}", self.content.files()),
            };
            (!paths.is_empty()).then(|| {
                let left_out = cause.counted(paths.len());
                format!("left out {left_out} in folders of classes ({named}{more}), {why}")
            })
        };
        Cause::ALL.iter().filter_map(warning).collect()
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        let mut records = Records::new(0, columns);
        for (row, (path, class)) in self.files.iter().enumerate() {
            let cells = columns.iter().map(|column| match (*column == LABEL, self.content) {
                (true, _) => Ok(Value::Int(*class as i64)),
                (false, Content::Images) => Ok(Value::Text(path.to_string_lossy().into_owned())),
                (false, Content::Texts) => {
                    text::whole(&self.folder.join(path), self.encoding).map(Value::Text)
                }
            });
            let cells = cells.collect::<Result<Vec<Value>>>()?;
            records.push(row as u64, cells, sink)?;
        }
        sink(records)
    }
}
