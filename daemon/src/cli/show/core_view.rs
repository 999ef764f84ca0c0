//! A core as `traind cores -o json` prints it: the wire's fields under their own names.

use serde::Serialize;
use traind_proto::v1;

use crate::interfaces::text::phase;

#[derive(Serialize)]
pub(crate) struct CoreView {
    #[serde(skip_serializing_if = "String::is_empty")]
    host: String,
    core: u32,
    platform: String,
    device: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    job_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    job_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    figures: Option<FiguresView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fence: Option<FenceView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<TestView>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    being_tested: bool,
}

/// A test of a core.
#[derive(Serialize)]
pub(crate) struct TestView {
    #[serde(skip_serializing_if = "Option::is_none")]
    core: Option<u32>,
    time: String,
    outcome: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    problem: String,
    product_seconds: f64,
}

#[derive(Serialize)]
struct FenceView {
    since: String,
    reason: String,
}

#[derive(Serialize)]
struct UsageView {
    phase: String,
    step: u64,
    max_steps: u64,
    programs_compiled: u32,
    programs_total: u32,
    utilization_percent_1s: f64,
    utilization_percent_1m: f64,
    memory_used_bytes: u64,
    memory_total_bytes: u64,
    tflops: f64,
    model_tflops: f64,
    model_flops_utilization_percent: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<StageView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    communication: Option<CommunicationView>,
}

#[derive(Serialize)]
struct StageView {
    stage: u32,
    stages: u32,
    bubble_percent: f64,
}

#[derive(Serialize)]
struct CommunicationView {
    data_bytes_per_second: f64,
    tensor_bytes_per_second: f64,
    pipeline_bytes_per_second: f64,
    hosts_bytes_per_second: f64,
}

/// The figures of a core; one that the device does not report is null.
#[derive(Serialize)]
struct FiguresView {
    utilization_percent: Option<f64>,
    memory_used_bytes: Option<u64>,
    memory_total_bytes: Option<u64>,
    temperature_celsius: Option<f64>,
    power_watts: Option<f64>,
    errors: Option<u64>,
}

impl From<&v1::Core> for CoreView {
    fn from(core: &v1::Core) -> CoreView {
        CoreView {
            host: core.host.clone(),
            core: core.core,
            platform: core.platform.clone(),
            device: core.device.clone(),
            job_id: core.job_id.clone(),
            job_name: core.job_name.clone(),
            usage: core.usage.as_ref().map(UsageView::from),
            figures: core.figures.as_ref().map(FiguresView::from),
            fence: core.fence.as_ref().map(|fence| FenceView {
                since: fence.since.map(|since| since.to_string()).unwrap_or_default(),
                reason: fence.reason.clone(),
            }),
            test: core.test.as_ref().map(TestView::from),
            being_tested: core.being_tested,
        }
    }
}

impl From<&v1::CoreTest> for TestView {
    fn from(test: &v1::CoreTest) -> TestView {
        TestView {
            core: None,
            time: test.time.map(|time| time.to_string()).unwrap_or_default(),
            outcome: outcome(test),
            problem: test.problem.clone(),
            product_seconds: test.product_seconds,
        }
    }
}

impl From<&v1::TestCoresResponse> for TestView {
    fn from(result: &v1::TestCoresResponse) -> TestView {
        let test = result.test.clone().unwrap_or_default();
        TestView { core: Some(result.core), ..TestView::from(&test) }
    }
}

/// The outcome of a test in a word or two.
pub(crate) fn outcome(test: &v1::CoreTest) -> &'static str {
    match test.outcome() {
        v1::TestOutcome::Passed => "passed",
        v1::TestOutcome::Uncertain => "uncertain",
        v1::TestOutcome::Failed => "failed",
        v1::TestOutcome::NotRun => "not run",
        v1::TestOutcome::Unspecified => "unknown",
    }
}

impl From<&v1::CoreUsage> for UsageView {
    fn from(usage: &v1::CoreUsage) -> UsageView {
        UsageView {
            phase: phase(usage.phase()),
            step: usage.step,
            max_steps: usage.max_steps,
            programs_compiled: usage.programs_compiled,
            programs_total: usage.programs_total,
            utilization_percent_1s: usage.utilization_percent_1s,
            utilization_percent_1m: usage.utilization_percent_1m,
            memory_used_bytes: usage.memory_used_bytes,
            memory_total_bytes: usage.memory_total_bytes,
            tflops: usage.tflops,
            model_tflops: usage.model_tflops,
            model_flops_utilization_percent: usage.model_flops_utilization_percent,
            stage: usage.stage.map(StageView::from),
            communication: usage.communication.map(CommunicationView::from),
        }
    }
}

impl From<v1::StageUsage> for StageView {
    fn from(usage: v1::StageUsage) -> StageView {
        let v1::StageUsage { stage, stages, bubble_percent } = usage;
        StageView { stage, stages, bubble_percent }
    }
}

impl From<v1::Communication> for CommunicationView {
    fn from(sent: v1::Communication) -> CommunicationView {
        CommunicationView {
            data_bytes_per_second: sent.data_bytes_per_second,
            tensor_bytes_per_second: sent.tensor_bytes_per_second,
            pipeline_bytes_per_second: sent.pipeline_bytes_per_second,
            hosts_bytes_per_second: sent.hosts_bytes_per_second,
        }
    }
}

impl From<&v1::DeviceFigures> for FiguresView {
    fn from(figures: &v1::DeviceFigures) -> FiguresView {
        FiguresView {
            utilization_percent: figures.utilization_percent,
            memory_used_bytes: figures.memory_used_bytes,
            memory_total_bytes: figures.memory_total_bytes,
            temperature_celsius: figures.temperature_celsius,
            power_watts: figures.power_watts,
            errors: figures.errors,
        }
    }
}
