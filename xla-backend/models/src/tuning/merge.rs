//! Adapters on the host: the first magnitudes of DoRA and the first trained rows of embeddings, and whole
//! weights for a model without adapters.

use std::ops::Range;

use traind_xla::runtime::HostArray;

use super::adapters::Adapter;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::parameters::ParameterSpec;
use crate::weights::as_f32;

/// Sets each magnitude of DoRA to the norm of its row of W + s B A, and trained rows of embeddings to the
/// embeddings' own.
pub fn initialize_adapters(model: &Model, arrays: &mut [HostArray]) -> Result<()> {
    for (table, rows) in model.adapters().token_rows() {
        let table = &arrays[place(model.parameters(), table)?];
        let (width, values) = (table.shape().dims[1], as_f32(table)?.to_f32()?);
        let own = rows.indices.iter().flat_map(|row| &values[row * width..(row + 1) * width]);
        let own: Vec<f32> = own.copied().collect();
        let place = place(model.parameters(), &rows.name)?;
        arrays[place] = HostArray::from_f32(&[rows.indices.len(), width], &own)?;
    }
    for (weight, adapter) in model.adapters().iter() {
        let Some(magnitude) = &adapter.magnitude else { continue };
        let norms = Merging::of(model, arrays, weight, adapter)?.norms();
        let place = place(model.parameters(), magnitude)?;
        arrays[place] = HostArray::from_f32(&[norms.len()], &norms)?;
    }
    Ok(())
}

/// The parameters of the model without adapters, their weights with the adapters' merged in.
pub fn merged(model: &Model, arrays: &[HostArray]) -> Result<(Vec<ParameterSpec>, Vec<HostArray>)> {
    let mut arrays = arrays.to_vec();
    for (weight, adapter) in model.adapters().iter() {
        let merged = Merging::of(model, &arrays, weight, adapter)?.weight()?;
        arrays[place(model.parameters(), weight)?] = merged;
    }
    for (table, rows) in model.adapters().token_rows() {
        let place_of_table = place(model.parameters(), table)?;
        let trained = arrays[place(model.parameters(), &rows.name)?].to_f32()?;
        let table = &arrays[place_of_table];
        let (dims, mut values) = (table.shape().dims.clone(), as_f32(table)?.to_f32()?);
        let width = dims[1].max(1);
        for (row, trained) in rows.indices.iter().zip(trained.chunks(width)) {
            values[row * width..(row + 1) * width].copy_from_slice(trained);
        }
        arrays[place_of_table] = HostArray::from_f32(&dims, &values)?;
    }
    let pairs = model.parameters().iter().zip(arrays);
    let kept = pairs.filter(|(spec, _)| !model.adapters().owns(&spec.name));
    // A merged weight is float32, whatever it was stored as.
    let kept = kept.map(|(spec, array)| {
        (ParameterSpec { shape: array.shape().clone(), ..spec.clone() }, array)
    });
    Ok(kept.unzip())
}

/// W + s B A of one layer, as rows of outputs.
struct Merging {
    /// The rows of the whole matrix, of I numbers each.
    rows: Vec<Vec<f64>>,
    /// The O rows that are the layer's.
    own: Range<usize>,
    /// [O], with DoRA.
    magnitudes: Option<Vec<f32>>,
    transposed: bool,
}

impl Merging {
    fn of(model: &Model, arrays: &[HostArray], weight: &str, adapter: &Adapter) -> Result<Merging> {
        let array =
            |name: &str| -> Result<&HostArray> { Ok(&arrays[place(model.parameters(), name)?]) };
        let scaling = model.adapters().lora().map_or(1.0, |lora| lora.scaling());
        let (a, b) = (as_rows(array(&adapter.a)?)?, as_rows(array(&adapter.b)?)?);
        let weight = as_rows(array(weight)?)?;
        let mut rows = if adapter.transposed { transposed(&weight) } else { weight };
        let own = adapter.run.map_or(0..rows.len(), |run| run.of(rows.len()));
        for (row, factors) in rows[own.clone()].iter_mut().zip(&b) {
            for (factor, narrow) in factors.iter().zip(&a) {
                let products = row.iter_mut().zip(narrow);
                products.for_each(|(value, x)| *value += scaling * factor * x);
            }
        }
        let magnitudes = match &adapter.magnitude {
            Some(name) => Some(array(name)?.to_f32()?),
            None => None,
        };
        Ok(Merging { rows, own, magnitudes, transposed: adapter.transposed })
    }

    fn norms(&self) -> Vec<f32> {
        self.rows[self.own.clone()].iter().map(|row| norm(row) as f32).collect()
    }

    /// The merged weight in float32, laid out as the layer has it.
    fn weight(mut self) -> Result<HostArray> {
        if let Some(magnitudes) = &self.magnitudes {
            for (row, magnitude) in self.rows[self.own.clone()].iter_mut().zip(magnitudes) {
                let scale = f64::from(*magnitude) / norm(row);
                row.iter_mut().for_each(|value| *value *= scale);
            }
        }
        let rows = if self.transposed { transposed(&self.rows) } else { self.rows };
        let dims = [rows.len(), rows.first().map_or(0, Vec::len)];
        let values: Vec<f32> = rows.into_iter().flatten().map(|value| value as f32).collect();
        Ok(HostArray::from_f32(&dims, &values)?)
    }
}

fn place(specs: &[ParameterSpec], name: &str) -> Result<usize> {
    let place = specs.iter().position(|spec| spec.name == name);
    place.ok_or_else(|| Error::MissingWeight { name: name.to_owned() })
}

fn as_rows(array: &HostArray) -> Result<Vec<Vec<f64>>> {
    let width = array.shape().dims.last().copied().unwrap_or(1);
    let values = as_f32(array)?.to_f32()?;
    Ok(values
        .chunks(width.max(1))
        .map(|row| row.iter().copied().map(f64::from).collect())
        .collect())
}

fn transposed(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = rows.first().map_or(0, Vec::len);
    (0..width).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

fn norm(row: &[f64]) -> f64 {
    row.iter().map(|value| value * value).sum::<f64>().sqrt()
}
