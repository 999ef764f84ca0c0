//! `neuron-monitor`: a program that prints a line of JSON every few seconds, any field of which may
//! be missing. It is started if it is installed, and restarted when it exits or stops printing.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use serde_json::Value;
use traind_proto::v1::DeviceFigures;

use super::timeout::TimeoutReader;

/// Older statistics are not shown. The program's default period is 5 s.
const MAX_AGE: Duration = Duration::from_secs(20);
const RESTART_DELAY: Duration = Duration::from_secs(10);
/// A program without output for this long hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// One line of a host with 64 cores has some 100 KiB.
const LINE_BYTES_MAX: u64 = 8 << 20;

pub(super) struct Monitor {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    latest: Mutex<Option<(Instant, BTreeMap<u32, DeviceFigures>)>>,
    child: Mutex<Option<Child>>,
}

impl Monitor {
    /// Starts a thread that reads the program's output until the monitor is dropped.
    pub(super) fn start(program: PathBuf) -> Monitor {
        let shared = Arc::new(Shared::default());
        if program.is_file() {
            let watched = Arc::downgrade(&shared);
            let thread = std::thread::Builder::new().name("neuron-monitor".to_owned());
            if let Err(error) = thread.spawn(move || keep_reading(&program, &watched)) {
                tracing::warn!(%error, "start a thread for neuron-monitor");
            }
        }
        Monitor { shared }
    }

    pub(super) fn statistics(&self) -> BTreeMap<u32, DeviceFigures> {
        let latest = self.shared.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = latest.as_ref().filter(|(read, _)| read.elapsed() < MAX_AGE);
        fresh.map(|(_, statistics)| statistics.clone()).unwrap_or_default()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.end_child();
    }
}

impl Shared {
    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the program if it runs, and reaps it.
    fn end_child(&self) {
        if let Some(mut child) = self.child().take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Stores a line's statistics. A line has the errors of its period; errors are shown as the sum
    /// since the program was started.
    fn update(&self, mut statistics: BTreeMap<u32, DeviceFigures>) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        for (core, before) in latest.iter().flat_map(|(_, statistics)| statistics) {
            let Some(before) = before.errors else { continue };
            let errors = &mut statistics.entry(*core).or_default().errors;
            *errors = Some(errors.unwrap_or(0).saturating_add(before));
        }
        *latest = Some((Instant::now(), statistics));
    }
}

fn keep_reading(program: &Path, shared: &Weak<Shared>) {
    while let Some(living) = shared.upgrade() {
        if let Err(error) = start(program, &living).and_then(|output| {
            drop(living);
            read(output, shared)
        }) {
            tracing::warn!(program = %program.display(), %error, "read neuron-monitor");
        }
        if let Some(living) = shared.upgrade() {
            living.end_child();
        }
        std::thread::sleep(RESTART_DELAY);
    }
}

fn start(program: &Path, shared: &Shared) -> io::Result<ChildStdout> {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let output = child.stdout.take();
    *shared.child() = Some(child);
    output.ok_or_else(|| io::Error::other("it has no output"))
}

/// Reads until the program exits or the monitor is dropped.
fn read(output: ChildStdout, shared: &Weak<Shared>) -> io::Result<()> {
    let mut output = BufReader::new(TimeoutReader::new(output, TIMEOUT));
    while let Some(line) = next_line(&mut output)? {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        // A line that is not JSON is a log message.
        if let Some(statistics) = parse(&line) {
            shared.update(statistics);
        }
    }
    Ok(())
}

/// Reads the next line; one that is too long is replaced by an empty one.
fn next_line(output: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    output.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    if line.len() as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
        output.skip_until(b'\n')?;
        line = b"\n".to_vec();
    }
    Ok(Some(line).filter(|line| !line.is_empty()))
}

