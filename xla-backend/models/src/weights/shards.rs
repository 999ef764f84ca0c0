//! Saving the weights in one file, or where they are larger than a bound in
//! several and an index, under the names and by the rule of transformers.

use std::path::Path;

use serde_json::{Map, Value, json};
use traind_xla::runtime::HostArray;

use super::checkpoint::{INDEX, SINGLE};
use super::save::{remove_others, save_weights, write_json};
use crate::error::Result;
use crate::parameters::ParameterSpec;

/// Places in the list of parameters.
type Shard = std::ops::Range<usize>;

/// Saves weights into `folder` in files of at most `max_shard_bytes`; a larger
/// tensor has a file of its own. Files of an earlier save that would be loaded
/// instead are removed.
pub fn save_shards(
    folder: &Path,
    specs: &[ParameterSpec],
    arrays: &[HostArray],
    max_shard_bytes: u64,
) -> Result<()> {
    let sizes: Vec<u64> = arrays.iter().map(|array| array.bytes().len() as u64).collect();
    let shards = split(&sizes, max_shard_bytes);
    if shards.len() <= 1 {
        save_weights(&folder.join(SINGLE), specs, arrays)?;
        return remove_others(folder, &[SINGLE.to_owned()]);
    }
    let mut weight_map = Map::new();
    let mut files = vec![INDEX.to_owned()];
    for (number, shard) in shards.iter().enumerate() {
        let name = file_name(number + 1, shards.len());
        save_weights(&folder.join(&name), &specs[shard.clone()], &arrays[shard.clone()])?;
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
    remove_others(folder, &files)
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
