//! Saving the weights in one file, or where they are larger than a bound in
//! several and an index, under the names and by the rule of transformers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};
use traind_xla::runtime::HostArray;

use super::checkpoint::{INDEX, SINGLE};
use super::modules::places_of;
use super::save::{Tensors, check_shape, write_json, write_tensors};
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;

/// Places in the list of parameters.
type Shard = std::ops::Range<usize>;

/// The parameters to save by their places, in memory or read when they are written.
pub type ArrayOf<'a> = dyn Fn(usize) -> Result<Cow<'a, HostArray>> + 'a;

/// Saves weights into `folder` in files of at most `max_shard_bytes`; a larger
/// tensor has a file of its own. Arrays are asked for one at a time. Returns the files' names. Those
/// of an earlier save that would be loaded instead are the caller's to remove.
pub fn save_shards(
    folder: &Path,
    specs: &[ParameterSpec],
    arrays: &ArrayOf<'_>,
    max_shard_bytes: u64,
) -> Result<Vec<String>> {
    let sizes: Vec<u64> = specs.iter().map(|spec| spec.shape.size_bytes() as u64).collect();
    let shards = split(&sizes, max_shard_bytes);
    if shards.len() <= 1 {
        save_shard(&folder.join(SINGLE), specs, &(0..specs.len()), arrays)?;
        return Ok(vec![SINGLE.to_owned()]);
    }
    let mut weight_map = Map::new();
    let mut files = vec![INDEX.to_owned()];
    for (number, shard) in shards.iter().enumerate() {
        let name = file_name(number + 1, shards.len());
        save_shard(&folder.join(&name), specs, shard, arrays)?;
        let names = specs[shard.clone()].iter().map(|spec| spec.name.clone());
        weight_map.extend(names.map(|tensor| (tensor, Value::from(name.clone()))));
        files.push(name);
    }
    let elements: usize = specs.iter().map(|spec| spec.shape.element_count()).sum();
    let metadata = json!({ "total_parameters": elements, "total_size": sizes.iter().sum::<u64>() });
    let mut index = Map::new();
    index.insert("metadata".to_owned(), metadata);
    index.insert("weight_map".to_owned(), weight_map.into());
    write_json(&folder.join(INDEX), &index)?;
    Ok(files)
}

/// Saves weights as [`save_shards`], but those of modules beside the model into their folders, without these in their
/// names.
pub fn save_modules(
    folder: &Path,
    specs: &[ParameterSpec],
    arrays: &ArrayOf<'_>,
    max_shard_bytes: u64,
) -> Result<Vec<String>> {
    let mut modules: BTreeMap<Option<&str>, Vec<(usize, String)>> =
        BTreeMap::from([(None, Vec::new())]);
    for (place, spec) in specs.iter().enumerate() {
        for (module, name) in places_of(spec) {
            modules.entry(module).or_default().push((place, name));
        }
    }
    let mut files = Vec::new();
    for (module, own) in modules {
        let places: Vec<usize> = own.iter().map(|(place, _)| *place).collect();
        let of_module =
            |(place, name): (usize, String)| ParameterSpec { name, ..specs[place].clone() };
        let own: Vec<ParameterSpec> = own.into_iter().map(of_module).collect();
        let target = folder.join(module.unwrap_or_default());
        std::fs::create_dir_all(&target).map_err(|source| Error::Io {
            action: "create",
            path: target.clone(),
            source,
        })?;
        let written = save_shards(&target, &own, &|place| arrays(places[place]), max_shard_bytes)?;
        files.extend(written.into_iter().map(|file| match module {
            Some(module) => format!("{module}/{file}"),
            None => file,
        }));
    }
    Ok(files)
}

/// Writes the parameters of one file.
fn save_shard(
    path: &Path,
    specs: &[ParameterSpec],
    shard: &Shard,
    arrays: &ArrayOf<'_>,
) -> Result<()> {
    let own = &specs[shard.clone()];
    let tensors: Tensors = own.iter().map(|it| (it.name.clone(), it.shape.clone())).collect();
    write_tensors(path, tensors, &[], &|place| {
        let array = arrays(shard.start + place)?;
        check_shape(&own[place], &array)?;
        Ok(match array {
            Cow::Borrowed(array) => Cow::Borrowed(array.bytes()),
            Cow::Owned(array) => Cow::Owned(array.into_bytes()),
        })
    })
}

fn file_name(number: usize, count: usize) -> String {
    format!("model-{number:05}-of-{count:05}.safetensors")
}

/// Fills one shard after the other, in order.
fn split(sizes: &[u64], bound: u64) -> Vec<Shard> {
    let mut shards: Vec<Shard> = Vec::new();
    let mut bytes = 0;
    for (place, &size) in sizes.iter().enumerate() {
        match shards.last_mut() {
            Some(shard) if bytes + size <= bound => {
                shard.end = place + 1;
                bytes += size;
            }
            _ => {
                shards.push(place..place + 1);
                bytes = size;
            }
        }
    }
    shards
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sizes: &[u64], bound: u64, lengths: &[usize]) {
        let shards = split(sizes, bound);
        assert!(shards.windows(2).all(|pair| pair[0].end == pair[1].start), "{shards:?}");
        let found: Vec<usize> = shards.into_iter().map(|shard| shard.len()).collect();
        assert_eq!(found, lengths, "{sizes:?} by {bound}");
    }

    #[test]
    fn shards_are_filled_in_order() {
        check(&[], 10, &[]);
        check(&[4, 6], 10, &[2]);
        check(&[4, 6, 1], 10, &[2, 1]);
        check(&[4, 11, 2, 3], 10, &[1, 1, 2]);
        check(&[11, 11], 10, &[1, 1]);
    }
}
