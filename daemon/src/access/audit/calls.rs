//! The calls that are audited.

/// Calls that change nothing. All others are audited, so that a new one cannot be forgotten.
const READING: &[&str] = &[
    "/traind.v1.Jobs/PlanJob",
    "/traind.v1.Jobs/GetJob",
    "/traind.v1.Jobs/ListJobs",
    "/traind.v1.Jobs/WatchJob",
    "/traind.v1.Jobs/WatchHost",
    "/traind.v1.Jobs/GetSamples",
    "/traind.v1.Jobs/GenerateTexts",
    "/traind.v1.Jobs/ListPrograms",
    "/traind.v1.Jobs/ProfileJob",
    "/traind.v1.Cores/ListCores",
    "/traind.v1.Cores/WatchCores",
    "/traind.v1.Cores/ListShares",
    "/traind.v1.Plugins/ListPlugins",
    "/traind.v1.Tokens/ListTokens",
    "/traind.v1.Admin/ReadAudit",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
];

/// Whether the call with this path may change something.
pub(crate) fn changes(path: &str) -> bool {
    !READING.contains(&path)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use prost::Message;
    use prost_types::FileDescriptorSet;

    use super::*;

    #[test]
    fn the_audited_calls_are_those_that_change_something() {
        let files = FileDescriptorSet::decode(traind_proto::FILE_DESCRIPTOR_SET).unwrap().file;
        let mut audited = BTreeSet::new();
        for file in files {
            for service in file.service.iter().filter(|service| service.name() != "Runner") {
                let names = service.method.iter().map(|method| method.name());
                let path = |name| format!("/{}.{}/{name}", file.package(), service.name());
                audited.extend(names.map(path).filter(|path| changes(path)));
            }
        }
        let expect = [
            "/traind.v1.Admin/Drain",
            "/traind.v1.Admin/RemoveJobs",
            "/traind.v1.Cores/ReturnCores",
            "/traind.v1.Cores/TestCores",
            "/traind.v1.Jobs/AdoptRun",
            "/traind.v1.Jobs/CancelJob",
            "/traind.v1.Jobs/CreateJob",
            "/traind.v1.Jobs/ForkJob",
            "/traind.v1.Tokens/CreateToken",
            "/traind.v1.Tokens/RevokeToken",
            "/traind.v1.Web/CreateLogin",
        ];
        assert_eq!(audited.into_iter().collect::<Vec<_>>(), expect);
    }
}
