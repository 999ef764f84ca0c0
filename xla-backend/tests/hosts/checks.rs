//! Reductions and gathers across hosts.

use traind_xla::autodiff::gradients;
use traind_xla::mesh::Axis;
use traind_xla::ops::{ReduceKind, ShardGroups};
use traind_xla::runtime::HostArray;
use traind_xla::{DType, Result, Tensor};

use crate::support::{DEVICES, GRID, HOSTS, device, device_in, run};

/// The value of an element on a core of the job: exact in all types, in any order of addition.
fn value(host: usize, core: usize, element: usize) -> f32 {
    (host * 100 + core * 10 + element % 7) as f32 - 57.0
}

fn inputs(host: usize, elements: usize) -> Vec<HostArray> {
    let of_core = |core| {
        let values: Vec<f32> = (0..elements).map(|element| value(host, core, element)).collect();
        HostArray::from_f32(&[elements], &values).unwrap()
    };
    (0..DEVICES).map(of_core).collect()
}

fn combine(kind: ReduceKind, values: impl Iterator<Item = f32>) -> f32 {
    match kind {
        ReduceKind::Sum => values.sum(),
        ReduceKind::Max => values.reduce(f32::max).unwrap(),
        ReduceKind::Min => values.reduce(f32::min).unwrap(),
    }
}

pub(crate) fn values_meet_those_of_the_same_replica(rank: usize) {
    let mut device = device(rank);
    for dtype in [DType::F32, DType::F64, DType::S32, DType::S64, DType::F16, DType::BF16] {
        for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
            let found = run(&mut device, &inputs(rank, 5), |x| {
                x.convert(dtype)?.all_reduce_hosts(kind, HOSTS)?.convert(DType::F32)
            });
            for (core, found) in found.iter().enumerate() {
                let of_hosts = |element| (0..HOSTS).map(move |host| value(host, core, element));
                let expected: Vec<f32> =
                    (0..5).map(|element| combine(kind, of_hosts(element))).collect();
                assert_eq!(found.to_f32().unwrap(), expected, "{dtype} {kind:?}");
            }
        }
    }
}

pub(crate) fn reductions_add_the_hosts_of_one_place_in_the_pipeline(rank: usize) {
    let mut device = device_in(GRID, rank);
    let hosts = device.cores().mesh().hosts();
    let found = run(&mut device, &inputs(rank, 3), |x| x.all_reduce_hosts(ReduceKind::Sum, hosts));
    let (_, place) = GRID.place(rank);
    for (core, found) in found.iter().enumerate() {
        let of_hosts =
            |element| (0..GRID.data).map(move |it| value(GRID.host(it, place), core, element));
        let expected: Vec<f32> = (0..3).map(|element| of_hosts(element).sum()).collect();
        assert_eq!(found.to_f32().unwrap(), expected);
    }
}

/// Small tensors, those that divide, and those that are padded.
pub(crate) fn reductions_over_axes_add_all_cores(rank: usize) {
    let mut device = device(rank);
    let mesh = device.cores().mesh().clone();
    for elements in [1, 7, 4096, 10_001] {
        for kind in [ReduceKind::Sum, ReduceKind::Max] {
            let found = run(&mut device, &inputs(rank, elements), |x| {
                x.reshape(&[1, elements])?.all_reduce_over(kind, &mesh, &[Axis::Data])
            });
            let all = |element| {
                (0..HOSTS)
                    .flat_map(move |host| (0..DEVICES).map(move |it| value(host, it, element)))
            };
            let expected: Vec<f32> = (0..elements).map(|it| combine(kind, all(it))).collect();
            for found in found {
                assert_eq!(found.shape().dims, [1, elements]);
                assert_eq!(found.to_f32().unwrap(), expected, "{elements} elements, {kind:?}");
            }
        }
    }
}

/// A host gets its part of the sum, and the parts of all hosts joined are the sum.
pub(crate) fn parts_are_scattered_and_gathered(rank: usize) {
    let mut device = device(rank);
    for dtype in [DType::F32, DType::F64, DType::S32, DType::F16, DType::BF16] {
        for kind in [ReduceKind::Sum, ReduceKind::Max] {
            let found = run(&mut device, &inputs(rank, 6), |x| {
                x.convert(dtype)?.reduce_scatter_hosts(kind, HOSTS)?.convert(DType::F32)
            });
            for (core, found) in found.iter().enumerate() {
                let of_hosts = |element| (0..HOSTS).map(move |host| value(host, core, element));
                let own = rank * 3..rank * 3 + 3;
                let expected: Vec<f32> =
                    own.map(|element| combine(kind, of_hosts(element))).collect();
                assert_eq!(found.to_f32().unwrap(), expected, "{dtype} {kind:?}");
            }
        }
        let found = run(&mut device, &inputs(rank, 3), |x| {
            x.convert(dtype)?.all_gather_hosts(HOSTS)?.convert(DType::F32)
        });
        for (core, found) in found.iter().enumerate() {
            let of_host = |host| (0..3).map(move |element| value(host, core, element));
            let expected: Vec<f32> = (0..HOSTS).flat_map(of_host).collect();
            assert_eq!(found.to_f32().unwrap(), expected, "{dtype}");
        }
    }
}

