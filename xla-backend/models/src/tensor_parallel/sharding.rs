//! The part of each parameter that a core of the `tensor` axis holds, and the way back to the whole.
//! Checkpoints and output folders have whole parameters alone.

use std::borrow::Cow;
use std::ops::Range;

use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use crate::error::{Error, Result};
use crate::parameters::{ParameterSpec, Partition};

/// The division of one parameter over cores.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharding {
    whole: Shape,
    pub(super) divided: Option<Divided>,
}

/// A dimension that is divided over several cores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Divided {
    pub(super) dimension: usize,
    partition: Partition,
    pub(super) cores: usize,
}

impl Sharding {
    /// The division of a parameter over `cores`. Fails where its partition does not allow it.
    pub fn of(spec: &ParameterSpec, cores: usize) -> Result<Sharding> {
        let whole = spec.shape.clone();
        let partitions = spec.partitions.iter().enumerate();
        let mut divided = partitions.filter(|(_, partition)| **partition != Partition::Replicated);
        let Some((dimension, &partition)) = divided.next().filter(|_| cores > 1) else {
            return Ok(Sharding::none(whole));
        };
        check_divisible(spec, partition, dimension, cores)?;
        Ok(Sharding { whole, divided: Some(Divided { dimension, partition, cores }) })
    }

    /// The division of an array of which every core holds all.
    pub fn none(whole: Shape) -> Sharding {
        Sharding { whole, divided: None }
    }

    /// Whether cores hold different parts.
    pub fn is_divided(&self) -> bool {
        self.divided.is_some()
    }

    /// The shape of the whole parameter.
    pub fn whole_shape(&self) -> &Shape {
        &self.whole
    }

    /// The shape of a core's part.
    pub fn held_shape(&self) -> Shape {
        let mut held = self.whole.clone();
        if let Some(divided) = &self.divided {
            let size = &mut held.dims[divided.dimension];
            *size = divided.held(*size);
        }
        held
    }

    /// Whether an array of `shape` is divided as the parameter is.
    fn fits(&self, array: &HostArray, expected: &Shape) -> Result<()> {
        if array.shape() == expected {
            return Ok(());
        }
        let name = "part of a parameter".to_owned();
        Err(Error::ArrayShape { name, found: array.shape().clone(), expected: expected.clone() })
    }

    /// Refuses an array of another shape than the whole one.
    pub fn check_whole(&self, array: &HostArray) -> Result<()> {
        self.fits(array, &self.whole)
    }

    /// The part of the whole `array` that core `core` of the axis holds. Rows of a vocabulary that does
    /// not divide are followed by zeros.
    pub fn part<'a>(&self, array: &'a HostArray, core: usize) -> Result<Cow<'a, HostArray>> {
        self.fits(array, &self.whole)?;
        let Some(divided) = &self.divided else { return Ok(Cow::Borrowed(array)) };
        let held = self.held_shape();
        let mut bytes = vec![0; held.size_bytes()];
        for run in divided.runs(&self.whole, &held, core) {
            bytes[run.held].copy_from_slice(&array.bytes()[run.whole]);
        }
        Ok(Cow::Owned(HostArray::from_bytes(held, bytes)?))
    }

    /// The whole array of which `parts` has that of each core.
    pub fn join(&self, mut parts: Vec<HostArray>) -> Result<HostArray> {
        let held = self.held_shape();
        parts.iter().try_for_each(|part| self.fits(part, &held))?;
        let Some(divided) = &self.divided else {
            return parts.pop().ok_or_else(|| Error::MissingInput { name: "part".to_owned() });
        };
        let mut bytes = vec![0; self.whole.size_bytes()];
        for (core, part) in parts.iter().enumerate() {
            for run in divided.runs(&self.whole, &held, core) {
                bytes[run.whole].copy_from_slice(&part.bytes()[run.held]);
            }
        }
        Ok(HostArray::from_bytes(self.whole.clone(), bytes)?)
    }

    /// The runs of elements that core `core` of the axis holds of the whole array, both flattened, in the order of
    /// its part.
    pub fn runs(&self, core: usize) -> Vec<HeldRun> {
        let Some(divided) = &self.divided else {
            return vec![HeldRun { whole: 0..self.whole.element_count(), held: 0 }];
        };
        let size = self.whole.dtype.size_bytes();
        let runs = divided.runs(&self.whole, &self.held_shape(), core).into_iter();
        let elements = |run: Run| HeldRun {
            whole: run.whole.start / size..run.whole.end / size,
            held: run.held.start / size,
        };
        runs.map(elements).collect()
    }

    /// The number of parts, one for each core, or one for all.
    pub fn parts(&self) -> usize {
        self.divided.as_ref().map_or(1, |divided| divided.cores)
    }

    /// The number of cores that hold the same part of a divided parameter.
    pub fn copies(&self) -> usize {
        match &self.divided {
            Some(Divided { partition: Partition::SharedHeads { num_heads }, cores, .. }) => {
                (cores / num_heads).max(1)
            }
            _ => 1,
        }
    }
}

