//! Stored tokens: hashes of secrets, and their users.

use rusqlite::{Row, params};

use super::job::unreadable;
use super::{Store, StoreError};
use crate::access::Role;
use crate::access::tokens::Token;

impl Store {
    /// Lists all tokens, the newest first.
    pub(crate) fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let sql = "SELECT * FROM tokens ORDER BY create_time DESC, id";
        self.many(sql, [], from_row, "list tokens")
    }

    pub(crate) fn create_token(&self, token: &Token) -> Result<(), StoreError> {
        let sql = "INSERT INTO tokens (id, user, role_max, digest, create_time, expire_time)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let role_max = token.role_max.map(|role| role.to_string());
        let Token { id, user, digest, create_time, expire_time, .. } = token;
        let values = params![id, user, role_max, digest, create_time, expire_time];
        self.writer().execute(sql, values).map(drop).map_err(StoreError::sqlite("store a token"))
    }

    /// Deletes a token. Returns it, or `None` if there is none with this id.
    pub(crate) fn revoke_token(&self, id: &str) -> Result<Option<Token>, StoreError> {
        let found = self.tokens()?.into_iter().find(|token| token.id == id);
        let removed = self.writer().execute("DELETE FROM tokens WHERE id = ?1", [id]);
        removed.map(|_| found).map_err(StoreError::sqlite("revoke a token"))
    }
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Token> {
    let role_max: Option<String> = row.get("role_max")?;
    let role_max = role_max.map(|name| {
        name.parse::<Role>().map_err(|error| unreadable(rusqlite::types::Type::Text, error))
    });
    Ok(Token {
        id: row.get("id")?,
        user: row.get("user")?,
        role_max: role_max.transpose()?,
        digest: row.get("digest")?,
        create_time: row.get("create_time")?,
        expire_time: row.get("expire_time")?,
    })
}
