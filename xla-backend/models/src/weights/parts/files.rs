//! The safetensors files in which the hosts of a job write their parts of arrays: one for each host, with the
//! elements of each array as a flat tensor, and the ranges that they are of in the header.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};
use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use super::{ArrayPart, ArrayParts, union};
use crate::error::{Error, Result};
use crate::weights::SafetensorsFile;
use crate::weights::save::{Tensors, write_tensors};

/// The key of the header under which the slices are, as JSON.
const SLICES: &str = "slices";
const SUFFIX: &str = ".safetensors";

/// The elements that a flat tensor of the same name has.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slice {
    /// The shape of the whole array.
    shape: Vec<usize>,
    /// The first element of each range, and the one behind the last.
    ranges: Vec<(usize, usize)>,
}

/// The name of the file with the parts that host `host` of `hosts` has of the arrays `stem`.
pub fn part_file(stem: &str, host: usize, hosts: usize) -> String {
    format!("{stem}-host-{host:05}-of-{hosts:05}{SUFFIX}")
}

/// Writes one file of parts.
pub fn save_parts(path: &Path, parts: &ArrayParts) -> Result<()> {
    let slices: BTreeMap<&str, Slice> =
        parts.iter().map(|(name, part)| (name.as_str(), Slice::of(part))).collect();
    let slices = serde_json::to_string(&slices)
        .map_err(|source| Error::Json { path: path.to_owned(), source })?;
    let flat = |part: &ArrayPart| {
        let elements = part.bytes().len() / part.shape().dtype.size_bytes();
        part.shape().with_dims([elements])
    };
    let tensors: Tensors = parts.iter().map(|(name, part)| (name.clone(), flat(part))).collect();
    let bytes: Vec<&[u8]> = parts.values().map(ArrayPart::bytes).collect();
    write_tensors(path, tensors, &[(SLICES, slices)], &|place| Ok(Cow::Borrowed(bytes[place])))
}

impl Slice {
    fn of(part: &ArrayPart) -> Slice {
        let ranges = part.ranges().iter().map(|range| (range.start, range.end));
        Slice { shape: part.shape().dims.clone(), ranges: ranges.collect() }
    }
}

/// The files of all hosts, which together have every element of each array.
#[derive(Debug)]
pub struct PartFiles {
    files: Vec<SafetensorsFile>,
    arrays: BTreeMap<String, StoredParts>,
}

/// Where the parts of an array are.
#[derive(Debug)]
struct StoredParts {
    shape: Shape,
    pieces: Vec<Piece>,
}

/// Elements that stand together in a file.
#[derive(Debug)]
struct Piece {
    file: usize,
    elements: Range<usize>,
    /// The place of the first among the elements of the file's tensor.
    start: usize,
}

impl PartFiles {
    /// Opens the files of the arrays `stem` in a folder; `None` where there are none. Fails where a file or an
    /// element is missing.
    pub fn open(folder: &Path, stem: &str) -> Result<Option<PartFiles>> {
        let Some(hosts) = hosts_of(folder, stem)? else { return Ok(None) };
        let mut opened = PartFiles { files: Vec::new(), arrays: BTreeMap::new() };
        for host in 0..hosts {
            let file = SafetensorsFile::open(&folder.join(part_file(stem, host, hosts)))?;
            opened.add(file)?;
        }
        opened.check_complete(folder)?;
        Ok(Some(opened))
    }

    fn add(&mut self, file: SafetensorsFile) -> Result<()> {
        let corrupt = |problem: String| Error::Corrupt { path: file.path().to_owned(), problem };
        let text = file.metadata(SLICES).ok_or_else(|| corrupt("it has no slices".to_owned()))?;
        let slices: BTreeMap<String, Slice> = serde_json::from_str(text)
            .map_err(|source| Error::Json { path: file.path().to_owned(), source })?;
        for (name, slice) in slices {
            let (found, expected) = (file.shape(&name)?, slice.element_count());
            if expected != Some(found.iter().product()) {
                return Err(corrupt(format!("its {name} is {found:?}, and its slices are not")));
            }
            let shape = Shape::new(file.dtype(&name)?, slice.shape);
            let of_array = self.arrays.entry(name.clone());
            let stored =
                of_array.or_insert(StoredParts { shape: shape.clone(), pieces: Vec::new() });
            if stored.shape != shape {
                return Err(corrupt(format!("its {name} is of {shape}, not {}", stored.shape)));
            }
            let mut start = 0;
            for (first, end) in slice.ranges {
                let elements = first..end;
                let place = start;
                start += elements.len();
                stored.pieces.push(Piece { file: self.files.len(), elements, start: place });
            }
        }
        self.files.push(file);
        Ok(())
    }

    fn check_complete(&self, folder: &Path) -> Result<()> {
        for (name, stored) in &self.arrays {
            let held = union(stored.pieces.iter().map(|piece| piece.elements.clone()));
            if held != union(std::iter::once(0..stored.shape.element_count())) {
                let (folder, name) = (folder.to_owned(), name.clone());
                return Err(Error::MissingElements { folder, name, held });
            }
        }
        Ok(())
    }

