//! Collectives between replicas, and the module that asks for them.

use traind_xla::autodiff::gradients;
use traind_xla::kernels::Kernels;
use traind_xla::mesh::{Axis, Mesh, Placement};
use traind_xla::ops::{ReduceKind, ShardGroups};
use traind_xla::{DType, Result, Shape, Tensor, Trace};

use crate::evaluator::{Compiled, Numbers};

/// The result of `build` on each of four replicas, from its own input.
fn on_four(
    dims: &[usize],
    inputs: [&[f64]; 4],
    build: fn(&Tensor) -> Result<Tensor>,
) -> [Numbers; 4] {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::F32, dims)).unwrap();
    let result = build(&x).unwrap();
    let arguments = inputs.map(|numbers| vec![numbers.to_vec()]);
    let mut results = Compiled::new(&[&result], 4).run(&arguments);
    [0, 1, 2, 3].map(|replica: usize| results[replica].remove(0))
}

#[test]
fn collectives_move_values_between_replicas() {
    let inputs: [&[f64]; 4] = [&[0.0, 1.0], &[10.0, 11.0], &[20.0, 21.0], &[30.0, 31.0]];
    assert_eq!(
        on_four(&[2], inputs, |x| x.all_reduce(ReduceKind::Sum, &[vec![0, 2], vec![3, 1]])),
        [[20.0, 22.0], [40.0, 42.0], [20.0, 22.0], [40.0, 42.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_four(&[2], inputs, |x| x.all_reduce(ReduceKind::Max, &[vec![0, 1, 2, 3]])),
        [[30.0, 31.0]; 4].map(|v| v.to_vec())
    );
    assert_eq!(
        on_four(&[2], inputs, |x| x.reduce_scatter(ReduceKind::Sum, 0, &[vec![0, 2], vec![3, 1]])),
        [[20.0], [42.0], [22.0], [40.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_four(&[2], inputs, |x| x.all_gather(0, &[vec![0, 2], vec![3, 1]])),
        [
            [0.0, 1.0, 20.0, 21.0],
            [30.0, 31.0, 10.0, 11.0],
            [0.0, 1.0, 20.0, 21.0],
            [30.0, 31.0, 10.0, 11.0]
        ]
        .map(|v| v.to_vec())
    );
    assert_eq!(
        on_four(&[2], inputs, |x| x.all_to_all(0, 0, &[vec![0, 1], vec![2, 3]])),
        [[0.0, 10.0], [1.0, 11.0], [20.0, 30.0], [21.0, 31.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_four(&[2], inputs, |x| x.collective_permute(&[(0, 1), (1, 2)])),
        [[0.0, 0.0], [0.0, 1.0], [10.0, 11.0], [0.0, 0.0]].map(|v| v.to_vec())
    );
}

#[test]
fn several_tensors_are_added_in_one_collective() {
    fn mesh() -> Mesh {
        Mesh::new(2, 2, 1, Placement::Cluster).unwrap()
    }
    let inputs: [&[f64]; 4] = [&[0.0, 1.0], &[10.0, 11.0], &[20.0, 21.0], &[30.0, 31.0]];
    let found = on_four(&[2], inputs, |x| {
        let (scalar, row) = (x.slice(0, 1, 2)?.reshape(&[])?, x.reshape(&[1, 2])?);
        let (kind, axes) = (ReduceKind::Sum, [Axis::Data]);
        let sums = x.trace().all_reduce_together(&[&scalar, &row], kind, &mesh(), &axes)?;
        assert_eq!([sums[0].shape(), sums[1].shape()], [scalar.shape(), row.shape()]);
        x.trace().concatenate(&[&sums[0].reshape(&[1])?, &sums[1].reshape(&[2])?], 0)
    });
    for group in mesh().groups(&[Axis::Data]) {
        let sum = |place: usize| group.iter().map(|&replica| inputs[replica][place]).sum::<f64>();
        for &replica in &group {
            assert_eq!(found[replica], [sum(1), sum(0), sum(1)], "replica {replica} of {group:?}");
        }
    }
}

/// The values of each replica: its part, two numbers of rows and these rows, of two elements each.
const ROWS: [&[f64]; 4] = [
    &[0.0, 3.0, 15.0, 1.0, 2.0, 3.0, 4.0],
    &[0.0, 8.0, 8.0, 10.0, 20.0, 30.0, 40.0],
    &[1.0, 15.0, 0.0, 5.0, 6.0, 7.0, 8.0],
    &[1.0, 7.0, 99.0, 50.0, 60.0, 70.0, 80.0],
];

/// A table of so many rows to which a replica of [`ROWS`] adds its own, and the number of its part.
fn table_of_rows(x: &Tensor, rows: usize) -> Result<[Tensor; 2]> {
    let numbers = x.slice(0, 1, 3)?.convert(DType::S32)?;
    let zeros = x.trace().full(0.0, Shape::new(DType::F32, [rows, 2]))?;
    let table = zeros.scatter_add(&numbers, &x.slice(0, 3, 7)?.reshape(&[2, 2])?)?;
    Ok([table, x.slice(0, 0, 1)?.reshape(&[])?.convert(DType::U32)?])
}

#[test]
fn tables_of_few_rows_are_added_by_exchanging_rows() {
    let groups = || [vec![0, 2], vec![1, 3]];
    let flat = |x: Tensor| x.reshape(&[x.shape().element_count()]);
    // Parts of 17 rows begin within a row.
    for rows in [16, 17] {
        let build = |by_rows: bool, kernels: Kernels| {
            let trace = Trace::with_kernels(kernels);
            let x = trace.parameter("x", Shape::new(DType::F32, [7])).unwrap();
            let [table, part] = table_of_rows(&x, rows).unwrap();
            let shards = ShardGroups { cores: groups().to_vec(), hosts: 1 };
            let [whole, part] = match by_rows {
                true => [
                    table.all_reduce_rows(&groups()).unwrap().unwrap(),
                    table.reduce_rows_to_part(&part, &groups()).unwrap().unwrap(),
                ],
                false => [
                    table.all_reduce(ReduceKind::Sum, &groups()).unwrap(),
                    table.reduce_to_shard(ReduceKind::Sum, &shards).unwrap(),
                ],
            };
            let inputs = ROWS.map(|numbers| vec![numbers.to_vec()]);
            let outputs = [&flat(whole).unwrap(), &part];
            let compiled = match kernels {
                Kernels::Own => Compiled::with_kernels_on(&outputs, 4),
                _ => Compiled::new(&outputs, 4),
            };
            let calls = compiled.program.text.matches("@traind.table_of_rows(").count();
            assert_eq!(calls, if by_rows && kernels == Kernels::Own { 2 } else { 0 });
            compiled.run(&inputs)
        };
        let found = build(true, Kernels::None);
        assert_eq!(found, build(false, Kernels::None), "{rows} rows");
        assert_eq!(found, build(true, Kernels::Own), "{rows} rows");
        let sum: f64 = found[0][0].iter().sum();
        assert_eq!(sum, [ROWS[0], ROWS[2]].iter().flat_map(|of| &of[3..]).sum::<f64>());
    }
}

#[test]
fn tables_of_many_rows_or_more_than_rows_are_exchanged_whole() {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::F32, [7])).unwrap();
    let groups = [vec![0, 1]];
    let [table, part] = table_of_rows(&x, 16).unwrap();
    assert!(table.all_reduce_rows(&groups).unwrap().is_some());
    assert!(table.all_reduce_rows(&[vec![0]]).unwrap().is_none());
    let more = table.add(&table).unwrap();
    assert!(more.all_reduce_rows(&groups).unwrap().is_none());
    let [small, _] = table_of_rows(&x, 15).unwrap();
    assert!(small.all_reduce_rows(&groups).unwrap().is_none());
    // Four parts of 33 rows would begin within an element.
    let four = [vec![0, 1, 2, 3]];
    let [uneven, _] = table_of_rows(&x, 33).unwrap();
    assert!(uneven.all_reduce_rows(&four).unwrap().is_some());
    assert!(uneven.reduce_rows_to_part(&part, &four).unwrap().is_none());
}

/// The result of `build` on each of two replicas of each of two hosts, which run one program.
fn on_two_hosts(inputs: [&[f64]; 4], build: impl Fn(&Tensor) -> Result<Tensor>) -> [Numbers; 4] {
    let trace = Trace::new();
    let x = trace.parameter("x", Shape::new(DType::F32, [inputs[0].len()])).unwrap();
    let result = build(&x).unwrap();
    let arguments = inputs.map(|numbers| vec![numbers.to_vec()]);
    let mut results = Compiled::of_hosts(&[&result], 2, 2).run(&arguments);
    [0, 1, 2, 3].map(|replica: usize| results[replica].remove(0))
}

#[test]
fn collectives_within_a_host_are_made_on_each_host() {
    let inputs: [&[f64]; 4] = [&[0.0, 1.0], &[10.0, 11.0], &[20.0, 21.0], &[30.0, 31.0]];
    assert_eq!(
        on_two_hosts(inputs, |x| x.all_reduce(ReduceKind::Sum, &[vec![0, 1]])),
        [[10.0, 12.0], [10.0, 12.0], [50.0, 52.0], [50.0, 52.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_two_hosts(inputs, |x| x.reduce_scatter(ReduceKind::Sum, 0, &[vec![0, 1]])),
        [[10.0], [12.0], [50.0], [52.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_two_hosts(inputs, |x| x.slice(0, 0, 1)?.all_gather(0, &[vec![0, 1]])),
        [[0.0, 10.0], [0.0, 10.0], [20.0, 30.0], [20.0, 30.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_two_hosts(inputs, |x| x.all_to_all(0, 0, &[vec![0, 1]])),
        [[0.0, 10.0], [1.0, 11.0], [20.0, 30.0], [21.0, 31.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_two_hosts(inputs, |x| x.collective_permute(&[(0, 1)])),
        [[0.0, 0.0], [0.0, 1.0], [0.0, 0.0], [20.0, 21.0]].map(|v| v.to_vec())
    );
}

#[test]
fn one_program_reduces_over_all_hosts() {
    let inputs: [&[f64]; 4] = [&[1.0], &[10.0], &[100.0], &[1000.0]];
    assert_eq!(
        on_two_hosts(inputs, |x| x.all_reduce_hosts(ReduceKind::Sum, 2)),
        [[101.0], [1010.0], [101.0], [1010.0]].map(|v| v.to_vec())
    );
    assert_eq!(
        on_two_hosts(inputs, |x| x.all_reduce_hosts(ReduceKind::Max, 2)),
        [[100.0], [1000.0], [100.0], [1000.0]].map(|v| v.to_vec())
    );
    let mesh = Mesh::data_parallel(2).unwrap().on_hosts(2, 1).unwrap();
    assert_eq!(
        on_two_hosts(inputs, |x| x.all_reduce_over(ReduceKind::Sum, &mesh, &[Axis::Data])),
        [[1111.0]; 4].map(|v| v.to_vec())
    );
    // Large enough to be scattered within a host first, with a rest that is padded.
    let large: [Numbers; 4] = [1.0, 10.0, 100.0, 1000.0].map(|value| vec![value; 4097]);
    let sums = on_two_hosts(large.each_ref().map(Vec::as_slice), |x| {
        x.all_reduce_over(ReduceKind::Sum, &mesh, &[Axis::Data])
    });
    assert!(sums.iter().flatten().all(|&sum| sum == 1111.0));
    assert_eq!(sums[3].len(), 4097);
}

/// A data-parallel step: a mean loss, its gradient, and the mean of the
/// gradients over the data axis.
fn data_parallel_step(mesh: &Mesh) -> (Tensor, Tensor) {
    let trace = Trace::new();
    let weight = trace.parameter("weight", Shape::new(DType::F32, [3])).unwrap();
    let x = trace.parameter("x", Shape::new(DType::F32, [2, 3])).unwrap();
    let loss = x.mul(&weight).unwrap().tanh().unwrap().mean(&[0, 1]).unwrap();
    let gradient = gradients(&loss, &[&weight]).unwrap().remove(0);
    let summed = gradient.all_reduce(ReduceKind::Sum, &mesh.groups(&[Axis::Data])).unwrap();
    (loss, summed.mul_scalar(1.0 / mesh.size(Axis::Data) as f64).unwrap())
}

#[test]
fn a_step_on_two_cores_reduces_where_the_mesh_says() {
    let (_, gradient) = data_parallel_step(&Mesh::data_parallel(2).unwrap());
    let text = Compiled::new(&[&gradient], 2).program.text;
    assert!(text.contains("mhlo.num_replicas = 2"), "{text}");
    assert!(text.contains("replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"), "{text}");
    assert_eq!(text.matches("all_reduce").count(), 1);
}

#[test]
fn a_step_on_a_mesh_of_four_reduces_over_the_data_axis_alone() {
    for (placement, groups) in
        [(Placement::Cluster, "[[0, 2], [1, 3]]"), (Placement::Spread, "[[0, 1], [2, 3]]")]
    {
        let mesh = Mesh::new(2, 2, 1, placement).unwrap();
        let (_, gradient) = data_parallel_step(&mesh);
        let text = Compiled::new(&[&gradient], 4).program.text;
        let expected = format!("replica_groups = dense<{groups}> : tensor<2x2xi64>");
        assert!(text.contains(&expected), "{placement:?}: {text}");
    }
}

#[test]
fn two_cores_have_the_gradient_of_one_with_both_batches() {
    let (_, two) = data_parallel_step(&Mesh::data_parallel(2).unwrap());
    let weight = vec![0.5, -0.25, 1.0];
    let batches = [vec![0.1, 0.2, 0.3, -1.0, 2.0, 0.5], vec![1.0, -0.7, 0.25, 0.0, 0.6, -2.0]];
    let arguments: Vec<Vec<Numbers>> =
        batches.iter().map(|batch| vec![weight.clone(), batch.clone()]).collect();
    let on_two = Compiled::new(&[&two], 2).run(&arguments);
    assert_eq!(on_two[0], on_two[1]);

    let (_, one) = data_parallel_step(&Mesh::data_parallel(1).unwrap());
    let one = Compiled::new(&[&one], 1);
    let apart: Vec<Numbers> =
        arguments.iter().map(|a| one.run(std::slice::from_ref(a)).remove(0).remove(0)).collect();
    for (place, sum) in on_two[0][0].iter().enumerate() {
        let mean = (apart[0][place] + apart[1][place]) / 2.0;
        assert!((sum - mean).abs() < 1e-7, "{sum} {mean}");
    }
}