/// Parses a line into statistics by core. Several runtimes may hold different cores.
fn parse(line: &[u8]) -> Option<BTreeMap<u32, DeviceFigures>> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let total = line.as_object()?.get("neuron_hardware_info").and_then(memory_of_a_core);
    let mut statistics: BTreeMap<u32, DeviceFigures> = BTreeMap::new();
    // The list is `null` if no runtime is active.
    let runtimes = line.get("neuron_runtime_data").and_then(Value::as_array).into_iter().flatten();
    for report in runtimes.filter_map(|runtime| runtime.get("report")) {
        let errors = errors(report);
        for (core, of) in by_core(report, "/neuroncore_counters/neuroncores_in_use") {
            let known = statistics.entry(core).or_default();
            known.utilization_percent = of.get("neuroncore_utilization").and_then(percent);
            known.errors = errors;
            known.memory_total_bytes = total;
        }
        let usage =
            "/memory_used/neuron_runtime_used_bytes/usage_breakdown/neuroncore_memory_usage";
        for (core, of) in by_core(report, usage) {
            let categories = counts(of);
            let known = statistics.entry(core).or_default();
            known.memory_used_bytes = Some(sum(&categories));
            known.memory_by_category = categories;
        }
    }
    Some(statistics)
}

/// The entries of an object whose keys are core numbers.
fn by_core<'a>(report: &'a Value, path: &str) -> impl Iterator<Item = (u32, &'a Value)> {
    let entries = report.pointer(path).and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(core, of)| Some((core.parse().ok()?, of)))
}

/// The fields of an object that are counters.
fn counts(object: &Value) -> BTreeMap<String, u64> {
    let entries = object.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?))).collect()
}

fn sum(counts: &BTreeMap<String, u64>) -> u64 {
    counts.values().copied().fold(0, u64::saturating_add)
}

/// Parses a percentage; `None` if it is out of range.
fn percent(value: &Value) -> Option<f64> {
    value.as_f64().filter(|percent| (0.0..=100.0).contains(percent))
}

fn errors(report: &Value) -> Option<u64> {
    report.pointer("/execution_stats/error_summary").map(|summary| sum(&counts(summary)))
}

