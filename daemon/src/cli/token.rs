//! `traind token`.

use clap::{Subcommand, ValueEnum};
use traind_proto::v1;

use super::Global;
use super::connect::client;
use super::exit::Exit;
use super::show::table::print_table;
use crate::interfaces::text;

/// Create, list and revoke tokens for users on other hosts
#[derive(clap::Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a token and print its secret, which cannot be shown again
    Create {
        /// The user that the token identifies; the access file sets the user's role
        user: String,
        /// Upper bound of the role of calls with this token [default: the user's role]
        #[arg(long, value_enum)]
        role: Option<Role>,
        /// Days until it expires [default: never]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3650))]
        days: Option<u64>,
    },
    /// List tokens, newest first
    Ls,
    /// Revoke a token
    Revoke {
        /// The token's id, as `traind token ls` shows it
        id: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Viewer,
    Submitter,
    Admin,
}

impl Token {
    pub(crate) async fn run(self, global: Global) -> anyhow::Result<Exit> {
        let mut tokens = client::tokens(&global).await?;
        match self.action {
            Action::Create { user, role, days } => {
                let role_max = role.map_or(v1::Role::Unspecified, Role::to_proto).into();
                let lifetime_seconds = days.unwrap_or_default() * 86_400;
                let request = v1::CreateTokenRequest { user, role_max, lifetime_seconds };
                println!("{}", tokens.create_token(request).await?.into_inner().secret);
            }
            Action::Ls => {
                let list = tokens.list_tokens(v1::ListTokensRequest {}).await?.into_inner();
                let rows: Vec<_> = list.tokens.iter().map(row).collect();
                print_table(&["ID", "USER", "ROLE MAX", "AGE", "EXPIRES"], &rows);
            }
            Action::Revoke { id } => {
                let token = tokens.revoke_token(v1::RevokeTokenRequest { id }).await?.into_inner();
                println!("revoked {} of {}", token.id, token.user);
            }
        }
        Ok(Exit::Done)
    }
}

fn row(token: &v1::Token) -> Vec<String> {
    let role_max = match token.role_max() {
        v1::Role::Unspecified => String::new(),
        role => text::plain(role.as_str_name(), "ROLE_"),
    };
    vec![
        token.id.clone(),
        token.user.clone(),
        role_max,
        text::age(token.create_time.as_ref()),
        token.expire_time.map_or_else(|| "never".to_owned(), |time| time.to_string()),
    ]
}

impl Role {
    fn to_proto(self) -> v1::Role {
        match self {
            Role::Viewer => v1::Role::Viewer,
            Role::Submitter => v1::Role::Submitter,
            Role::Admin => v1::Role::Admin,
        }
    }
}
