//! `docs/rpc.md`, from the comments of the schema.

use std::collections::BTreeMap;
use std::{env, fs};

use prost::Message;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto,
};
use traind_proto::FILE_DESCRIPTOR_SET;

/// Files of the schema in the order of the page. The runner's service is internal.
const FILES: [&str; 8] =
    ["jobs", "profile", "events", "cores", "plugins", "tokens", "admin", "web"];

const INTRODUCTION: &str = "\
# RPC reference

`traind serve` serves the package `traind.v1`, `grpc.health.v1` and server reflection on its unix
socket, and on the network with `--listen` ([Calls from other hosts](operating.md#calls-from-other-hosts)).
The command line and the [Python client](python.md) use nothing else. With reflection, generic
clients need no `.proto` files (`TRAIND_SOCKET` is the daemon's socket):

```sh
grpcurl -plaintext -unix \"$TRAIND_SOCKET\" list
grpcurl -plaintext -unix \"$TRAIND_SOCKET\" traind.v1.Jobs/ListJobs
grpcurl -plaintext -unix -d '{\"job_id\": \"tweet-sentiment\"}' \"$TRAIND_SOCKET\" traind.v1.Jobs/WatchJob
```

Errors are `google.rpc.Status` messages. Their `ErrorInfo` has the domain `traind` and one of the
reasons of [Troubleshooting](troubleshooting.md); `BadRequest` has a violation for each invalid field;
`RetryInfo` states when to repeat a call that an overloaded daemon refused.

*Role* is the minimum role required for a call ([Roles](operating.md#roles)). Viewers and submitters see
only their own jobs.

Stubs that you generate for Python with `grpcio-tools` need one option on a unix socket, because gRPC
for Python sends the socket's path as the `:authority` of each call, which HTTP/2 forbids:
`(\"grpc.default_authority\", \"localhost\")`.

Generated from the comments in `proto/traind/v1`; a test of `traind-proto` keeps it true.
";

#[test]
fn the_page_says_what_the_schema_says() {
    let path = super::docs().join("rpc.md");
    let markdown = markdown();
    if env::var_os("TRAIND_WRITE_DOCS").is_some() {
        fs::write(&path, &markdown).unwrap();
    }
    assert!(
        super::page("rpc.md") == markdown,
        "docs/rpc.md is out of date; write it with TRAIND_WRITE_DOCS=1 cargo test -p traind-proto \
         --test document"
    );
}

#[test]
fn the_page_has_every_file_of_the_schema_but_the_runners() {
    let expected: Vec<_> = FILES.iter().map(|name| format!("traind/v1/{name}.proto")).collect();
    let mut found: Vec<_> =
        files().into_keys().filter(|name| !name.ends_with("runner.proto")).collect();
    found.sort_by_key(|name| expected.iter().position(|expected| expected == name));
    assert_eq!(found, expected);
}

#[test]
fn the_calls_that_the_page_shows_exist() {
    let page = super::page("rpc.md");
    let shown = page.split("traind.v1.").filter_map(|rest| rest.split_whitespace().next());
    let shown: Vec<_> = shown.filter_map(|call| call.split_once('/')).collect();
    assert!(shown.len() >= 2, "{shown:?}");
    let files = files();
    for (service, method) in shown {
        let mut services = files.values().flat_map(|file| &file.service);
        let found = services.find(|found| found.name() == service);
        let methods = found.map(|found| found.method.as_slice()).unwrap_or_default();
        assert!(methods.iter().any(|found| found.name() == method), "{service}/{method}");
    }
}

fn files() -> BTreeMap<String, FileDescriptorProto> {
    let files = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap().file.into_iter();
    let ours = files.filter(|file| file.package() == "traind.v1");
    ours.map(|file| (file.name().to_owned(), file)).collect()
}

fn markdown() -> String {
    let files = files();
    let files = FILES.iter().map(|name| &files[&format!("traind/v1/{name}.proto")]);
    INTRODUCTION.to_owned() + &files.map(file_text).collect::<String>()
}

fn file_text(file: &FileDescriptorProto) -> String {
    let comments = comments(file);
    let comment = |path: &[i32]| comments[path].as_str();
    let services =
        (0..).zip(&file.service).map(|(at, service)| service_text(at, service, &comment));
    let messages = (0..).zip(&file.message_type).map(|(at, it)| message_text(at, it, &comment));
    let enums = (0..).zip(&file.enum_type).map(|(at, it)| enum_text(at, it, &comment));
    // Those without a service have a title of their own.
    let title = match file.name() {
        "traind/v1/profile.proto" => "\n## Profiles\n",
        "traind/v1/events.proto" => "\n## Events\n",
        _ => "",
    };
    services.chain([title.to_owned()]).chain(messages).chain(enums).collect()
}

/// Comments by the path of their declaration; see `SourceCodeInfo.Location.path`.
fn comments(file: &FileDescriptorProto) -> BTreeMap<Vec<i32>, String> {
    let locations = &file.source_code_info.as_ref().unwrap().location;
    let text = |comment: &str| comment.split_whitespace().collect::<Vec<_>>().join(" ");
    locations.iter().map(|it| (it.path.clone(), text(it.leading_comments()))).collect()
}

fn service_text<'a>(
    at: i32,
    service: &ServiceDescriptorProto,
    comment: &impl Fn(&[i32]) -> &'a str,
) -> String {
    let head = "| call | request | response | role | |\n| --- | --- | --- | --- | --- |\n";
    let rows = (0..)
        .zip(&service.method)
        .map(|(index, method)| call_row(method, comment(&[6, at, 2, index])));
    let rows: String = rows.collect();
    format!("\n## {}\n\n{}\n\n{head}{rows}", service.name(), comment(&[6, at]))
}

fn call_row(method: &MethodDescriptorProto, comment: &str) -> String {
    let (text, role) = comment.rsplit_once("Role: ").unwrap();
    let stream = if method.server_streaming() { "stream of " } else { "" };
    format!(
        "| `{}` | {} | {stream}{} | {} | {} |\n",
        method.name(),
        link(method.input_type()),
        link(method.output_type()),
        role.trim_end_matches('.'),
        cell(text.trim())
    )
}

fn message_text<'a>(
    at: i32,
    message: &DescriptorProto,
    comment: &impl Fn(&[i32]) -> &'a str,
) -> String {
    let head = format!("\n### {}\n\n{}\n", message.name(), comment(&[4, at]));
    if message.field.is_empty() {
        return head;
    }
    let rows = (0..).zip(&message.field).map(|(index, field)| {
        let kind = field_type(message, field);
        let text = cell(comment(&[4, at, 2, index]));
        format!("| {} | `{}` | {kind} | {text} |\n", field.number(), field.name())
    });
    head + "\n| | field | type | |\n| --- | --- | --- | --- |\n" + &rows.collect::<String>()
}

fn enum_text<'a>(
    at: i32,
    values: &EnumDescriptorProto,
    comment: &impl Fn(&[i32]) -> &'a str,
) -> String {
    let head = format!("\n### {}\n\n{}\n", values.name(), comment(&[5, at]));
    let rows = (0..).zip(&values.value).map(|(index, value)| {
        let text = cell(comment(&[5, at, 2, index]));
        format!("| {} | `{}` | {text} |\n", value.number(), value.name())
    });
    head + "\n| | value | |\n| --- | --- | --- |\n" + &rows.collect::<String>()
}

/// The type of a field. Maps are messages of two fields that the compiler nests in the message.
fn field_type(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let entry = message.nested_type.iter().find(|entry| {
        field.type_name().ends_with(&format!(".{}.{}", message.name(), entry.name()))
    });
    match entry.map(|entry| entry.field.as_slice()) {
        Some([key, value]) => format!("map of {} to {}", plain_type(key), plain_type(value)),
        _ if field.label() == Label::Repeated => format!("list of {}", plain_type(field)),
        _ if field.proto3_optional() => format!("optional {}", plain_type(field)),
        _ => plain_type(field),
    }
}

fn plain_type(field: &FieldDescriptorProto) -> String {
    match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        other => other.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    }
}

/// A link to a message of this page, or the name of one of Google's.
fn link(type_name: &str) -> String {
    let name = type_name.trim_start_matches('.');
    match name.strip_prefix("traind.v1.") {
        Some(own) => format!("[{own}](#{})", own.to_lowercase()),
        None => format!("`{name}`"),
    }
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
