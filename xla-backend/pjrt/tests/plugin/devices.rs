//! Clients, their devices and memories.

use crate::support::{cpu_client, cpu_plugin};
use std::collections::BTreeSet;
use traind_pjrt::{Client, CreateOptions, Error};

#[test]
fn a_client_has_the_devices_it_was_asked_for() {
    let client = cpu_client(3);
    assert_eq!(client.platform_name(), "cpu");
    assert!(!client.platform_version().is_empty());
    assert_eq!(client.process_index(), 0);
    let ids: BTreeSet<i32> = client.devices().map(|device| device.id()).collect();
    assert_eq!(ids.len(), 3);
    let of_job: BTreeSet<i32> = client.job_devices().iter().map(|device| device.id).collect();
    assert_eq!(of_job, ids);
    assert!(client.job_devices().iter().all(|device| device.process_index == 0));
    assert!(client.device(3).is_none());
}

#[test]
fn a_device_describes_itself() {
    let client = cpu_client(2);
    let device = client.device(1).unwrap();
    assert_eq!(device.index(), 1);
    assert_eq!(device.kind(), "cpu");
    assert!(!device.debug_string().is_empty());
    assert!(device.local_hardware_id().is_some());
    assert_eq!(device.process_index(), 0);
    assert_eq!(device.client(), client);
    assert_ne!(client.device(0).unwrap(), device);
}

#[test]
fn a_device_has_memories() {
    let device = cpu_client(1).device(0).unwrap();
    assert_eq!(device.default_memory().unwrap(), device.memory("device").unwrap());
    assert_ne!(device.memory("pinned_host").unwrap(), device.memory("device").unwrap());
    let error = device.memory("moon").unwrap_err();
    assert!(matches!(&error, Error::NoSuchMemory { kind, .. } if kind == "moon"), "{error}");
}

#[test]
fn cpus_keep_no_memory_statistics() {
    let device = cpu_client(1).device(0).unwrap();
    assert_eq!(device.memory_stats().unwrap(), None);
}

#[test]
fn options_of_all_types_reach_the_plugin() {
    let options = CreateOptions::new()
        .with("cpu_device_count", 2)
        .with("a_string", "text")
        .with("a_flag", true)
        .with("a_float", 0.5f32)
        .with("a_list", vec![1i64, 2, 3]);
    let client = Client::new(cpu_plugin(), &options).unwrap();
    assert_eq!(client.devices().len(), 2);
}

#[test]
fn capabilities_of_the_cpu_plugin() {
    let client = cpu_client(1);
    let capabilities = client.capabilities().unwrap();
    assert!(capabilities.donation);
    assert!(capabilities.executable_serialization);
    assert!(capabilities.cost_analysis);
    assert!(capabilities.compiled_memory_stats);
    assert!(capabilities.optimized_program);
    assert!(!capabilities.device_memory_stats);
    assert!(capabilities.copy_to_memory.contains(&"pinned_host".to_owned()));
    assert!(std::ptr::eq(capabilities, client.capabilities().unwrap()));
}
