//! A parameter that cores divide: the part that each takes of the whole, and the whole that they gather from their
//! parts.

use traind_models::parameters::{Dimension, Init, ParameterPath, Role};
use traind_models::{ParameterSpec, Sharding};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Shape, Trace};

use crate::support::Program;

fn spec(dimensions: &[Dimension]) -> ParameterSpec {
    let mut specs = Vec::new();
    ParameterPath::root(&mut specs).declare("w", Role::Projection, dimensions, Init::Zeros);
    specs.remove(0)
}

fn check(dimensions: &[Dimension], cores: usize) {
    let sharding = Sharding::of(&spec(dimensions), cores).unwrap();
    let shape = sharding.whole_shape().clone();
    let trace = Trace::new();
    let whole = trace.parameter("whole", shape.clone()).unwrap();
    let index = trace.parameter("index", Shape::scalar(DType::U32)).unwrap();
    let part = sharding.take(&whole, &index).unwrap();
    let gathered = sharding.gather(&part, &[(0..cores).collect()]).unwrap();
    let program = Program::compile_for(&trace, &[&part, &gathered], cores);
    let values: Vec<f32> = (1..=shape.element_count()).map(|value| value as f32).collect();
    let whole = HostArray::from_f32(&shape.dims, &values).unwrap();
    let arguments: Vec<Vec<HostArray>> = (0..cores)
        .map(|core| vec![whole.clone(), HostArray::from_u32(&[], &[core as u32]).unwrap()])
        .collect();
    for (core, results) in program.run_replicas(&arguments).into_iter().enumerate() {
        assert_eq!(results[0], *sharding.part(&whole, core).unwrap(), "{dimensions:?}, {core}");
        assert_eq!(results[1], whole, "{dimensions:?}, {core}");
    }
}

#[test]
fn parts_that_cores_take_are_those_that_they_gather() {
    check(&[Dimension::features(8), 3.into()], 4);
    check(&[3.into(), Dimension::features(8)], 2);
    // Queries, keys and values behind each other.
    check(&[Dimension::heads(12, 2, 3), 2.into()], 2);
    // Four heads of queries, two of keys and two of values.
    check(&[Dimension::joined_heads(16, 4, 2), 3.into()], 2);
    check(&[Dimension::joined_features(12, 2), 2.into()], 2);
    // Two cores have the same head.
    check(&[Dimension::shared_heads(6, 2), 2.into()], 4);
    // Rows that do not divide; the last core has none.
    check(&[Dimension::vocabulary(3), 2.into()], 4);
    check(&[Dimension::vocabulary(7), 2.into()], 2);
    // What each core holds whole.
    check(&[3.into(), 2.into()], 2);
}
