//! The mesh as arithmetic.

use proptest::prelude::*;
use traind_xla::Error;
use traind_xla::mesh::{Axis, Coordinates, HostGrid, Mesh, Placement};
use traind_xla::runtime::{JobCores, LocalCores};

use crate::evaluator::CLIENT;

const ORDERS: [&str; 8] = ["cluster", "spread", "DTP", "DPT", "TDP", "TPD", "PDT", "PTD"];

fn meshes() -> impl Strategy<Value = Mesh> {
    (1..5usize, 1..5usize, 1..5usize, prop::sample::select(&ORDERS[..])).prop_map(
        |(data, tensor, pipeline, placement)| {
            Mesh::new(data, tensor, pipeline, placement.parse().unwrap()).unwrap()
        },
    )
}

fn axes() -> impl Strategy<Value = Vec<Axis>> {
    prop::sample::subsequence(Axis::ALL.to_vec(), 0..=3)
}

proptest! {
    #[test]
    fn coordinates_and_replicas_are_one_to_one(mesh in meshes()) {
        for replica in 0..mesh.replica_count() {
            let at = mesh.coordinates(replica);
            for axis in Axis::ALL {
                prop_assert!(at.along(axis) < mesh.size(axis));
            }
            prop_assert_eq!(mesh.replica(at), replica);
        }
    }

    #[test]
    fn groups_partition_the_replicas(mesh in meshes(), axes in axes()) {
        let groups = mesh.groups(&axes);
        let size: usize = axes.iter().map(|&axis| mesh.size(axis)).product();
        prop_assert!(groups.iter().all(|group| group.len() == size));
        let mut replicas = groups.concat();
        replicas.sort_unstable();
        prop_assert!(replicas.into_iter().eq(0..mesh.replica_count()));
    }

    #[test]
    fn members_of_a_group_differ_along_its_axes_alone(mesh in meshes(), axes in axes()) {
        let others: Vec<Axis> = Axis::ALL.into_iter().filter(|axis| !axes.contains(axis)).collect();
        for group in mesh.groups(&axes) {
            let first = mesh.coordinates(group[0]);
            for &replica in &group {
                let at = mesh.coordinates(replica);
                prop_assert!(others.iter().all(|&axis| at.along(axis) == first.along(axis)));
            }
        }
    }
}

