//! A folder of images with a folder for each class, as `imagefolder` of `datasets` reads it: the
//! columns `image`, which holds paths, and `label`. Classes and images are in the order of their names.

use std::fs;
use std::path::{Path, PathBuf};

use super::DataFile;
use crate::error::{Error, Result};
use crate::source::{Records, Value};

const COLUMNS: [&str; 2] = ["image", "label"];

/// Ends of the names of images. Some are of formats that are not read: such an image is an error, and
/// is not left out in silence.
const EXTENSIONS: [&str; 13] = [
    "png", "jpg", "jpeg", "jpe", "jfif", "webp", "gif", "bmp", "tif", "tiff", "avif", "heic", "ppm",
];

struct ImageFolder {
    classes: Vec<String>,
    /// The path of each image from the folder, and its class.
    images: Vec<(PathBuf, usize)>,
}

/// Opens a folder; `None` where none of its folders has an image. An image that is not directly in the
/// folder of a class is an error: `datasets` then gives no image a label.
pub(in crate::source) fn open(folder: &Path) -> Result<Option<Box<dyn DataFile>>> {
    let mut found = ImageFolder { classes: Vec::new(), images: Vec::new() };
    for class in names(folder, is_folder)? {
        let images = names(&folder.join(&class), is_image)?;
        if images.is_empty() {
            continue;
        }
        let number = found.classes.len();
        let paths = images.into_iter().map(|image| Path::new(&class).join(image));
        found.images.extend(paths.map(|path| (path, number)));
        found.classes.push(class);
    }
    if found.images.is_empty() {
        return Ok(None);
    }
    match misplaced(folder, 0)? {
        Some(file) => Err(Error::MisplacedImage { file }),
        None => Ok(Some(Box::new(found))),
    }
}

/// The first image that is not directly in the folder of a class, of those in `folder`, which is `depth`
/// folders below the one that was opened.
fn misplaced(folder: &Path, depth: usize) -> Result<Option<PathBuf>> {
    if depth != 1
        && let Some(image) = names(folder, is_image)?.first()
    {
        return Ok(Some(folder.join(image)));
    }
    for inner in names(folder, |entry| is_folder(entry) && !entry.is_symlink())? {
        if let Some(image) = misplaced(&folder.join(inner), depth + 1)? {
            return Ok(Some(image));
        }
    }
    Ok(None)
}

/// The names in a folder of what is neither hidden nor refused, sorted.
fn names(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder).map_err(Error::io(folder, "list"))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Error::io(folder, "list"))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && is_wanted(&entry.path()) {
            names.push(name);
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

fn is_image(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    EXTENSIONS.contains(&extension.as_str()) && path.is_file()
}

impl DataFile for ImageFolder {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(COLUMNS.map(str::to_owned).to_vec())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.images.len() as u64)
    }

    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        (column == COLUMNS[1]).then(|| self.classes.clone())
    }

    fn read(
        &self,
        _part: usize,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<()> {
        let mut records = Records::new(0, columns);
        for (row, (path, class)) in self.images.iter().enumerate() {
            let cells = columns.iter().map(|column| match *column == COLUMNS[0] {
                true => Value::Text(path.to_string_lossy().into_owned()),
                false => Value::Int(*class as i64),
            });
            records.push(row as u64, cells, sink)?;
        }
        sink(records)
    }
}