    /// Every array's name, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arrays.keys().map(String::as_str)
    }

    /// The shape of a whole array, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<&Shape> {
        self.arrays.get(name).map(|stored| &stored.shape)
    }

    /// Reads the elements in `ranges` of an array, and no others.
    pub fn read(&self, name: &str, ranges: &[Range<usize>]) -> Result<ArrayPart> {
        let missing = || Error::MissingWeight { name: name.to_owned() };
        let stored = self.arrays.get(name).ok_or_else(missing)?;
        let mut part = ArrayPart::zeros(stored.shape.clone(), ranges.iter().cloned());
        for wanted in ranges {
            for piece in &stored.pieces {
                let first = wanted.start.max(piece.elements.start);
                let end = wanted.end.min(piece.elements.end);
                if first < end {
                    let place = piece.start + first - piece.elements.start;
                    let to = part.elements_mut(first..end)?;
                    self.files[piece.file].read_elements(name, place, to)?;
                }
            }
        }
        Ok(part)
    }

    /// Reads a whole array.
    pub fn array(&self, name: &str) -> Result<HostArray> {
        let elements = self.shape(name).map_or(0, Shape::element_count);
        self.read(name, std::slice::from_ref(&(0..elements)))?.into_array()
    }
}

impl Slice {
    /// The number of elements, where the ranges ascend within the array.
    fn element_count(&self) -> Option<usize> {
        let all = self.shape.iter().try_fold(1_usize, |product, dim| product.checked_mul(*dim))?;
        let mut end = 0;
        let mut count = 0;
        for (first, next) in &self.ranges {
            if *first < end || next < first || *next > all {
                return None;
            }
            count += next - first;
            end = *next;
        }
        Some(count)
    }
}

/// The number of hosts whose files of `stem` are in a folder, by the name of one of them.
fn hosts_of(folder: &Path, stem: &str) -> Result<Option<usize>> {
    let failed = |source| Error::Io { action: "list", path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
        let numbers = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix("-host-"));
        let numbers = numbers.and_then(|rest| rest.strip_suffix(SUFFIX)?.split_once("-of-"));
        if let Some(hosts) = numbers.and_then(|(_, hosts)| hosts.parse().ok()) {
            return Ok(Some(hosts));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use traind_xla::DType;

    use super::*;

    /// The numbers from 0 of an array of so many elements, in parts of two hosts.
    fn parts(elements: usize, of_first: &[Range<usize>]) -> [ArrayPart; 2] {
        let shape = Shape::new(DType::F32, [elements / 2, 2]);
        let values: Vec<f32> = (0..elements).map(|element| element as f32).collect();
        let whole = ArrayPart::from(HostArray::from_f32(&shape.dims, &values).unwrap());
        let is_first = |element: &usize| of_first.iter().any(|range| range.contains(element));
        [true, false].map(|first| {
            let held = (0..elements).filter(|element| is_first(element) == first);
            let held: Vec<Range<usize>> = held.map(|element| element..element + 1).collect();
            let mut part = ArrayPart::zeros(shape.clone(), held);
            for range in part.ranges().to_vec() {
                let values = whole.elements(range.clone()).unwrap();
                part.elements_mut(range).unwrap().copy_from_slice(values);
            }
            part
        })
    }

    /// A folder with two arrays, one of which the first host has alone.
    fn folder() -> (tempfile::TempDir, HostArray) {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = parts(10, &[2..5, 7..8]);
        let alone = ArrayPart::from(HostArray::from_f32(&[3], &[1.0, 2.0, 3.0]).unwrap());
        let of_first = ArrayParts::from([("a".to_owned(), first), ("b".to_owned(), alone)]);
        let of_second = ArrayParts::from([("a".to_owned(), second)]);
        for (host, parts) in [of_first, of_second].iter().enumerate() {
            save_parts(&folder.path().join(part_file("model", host, 2)), parts).unwrap();
        }
        let values: Vec<f32> = (0..10).map(|element| element as f32).collect();
        (folder, HostArray::from_f32(&[5, 2], &values).unwrap())
    }

    #[test]
    fn parts_of_all_hosts_are_the_arrays() {
        let (folder, whole) = folder();
        let files = PartFiles::open(folder.path(), "model").unwrap().unwrap();
        assert_eq!(files.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(files.array("a").unwrap(), whole);
        assert_eq!(files.array("b").unwrap().to_f32().unwrap(), [1.0, 2.0, 3.0]);
        let part = files.read("a", &[0..1, 4..8]).unwrap();
        let expect: Vec<u8> = [0.0_f32, 4.0, 5.0, 6.0, 7.0].map(f32::to_le_bytes).concat();
        assert_eq!((part.bytes(), part.ranges()), (&expect[..], &[0..1, 4..8][..]));
        assert!(files.array("c").is_err());
        assert!(PartFiles::open(folder.path(), "optimizer").unwrap().is_none());
    }

    #[test]
    fn a_missing_file_or_element_is_no_array() {
        let (folder, _) = folder();
        let second = folder.path().join(part_file("model", 1, 2));
        save_parts(&second, &ArrayParts::new()).unwrap();
        let error = PartFiles::open(folder.path(), "model").unwrap_err().to_string();
        assert!(error.contains("a") && error.contains("[2..5, 7..8]"), "{error}");
        fs::remove_file(&second).unwrap();
        let error = PartFiles::open(folder.path(), "model").unwrap_err().to_string();
        assert!(error.contains("model-host-00001-of-00002"), "{error}");
    }

    #[test]
    fn slices_that_do_not_fit_their_array_are_refused() {
        let slice = |ranges: &[(usize, usize)]| Slice { shape: vec![2, 3], ranges: ranges.into() };
        assert_eq!(slice(&[(0, 2), (2, 6)]).element_count(), Some(6));
        for ranges in [&[(0, 7)][..], &[(2, 1)], &[(2, 4), (3, 5)]] {
            assert_eq!(slice(ranges).element_count(), None, "{ranges:?}");
        }
        let huge = Slice { shape: vec![usize::MAX, 2], ranges: vec![(0, 1)] };
        assert_eq!(huge.element_count(), None);
    }
}