/// Elements that stand together in the whole array and in a core's part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldRun {
    /// The elements of the whole.
    pub whole: Range<usize>,
    /// The place of the first in the part.
    pub held: usize,
}

/// Units of a dimension that stand one behind the other, such as heads.
#[derive(Clone, Copy)]
struct Section {
    units: usize,
    /// Whether several cores may hold one unit.
    shared: bool,
}

/// Bytes that stand together in the whole array and in a part of it.
struct Run {
    whole: Range<usize>,
    held: Range<usize>,
}

impl Divided {
    /// The size of the dimension on each core.
    fn held(&self, size: usize) -> usize {
        match self.partition {
            Partition::Vocabulary => size.div_ceil(self.cores),
            _ => self.ranges(size, 0).iter().map(ExactSizeIterator::len).sum(),
        }
    }

    /// The places along the dimension of `size` that a core holds, one range behind the other.
    pub(super) fn ranges(&self, size: usize, core: usize) -> Vec<Range<usize>> {
        let sections = sections(self.partition, size);
        let units: usize = sections.iter().map(|section| section.units).sum();
        let width = size / units.max(1);
        let mut start = 0;
        let mut ranges = Vec::with_capacity(sections.len());
        for Section { units, shared } in sections {
            let held = units.div_ceil(self.cores);
            let first = if shared { core * units / self.cores } else { core * held };
            let (first, end) = (first.min(units), (first + held).min(units));
            ranges.push(start + first * width..start + end * width);
            start += units * width;
        }
        ranges
    }

    /// Returns the bytes that a core holds of the array, in runs.
    fn runs(&self, whole: &Shape, held: &Shape, core: usize) -> Vec<Run> {
        let dimension = self.dimension;
        let inner: usize = whole.dims[dimension + 1..].iter().product();
        let inner = inner * whole.dtype.size_bytes();
        let outer: usize = whole.dims[..dimension].iter().product();
        let (size, held_size) = (whole.dims[dimension], held.dims[dimension]);
        let ranges = self.ranges(size, core);
        let mut runs = Vec::with_capacity(outer * ranges.len());
        for block in 0..outer {
            let mut place = block * held_size * inner;
            for range in &ranges {
                let start = (block * size + range.start) * inner;
                let length = range.len() * inner;
                runs.push(Run { whole: start..start + length, held: place..place + length });
                place += length;
            }
        }
        runs
    }
}

/// Refuses a number of cores that does not divide all `parameters`, and names the nearest that does.
pub fn check(parameters: &[ParameterSpec], cores: usize) -> Result<()> {
    let problem = |cores| parameters.iter().find_map(|spec| Sharding::of(spec, cores).err());
    let Some(error) = problem(cores) else { return Ok(()) };
    let Error::Indivisible { parameter, count, what, .. } = error else { return Err(error) };
    let fits = |other: &usize| problem(*other).is_none();
    let nearest = (1..=2 * cores).filter(fits).min_by_key(|other| other.abs_diff(cores));
    Err(Error::Indivisible { parameter, count, what, cores, nearest: nearest.unwrap_or(1) })
}

/// The sections of a dimension of `size`.
fn sections(partition: Partition, size: usize) -> Vec<Section> {
    let alike = |count: usize, units: usize| {
        (0..count).map(|_| Section { units, shared: false }).collect::<Vec<_>>()
    };
    match partition {
        Partition::Replicated | Partition::Vocabulary => alike(1, size),
        Partition::Features { projections } => alike(projections, size / projections),
        Partition::Heads { num_heads, projections } => alike(projections, num_heads),
        Partition::SharedHeads { num_heads } => vec![Section { units: num_heads, shared: true }],
        Partition::JoinedHeads { queries, keys } => [alike(1, queries), alike(2, keys)].concat(),
    }
}

