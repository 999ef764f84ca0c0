//! Measures what a call costs on this machine, and whether devices run in parallel:
//!
//! ```text
//! cargo run --release -p traind-pjrt --example overhead [MODE]
//! ```
//!
//! `calls`: execute calls of a trivial program with few and many buffers.
//! `transfers`: host to device and back. `parallel`: products on one and on two
//! devices, and how many threads do the work; set `XLA_FLAGS` or `NPROC` to compare.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use traind_pjrt::{Buffer, Client, CompileOptions, CreateOptions, Device, ExecuteOptions, Plugin};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> Outcome {
    let mode = std::env::args().nth(1);
    let wanted = |name| mode.as_deref().is_none_or(|mode| mode == name);
    if wanted("calls") {
        calls()?;
    }
    if wanted("transfers") {
        transfers()?;
    }
    if wanted("parallel") {
        parallel()?;
    }
    Ok(())
}

fn client(device_count: i64) -> Outcome<Client> {
    let path = traind_pjrt::installed_plugin("cpu").ok_or("run `traind plugins install cpu`")?;
    let options = CreateOptions::new().with("cpu_device_count", device_count);
    Ok(Client::new(Plugin::load(path)?, &options)?)
}

/// The shortest of many runs after a few that warm up: what it costs undisturbed.
fn shortest(runs: usize, mut run: impl FnMut() -> Outcome) -> Outcome<Duration> {
    let mut shortest = Duration::MAX;
    for round in 0..runs + 3 {
        let start = Instant::now();
        run()?;
        if round >= 3 {
            shortest = shortest.min(start.elapsed());
        }
    }
    Ok(shortest)
}

/// `count` arguments of eight floats, each returned with one added.
fn adding_one(count: usize, donate: bool) -> String {
    let list = |item: &dyn Fn(usize) -> String| (0..count).map(item).collect::<Vec<_>>().join(", ");
    let attribute =
        |i| if donate { format!(" {{tf.aliasing_output = {i} : i32}}") } else { String::new() };
    let arguments = list(&|i| format!("%a{i}: tensor<8xf32>{}", attribute(i)));
    let types = list(&|_| "tensor<8xf32>".to_owned());
    let results = list(&|i| format!("%r{i}"));
    let body: String = (0..count)
        .map(|i| format!("%r{i} = stablehlo.add %a{i}, %one : tensor<8xf32>\n"))
        .collect();
    format!(
        "func.func @main({arguments}) -> ({types}) {{
           %one = stablehlo.constant dense<1.0> : tensor<8xf32>
           {body} return {results} : {types}
         }}"
    )
}

fn calls() -> Outcome {
    println!("buffers devices donated   dispatch   until done (shortest of 200)");
    for devices in [1, 2] {
        let client = client(devices)?;
        for count in [1, 100, 400] {
            for donate in [false, true] {
                let (dispatch, done) = one_call(&client, count, donate)?;
                println!("{count:7} {devices:7} {donate:7} {dispatch:>10.1?} {done:>12.1?}");
            }
        }
    }
    Ok(())
}

fn one_call(client: &Client, count: usize, donate: bool) -> Outcome<(Duration, Duration)> {
    let replicas = client.devices().len();
    let options = CompileOptions::replicas(replicas);
    let executable = client.compile(adding_one(count, donate), &options)?;
    let mut state = Vec::new();
    for device in client.devices() {
        let place = |_| client.buffer_from_slice(&[0.0f32; 8], &[8], &device);
        state.push((0..count).map(place).collect::<Result<Vec<_>, _>>()?);
    }
    let mut dispatch = Duration::MAX;
    let done = shortest(200, || {
        let start = Instant::now();
        let outputs = executable.execute(&state, &ExecuteOptions::default())?;
        dispatch = dispatch.min(start.elapsed());
        outputs.iter().try_for_each(|outputs| outputs.done.wait())?;
        state = outputs.into_iter().map(|outputs| outputs.buffers).collect();
        Ok(())
    })?;
    Ok((dispatch, done))
}

fn transfers() -> Outcome {
    let client = client(1)?;
    let device = client.device(0).ok_or("no device")?;
    println!("\n    bytes     copied       lent  read back (shortest of 50)");
    for size in [4 << 10, 1 << 20, 64 << 20] {
        let data = vec![1.0f32; size / 4];
        let dims = [data.len()];
        let copied = shortest(50, || {
            let buffer = client.buffer_from_slice(&data, &dims, &device)?;
            Ok(buffer.ready_event()?.wait()?)
        })?;
        let mut spare: Vec<_> = (0..53).map(|_| data.clone()).collect();
        let lent = shortest(50, || {
            let vector = spare.pop().ok_or("no vector left")?;
            let buffer = client.buffer_from_vec(vector, &dims, &device)?;
            Ok(buffer.ready_event()?.wait()?)
        })?;
        let buffer = client.buffer_from_slice(&data, &dims, &device)?;
        let read = shortest(50, || Ok(buffer.to_bytes().map(drop)?))?;
        println!("{size:9} {copied:>10.1?} {lent:>10.1?} {read:>10.1?}");
    }
    Ok(())
}

