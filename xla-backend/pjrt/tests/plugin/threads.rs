//! One client and one executable, used from many threads at once.

use crate::support::{compile, cpu_client, doubling};
use std::thread;
use traind_pjrt::{Buffer, Client, Device, Event, Executable, ExecuteOptions, Memory, Plugin};

#[test]
fn handles_go_between_threads() {
    fn check<T: Send + Sync + 'static>() {}
    check::<Plugin>();
    check::<Client>();
    check::<Device>();
    check::<Memory>();
    check::<Buffer>();
    check::<Event>();
    check::<Executable>();
}

/// Each thread doubles its own number repeatedly and donates the previous value.
fn double_repeatedly(client: &Client, executable: &Executable, start: f32) -> Vec<f32> {
    let device = client.device(0).unwrap();
    let mut state = client.buffer_from_slice(&[start; 4], &[4], &device).unwrap();
    for _ in 0..20 {
        let mut outputs = executable.execute(&[[&state]], &ExecuteOptions::default()).unwrap();
        assert!(state.is_deleted().unwrap());
        state = outputs.remove(0).buffers.remove(0);
    }
    state.to_vec().unwrap()
}

#[test]
fn many_threads_share_a_client() {
    let client = cpu_client(2);
    let executable = compile(&client, &doubling("{tf.aliasing_output = 0 : i32}"), 1);
    thread::scope(|scope| {
        let run = |start| double_repeatedly(&client, &executable, start as f32);
        let threads: Vec<_> = (1..=16).map(|start| scope.spawn(move || run(start))).collect();
        for (start, thread) in (1..=16).zip(threads) {
            let expected = (start * (1 << 20)) as f32;
            assert_eq!(thread.join().unwrap(), [expected; 4]);
        }
    });
}

#[test]
fn many_threads_compile_read_and_drop() {
    let client = cpu_client(2);
    let device = client.device(1).unwrap();
    let shared = client.buffer_from_slice(&[5i64; 1000], &[1000], &device).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                compile(&client, &doubling(""), 1).program().cost_analysis().unwrap();
                for _ in 0..50 {
                    assert_eq!(shared.to_vec::<i64>().unwrap(), [5; 1000]);
                    assert_eq!(shared.dims(), [1000]);
                }
            });
        }
    });
}