/// Heads and features divide; a vocabulary is padded.
fn check_divisible(
    spec: &ParameterSpec,
    partition: Partition,
    dimension: usize,
    cores: usize,
) -> Result<()> {
    let what = match partition {
        Partition::Features { .. } => "features",
        Partition::Heads { .. } | Partition::JoinedHeads { .. } => "attention heads",
        Partition::SharedHeads { .. } => "heads of keys and values",
        Partition::Replicated | Partition::Vocabulary => return Ok(()),
    };
    let fits = |section: &Section| {
        let Section { units, shared } = *section;
        units.is_multiple_of(cores) || (shared && cores.is_multiple_of(units))
    };
    match sections(partition, spec.shape.dims[dimension]).iter().find(|it| !fits(it)) {
        None => Ok(()),
        Some(Section { units, .. }) => Err(Error::Indivisible {
            parameter: spec.name.clone(),
            count: *units,
            what,
            cores,
            nearest: 1,
        }),
    }
}

#[cfg(test)]
mod tests {
    use traind_xla::DType;

    use super::*;
    use crate::parameters::{Dimension, Init, ParameterPath, Role};

    fn spec(dimensions: &[Dimension]) -> ParameterSpec {
        let mut specs = Vec::new();
        ParameterPath::root(&mut specs).declare(
            "weight",
            Role::Projection,
            dimensions,
            Init::Zeros,
        );
        specs.remove(0)
    }

    fn counted(shape: &Shape) -> HostArray {
        let values: Vec<f32> = (0..shape.element_count()).map(|number| number as f32).collect();
        HostArray::from_f32(&shape.dims, &values).unwrap()
    }

    /// The parts on two cores, which are joined to the whole.
    fn parts_on_two(dimensions: &[Dimension]) -> [Vec<f32>; 2] {
        let sharding = Sharding::of(&spec(dimensions), 2).unwrap();
        let whole = counted(sharding.whole_shape());
        let parts = [0, 1].map(|core| sharding.part(&whole, core).unwrap().into_owned());
        assert_eq!(sharding.join(parts.to_vec()).unwrap(), whole);
        assert!(parts.iter().all(|part| *part.shape() == sharding.held_shape()));
        parts.map(|part| part.to_f32().unwrap())
    }

    #[test]
    fn each_core_holds_its_heads_features_and_tokens() {
        let rows = parts_on_two(&[Dimension::features(4), 2.into()]);
        assert_eq!(rows, [[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]]);
        let columns = parts_on_two(&[2.into(), Dimension::features(4)]);
        assert_eq!(columns, [[0.0, 1.0, 4.0, 5.0], [2.0, 3.0, 6.0, 7.0]]);
        // Queries, keys and values of two heads.
        let joined = parts_on_two(&[Dimension::heads(6, 2, 3)]);
        assert_eq!(joined, [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]);
        let one_head = parts_on_two(&[Dimension::shared_heads(2, 1)]);
        assert_eq!(one_head, [[0.0, 1.0], [0.0, 1.0]]);
        // Four heads of queries, two of keys and two of values.
        let unlike = parts_on_two(&[Dimension::joined_heads(8, 4, 2)]);
        assert_eq!(unlike, [[0.0, 1.0, 4.0, 6.0], [2.0, 3.0, 5.0, 7.0]]);
        let tokens = parts_on_two(&[Dimension::vocabulary(3)]);
        assert_eq!(tokens, [[0.0, 1.0], [2.0, 0.0]]);
        let whole = parts_on_two(&[2.into(), 1.into()]);
        assert_eq!(whole, [[0.0, 1.0], [0.0, 1.0]]);
    }

    #[test]
    fn what_does_not_divide_is_refused_with_the_nearest_that_does() {
        let specs = [spec(&[Dimension::heads(24, 6, 1)]), spec(&[Dimension::features(16)])];
        assert!(check(&specs, 2).is_ok());
        let error = |cores| check(&specs, cores).unwrap_err().to_string();
        assert_eq!(
            error(4),
            "parallel.tensor is 4, which does not divide the 6 attention heads of weight; the nearest \
             that divides all is 2"
        );
        assert!(error(3).contains("does not divide the 16 features of weight"), "{}", error(3));
        let tokens = [spec(&[Dimension::vocabulary(7)])];
        assert!(check(&tokens, 4).is_ok(), "a vocabulary is padded");
    }

    #[test]
    fn an_array_of_another_shape_is_refused() {
        let sharding = Sharding::of(&spec(&[Dimension::features(4)]), 2).unwrap();
        let other = counted(&Shape::new(DType::F32, [5]));
        assert!(matches!(sharding.part(&other, 0), Err(Error::ArrayShape { .. })));
        assert!(matches!(sharding.join(vec![other]), Err(Error::ArrayShape { .. })));
    }
}