/// The count of cores is of logical ones.
fn memory_of_a_core(hardware: &Value) -> Option<u64> {
    let bytes = hardware.get("neuron_device_memory_size")?.as_u64()?;
    let cores = hardware.get("neuroncore_per_device_count")?.as_u64()?;
    Some(bytes / cores.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A line of the program's output for an instance of which one runtime holds all cores. A device
    /// has `cores_per_device` logical ones.
    fn line(devices: u32, cores_per_device: u32, logical: u32, memory: u64) -> Value {
        let count = devices * cores_per_device;
        let cores = |of: fn(u32) -> Value| {
            let entries = (0..count).map(|core| (core.to_string(), of(core)));
            Value::Object(entries.collect())
        };
        json!({
            "neuron_runtime_data": [{
                "pid": 7, "neuron_runtime_tag": "b4", "error": "",
                "report": {
                    "neuroncore_counters": {"period": 5.0, "neuroncores_in_use": cores(|core| json!({"neuroncore_utilization": f64::from(core) / 2.0, "flops": 1, "v3d": {"nc_v3.0": {"neuroncore_utilization": 1.0}}}))},
                    "execution_stats": {"error_summary": {"generic": 0, "numerical": 2, "transient": 0, "model": 0, "runtime": 0, "hardware": 1}},
                    "memory_used": {"neuron_runtime_used_bytes": {"host": 1, "neuron_device": 2, "usage_breakdown": {
                        "neuroncore_memory_usage": cores(|_| json!({"constants": 1, "model_code": 20, "model_shared_scratchpad": 300, "runtime_memory": 4000, "tensors": 50000}))}}}
                }
            }],
            "system_data": {"vcpu_usage": {"error": "no permission"}},
            "instance_info": {"instance_type": "trn"},
            "neuron_hardware_info": {"neuron_device_count": devices, "neuron_device_memory_size": memory,
                "neuroncore_per_device_count": cores_per_device, "logical_neuroncore_config": logical}
        })
    }

    fn check(line: &Value, cores: u32, memory_of_a_core: u64) {
        let statistics = parse(line.to_string().as_bytes()).unwrap();
        assert_eq!(statistics.keys().copied().collect::<Vec<_>>(), (0..cores).collect::<Vec<_>>());
        let last = &statistics[&(cores - 1)];
        assert_eq!(last.utilization_percent, Some(f64::from(cores - 1) / 2.0));
        assert_eq!(last.memory_used_bytes, Some(54_321));
        assert_eq!(last.memory_by_category["tensors"], 50_000);
        assert_eq!(last.memory_total_bytes, Some(memory_of_a_core));
        assert_eq!(last.errors, Some(3));
    }

    #[test]
    fn all_cores_of_an_instance_have_statistics() {
        check(&line(1, 2, 1, 32 << 30), 2, 16 << 30); // trn1.2xlarge
        check(&line(16, 2, 1, 32 << 30), 32, 16 << 30); // trn1.32xlarge
        check(&line(16, 4, 2, 96 << 30), 64, 24 << 30); // trn2.48xlarge
    }

    #[test]
    fn every_field_may_be_missing() {
        let whole = line(1, 2, 1, 32 << 30);
        let mut paths = vec![String::new()];
        while let Some(path) = paths.pop() {
            let at = whole.pointer(&path).unwrap();
            if let Some(object) = at.as_object() {
                for key in object.keys() {
                    let mut cut = whole.clone();
                    cut.pointer_mut(&path).unwrap().as_object_mut().unwrap().remove(key);
                    assert!(parse(cut.to_string().as_bytes()).is_some(), "without {path}/{key}");
                    let mut odd = whole.clone();
                    for value in [json!(null), json!(-7), json!(1e300), json!("garbled")] {
                        odd.pointer_mut(&path).unwrap()[key] = value;
                        assert!(parse(odd.to_string().as_bytes()).is_some(), "odd {path}/{key}");
                    }
                    paths.push(format!("{path}/{key}"));
                }
            } else if let Some(list) = at.as_array() {
                paths.extend((0..list.len()).map(|index| format!("{path}/{index}")));
            }
        }
        assert_eq!(parse(b"{}"), Some(BTreeMap::new()));
        assert_eq!(parse(b"neuron-monitor: starting"), None);
    }

    #[test]
    fn impossible_values_are_left_out() {
        let cores =
            json!({"0": {"neuroncore_utilization": -3}, "1": {"neuroncore_utilization": 1e9}});
        let used = json!({"0": {"tensors": u64::MAX, "constants": 7, "model_code": -1}});
        let line = json!({"neuron_runtime_data": [null, 7, {"report": {
            "neuroncore_counters": {"neuroncores_in_use": cores},
            "memory_used": {"neuron_runtime_used_bytes": {"usage_breakdown": {"neuroncore_memory_usage": used}}},
        }}]});
        let statistics = parse(line.to_string().as_bytes()).unwrap();
        assert_eq!([0, 1].map(|core| statistics[&core].utilization_percent), [None, None]);
        assert_eq!(statistics[&0].memory_used_bytes, Some(u64::MAX));
        assert_eq!(statistics[&0].memory_by_category.len(), 2);
    }

    #[test]
    fn errors_add_up_over_lines() {
        let shared = Shared::default();
        let line = line(1, 2, 1, 32 << 30).to_string();
        for _ in 0..2 {
            shared.update(parse(line.as_bytes()).unwrap());
        }
        shared.update(parse(b"{}").unwrap());
        let latest = shared.latest.lock().unwrap();
        assert_eq!(latest.as_ref().unwrap().1[&1].errors, Some(6), "3 from each line");
    }

    #[test]
    fn an_overlong_line_is_dropped_and_the_next_ones_are_read() {
        let flood = "x".repeat(2 * LINE_BYTES_MAX as usize + 3);
        let text = format!("one\n{flood}\ntwo\nhalf");
        let mut output = BufReader::new(text.as_bytes());
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut output).unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["one\n", "\n", "two\n", "half"]);
    }

    #[test]
    fn a_program_that_exited_is_reaped() {
        let shared = Shared::default();
        let output = start(Path::new("/bin/true"), &shared).unwrap();
        let pid = shared.child().as_ref().unwrap().id();
        let shared = Arc::new(shared);
        read(output, &Arc::downgrade(&shared)).unwrap();
        shared.end_child();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_programs_output_becomes_statistics() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("neuron-monitor");
        let text = line(1, 2, 1, 32 << 30).to_string();
        let script = format!("#!/bin/sh\necho starting\ncat <<'E'\n{text}\nE\nexec sleep 60\n");
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let monitor = Monitor::start(program);
        let start = Instant::now();
        while monitor.statistics().is_empty() {
            assert!(start.elapsed() < Duration::from_secs(180));
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(monitor.statistics()[&1].utilization_percent, Some(0.5));
    }
}
