//! Programs of one of several hosts.

use super::{Program, Recorded, SHARDED, SMALL, model};

/// Where every host has all shards, hosts exchange the loss, the weights and each gradient once a step,
/// and large gradients divided by the cores of a host.
#[test]
fn hosts_exchange_each_gradient_once_a_step() {
    let elements = |shape: &traind_xla::Shape| shape.element_count();
    for fsdp in ["no", "hybrid_shard_zero2", "hybrid_shard"] {
        for (batches, program) in [(1, Program::Train), (2, Program::Update)] {
            let job = Recorded::on_hosts(
                &format!(
                    "resources: {{platform: cpu, cores: 2}}\nparallel: {{fsdp: {fsdp}}}\n\
                     train: {{gradient_accumulation_steps: {batches}}}"
                ),
                2,
            );
            let job = job.unwrap();
            let found = job.exchanges(program);
            assert_eq!(found.len(), SHARDED + SMALL + 2, "{fsdp}, {batches} batches");
            let model = model();
            let whole: usize = model.parameters().iter().map(|it| 4 * elements(&it.shape)).sum();
            let sent: f64 = found.iter().sum();
            assert!(sent < 0.6 * whole as f64, "{fsdp}: {sent} of {whole} bytes");
            if batches > 1 {
                assert!(job.exchanges(Program::Accumulate).is_empty(), "{fsdp}");
            }
        }
    }
}

/// The collectives of the same core of all hosts: `A` gathers shards, `R` reduces to them.
fn shards_over_hosts(job: &Recorded, program: Program) -> String {
    let collectives = job.record(program).collectives().into_iter();
    let letter = |operation| match operation {
        "all_gather_hosts" => Some('A'),
        "reduce_scatter_hosts" => Some('R'),
        _ => None,
    };
    collectives.filter_map(|it| letter(it.operation)).collect()
}

#[test]
fn hosts_gather_and_scatter_the_shards_of_all_cores() {
    let on_hosts = |fsdp: &str, cores: usize, hosts: usize| {
        let sections = format!("resources: {{cores: {cores}}}\nparallel: {{fsdp: {fsdp}}}");
        Recorded::on_hosts(&sections, hosts).unwrap()
    };
    // As the cores of one host do, one layer ahead.
    let job = on_hosts("full_shard", 2, 2);
    assert_eq!(shards_over_hosts(&job, Program::Train), "AAAAAARARARARR");
    for fsdp in ["shard_optimizer", "shard_grad_op"] {
        let found = shards_over_hosts(&on_hosts(fsdp, 2, 2), Program::Train);
        let count = |letter| found.chars().filter(|it| *it == letter).count();
        assert_eq!((count('R'), count('A')), (SHARDED, SHARDED), "{fsdp}");
    }
    // The state of a core is that of one among all.
    let bytes = |job: Recorded| {
        let bytes = job.programs.states[0].bytes(&job.recorder);
        (bytes.parameters, bytes.gradients, bytes.slots)
    };
    for (cores, hosts) in [(2, 2), (1, 4), (4, 2)] {
        let one = bytes(on_hosts("full_shard", cores * hosts, 1));
        assert_eq!(bytes(on_hosts("full_shard", cores, hosts)), one, "{cores} x {hosts}");
        let hybrid = bytes(on_hosts("hybrid_shard", cores, hosts));
        assert_eq!(hybrid, bytes(on_hosts("full_shard", cores, 1)), "{cores} x {hosts}");
    }
}

/// A host with one core exchanges whole gradients.
#[test]
fn hosts_with_a_core_each_exchange_and_gather_nothing() {
    let job = Recorded::on_hosts("resources: {platform: cpu, cores: 1}", 3).unwrap();
    assert_eq!(job.exchanges(Program::Train).len(), SHARDED + SMALL + 2);
    assert_eq!(job.collectives(Program::Train).len(), SHARDED + SMALL + 2);
}
