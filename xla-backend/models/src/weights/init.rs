//! Initial values. Normals come from SplitMix64 (Steele et al., 2014) run as a
//! counter: element i of a parameter depends on the seed, the parameter's name
//! and i alone, so neither the order nor the presence of other parameters
//! changes it. Pairs become normals by Box and Muller's transform.

use std::f64::consts::TAU;

use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use super::dtype::stored;
use crate::error::{Error, Result};
use crate::parameters::{Init, ParameterSpec};

/// Draws every parameter of a model.
pub fn initialize(specs: &[ParameterSpec], seed: u64) -> Result<Vec<HostArray>> {
    specs.iter().map(|spec| initial(spec, seed)).collect()
}

/// Draws one parameter.
pub fn initial(spec: &ParameterSpec, seed: u64) -> Result<HostArray> {
    let mut values = reserve(&spec.name, &spec.shape)?;
    let count = spec.shape.element_count();
    let stream = Stream::new(seed, &spec.name);
    match spec.init {
        Init::Zeros => values.resize(count, 0.0),
        Init::Ones => values.resize(count, 1.0),
        Init::Uniform { bound } => values.extend(stream.uniforms(count, bound)),
        Init::Sinusoids => values.extend(sinusoids(&spec.shape)),
        Init::Normal { std } => values.extend(stream.normals(count, std)),
        Init::TruncatedNormal { std, cutoff } => {
            values.extend(stream.truncated_normals(count, cutoff).map(|it| (it * std) as f32));
        }
        Init::NormalWithZeroRow { std, row } => {
            values.extend(stream.normals(count, std));
            let width = count / spec.shape.dims[0];
            values[row * width..(row + 1) * width].fill(0.0);
        }
    }
    stored(HostArray::from_f32(&spec.shape.dims, &values)?, spec.shape.dtype)
}

fn sinusoids(shape: &Shape) -> impl Iterator<Item = f32> {
    let width = shape.dims.last().copied().unwrap_or(1);
    (0..shape.element_count()).map(move |element| {
        let (position, column) = (element / width, element % width);
        let exponent = (2 * (column / 2)) as f64 / width as f64;
        let angle = position as f64 / 10_000f64.powf(exponent);
        (if column.is_multiple_of(2) { angle.sin() } else { angle.cos() }) as f32
    })
}

/// A config may ask for more than the host has: that is an error, no abort.
fn reserve(name: &str, shape: &Shape) -> Result<Vec<f32>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(shape.element_count()) {
        Ok(()) => Ok(values),
        Err(_) => Err(Error::OutOfMemory { name: name.to_owned(), shape: shape.clone() }),
    }
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    key: u64,
}

impl Stream {
    fn new(seed: u64, name: &str) -> Stream {
        Stream { key: name.bytes().fold(mix(seed), |key, byte| mix(key ^ u64::from(byte))) }
    }

    fn normals(self, count: usize, std: f64) -> impl Iterator<Item = f32> {
        let pairs = (0..count.div_ceil(2) as u64).flat_map(move |pair| self.normal_pair(pair));
        pairs.take(count).map(move |normal| (normal * std) as f32)
    }

    fn uniforms(self, count: usize, bound: f64) -> impl Iterator<Item = f32> {
        (0..count as u64).map(move |index| ((2.0 * self.uniform(index) - 1.0) * bound) as f32)
    }

    /// Standard normals from -cutoff to cutoff: the first acceptable one of a stream for each element.
    /// Where few normals are, uniform proposals are accepted in proportion to the normal's density.
    fn truncated_normals(self, count: usize, cutoff: f64) -> impl Iterator<Item = f64> {
        let propose = move |element: u64, attempt: u64| {
            let stream = Stream { key: mix(self.key ^ mix(attempt)) };
            if cutoff >= 1.0 {
                return Some(stream.normal_pair(element)[0]).filter(|value| value.abs() <= cutoff);
            }
            let value = (2.0 * stream.uniform(2 * element) - 1.0) * cutoff;
            let is_accepted = stream.uniform(2 * element + 1) < (-value * value / 2.0).exp();
            is_accepted.then_some(value)
        };
        (0..count as u64)
            .map(move |element| (0..).find_map(|it| propose(element, it)).unwrap_or_default())
    }

    fn normal_pair(self, pair: u64) -> [f64; 2] {
        let radius = (-2.0 * (1.0 - self.uniform(2 * pair)).ln()).sqrt();
        let (sin, cos) = (TAU * self.uniform(2 * pair + 1)).sin_cos();
        [radius * cos, radius * sin]
    }