/// Each core's part of the sum over all cores is its own, and the parts are in the order of cores, then of hosts.
pub(crate) fn shards_of_all_cores_are_the_sum(rank: usize) {
    let mut device = device(rank);
    let cores = device.cores().mesh().groups(&[Axis::Data]);
    let groups = ShardGroups { cores, hosts: HOSTS };
    let parts = HOSTS * DEVICES;
    assert_eq!(groups.parts(), parts);
    let all = |element| {
        (0..HOSTS).flat_map(move |host| (0..DEVICES).map(move |it| value(host, it, element)))
    };
    let sums: Vec<f32> = (0..4 * parts).map(|element| all(element).sum()).collect();
    let found = run(&mut device, &inputs(rank, 4 * parts), |x| {
        x.reduce_scatter_over(ReduceKind::Sum, &groups)
    });
    for (core, found) in found.iter().enumerate() {
        let part = core * HOSTS + rank;
        assert_eq!(found.to_f32().unwrap(), sums[4 * part..4 * part + 4]);
    }
    let whole = run(&mut device, &inputs(rank, 4 * parts), |x| {
        x.reduce_scatter_over(ReduceKind::Sum, &groups)?.all_gather_over(&groups)
    });
    assert!(whole.iter().all(|found| found.to_f32().unwrap() == sums));
}

/// The gradient of a gathered part is its part of the sum of all cotangents, and that of a scattered sum is the
/// cotangents of all parts.
pub(crate) fn gradients_of_shards_meet_all_hosts(rank: usize) {
    let mut device = device(rank);
    let found = run(&mut device, &inputs(rank, 2), |x| {
        let whole = x.all_gather_hosts(HOSTS)?;
        let loss = whole.mul(&whole)?.sum(&[0])?;
        Ok(gradients(&loss, &[x])?.remove(0))
    });
    for (core, found) in found.iter().enumerate() {
        let expected: Vec<f32> =
            (0..2).map(|it| 2.0 * HOSTS as f32 * value(rank, core, it)).collect();
        assert_eq!(found.to_f32().unwrap(), expected);
    }
    let found = run(&mut device, &inputs(rank, 4), |x| {
        let part = x.reduce_scatter_hosts(ReduceKind::Sum, HOSTS)?;
        let loss = part.mul(&part)?.sum(&[0])?;
        Ok(gradients(&loss, &[x])?.remove(0))
    });
    for (core, found) in found.iter().enumerate() {
        let sum = |it| (0..HOSTS).map(|host| value(host, core, it)).sum::<f32>();
        let expected: Vec<f32> = (0..4).map(|it| 2.0 * sum(it)).collect();
        assert_eq!(found.to_f32().unwrap(), expected);
    }
}

/// The losses of all cores, added, have these gradients.
pub(crate) fn gradients_are_those_of_the_sum(rank: usize) {
    let mut device = device(rank);
    let mesh = device.cores().mesh().clone();
    let elements = 4099;
    let found = run(&mut device, &inputs(rank, elements), |x| {
        // The sum of the squares of the sums, on each core: its gradient is 2 · 4 · sum.
        let total = x.all_reduce_over(ReduceKind::Sum, &mesh, &[Axis::Data])?;
        let loss = total.mul(&total)?.sum(&[0])?;
        Ok(gradients(&loss, &[x])?.remove(0))
    });
    let cores = (HOSTS * DEVICES) as f32;
    let sum = |element| -> f32 {
        let hosts = 0..HOSTS;
        hosts.flat_map(|host| (0..DEVICES).map(move |core| value(host, core, element))).sum()
    };
    let expected: Vec<f32> = (0..elements).map(|element| 2.0 * cores * sum(element)).collect();
    for found in found {
        assert_eq!(found.to_f32().unwrap(), expected);
    }
}

/// As before it, on threads of XLA's own.
pub(crate) fn tiny_numbers_are_zero_after_an_exchange(rank: usize) {
    let mut device = device(rank);
    let halved = |x: &Tensor| x.mul_scalar(0.0)?.add_scalar(2.0 * f64::from(f32::MIN_POSITIVE));
    let tiny = |x: &Tensor| x.mul_scalar(0.125)?.sqrt();
    let alone = run(&mut device, &inputs(rank, 3), |x| tiny(&halved(x)?.add(&halved(x)?)?));
    let exchanged = run(&mut device, &inputs(rank, 3), |x| {
        tiny(&halved(x)?.all_reduce_hosts(ReduceKind::Sum, HOSTS)?)
    });
    assert_eq!(alone[0].to_f32().unwrap(), [0.0; 3]);
    assert_eq!(exchanged, alone);
}

/// Reductions within and across hosts whose operands take very different times to compute, in an
/// order that is not that of the program: all end, with the right values.
pub(crate) fn overlapping_reductions_end(rank: usize) {
    const SITES: usize = 40;
    let mut device = device(rank);
    let mesh = device.cores().mesh().clone();
    let build = |x: &Tensor| -> Result<Tensor> {
        let mut sums = Vec::new();
        for site in 0..SITES {
            let mut operand = x.add_scalar(site as f64)?;
            // The first sites are the last to be ready.
            for _ in 0..(SITES - site) / 4 {
                let turned = operand.reshape(&[64, 64])?.transpose(&[1, 0])?;
                operand = operand.add(&turned.reshape(&[64 * 64])?.mul_scalar(0.0)?)?;
            }
            sums.push(operand.all_reduce_over(ReduceKind::Sum, &mesh, &[Axis::Data])?);
        }
        let mut total = sums.remove(0);
        for sum in sums {
            total = total.add(&sum)?;
        }
        Ok(total)
    };
    let of_cores: f32 =
        (0..HOSTS).flat_map(|host| (0..DEVICES).map(move |core| value(host, core, 0))).sum();
    let sites: f32 = (0..SITES).map(|site| (HOSTS * DEVICES * site) as f32).sum();
    for _ in 0..10 {
        for found in run(&mut device, &inputs(rank, 64 * 64), build) {
            assert_eq!(found.to_f32().unwrap()[0], SITES as f32 * of_cores + sites);
        }
    }
}
