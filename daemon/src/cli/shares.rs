//! `traind shares`.

use serde::Serialize;
use traind_proto::v1;
use traind_wording::counted;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::list::{ListFormat, print_json};
use super::show::table::print_table;

/// Show the shares of groups and users in this host, and what they have used of late
///
/// DUE are the cores that a group's share comes to, rounded up, and at most those that it may hold; BORROWED are those
/// that it holds beyond them. Without fair shares in the access file, shows limits, cores and jobs of groups. Users see
/// all groups, and no other users; admins see all users.
#[derive(clap::Args)]
pub(crate) struct Shares {
    /// Output format
    #[arg(long, short, value_enum, default_value_t)]
    output: ListFormat,
}

impl Shares {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut cores = client::cores(&global).await?;
        let shares = cores.list_shares(v1::ListSharesRequest {}).await?.into_inner();
        match self.output {
            ListFormat::Json => print_json(shares.groups.iter().map(GroupView::from))?,
            ListFormat::Table => print_shares(&shares),
        }
        Ok(Exit::Done)
    }
}

const HEADER: [&str; 9] =
    ["GROUP", "USER", "SHARE", "USED", "CORE HOURS", "DUE", "HELD", "BORROWED", "JOBS"];
/// Columns that are left out without fair shares.
const FAIR: [usize; 5] = [2, 3, 4, 5, 7];

fn print_shares(shares: &v1::ListSharesResponse) {
    let is_fair = shares.half_life_hours > 0;
    let rows = shares.groups.iter().flat_map(|group| {
        std::iter::once(row_of_group(group)).chain(group.users.iter().map(row_of_user))
    });
    let shown: Vec<usize> =
        (0..HEADER.len()).filter(|column| is_fair || !FAIR.contains(column)).collect();
    let header: Vec<&str> = shown.iter().map(|column| HEADER[*column]).collect();
    let pick = |row: [String; HEADER.len()]| shown.iter().map(|it| row[*it].clone()).collect();
    print_table(&header, &rows.map(pick).collect::<Vec<_>>());
    let cores = counted(shares.cores, "core");
    match is_fair {
        true => {
            let hours = counted(shares.half_life_hours, "hour");
            println!("{cores}; core time counts half after {hours}");
        }
        false => println!("{cores}; the access file sets no fair shares"),
    }
}

fn row_of_group(group: &v1::GroupShare) -> [String; HEADER.len()] {
    let name = if group.name.is_empty() { "(no group)" } else { &group.name };
    let running = of(group.running_jobs, group.running_jobs_max);
    let waiting = of(group.waiting_jobs, group.waiting_jobs_max);
    [
        name.to_owned(),
        String::new(),
        format!("{} ({:.0} %)", group.share, group.share_percent),
        format!("{:.1} %", group.usage_percent),
        core_hours(group.usage_core_seconds),
        group.due_cores.to_string(),
        of(group.held_cores, group.cores_max),
        group.borrowed_cores.to_string(),
        format!("{running} running, {waiting} waiting"),
    ]
}

fn row_of_user(user: &v1::UserShare) -> [String; HEADER.len()] {
    [
        String::new(),
        user.name.clone(),
        String::new(),
        format!("{:.1} % of the group", user.usage_percent),
        core_hours(user.usage_core_seconds),
        String::new(),
        user.held_cores.to_string(),
        String::new(),
        format!("{} running, {} waiting", user.running_jobs, user.waiting_jobs),
    ]
}

fn core_hours(seconds: f64) -> String {
    format!("{:.2}", seconds / 3600.0)
}

/// A count and its limit: "3 of 8".
fn of(count: u32, limit: Option<u32>) -> String {
    limit.map_or_else(|| count.to_string(), |limit| format!("{count} of {limit}"))
}

/// A group as JSON: the wire's fields under their own names.
#[derive(Serialize)]
struct GroupView {
    name: String,
    share: u32,
    share_percent: f64,
    usage_core_seconds: f64,
    usage_percent: f64,
    due_cores: u32,
    held_cores: u32,
    borrowed_cores: u32,
    running_jobs: u32,
    waiting_jobs: u32,
    cores_max: Option<u32>,
    running_jobs_max: Option<u32>,
    waiting_jobs_max: Option<u32>,
    users: Vec<UserView>,
}

#[derive(Serialize)]
struct UserView {
    name: String,
    usage_core_seconds: f64,
    usage_percent: f64,
    held_cores: u32,
    running_jobs: u32,
    waiting_jobs: u32,
}

impl From<&v1::GroupShare> for GroupView {
    fn from(group: &v1::GroupShare) -> GroupView {
        GroupView {
            name: group.name.clone(),
            share: group.share,
            share_percent: group.share_percent,
            usage_core_seconds: group.usage_core_seconds,
            usage_percent: group.usage_percent,
            due_cores: group.due_cores,
            held_cores: group.held_cores,
            borrowed_cores: group.borrowed_cores,
            running_jobs: group.running_jobs,
            waiting_jobs: group.waiting_jobs,
            cores_max: group.cores_max,
            running_jobs_max: group.running_jobs_max,
            waiting_jobs_max: group.waiting_jobs_max,
            users: group.users.iter().map(UserView::from).collect(),
        }
    }
}

impl From<&v1::UserShare> for UserView {
    fn from(user: &v1::UserShare) -> UserView {
        UserView {
            name: user.name.clone(),
            usage_core_seconds: user.usage_core_seconds,
            usage_percent: user.usage_percent,
            held_cores: user.held_cores,
            running_jobs: user.running_jobs,
            waiting_jobs: user.waiting_jobs,
        }
    }
}