/// `repeats` products of `rows` x `side` by `side` x `side`, each of the one before.
struct Chain {
    rows: usize,
    side: usize,
    repeats: usize,
}

/// A small model's projections of one batch, and something that fills a device.
const CHAINS: [Chain; 2] =
    [Chain { rows: 192, side: 384, repeats: 100 }, Chain { rows: 1024, side: 1024, repeats: 4 }];

impl Chain {
    fn program(&self) -> String {
        let Chain { rows, side, repeats } = self;
        let (x, w) = (format!("tensor<{rows}x{side}xf32>"), format!("tensor<{side}x{side}xf32>"));
        let product = |i: usize| {
            let next = i + 1;
            format!(
                "%x{next} = stablehlo.dot_general %x{i}, %w, contracting_dims = [1] x [0]
                   : ({x}, {w}) -> {x}\n"
            )
        };
        let body: String = (0..*repeats).map(product).collect();
        format!("func.func @main(%x0: {x}, %w: {w}) -> {x} {{ {body} return %x{repeats} : {x} }}")
    }

    fn arguments(&self, client: &Client) -> Outcome<Vec<[Buffer; 2]>> {
        let place = |rows: usize, device: &Device| {
            let values = vec![0.001f32; rows * self.side];
            client.buffer_from_slice(&values, &[rows, self.side], device)
        };
        let mut arguments = Vec::new();
        for device in client.devices() {
            arguments.push([place(self.rows, &device)?, place(self.side, &device)?]);
        }
        Ok(arguments)
    }
}

fn parallel() -> Outcome {
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("\nXLA_FLAGS={:?} NPROC={:?}", variable("XLA_FLAGS"), variable("NPROC"));
    println!("     products  clients' devices  used   dispatch       done   busy  threads");
    for chain in &CHAINS {
        for (of, used) in [(1, 1), (2, 1), (2, 2)] {
            let client = client(of)?;
            let Chain { rows, side, repeats } = chain;
            print!("{repeats:3} {rows:4}x{side:<4} {of:16} {used:5} ");
            run_chain(&client, chain, used)?;
        }
    }
    Ok(())
}

fn run_chain(client: &Client, chain: &Chain, devices: usize) -> Outcome {
    let executable = client.compile(chain.program(), &CompileOptions::replicas(devices))?;
    let arguments = chain.arguments(client)?;
    let (mut dispatch, mut work) = (Duration::MAX, Vec::new());
    let done = shortest(10, || {
        let (before, start) = (busy_times()?, Instant::now());
        let outputs = executable.execute(&arguments[..devices], &ExecuteOptions::default())?;
        dispatch = dispatch.min(start.elapsed());
        outputs.iter().try_for_each(|outputs| outputs.done.wait())?;
        work.push(Work::between(&before, &busy_times()?));
        Ok(())
    })?;
    let mean = |of: fn(&Work) -> f64| work.iter().map(of).sum::<f64>() / work.len() as f64;
    let (busy, threads) = (mean(|work| work.seconds) * 1e3, mean(|work| work.threads));
    println!("{dispatch:>10.1?} {done:>10.1?} {busy:3.0} ms {threads:8.2}");
    Ok(())
}

/// Nanoseconds that each thread of this process has run, by Linux's account.
fn busy_times() -> Outcome<BTreeMap<PathBuf, u64>> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // A thread that ends meanwhile has no figure, and no share.
        let Ok(schedstat) = fs::read_to_string(path.join("schedstat")) else { continue };
        let busy = schedstat.split(' ').next().ok_or("an empty schedstat")?.parse()?;
        times.insert(path, busy);
    }
    Ok(times)
}

/// Processor time of the threads, which other load on the machine affects less than wall time.
struct Work {
    seconds: f64,
    /// All work over that of the busiest thread.
    threads: f64,
}

impl Work {
    fn between(before: &BTreeMap<PathBuf, u64>, after: &BTreeMap<PathBuf, u64>) -> Self {
        let spent = |(path, &busy): (_, &u64)| busy - before.get(path).unwrap_or(&0);
        let spent: Vec<u64> = after.iter().map(spent).collect();
        let (all, busiest) = (spent.iter().sum::<u64>(), spent.iter().max().copied());
        let threads = all as f64 / busiest.unwrap_or(0).max(1) as f64;
        Self { seconds: all as f64 / 1e9, threads }
    }
}