#[test]
fn cluster_keeps_a_model_on_neighbours_and_spread_keeps_it_apart() {
    let cluster = Mesh::new(2, 2, 2, Placement::Cluster).unwrap();
    assert_eq!(cluster.groups(&[Axis::Tensor]), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(cluster.groups(&[Axis::Pipeline]), [[0, 2], [1, 3], [4, 6], [5, 7]]);
    assert_eq!(cluster.groups(&[Axis::Data]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
    let spread = Mesh::new(2, 2, 2, Placement::Spread).unwrap();
    assert_eq!(spread.groups(&[Axis::Data]), [[0, 1], [2, 3], [4, 5], [6, 7]]);
    assert_eq!(spread.groups(&[Axis::Tensor]), [[0, 4], [1, 5], [2, 6], [3, 7]]);
}

#[test]
fn strategies_are_orders_by_another_name() {
    for (name, order) in [("cluster", "DPT"), ("spread", "TPD")] {
        let mesh = |placement: &str| Mesh::new(2, 3, 4, placement.parse().unwrap()).unwrap();
        assert_eq!(mesh(name), mesh(order));
    }
}

/// The core of each place, for 2 of `data` x 2 of `tensor` x 3 of `pipeline`. Places count as `DPT` does.
#[test]
fn an_order_decides_which_core_has_which_place() {
    let cluster = Mesh::new(2, 2, 3, Placement::Cluster).unwrap();
    for (order, expect) in [
        ("DPT", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
        ("DTP", [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]),
        ("PDT", [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]),
        ("PTD", [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]),
        ("TDP", [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]),
        ("TPD", [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11]),
    ] {
        let mesh = Mesh::new(2, 2, 3, order.parse().unwrap()).unwrap();
        let cores = (0..12).map(|place| mesh.replica(cluster.coordinates(place)));
        assert!(cores.eq(expect), "{order}");
    }
}

/// Programs have the groups of a stage's cores, and plugins get those cores in ascending order.
#[test]
fn the_cores_of_a_stage_are_where_the_order_puts_them() {
    let ids: Vec<i32> = CLIENT.devices().map(|device| device.id()).collect();
    for (order, expect) in [("DPT", [[0, 2], [1, 3]]), ("PDT", [[0, 1], [2, 3]])] {
        let mesh = Mesh::new(2, 1, 2, order.parse().unwrap()).unwrap();
        let cores = LocalCores::of_host(CLIENT.clone(), mesh).unwrap();
        for (stage, positions) in expect.into_iter().enumerate() {
            let stage = cores.of_stage(stage).unwrap();
            assert_eq!(stage.job().device_ids(), positions.map(|at: usize| ids[at]), "{order}");
        }
    }
}

#[test]
fn bad_meshes_are_refused() {
    for text in ["", "near", "DP", "DDT", "DPTT", "dpt"] {
        let error = text.parse::<Placement>().unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
    let error = Mesh::new(2, 0, 1, Placement::Cluster).unwrap_err().to_string();
    assert_eq!(error, "mesh data 2 × tensor 0 × pipeline 1: every axis has at least one core");
}

/// Programs know the replicas of one host; batches are shared by all.
#[test]
fn hosts_divide_batches_and_have_replicas_of_their_own() {
    let one = Mesh::new(2, 2, 1, Placement::Spread).unwrap();
    let third = one.clone().on_hosts(3, 2).unwrap();
    assert_eq!((third.hosts(), third.host()), (3, 2));
    assert_eq!((third.replica_count(), third.size(Axis::Data)), (4, 2));
    assert_eq!(third.groups(&[Axis::Data]), one.groups(&[Axis::Data]));
    assert_eq!((one.data_shards(), one.own_data_shards()), (2, 0..2));
    assert_eq!((third.data_shards(), third.own_data_shards()), (6, 4..6));
    let of_replicas = (0..4).map(|replica| third.data_shard(third.coordinates(replica)));
    assert_eq!(of_replicas.collect::<Vec<_>>(), [4, 5, 4, 5]);
    assert_eq!(third.of_stage().own_data_shards(), 4..6);
    assert_eq!(third.to_string(), "3 hosts × data 2 × tensor 2 × pipeline 1");
    let error = one.on_hosts(3, 3).unwrap_err().to_string();
    assert!(error.ends_with("there is no host 3 among 3"), "{error}");
}

/// Four hosts with two stages each, of which two hosts have the same.
#[test]
fn hosts_of_a_pipeline_have_other_stages_and_the_same_rows() {
    let one = Mesh::new(2, 1, 2, Placement::Cluster).unwrap();
    for (pipeline_is_slower, rows, stages) in [
        (false, [0..2, 0..2, 2..4, 2..4], [0..2, 2..4, 0..2, 2..4]),
        (true, [0..2, 2..4, 0..2, 2..4], [0..2, 0..2, 2..4, 2..4]),
    ] {
        let grid = HostGrid { data: 2, pipeline: 2, pipeline_is_slower };
        let hosts = (0..4).map(|host| one.clone().on_grid(grid, host).unwrap());
        let hosts: Vec<Mesh> = hosts.collect();
        assert_eq!(hosts.iter().map(Mesh::own_data_shards).collect::<Vec<_>>(), rows);
        assert_eq!(hosts.iter().map(Mesh::own_stages).collect::<Vec<_>>(), stages);
        for (host, mesh) in hosts.iter().enumerate() {
            let (data, pipeline) = grid.place(host);
            assert_eq!((grid.host(data, pipeline), mesh.host()), (host, host));
            // Reductions reach the hosts with the same stages.
            assert_eq!((mesh.hosts(), mesh.data_shards()), (2, 4));
        }
        let text = "4 hosts, 2 of them in a pipeline, × data 2 × tensor 1 × pipeline 2";
        assert_eq!(hosts[0].to_string(), text);
    }
}

/// Four cores on two hosts: this process drives the second and the fourth.
#[test]
fn local_cores_are_the_job_s_that_the_client_has() {
    let [first, second] = [0, 1].map(|index| CLIENT.device(index).unwrap().id());
    let mesh = Mesh::new(2, 2, 1, Placement::Spread).unwrap();
    let job = JobCores::new(mesh, vec![901, second, 902, first]);
    let cores = LocalCores::new(CLIENT.clone(), job).unwrap();
    assert_eq!(cores.len(), 2);
    assert_eq!([0, 1].map(|core| cores.device(core).id()), [second, first]);
    let places: Vec<(usize, usize)> = cores.coordinates().map(|at| (at.data, at.tensor)).collect();
    assert_eq!(places, [(1, 0), (1, 1)]);
    let at = |data, tensor| cores.core_at(Coordinates { data, tensor, pipeline: 0 });
    assert_eq!((at(1, 0).unwrap(), at(1, 1).unwrap()), (0, 1));
    assert!(matches!(at(0, 0), Err(Error::NotLocal { replica: 0 })));
}

#[test]
fn a_job_over_hosts_needs_mpi() {
    let mesh = Mesh::data_parallel(1).unwrap().on_hosts(2, 0).unwrap();
    let error = LocalCores::of_host(CLIENT.clone(), mesh).unwrap_err();
    assert!(matches!(&error, Error::Mpi(traind_mpi::Error::NotStarted)), "{error}");
}

#[test]
fn a_job_without_a_core_here_or_with_too_few_is_refused() {
    let mesh = |cores| Mesh::data_parallel(cores).unwrap();
    let elsewhere = JobCores::new(mesh(1), vec![901]);
    assert!(matches!(LocalCores::new(CLIENT.clone(), elsewhere), Err(Error::Count { .. })));
    assert!(matches!(LocalCores::of_host(CLIENT.clone(), mesh(99)), Err(Error::Count { .. })));
}
