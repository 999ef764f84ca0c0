//! Bytes that are no message, almost one, or one that nobody would send: for every message of the
//! schema, decoding ends with a message or an error, and a message is written and read again.
//! `TRAIND_FUZZ_MESSAGES` says how many there are.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::{BTreeMap, BTreeSet};

use prost::Message;
use prost::bytes::BufMut;
use prost::encoding::{WireType, encode_key, encode_varint};
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use traind_proto::v1;

const SHORT: usize = 20_000;
/// A message in a message in a message; deeper ones are as these.
const DEPTH_MAX: usize = 4;

type Check = fn(&[u8]) -> bool;

/// Decodes; a message that was read is one that can be written and read again.
fn check<M: Message + Default>(bytes: &[u8]) -> bool {
    let Ok(message) = M::decode(bytes) else { return false };
    let again = M::decode(message.encode_to_vec().as_slice()).unwrap();
    // Not compared as values: a number that is none is not equal to itself.
    assert_eq!(again.encode_to_vec(), message.encode_to_vec());
    true
}

macro_rules! messages {
    ($($name:ident)*) => { &[$((stringify!($name), check::<v1::$name>)),*] };
}

const MESSAGES: &[(&str, Check)] = messages! {
    AdoptRunRequest CancelJobRequest ClassCount Collectives Communication Compiled Core CoreTest CoreUsage CreateJobRequest CreateLoginRequest
    CreateLoginResponse CreateTokenRequest CreateTokenResponse DataPrepared DeviceFigures
    DrainRequest DrainResponse Evaluated Event Failure Fence FencedHost Fetched Finished ForkJobRequest
    GenerateTextsRequest GeneratedText GeneratedTexts GetJobRequest
    GetSamplesRequest GetStatusRequest GroupShare HostStatus Job ListCoresRequest ListCoresResponse
    ListJobsRequest ListJobsResponse ListPluginsRequest ListPluginsResponse
    ListProgramsRequest Program ProgramArgument ProgramMemory ProgramPiece RemoveJobsRequest RemoveJobsResponse RemovedJob
    ListSharesRequest ListSharesResponse ListTokensRequest ListTokensResponse Log LossScaled MemoryUsage MeshPlace MeshPlan MeshSearch ModelLoaded
    ParameterGroup Parent Plan PlanEffect PlanJobRequest Plugin Prepared Profile ProfileJobRequest ProfilePiece ProfileRequest ProfiledPart ProfiledPhase ReadAuditRequest ReadAuditResponse Resumed ReturnCoresRequest ReturnCoresResponse RevokeTokenRequest RunStatus RunnerStatus Sample Samples Saved
    StagePasses StageUsage Started StateChanged Step StepTime StopRequest StopResponse TestCoresRequest TestCoresResponse Token TokenLengths Uploaded UserShare Waiting
    Warning WatchCoreUsageRequest WatchCoresRequest WatchCoresResponse WatchHostRequest WatchJobRequest
};

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The schema, by the full names of its messages.
struct Schema(BTreeMap<String, DescriptorProto>);

impl Schema {
    fn load() -> Schema {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        let mut all = BTreeMap::new();
        for file in files {
            for message in file.message_type {
                let name = format!(".{}.{}", file.package.as_deref().unwrap(), message.name());
                for nested in &message.nested_type {
                    all.insert(format!("{name}.{}", nested.name()), nested.clone());
                }
                all.insert(name, message);
            }
        }
        Schema(all)
    }

    /// The encoding of a message of this type with some fields set to anything.
    fn draw(&self, name: &str, random: &mut Random, depth: usize, bytes: &mut Vec<u8>) {
        for field in &self.0[name].field {
            for _ in 0..random.below(3) {
                self.draw_field(field, random, depth, bytes);
            }
        }
    }

    fn draw_field(
        &self,
        field: &FieldDescriptorProto,
        random: &mut Random,
        depth: usize,
        bytes: &mut Vec<u8>,
    ) {
        let number = field.number() as u32;
        match field.r#type() {
            Type::Double | Type::Fixed64 | Type::Sfixed64 => {
                encode_key(number, WireType::SixtyFourBit, bytes);
                bytes.put_u64_le(random.next());
            }
            Type::Float | Type::Fixed32 | Type::Sfixed32 => {
                encode_key(number, WireType::ThirtyTwoBit, bytes);
                bytes.put_u32_le(random.next() as u32);
            }
            Type::String | Type::Bytes | Type::Message | Type::Group => {
                let mut inner = Vec::new();
                match field.r#type() {
                    Type::Message if depth < DEPTH_MAX => {
                        self.draw(field.type_name(), random, depth + 1, &mut inner);
                    }
                    Type::Message => {}
                    _ => {
                        inner =
                            b"a long name".iter().cycle().take(random.below(40)).copied().collect()
                    }
                }
                encode_key(number, WireType::LengthDelimited, bytes);
                encode_varint(inner.len() as u64, bytes);
                bytes.extend(inner);
            }
            _ => {
                encode_key(number, WireType::Varint, bytes);
                let value = random.next() >> random.below(64);
                encode_varint(value, bytes);
            }
        }
    }
}

/// Changes, drops or adds a few bytes, or cuts the end off.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(4) {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            2 => bytes.insert(at, random.next() as u8),
            _ => bytes.truncate(at),
        }
    }
}

#[test]
fn every_message_of_the_schema_is_here() {
    let ours = Schema::load().0.into_iter().filter_map(|(name, message)| {
        let entry = message.options.as_ref().is_some_and(|options| options.map_entry());
        let name = name.strip_prefix(".traind.v1.")?;
        (!entry).then(|| name.to_owned())
    });
    let here: BTreeSet<String> = MESSAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(ours.collect::<BTreeSet<_>>(), here);
}

#[test]
fn no_bytes_are_too_odd_to_be_refused() {
    let count = std::env::var("TRAIND_FUZZ_MESSAGES").ok();
    let count = count.map_or(SHORT, |text| text.parse().unwrap());
    let (schema, mut random, mut taken) = (Schema::load(), Random(11), 0);
    for number in 0..count {
        let (name, check) = MESSAGES[number % MESSAGES.len()];
        let mut bytes = Vec::new();
        schema.draw(&format!(".traind.v1.{name}"), &mut random, 0, &mut bytes);
        mutate(&mut random, &mut bytes);
        taken += usize::from(check(&bytes));
    }
    println!("{count} messages of {} types: {taken} read, the others refused", MESSAGES.len());
    assert!(taken > count / 10 && taken < count, "{taken}");
}
