//! Waiting for events, and callbacks.

use crate::support::{compile, cpu_client, doubling};
use std::sync::mpsc;
use std::time::Duration;
use traind_pjrt::ExecuteOptions;

#[test]
fn completion_is_waited_for_asked_for_and_told() {
    let client = cpu_client(1);
    let executable = compile(&client, &doubling(""), 1);
    let device = client.device(0).unwrap();
    let argument = client.buffer_from_slice(&[1.0f32; 4], &[4], &device).unwrap();
    argument.ready_event().unwrap().wait().unwrap();
    let outputs = executable.execute(&[[&argument]], &ExecuteOptions::default()).unwrap();
    let done = &outputs[0].done;
    let (sender, receiver) = mpsc::channel();
    let before = sender.clone();
    done.on_ready(move |result| before.send(result).unwrap()).unwrap();
    done.wait().unwrap();
    assert!(done.is_ready().unwrap());
    done.on_ready(move |result| sender.send(result).unwrap()).unwrap();
    for _ in 0..2 {
        receiver.recv_timeout(Duration::from_secs(180)).unwrap().unwrap();
    }
}

#[test]
fn everything_can_be_dropped_before_it_is_done() {
    let client = cpu_client(2);
    let executable = compile(&client, &doubling("{tf.aliasing_output = 0 : i32}"), 2);
    for _ in 0..20 {
        let place = |device| [client.buffer_from_slice(&[1.0f32; 4], &[4], &device).unwrap()];
        let arguments: Vec<_> = client.devices().map(place).collect();
        executable.execute(&arguments, &ExecuteOptions::default()).unwrap();
    }
    drop(client);
    assert_eq!(executable.program().num_outputs(), 1);
}

#[test]
fn a_deleted_buffer_is_never_ready() {
    let client = cpu_client(1);
    let device = client.device(0).unwrap();
    let buffer = client.buffer_from_slice(&[1.0f32], &[1], &device).unwrap();
    buffer.delete().unwrap();
    buffer.ready_event().and_then(|event| event.wait()).unwrap_err();
}