    /// A number from 0 up to but not 1, in steps of 2^-53.
    fn uniform(self, index: u64) -> f64 {
        let state = self.key.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN_GAMMA));
        (mix(state) >> 11) as f64 * 2f64.powi(-53)
    }
}

/// The odd number nearest to 2^64 over the golden ratio.
const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's output function.
fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use traind_xla::DType;

    use super::*;
    use crate::parameters::{PartialGradient, Partition, Role, Stage};

    fn spec(name: &str, dims: &[usize], init: Init) -> ParameterSpec {
        let shape = Shape::new(DType::F32, dims);
        ParameterSpec {
            name: name.to_owned(),
            shape,
            init,
            role: Role::Projection,
            trainable: true,
            partitions: vec![Partition::Replicated; dims.len()],
            partial_gradient: PartialGradient::Never,
            stages: vec![Stage::Head],
            tied: Vec::new(),
        }
    }

    fn draw(name: &str, dims: &[usize], init: Init, seed: u64) -> Vec<f32> {
        initial(&spec(name, dims, init), seed).unwrap().to_f32().unwrap()
    }

    /// The published reference stream of SplitMix64 for seed 1234567.
    #[test]
    fn the_generator_is_splitmix64() {
        let stream =
            |index: u64| mix(1_234_567u64.wrapping_add((index + 1).wrapping_mul(GOLDEN_GAMMA)));
        let expect =
            [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431];
        assert_eq!([0, 1, 2, 3].map(stream), expect);
    }

    /// Bounds are five standard errors of each statistic.
    #[test]
    fn normals_have_the_moments_of_a_normal() {
        let count = 200_000;
        let values = draw("weight", &[count], Init::Normal { std: 0.02 }, 42);
        let standard: Vec<f64> = values.iter().map(|v| f64::from(*v) / 0.02).collect();
        let moment = |power| standard.iter().map(|z| z.powi(power)).sum::<f64>() / count as f64;
        let error = 5.0 / (count as f64).sqrt();
        assert!(moment(1).abs() < error, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 2f64.sqrt() * error, "variance {}", moment(2));
        assert!(moment(3).abs() < 15f64.sqrt() * error, "skewness {}", moment(3));
        assert!((moment(4) - 3.0).abs() < 96f64.sqrt() * error, "kurtosis {}", moment(4));
    }

    /// The deviations are those of a standard normal between the bounds.
    #[test]
    fn truncated_normals_stay_within_their_bounds() {
        for (cutoff, deviation) in [(0.5, 0.2836), (1.0, 0.5396), (2.0, 0.8796), (3.0, 0.9866)] {
            let count = 50_000;
            let init = Init::TruncatedNormal { std: 0.02, cutoff };
            let values = draw("weight", &[count], init, 42);
            let standard: Vec<f64> = values.iter().map(|v| f64::from(*v) / 0.02).collect();
            assert!(standard.iter().all(|value| value.abs() <= cutoff + 1e-6));
            let moment = |power| standard.iter().map(|z| z.powi(power)).sum::<f64>() / count as f64;
            let error = 5.0 / (count as f64).sqrt();
            assert!(moment(1).abs() < error * deviation, "{cutoff}: mean {}", moment(1));
            let relative = moment(2).sqrt() / deviation - 1.0;
            assert!(relative.abs() < error, "{cutoff}: deviation off by {relative}");
        }
    }

    #[test]
    fn draws_depend_on_seed_and_name_and_nothing_else() {
        let normal = Init::Normal { std: 1.0 };
        let draw_from = |name, count, seed| draw(name, &[count], normal, seed);
        assert_eq!(draw_from("a", 5, 1), draw_from("a", 9, 1)[..5]);
        assert_ne!(draw_from("a", 5, 1), draw_from("b", 5, 1));
        assert_ne!(draw_from("a", 5, 1), draw_from("a", 5, 2));
    }

    #[test]
    fn a_padding_row_is_zero() {
        let init = Init::NormalWithZeroRow { std: 1.0, row: 1 };
        let values = draw("embedding", &[3, 2], init, 0);
        assert_eq!(values[2..4], [0.0, 0.0]);
        assert!(values[..2].iter().chain(&values[4..]).all(|value| *value != 0.0));
    }

    #[test]
    fn too_large_a_parameter_is_an_error() {
        let huge = spec("huge", &[1 << 31, 1 << 31], Init::Zeros);
        assert!(matches!(initial(&huge, 0), Err(Error::OutOfMemory { .. })));
    }
}
